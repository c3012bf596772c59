package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Prepared is what comes of preparing a spawn.
type Prepared struct {
	Argv []string
	Dir  string // the working directory; "": Home is, or /
	Home string
	Path string // the program; one without a slash is looked for along PATH of Env
	Env  []string
	Err  error

	UID  uint32       // of a profile's user; 0: the services'
	User *rights.User // who touches what the service names

	Walls walls.Walls

	Unrunnable int32 // the exit code that a shell has for Err: 126, 127; 0: none
}

// Where is the rule for a working directory: of services, jobs, hooks and `rlminit
// exec`, the definition's or the profile's; else the home of the user, if that user
// can enter it; else /.
type Where struct {
	Dir  string // the definition's or the profile's; "": none is named
	Home string // the user's; "": it has none
}

// WhereOf is the rule for a service with this home. The main command is started where
// the container was (docker run -w), which takes the place of its home.
func WhereOf(d *service.Definition, home string) Where {
	if d.Name == config.MainService && d.Profile == "" {
		home, _ = os.Getwd()
	}
	return Where{d.WorkingDir, home}
}

// Unchecked is what a spawn of argv needs. The process itself looks for its working
// directory and its program, so that nobody waits for the file systems on which they
// lie; Prepare finds out why it found none.
func Unchecked(where Where, argv, env []string) Prepared {
	if len(argv) == 0 {
		return Prepared{Err: errors.New("it has no command any more: its definition was taken away")}
	}
	return Prepared{Argv: argv, Dir: where.Dir, Home: cmp.Or(where.Home, "/"), Path: argv[0], Env: env}
}

// Looks is LookAlong of a user, or LookUntilSilent.
type Looks func(paths []string, use uint32) ([]rights.Look, error)

// Ourselves are Looks with our own rights.
var Ourselves Looks = (*rights.User)(nil).LookAlong

// Prepare looks for the working directory of argv, and for its program on the PATH of
// env, as a user may. A directory that is named and cannot be entered is an error. The
// file systems may not answer: look says for how long that is borne.
func Prepare(look Looks, where Where, argv, env []string) Prepared {
	p := Unchecked(where, argv, env)
	if p.Err != nil {
		return p
	}
	dir := cmp.Or(p.Dir, p.Home)
	s := searchFor(argv[0], dir, env)
	looks, err := look(append([]string{dir}, s.paths...), unix.X_OK)
	switch {
	case err != nil:
		return Prepared{Err: fmt.Errorf("cannot run %q: %w", argv[0], err)}
	case len(looks) == 0:
		return Prepared{Err: fmt.Errorf("cannot run %q: %w", argv[0], unix.EPROTO)}
	}
	if err := enterable(looks[0], dir); err != nil {
		if where.Dir != "" || dir == "/" {
			return Prepared{Err: err}
		}
		return Prepare(look, Where{}, argv, env)
	}
	path, err := s.found(looks[1:])
	return Prepared{Argv: argv, Dir: dir, Path: path, Env: env, Err: err, Unrunnable: Unrunnable(err)}
}

// Exit codes of init for a main command that cannot be executed.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// errNotFound is said of a program that no directory of PATH holds.
var errNotFound = errors.New("not found")

// Unrunnable is the exit code that a shell has for a program that cannot be
// executed, and init for its main command.
func Unrunnable(err error) int32 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return exitNotFound
	}
	return exitNotExecutable
}

// enterable tells whether dir can be the working directory, of which l is a look at X_OK.
func enterable(l rights.Look, dir string) error {
	switch {
	case errors.Is(l.Err, fs.ErrNotExist):
		return fmt.Errorf("cannot enter working_dir %s: there is no such directory", dir)
	case l.Err != nil:
		return fmt.Errorf("cannot enter working_dir %s: %w", dir, durable.Bare(l.Err))
	case l.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("cannot enter working_dir %s: it is no directory", dir)
	case l.Denied != nil:
		return fmt.Errorf("cannot enter working_dir %s: %w", dir, l.Denied)
	}
	return nil
}

// search is where a program is looked for, as execvp(3) does: a name without a slash
// on the PATH that the service will have.
type search struct {
	name  string
	paths []string
	along string // the PATH; "": the name has a slash
}

func searchFor(name, dir string, env []string) search {
	below := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	if strings.Contains(name, "/") {
		return search{name: name, paths: []string{below(name)}}
	}
	s := search{name: name, along: wire.DefaultPath}
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			s.along = value
		}
	}
	for _, folder := range filepath.SplitList(s.along) {
		s.paths = append(s.paths, filepath.Join(below(folder), name))
	}
	return s
}

// found is the program, by looks at the paths up to the first that can be executed.
func (s search) found(looks []rights.Look) (string, error) {
	var denied error
	for i, l := range looks[:min(len(looks), len(s.paths))] {
		err := executable(l, s.paths[i], s.name)
		if err == nil || strings.Contains(s.name, "/") {
			return s.paths[i], err
		}
		if !errors.Is(err, fs.ErrNotExist) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("cannot run %q: %w in PATH (%s)", s.name, errNotFound, s.along)
}

// executable tells why path cannot be executed, if so, of which l is a look at X_OK.
func executable(l rights.Look, path, name string) error {
	switch {
	case errors.Is(l.Err, fs.ErrNotExist):
		if name == path {
			return fmt.Errorf("cannot run %q: %w", name, unix.ENOENT)
		}
		return fmt.Errorf("cannot run %q: %s: %w", name, path, unix.ENOENT)
	case l.Err != nil:
		return fmt.Errorf("cannot run %q: %s: %w", name, path, durable.Bare(l.Err))
	case l.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("cannot run %q: %s is a directory", name, named(name, path))
	case l.Denied != nil:
		return fmt.Errorf("cannot run %q: %s is not executable (%w); chmod +x it, or mount its file system with exec", name, named(name, path), l.Denied)
	}
	return nil
}
