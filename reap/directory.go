package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
)

// runtimeDirectory makes the directory in which tier 2 publishes, empties it,
// and binds the control socket. Where that cannot be it tells why.
func (r *reaper) runtimeDirectory(environ []string) (directory string, listener int, why string) {
	named := pure.Lookup(environ, "RLMINIT_RUNTIME_DIR")
	for _, path := range []string{named, "/run/rlminit", "/dev/shm/rlminit-" + decimal(unix.Geteuid())} {
		listener, err := r.occupy(path) // ENOENT, where none is named
		if err == nil {
			err = r.addEvent(listener, sys.OneShot, keyControl)
		}
		if err == nil {
			if named != "" && why != "" {
				say(why) // somebody looks for it there
			}
			return path, listener, ""
		}
		if why == "" && path != "" {
			why = "cannot use the runtime directory " + path + ": " + err.Error() +
				"; mount a tmpfs there, or name another in RLMINIT_RUNTIME_DIR"
		}
	}
	return "", -1, why
}

// occupy makes path ours and empty, with services/ for the service user and a
// bound control socket.
func (r *reaper) occupy(path string) (int, error) {
	if err := unix.Mkdir(path, 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	directory, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(directory)
	var st unix.Stat_t
	if err := unix.Fstat(directory, &st); err != nil {
		return -1, err
	}
	uid := unix.Geteuid()
	if int(st.Uid) != uid {
		if err := unix.Fchown(directory, uid, unix.Getegid()); err != nil {
			return -1, unix.EPERM // somebody else's, who could replace what is in it
		}
	}
	if err := unix.Fchmod(directory, 0o755); err != nil {
		return -1, err
	}
	err = empty(directory)
	if err == unix.EACCES {
		// What the last boot's services have published is theirs, and we lack
		// CAP_DAC_OVERRIDE.
		r.asUser(func() { err = emptyServices(directory) })
		if err == nil {
			err = empty(directory)
		}
	}
	if err == nil {
		err = r.makeServices(directory)
	}
	if err != nil {
		return -1, err
	}
	return bind(path + "/control.sock")
}

// makeServices makes the directory in which tier 2 publishes, as the service
// user's. Without CAP_CHOWN it is made by that user, for whom the runtime
// directory is open meanwhile: nothing of his runs yet.
func (r *reaper) makeServices(directory int) error {
	const name = "services"
	if err := unix.Mkdirat(directory, name, 0o755); err != nil {
		return err
	}
	user := &r.policy.User
	if int(user.UID) == unix.Geteuid() {
		return nil
	}
	err := unix.Fchownat(directory, name, int(user.UID), int(user.GID), unix.AT_SYMLINK_NOFOLLOW)
	if err != unix.EPERM {
		return err
	}
	if err := unix.Unlinkat(directory, name, unix.AT_REMOVEDIR); err != nil {
		return err
	}
	if err := unix.Fchmod(directory, 0o1777); err != nil {
		return err
	}
	r.asUser(func() { err = unix.Mkdirat(directory, name, 0o755) })
	if closed := unix.Fchmod(directory, 0o755); err == nil {
		err = closed
	}
	return err
}

// asUser runs f with the service user's rights to files, setfsuid(2). They are
// this thread's alone, which is the first and never changes.
func (r *reaper) asUser(f func()) {
	user := &r.policy.User
	unix.SetfsgidRetGid(int(user.GID))
	unix.SetfsuidRetUid(int(user.UID))
	f()
	unix.SetfsuidRetUid(unix.Geteuid())
	unix.SetfsgidRetGid(unix.Getegid())
}

// emptyServices removes what is in services/, and not that itself.
func emptyServices(directory int) error {
	below, err := unix.Openat(directory, "services", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = empty(below)
	unix.Close(below)
	return err
}

// deepest is how deep directories are opened below each other.
const deepest = 32

// empty removes what is in a directory, by descriptor and without following a
// link: the last boot's services could write below it. However deep they made
// it, the next boot must come: what lies too deep is moved up first.
func empty(directory int) error {
	for round := 0; ; round++ {
		e := emptying{top: directory, round: round}
		if err := e.empty(directory, 0); err != nil || e.moved == 0 {
			return err
		}
	}
}

// emptying is one round through a directory.
type emptying struct {
	top          int
	round, moved int
}

func (e *emptying) empty(directory, depth int) error {
	var names []string
	buffer := make([]byte, 16<<10)
	if _, err := unix.Seek(directory, 0, unix.SEEK_SET); err != nil {
		return err
	}
	for {
		n, err := unix.ReadDirent(directory, buffer)
		if err != nil {
			return err
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
	for _, name := range names {
		err := unix.Unlinkat(directory, name, 0)
		if err == unix.EISDIR || err == unix.EPERM {
			err = e.below(directory, name, depth)
		}
		if err != nil && err != unix.ENOENT {
			return err
		}
	}
	return nil
}

func (e *emptying) below(directory int, name string, depth int) error {
	if depth == deepest {
		for {
			e.moved++
			err := unix.Renameat(directory, name, e.top, ".deep."+decimal(e.round)+"."+decimal(e.moved))
			if err != unix.EEXIST && err != unix.ENOTEMPTY && err != unix.ENOTDIR {
				return err
			}
		}
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	below, err := unix.Openat(directory, name, flags, 0)
	if err == unix.EACCES && unix.Fchmodat(directory, name, 0o700, 0) == nil {
		below, err = unix.Openat(directory, name, flags, 0)
	}
	if err != nil {
		return err
	}
	err = e.empty(below, depth+1)
	unix.Close(below)
	if err != nil {
		return err
	}
	return unix.Unlinkat(directory, name, unix.AT_REMOVEDIR)
}

// bind makes the control socket. Anyone may connect: the peer's credentials
// decide what it may do.
func bind(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	mask := unix.Umask(0)
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	unix.Umask(mask)
	if err == nil {
		err = unix.Chmod(path, 0o666)
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
