package serve

import (
	"io"
	"strings"
	"time"

	"rlminit/internal/redact"
)

// Redacted takes what services were given as secrets out of the lines that are written to
// it: those of one service, or of "all", each with its service's name before it. strict:
// also what the set of patterns "secrets" finds.
func (s *Backend) Redacted(w io.Writer, name string, strict bool) (io.Writer, error) {
	r := &redacting{out: w, backend: s, of: name, known: map[string]masks{}}
	if name != "all" {
		if _, err := s.LookUp(name); err != nil {
			return nil, err
		}
	}
	if strict {
		var err error
		if r.lines, err = redact.NewLines([]string{redact.Secrets}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// secretsOf are the values that what is shown of a service may have in it: those of its run,
// and those that the next one would be given.
func (d *Directory) secretsOf(u *View) redact.Set {
	given := d.Users.Secrets(u.Definition)
	if running := u.Secrets.Load(); running != nil {
		return redact.NewSet(append(given.Values(), running.Values()...)...)
	}
	return given
}

// redacting takes secrets out of what is written to it, which are whole lines.
type redacting struct {
	out     io.Writer
	backend *Backend
	of      string           // whose lines they are; "all": as each says
	lines   *redact.Lines    // nil: none
	known   map[string]masks // by name
}

// masks are the secrets of a service.
type masks struct {
	asked   time.Time
	running *redact.Kept // of the run that there is, or was
	given   redact.Set   // that the next one would be given: of a service that has not run yet there is no other
}

// masksWithin is how long a name means the same service: one of that name may be removed
// and made again.
const masksWithin = time.Second

func (r *redacting) Write(p []byte) (int, error) {
	name, line := r.of, string(p)
	if name == "all" {
		name, _, _ = strings.Cut(line, " | ")
	}
	m := r.masks(name)
	line = m.given.Text(line)
	if m.running != nil {
		line = m.running.Text(line)
	}
	if _, err := io.WriteString(r.out, r.lines.Text(line)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (r *redacting) masks(name string) masks {
	m, now := r.known[name], time.Now()
	if now.Sub(m.asked) < masksWithin {
		return m
	}
	was := m.running
	m = masks{asked: now, given: m.given}
	if u, err := r.backend.LookUp(name); err == nil {
		if m.running = u.Secrets; m.running != was {
			m.given = r.backend.Users.Secrets(u.Definition)
		}
	}
	r.known[name] = m
	return m
}
