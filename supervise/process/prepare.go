package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Prepared is what comes of preparing a spawn.
type Prepared struct {
	Argv []string
	Dir  string
	Path string
	Env  []string
	Err  error

	UID  uint32       // of a profile's user; 0: the services'
	User *rights.User // who touches what the service names

	Walls walls.Walls

	Unrunnable int32 // the exit code that a shell has for Err: 126, 127; 0: none
}

// Prepare does for a spawn of argv, in the place of a definition, what may take
// time: it looks for the working directory and for the program on the PATH of
// env, as user may.
func Prepare(user *rights.User, d service.Definition, argv, env []string) Prepared {
	if len(argv) == 0 {
		return Prepared{Err: errors.New("it has no command any more: its definition was taken away")}
	}
	dir, err := workingDir(user, d)
	if err != nil {
		return Prepared{Err: err}
	}
	path, err := lookPath(user, argv[0], dir, env)
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

// workingDir is where a service is started: where its definition says, or else
// where the container was (docker run -w) if its user may go there.
func workingDir(user *rights.User, d service.Definition) (string, error) {
	if d.WorkingDir != "" {
		return d.WorkingDir, enterable(user, d.WorkingDir)
	}
	if dir, err := os.Getwd(); err == nil && enterable(user, dir) == nil {
		return dir, nil
	}
	return "/", nil
}

// enterable tells whether dir can be the working directory.
func enterable(user *rights.User, dir string) error {
	mode, denied, err := user.Look(dir, unix.X_OK)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot enter working_dir %s: there is no such directory", dir)
	case err != nil:
		return fmt.Errorf("cannot enter working_dir %s: %w", dir, bare(err))
	case mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("cannot enter working_dir %s: it is no directory", dir)
	case denied != nil:
		return fmt.Errorf("cannot enter working_dir %s: %w", dir, denied)
	}
	return nil
}

// lookPath finds the program: a name without a slash on the PATH that the
// service will have, as execvp(3) does.
func lookPath(user *rights.User, name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		var l rights.Look
		l.Mode, l.Denied, l.Err = user.Look(path, unix.X_OK)
		return path, executable(l, path, name)
	}
	search := wire.DefaultPath
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = value
		}
	}
	var paths []string
	for _, folder := range filepath.SplitList(search) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		paths = append(paths, filepath.Join(folder, name))
	}
	looks, err := user.LookAlong(paths, unix.X_OK)
	if err != nil {
		return "", fmt.Errorf("cannot run %q: %w", name, err)
	}
	var denied error
	for i, l := range looks {
		err := executable(l, paths[i], name)
		if err == nil {
			return paths[i], nil
		}
		if !errors.Is(err, fs.ErrNotExist) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("cannot run %q: %w in PATH (%s)", name, errNotFound, search)
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
		return fmt.Errorf("cannot run %q: %s: %w", name, path, bare(l.Err))
	case l.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("cannot run %q: %s is a directory", name, named(name, path))
	case l.Denied != nil:
		return fmt.Errorf("cannot run %q: %s is not executable (%w); chmod +x it, or mount its file system with exec", name, named(name, path), l.Denied)
	}
	return nil
}

// bare is the system's error without the path that os puts around it.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
