package walls

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/isolate"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/wire"
)

// Place is where the walls are built: what is the same for all services.
type Place struct {
	home    string // the volume, as configured
	real    string // and without links
	runtime string
	image   *isolate.Image
	able    isolate.Capabilities

	temporary string // where services have their directories for temporary files, "": nowhere
}

// New is the place with a volume and a runtime directory. What is in either is
// hidden from every isolated service that is not given a part of it.
func New(home, runtime string) *Place {
	p := &Place{home: home, real: resolved(home), runtime: resolved(runtime), able: isolate.Capable()}
	p.temporary, _ = os.Readlink(filepath.Join(runtime, wire.TemporaryLink)) // tier 1 has made it where it can be had
	p.image = isolate.NewImage(home, p.real, runtime, p.runtime)
	return p
}

// resolved is a path without links, or as it is where that cannot be found out.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Subject is whom the walls are for.
type Subject struct {
	Name        string            // of the service, and of its slot
	Isolation   service.Isolation // which may be none
	Own         string            // its directory, "" for none: of a profile
	Port        int               // its own, 0 for none
	Environment []string          // as it is so far: NAME=value
	Named       func(string) bool // whether its definition sets a variable itself
	UID         uint32            // of a user of its own; 0: the services'
	User        *rights.User      // who opens what it names
}

// Walls are what one spawn needs. The zero value is none.
type Walls struct {
	Environment []string // as it shall be
	Notes       []string // what could not be allowed, a line each
	Secrets     []string // what was handed over

	ruleset     *isolate.Ruleset
	private     []string
	filter      []byte
	credentials *os.File
	notify      int // a descriptor; 0: none
}

// Notifies has the socket at a path, which is the supervisor's, be for the service
// alone, whose tag it gets for its group.
func (w *Walls) Notifies(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot hand over the notify socket: %w", err)
	}
	w.notify = fd
	return nil
}

// Build makes the walls of a subject, but for its secrets. Where the kernel has
// less to offer than the level asks for, it makes what can be had: that is said
// once, at start.
func (p *Place) Build(s Subject) (Walls, error) {
	w := Walls{Environment: s.Environment}
	if !s.Isolation.Wanted() {
		return w, nil
	}
	if s.Own != "" && !s.Named("HOME") {
		// The user's own is for all profiles, and only to be read.
		w.Environment = set(w.Environment, "HOME", s.Own)
	}
	connect, bind := s.Isolation.Ports(s.Port)
	rules := isolate.Rules{
		Level: s.Isolation.Level, Connect: connect, Bind: bind,
		Read: p.within(s.Isolation.Read), Write: p.within(s.Isolation.Write), Exec: p.within(s.Isolation.Exec),
		Speak: []string{filepath.Join(p.runtime, "control.sock"), filepath.Join(p.runtime, "services", s.Name)},
	}
	if s.Own != "" {
		rules.Own = p.within([]string{s.Own})
	}
	if s.User != nil {
		rules.Open = s.User.Handle
	}
	if p.able.Seccomp {
		w.filter = rules.Filter()
	}
	if p.able.Landlock == 0 {
		return w, nil
	}
	var err error
	if w.ruleset, w.Notes, err = isolate.Build(p.image, rules); err != nil {
		return Walls{}, fmt.Errorf("cannot isolate it: %w", err)
	}
	if dir := p.TemporaryOf(s.Name, s.UID); dir != "" && !s.Named("TMPDIR") {
		w.private = []string{dir}
		w.Environment = set(w.Environment, "TMPDIR", dir)
	}
	return w, nil
}

// Temporary is the directory in which isolated services have theirs for temporary files;
// "": there is none.
func (p *Place) Temporary() string { return p.temporary }

// TemporaryOf is that of a service with a user of its own, or 0; "": it has none. Tier 1
// makes it when the service is first started, so that it is nobody's but that user's: of
// one that has got another user, that of before is another one.
func (p *Place) TemporaryOf(name string, uid uint32) string {
	switch {
	case p.temporary == "":
		return ""
	case uid != 0:
		return fmt.Sprintf("%s/%s-%d", p.temporary, name, uid)
	}
	return p.temporary + "/" + name
}

// within puts the volume without links in the place of the volume as configured.
func (p *Place) within(paths []string) []string {
	real := slices.Clone(paths)
	for i, path := range real {
		if path == p.home || strings.HasPrefix(path, p.home+"/") {
			real[i] = p.real + strings.TrimPrefix(path, p.home)
		}
	}
	return real
}

// set puts a variable in the place of one of that name.
func set(environment []string, name, value string) []string {
	entry := name + "=" + value
	for i, e := range environment {
		if strings.HasPrefix(e, name+"=") {
			changed := slices.Clone(environment)
			changed[i] = entry
			return changed
		}
	}
	return append(slices.Clip(environment), entry)
}

// Fill puts the walls into the message, and returns the descriptors that go with
// it behind those that have targets. They are the caller's to close.
func (w *Walls) Fill(m *wire.Spawn) (fds []int, err error) {
	defer w.Close()
	fail := func(err error) ([]int, error) {
		wire.CloseAll(fds)
		return nil, err
	}
	if w.credentials != nil {
		fd, err := duplicate(w.credentials)
		if err != nil {
			return fail(err)
		}
		fds = append(fds, fd)
		m.Credentials = true
	}
	if w.notify != 0 {
		fds = append(fds, w.notify)
		m.Notify, w.notify = true, 0
	}
	if w.ruleset != nil {
		fd, err := w.ruleset.Duplicate()
		if err != nil {
			return fail(err)
		}
		fds = append(fds, fd)
		m.Ruleset, m.Private, m.Rights = true, w.private, w.ruleset.Directory()
	}
	m.Filter = w.filter
	return fds, nil
}

// Close gives back what a spawn that was not to be has no use for.
func (w *Walls) Close() {
	if w.notify != 0 {
		unix.Close(w.notify)
		w.notify = 0
	}
	if w.ruleset != nil {
		w.ruleset.Close()
	}
	if w.credentials != nil {
		w.credentials.Close()
	}
}

func duplicate(file *os.File) (int, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, failure := -1, error(nil)
	err = raw.Control(func(own uintptr) { fd, failure = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	if err == nil {
		err = failure
	}
	return fd, err
}
