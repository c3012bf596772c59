package view

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"rlminit/control"
	"rlminit/logs"
)

const (
	// linesShown is how many lines of a log a page begins with.
	linesShown = 200
	// linesSearched is how many of the last lines of one log are searched, and of each where
	// all are, and hitsMost how many that fit are shown.
	linesSearched    = 10000
	allLinesSearched = 2000
	hitsMost         = 500
	queryMost        = 200 // bytes
	// searchesMost is how many searches are under way at once: they must not take all turns
	// of other requests.
	searchesMost = 3
)

// logLine is one line as it is shown.
type logLine struct {
	Service string // in a search over all
	At      string
	Stream  string
	Text    string
}

func lineOf(line []byte) logLine {
	parts := logs.Split(bytes.TrimRight(line, "\r\n"))
	l := logLine{Stream: parts.Stream, Text: clean(string(parts.Text[:min(len(parts.Text), textMost+64)]))}
	if at, _, ok := strings.Cut(string(parts.Time), "."); ok || len(parts.Time) > 0 {
		l.At = strings.Replace(strings.TrimSuffix(at, "Z"), "T", " ", 1)
	}
	return l
}

// logLines makes HTML of the lines of a log that is followed.
func (p *Pages) logLines(lines [][]byte, left int) []byte {
	body := struct {
		Left  int
		Lines []logLine
	}{Left: left}
	for _, l := range lines {
		body.Lines = append(body.Lines, lineOf(l))
	}
	var out bytes.Buffer
	if err := p.part(&out, "service", "lines", body); err != nil {
		return nil
	}
	return out.Bytes()
}

type logBody struct {
	Service string
	Query   string
	Lines   []logLine
	Left    int
	Cut     bool // there are more that fit
	Why     string
}

// queryOf is what is searched for.
func queryOf(r *http.Request) string {
	q := strings.TrimSpace(r.FormValue("q"))
	return strings.ToValidUTF8(q[:min(len(q), queryMost)], "")
}

// ring keeps the last lines that fit.
type ring struct {
	lines []logLine
	cut   bool
}

func (k *ring) add(l logLine, most int) {
	k.lines = append(k.lines, l)
	if len(k.lines) > most {
		k.lines, k.cut = k.lines[1:], true
	}
}

// logOf reads the end of a log, or the lines in it that fit.
func (p *Pages) logOf(r *http.Request, name string) logBody {
	b := logBody{Service: name, Query: queryOf(r)}
	if b.Query == "" {
		p.read(r, &b, name, linesShown, linesShown, lineOf)
	} else {
		p.read(r, &b, name, linesSearched, hitsMost, lineOf)
	}
	return b
}

// read keeps those of the last n lines that fit, without secrets; the last most of them.
func (p *Pages) read(r *http.Request, b *logBody, name string, n, most int, of func([]byte) logLine) {
	in := ask[ring]
	if b.Query != "" {
		in = p.inTurn
	}
	found, err := in(r, p.base, func(ctx context.Context, c *control.Client) (k ring, err error) {
		err = c.Logs(ctx, name, control.LogOptions{Lines: n, Redacted: true}, func(line []byte) error {
			if fits(line, b.Query) {
				k.add(of(line), most)
			}
			return nil
		})
		return k, err
	})
	if b.Lines, b.Cut = found.lines, found.cut; err != nil {
		_, b.Why = statusOf(err)
	}
}

// serviceLineOf is a line of a log among others, which its service's name precedes.
func serviceLineOf(line []byte) logLine {
	name, rest, ok := bytes.Cut(line, []byte(" | "))
	if !ok {
		return lineOf(line)
	}
	l := lineOf(rest)
	l.Service = clean(string(name))
	return l
}

// inTurn is ask for a search.
func (p *Pages) inTurn(r *http.Request, b *base, request func(context.Context, *control.Client) (ring, error)) (ring, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
		return ask(r, b, request)
	default:
		return ring{}, control.NoAnswer("cannot search: %d searches are under way already; try again", searchesMost)
	}
}

// fits tells whether a line has what is searched for, in small or capital letters.
func fits(line []byte, query string) bool {
	if query == "" {
		return true
	}
	return bytes.Contains(bytes.ToLower(line), []byte(strings.ToLower(query)))
}

// search is the page that searches all logs.
func (p *Pages) search(w http.ResponseWriter, r *http.Request) {
	b := logBody{Query: queryOf(r)}
	if b.Query != "" {
		p.read(r, &b, control.All, allLinesSearched, hitsMost, serviceLineOf)
	}
	p.show(w, r, http.StatusOK, "logs", page{Title: "Logs", Nav: "logs", Body: b})
}
