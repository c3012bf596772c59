package durable

import (
	"io/fs"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// hasOpenat2 tells whether openat2(2) can be called. Docker before 20.10 and
// other seccomp filters answer EPERM or ENOSYS. It is a variable so that tests
// take the other way.
var hasOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
})

// OpenBeneath opens rel, a path without "." and "..", below the directory dirfd,
// without following any symbolic link and without waiting for what only looks
// like a file. It adds O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK and O_NOCTTY to flags.
// The error is the system's, unix.ELOOP for a link.
func OpenBeneath(dirfd int, rel string, flags int, perm uint32) (int, error) {
	fd, err := openBeneath(dirfd, rel, flags, perm)
	if err == nil && flags&unix.O_CREAT != 0 {
		inherit(dirfd, rel, fd)
	}
	return fd, err
}

// openRegular is OpenBeneath if rel is a regular file. The type is asked of the open
// descriptor: the name may be something else by then.
func openRegular(dirfd int, rel string, flags int, perm uint32) (int, error) {
	fd, err := OpenBeneath(dirfd, rel, flags, perm)
	if err == unix.ENXIO { // a FIFO without a reader, a socket
		return -1, ErrNotRegular
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, ErrNotRegular
	}
	return fd, nil
}

// inherit is Inherit from the directory that rel is in.
func inherit(dirfd int, rel string, made int) {
	i := strings.LastIndexByte(rel, '/')
	if i < 0 {
		Inherit(dirfd, made)
		return
	}
	if parent, err := openBeneath(dirfd, rel[:i], unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		Inherit(parent, made)
		unix.Close(parent)
	}
}

// openBeneath opens rel below dirfd without following any symbolic link, the
// last component included. It never waits: O_NONBLOCK is for FIFOs, O_NOCTTY
// for terminals.
func openBeneath(dirfd int, rel string, flags int, perm uint32) (int, error) {
	if !fs.ValidPath(rel) || strings.ContainsRune(rel, 0) {
		return -1, unix.EINVAL
	}
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if !hasOpenat2() {
		return openByComponent(dirfd, rel, flags, perm)
	}
	how := &unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm) // openat2 refuses a mode without O_CREAT
	}
	fd, err := retry(func() (int, error) { return unix.Openat2(dirfd, rel, how) })
	if err == unix.ENOTDIR { // which may hide a link, see linkError
		return openByComponent(dirfd, rel, flags, perm)
	}
	return fd, err
}

// openByComponent is openBeneath without openat2. Each directory on the way is
// held open while the next one is looked up in it, so that renaming one
// meanwhile cannot lead elsewhere.
func openByComponent(dirfd int, rel string, flags int, perm uint32) (int, error) {
	at := dirfd
	defer func() {
		if at != dirfd {
			unix.Close(at)
		}
	}()
	for {
		name, rest, more := strings.Cut(rel, "/")
		if !more {
			fd, err := openat(at, name, flags, perm)
			return fd, linkError(at, name, err)
		}
		next, err := openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, linkError(at, name, err)
		}
		if at != dirfd {
			unix.Close(at)
		}
		at, rel = next, rest
	}
}

// linkError makes the ENOTDIR that O_DIRECTORY|O_NOFOLLOW gives for a symbolic
// link the ELOOP that openat2 gives.
func linkError(at int, name string, err error) error {
	if err != unix.ENOTDIR {
		return err
	}
	if st, e := lstatAt(at, name); e == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return err
}

func openat(at int, name string, flags int, perm uint32) (int, error) {
	return retry(func() (int, error) { return unix.Openat(at, name, flags, perm) })
}

func lstatAt(at int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) {
		return 0, unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return st, err
}

// retry repeats a system call that a signal interrupted: FUSE and NFS answer
// EINTR even under SA_RESTART, and Go's scheduler sends signals.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// inParent calls f with the descriptor of the directory below dirfd that holds rel,
// and rel's last component.
func inParent(dirfd int, rel string, f func(at int, base string) error) error {
	if !fs.ValidPath(rel) || rel == "." || strings.ContainsRune(rel, 0) {
		return unix.EINVAL
	}
	i := strings.LastIndexByte(rel, '/')
	if i < 0 {
		return f(dirfd, rel)
	}
	at, err := openBeneath(dirfd, rel[:i], unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return f(at, rel[i+1:])
}

// lstatBeneath is lstat(2) of rel below dirfd; for ".", of dirfd.
func lstatBeneath(dirfd int, rel string) (st unix.Stat_t, err error) {
	if rel == "." {
		_, err = retry(func() (int, error) { return 0, unix.Fstat(dirfd, &st) })
		return st, err
	}
	err = inParent(dirfd, rel, func(at int, base string) error {
		st, err = lstatAt(at, base)
		return err
	})
	return st, err
}

// openSameMount opens a name in a directory: no link is followed, and EXDEV is the
// answer for a mount.
func openSameMount(at int, name string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	if hasOpenat2() {
		how := &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
		return retry(func() (int, error) { return unix.Openat2(at, name, how) })
	}
	fd, err := openat(at, name, flags, 0)
	if err == nil && mountOf(fd) != mountOf(at) {
		unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, err
}

// mountOf returns the id of the mount that a file lies on, statx(2), or else the
// device: a filter that knows no openat2(2) may refuse this too.
func mountOf(fd int) uint64 {
	var asked unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &asked) == nil && asked.Mask&unix.STATX_MNT_ID != 0 {
		return asked.Mnt_id
	}
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st) // of an open file it does not fail
	return st.Dev
}

// isOnSame tells whether the directory that rel is in lies on dirfd's own file system,
// and does not ask any other one.
func isOnSame(dirfd int, rel string) bool {
	if !hasOpenat2() || !fs.ValidPath(rel) {
		return false
	}
	fd, err := unix.Openat2(dirfd, path.Dir(rel), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
