package durable

import (
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many directories are held open one below the other. What
	// lies deeper is moved up first: a hostile tree may be deeper than there
	// are descriptors.
	maxDepth = 64
	// maxPasses bounds the race against somebody who keeps adding entries.
	maxPasses = 16
)

// RemoveAll removes rel and all below it, follows no link and leaves mounted
// file systems alone. What does not exist is no error. It removes what it can
// and returns the first error.
func (d *Dir) RemoveAll(rel string) error {
	if d.helper != nil {
		return d.order(Request{Op: OpRemoveAll, Rel: rel})
	}
	if err := d.disk.failing("remove"); err != nil {
		return d.fail("remove", rel, err)
	}
	err := inParent(d.fd, rel, func(at int, base string) error {
		fd, err := unlink(at, base)
		if err != nil || fd < 0 {
			return err
		}
		defer unix.Close(fd)
		r := removal{dir: d, top: fd}
		r.empty(fd, rel, 0)
		if r.first != nil {
			return r.first
		}
		return unix.Unlinkat(at, base, unix.AT_REMOVEDIR)
	})
	if err == unix.ENOENT {
		return nil
	}
	return d.fail("remove", rel, err)
}

// empty removes what the directory rel holds, and not that itself, as RemoveAll does.
func (d *Dir) empty(rel string) error {
	if !fs.ValidPath(rel) || rel == "." {
		return d.fail("remove", rel, unix.EINVAL)
	}
	// Only to pass through: the owner of the directory cannot read the one above.
	at, err := openBeneath(d.fd, path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return d.fail("remove", rel, err)
	}
	defer unix.Close(at)
	fd, err := openToEmpty(at, path.Base(rel))
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return d.fail("remove", rel, err)
	}
	defer unix.Close(fd)
	r := removal{dir: d, top: fd}
	r.empty(fd, rel, 0)
	return r.first
}

// removal is one RemoveAll under way.
type removal struct {
	dir   *Dir
	top   int   // the directory that is emptied first of all
	moved bool  // something has been moved up into top
	first error // the first thing that could not be removed
}

// empty removes what the directory fd, at rel, holds.
func (r *removal) empty(fd int, rel string, depth int) {
	for pass := 0; pass < maxPasses; pass++ {
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			r.failed(rel, err)
			return
		}
		seen, failedBefore := false, r.first
		err := eachEntry(fd, func(name string, _ fs.FileMode) error {
			seen = true
			r.entry(fd, name, path.Join(rel, name), depth)
			return nil
		})
		if err != nil {
			r.failed(rel, err)
		}
		// Once something is known to stay, another pass would not end better.
		if !seen || r.first != failedBefore {
			return
		}
		if fd == r.top && r.moved {
			pass, r.moved = -1, false
		}
	}
}

func (r *removal) entry(at int, name, rel string, depth int) {
	if depth >= maxDepth {
		if info, err := lstatAt(at, name); err == nil && info.Mode&unix.S_IFMT == unix.S_IFDIR {
			r.moveUp(at, name, rel)
			return
		}
	}
	fd, err := unlink(at, name)
	if err != nil {
		r.failed(rel, err)
		return
	}
	if fd < 0 {
		return
	}
	r.empty(fd, rel, depth+1)
	unix.Close(fd)
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		r.failed(rel, err)
	}
}

// moveUp puts a directory where the next pass over the top finds it.
func (r *removal) moveUp(at int, name, rel string) {
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err == nil {
		return
	}
	if err := unix.Renameat(at, name, r.top, TempName()); err != nil {
		r.failed(rel, err)
		return
	}
	r.moved = true
}

// unlink removes name, or an empty directory. Of a directory that is not empty
// it returns the descriptor, else -1.
func unlink(at int, name string) (int, error) {
	err := unix.Unlinkat(at, name, 0)
	if err == nil || err == unix.ENOENT {
		return -1, nil
	}
	switch e := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); e {
	case nil, unix.ENOENT:
		return -1, nil
	case unix.ENOTDIR:
		return -1, err
	case unix.EBUSY:
		return -1, e
	}
	fd, e := openToEmpty(at, name)
	if e == unix.ENOTDIR { // the kernel had denied both before it looked at the type
		return -1, err
	}
	return fd, e
}

func (r *removal) failed(rel string, err error) {
	if r.first == nil {
		r.first = r.dir.fail("remove", rel, err)
	}
}

// openToEmpty opens the directory name for reading and gives its owner the
// rights to empty it. Mounted file systems are refused with EXDEV.
func openToEmpty(at int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	fd, err := openSameMount(at, name, flags)
	if err == unix.EACCES {
		// Only its owner gets here. chmod goes by descriptor, since the name
		// could become a link; an O_PATH descriptor takes chmod only by way of
		// /proc (fchmodat2 is Linux 6.6).
		handle, e := openSameMount(at, name, unix.O_PATH|unix.O_DIRECTORY)
		if e != nil {
			return -1, err
		}
		defer unix.Close(handle)
		if unix.Chmod(procPath(handle), 0o700) != nil {
			return -1, err
		}
		fd, err = openSameMount(at, name, flags)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // what still fails then is reported by name
	}
	return fd, nil
}
