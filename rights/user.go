package rights

import (
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/job/files"
	"rlminit/wire"
)

// User is somebody whose files are touched. nil is who we are ourselves. Its
// methods may be called from several goroutines at once.
type User struct {
	process *process
	uid     uint32    // in whose name it is asked
	at      *Progress // what is told of each call; nil: nothing
}

// As is one of the users that the same process can be.
func (u *User) As(uid uint32) *User { return &User{u.process, uid, u.at} }

// Dir is durable.Open with the user's rights, there and for all below.
func (u *User) Dir(path string) (*durable.Dir, error) {
	if u == nil {
		return durable.Open(path)
	}
	return durable.OpenBy(u, path)
}

// Do is durable.Helper's.
func (u *User) Do(r durable.Request, fds ...int) (durable.Answer, []int, error) {
	a, opened, err := u.process.call(call{Kind: kindFile, UID: u.uid, File: r, at: u.at}, fds...)
	return a.File, opened, err
}

// Open opens a path, following links, and waits for nobody: of a FIFO and a
// device too, so ask what it is.
func (u *User) Open(path string) (*os.File, error) {
	fd, err := u.open(path, unix.O_RDONLY, true)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Handle is a descriptor of what a path names, for nothing but to name it again:
// O_PATH, open(2). Where links is false, none is followed, wherever on the way it
// is.
func (u *User) Handle(path string, links bool) (fd int, err error) {
	return u.open(path, unix.O_PATH, links)
}

func (u *User) open(path string, flags int, links bool) (int, error) {
	if u == nil {
		return openPath(path, flags, links)
	}
	mode := uint32(0)
	if links {
		mode = 1
	}
	_, fds, err := u.ask(call{Kind: kindOpen, Path: path, Flags: flags, Mode: mode})
	return first(fds, err)
}

// A Look is what a path is, st_mode of stat(2), and why the user cannot use it as asked.
type Look struct {
	Mode        uint32
	Denied, Err error
}

func (l Look) usable() bool {
	return l.Err == nil && l.Denied == nil && l.Mode&unix.S_IFMT != unix.S_IFDIR
}

// LookAlong looks at paths in their order, up to the first that is no directory and that
// the user can use so (unix.R_OK, W_OK, X_OK): that one is the last of the looks. It is
// one request.
func (u *User) LookAlong(paths []string, use uint32) (looks []Look, err error) {
	if u == nil {
		return lookAlong(paths, use), nil
	}
	a, _, err := u.ask(call{Kind: kindLook, Paths: paths, Mode: use})
	for _, l := range a.Looks {
		looks = append(looks, Look{l.Mode, l.Denied.Err(), l.Failure.Err()})
	}
	return looks, err
}

// Listen opens a socket for a service: blocking, its name for the user's files.
// The networks are those of package net.
func (u *User) Listen(network, address string) (int, error) {
	if u == nil || !strings.HasPrefix(network, "unix") {
		return listen(network, address)
	}
	_, fds, err := u.ask(call{Kind: kindListen, Name: network, Path: address})
	return first(fds, err)
}

// Shares tells whether the user may listen at an address of TCP beside all who do, which
// takes that each has allowed it, SO_REUSEPORT of socket(7), and is the same user. The error
// is EADDRINUSE if not. Nothing listens there for it.
func (u *User) Shares(address netip.AddrPort) (err error) {
	fd := -1
	if u == nil {
		fd, err = listen(shared, address.String())
	} else {
		var fds []int
		_, fds, err = u.ask(call{Kind: kindListen, Name: shared, Path: address.String()})
		fd, err = first(fds, err)
	}
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// OpenBelow is files.Open, for ReadAt.
func (u *User) OpenBelow(dir, name string) (int, error) {
	if u == nil {
		return files.Open(dir, name)
	}
	_, fds, err := u.ask(call{Kind: kindBelow, Path: dir, Name: name})
	return first(fds, err)
}

// ReadAt reads at most n bytes of an open file, none at its end, where we need not wait
// for its file system.
func (u *User) ReadAt(fd, n int, offset int64) ([]byte, error) {
	if u == nil {
		return readAt(fd, n, offset)
	}
	a, _, err := u.ask(call{Kind: kindRead, Flags: n, Offset: offset}, fd)
	return a.File.Data, err
}

// Watch adds a path to a set of watches and returns its number,
// inotify_add_watch(2).
func (u *User) Watch(inotify int, path string, mask uint32) (int, error) {
	if u == nil {
		return unix.InotifyAddWatch(inotify, path, mask)
	}
	a, _, err := u.ask(call{Kind: kindWatch, Path: path, Mode: mask}, inotify)
	return int(a.Value), err
}

// ask is for what is no operation of durable's: the error is the system's.
func (u *User) ask(c call, fds ...int) (answer, []int, error) {
	c.UID, c.at = u.uid, u.at
	a, opened, err := u.process.call(c, fds...)
	if err == nil {
		err = a.File.Failure.Err()
	}
	if err == nil && a.Refused != "" {
		err = files.Refusal(a.Refused)
	}
	if err != nil {
		wire.CloseAll(opened)
		opened = nil
	}
	return a, opened, err
}

// first is the one descriptor that was asked for.
func first(fds []int, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	if len(fds) != 1 {
		wire.CloseAll(fds)
		return -1, unix.EPROTO
	}
	return fds[0], nil
}
