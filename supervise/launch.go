package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// launch is the preparation of a spawn: what touches files that may lie on a
// file system that does not answer is done beside the loop.
type launch struct {
	id    uint64
	abort chan struct{}
}

// stuckAfter is how long a launch may take before the service is parked.
const stuckAfter = 2 * time.Second

// prepared is what comes of a launch.
type prepared struct {
	argv []string
	dir  string
	path string
	env  []string
	err  error

	unrunnable int32 // the exit code that a shell has for err: 126, 127; 0: none
}

// beginLaunch prepares the spawn id of u, and has it spawned when that is done.
func (s *Supervisor) beginLaunch(u *unit, id uint64) {
	l := &launch{id: id, abort: make(chan struct{})}
	u.launch = l
	definition, privileged := u.definition, s.privileged(u)
	go func() {
		ready := make(chan prepared, 1)
		go func() { ready <- s.preparation(definition, privileged) }()
		stuck := time.NewTimer(stuckAfter)
		defer stuck.Stop()
		for {
			select {
			case p := <-ready:
				s.do(func() { s.finishLaunch(u, l, p) })
				return
			case <-l.abort:
				return
			case <-stuck.C:
				s.do(func() {
					if u.launch == l {
						s.step(u, machine.Event{
							Kind: machine.SpawnStuck, ID: id,
							Reason: "its working directory, program or environment file lies on a file system that does not answer",
						})
					}
				})
			}
		}
	}()
}

// abandonLaunch ends a launch that nobody wants any more. What is stuck in the
// kernel stays there, and its result is thrown away.
func (s *Supervisor) abandonLaunch(u *unit) {
	l := u.launch
	if l == nil {
		return
	}
	u.launch = nil
	close(l.abort)
	s.soon(func() {
		delete(s.byID, l.id)
		s.step(u, machine.Event{Kind: machine.SpawnFailed, ID: l.id, Reason: "stopped before it was started", Temporary: true})
	})
}

// finishLaunch hands a prepared spawn to tier 1.
func (s *Supervisor) finishLaunch(u *unit, l *launch, p prepared) {
	if u.launch != l {
		return
	}
	u.launch = nil
	u.unrunnable = p.unrunnable
	fail := func(err error) {
		delete(s.byID, l.id)
		s.step(u, machine.Event{Kind: machine.SpawnFailed, ID: l.id, Reason: err.Error(), Temporary: temporary(err)})
	}
	if p.err != nil {
		fail(p.err)
		return
	}
	if !s.allotTag(u) {
		fail(errNoTag)
		return
	}
	if err := s.openLog(u); err != nil {
		fail(err)
		return
	}
	var fds []int
	var targets []int32
	onTerminal := s.terminal && u.name == config.MainService && u.ours
	if !onTerminal {
		fds, targets = s.stdio(u)
	}
	listeners, names, err := s.passed(u)
	if err != nil {
		fail(err)
		return
	}
	for i, fd := range listeners {
		fds, targets = append(fds, fd), append(targets, int32(3+i))
	}
	env := p.env
	if len(listeners) > 0 {
		env = append(env, fmt.Sprintf("LISTEN_FDS=%d", len(listeners)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	path, err := s.openNotify(u)
	if err != nil {
		fail(err)
		return
	}
	if path != "" {
		env = append(env, "NOTIFY_SOCKET="+path)
		if u.definition.Watchdog > 0 {
			env = append(env, fmt.Sprintf("WATCHDOG_USEC=%d", u.definition.Watchdog.Microseconds()))
		}
	}
	u.program = p.path
	u.log.Mark("starting " + cmp.Or(p.path, u.name))
	s.link.send(&wire.Spawn{
		ID: l.id, Name: u.name, Privileged: s.privileged(u),
		Path: p.path, Argv: p.argv, Env: env, Dir: p.dir,
		Umask: u.definition.Umask, Rlimits: config.Rlimits(u.definition.Limits), Tag: u.tag,
		Targets: targets, ListenPID: len(listeners) > 0,
		NoNewPrivs: !s.privileged(u), Terminal: onTerminal, Label: u.label(),
	}, fds, nil)
}

// prepare does for a spawn what may take time.
func (s *Supervisor) prepare(d service.Definition, privileged bool) prepared {
	if privileged {
		return prepared{} // tier 1 holds it, from argv to directory
	}
	env, err := s.environment(d)
	if err != nil {
		return prepared{err: err}
	}
	dir, err := workingDir(d)
	if err != nil {
		return prepared{err: err}
	}
	path, err := lookPath(d.Command[0], dir, env)
	return prepared{argv: d.Command, dir: dir, path: path, env: env, err: err, unrunnable: unrunnable(err)}
}

// Exit codes of init for a main command that cannot be executed.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// errNotFound is said of a program that no directory of PATH holds.
var errNotFound = errors.New("not found")

// unrunnable is the exit code that a shell has for a program that cannot be
// executed, and init for its main command.
func unrunnable(err error) int32 {
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
func workingDir(d service.Definition) (string, error) {
	if d.WorkingDir != "" {
		return d.WorkingDir, enterable(d.WorkingDir)
	}
	if dir, err := os.Getwd(); err == nil && enterable(dir) == nil {
		return dir, nil
	}
	return "/", nil
}

// enterable tells whether dir can be the working directory.
func enterable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot enter working_dir %s: there is no such directory", dir)
	case err != nil:
		return fmt.Errorf("cannot enter working_dir %s: %w", dir, bare(err))
	case !info.IsDir():
		return fmt.Errorf("cannot enter working_dir %s: it is no directory", dir)
	}
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return fmt.Errorf("cannot enter working_dir %s: %w", dir, err)
	}
	return nil
}

// lookPath finds the program: a name without a slash on the PATH that the
// service will have, as execvp(3) does.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, executable(path, name)
	}
	search := "/usr/local/bin:/bin:/usr/bin"
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = value
		}
	}
	var denied error
	for _, folder := range filepath.SplitList(search) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		path := filepath.Join(folder, name)
		err := executable(path, name)
		if err == nil {
			return path, nil
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

// executable tells why path cannot be executed, if so.
func executable(path, name string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if name == path {
			return fmt.Errorf("cannot run %q: %w", name, unix.ENOENT)
		}
		return fmt.Errorf("cannot run %q: %s: %w", name, path, unix.ENOENT)
	case err != nil:
		return fmt.Errorf("cannot run %q: %s: %w", name, path, bare(err))
	case info.IsDir():
		return fmt.Errorf("cannot run %q: %s is a directory", name, named(name, path))
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("cannot run %q: %s is not executable (%w); chmod +x it, or mount its file system with exec", name, named(name, path), err)
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

// temporary tells whether a spawn that failed with err may work later.
func temporary(err error) bool {
	for _, errno := range []syscall.Errno{
		unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY, unix.EINTR, unix.EIO, unix.EBUSY, unix.ENOSPC,
		unix.ENOBUFS, unix.ETOOMANYREFS,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return errors.Is(err, errNoTag)
}

// passed are the descriptors beyond stdio that a process of u gets, and their
// names: its sockets, then what it stored with FDSTORE=1, sd_notify(3).
func (s *Supervisor) passed(u *unit) (fds []int, names []string, err error) {
	if fds, err = u.listeners(func(m wire.Message, held []int) { s.link.send(m, held, nil) }); err != nil {
		return nil, nil, err
	}
	for _, socket := range u.definition.Sockets {
		names = append(names, socket.Name)
	}
	for _, stored := range u.stored {
		fds, names = append(fds, stored.fd), append(names, stored.name)
	}
	return fds, names, nil
}
