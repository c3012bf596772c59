package durable

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxCopyDepth bounds the directories of a tree that is copied.
const maxCopyDepth = 64

// Copy says how a tree is copied.
type Copy struct {
	DirMode uint32 // of its directories
	// Pass: what is neither a file nor a directory nor a link is passed over, and not
	// refused: a program's sockets and pipes are its own.
	Pass bool
	// Reader is the uid that reads the source, where a helper copies; 0: the writer's.
	Reader uint32

	read, write func(do func()) error // do it as the reader and as the writer; nil: at once
}

// reading does something with the rights of the reader, and writing with those of the copy's
// owner.
func (how Copy) reading(do func() error) error { return doAs(how.read, do) }
func (how Copy) writing(do func() error) error { return doAs(how.write, do) }

func doAs(as func(func()) error, do func() error) (err error) {
	if as == nil {
		return do()
	}
	if e := as(func() { err = do() }); e != nil {
		return e
	}
	return err
}

// CopyTree copies what the directory from holds into the existing directory to
// below d, onto the disk. Files keep their permission bits (and become readable and
// writable for their owner); set-id bits are dropped. Symbolic links are copied as
// links, never followed; a name that is taken is refused.
func (d *Dir) CopyTree(from *Dir, to string, how Copy) error {
	if d.helper != nil {
		return d.order(Request{Op: OpCopyTree, From: from.path, To: to, Mode: how.DirMode, Loose: how.Pass, Reader: how.Reader}, from.fd)
	}
	if err := d.disk.failing("copy"); err != nil {
		return d.fail("copy", to, err)
	}
	var dst *Dir
	if err := how.writing(func() (err error) { dst, err = d.OpenDir(to); return err }); err != nil {
		return err
	}
	defer dst.Close()
	return how.dir(from.fd, from.path, dst.fd, 0)
}

func (how Copy) dir(src int, srcPath string, dst, depth int) error {
	fail := func(name string, err error) error {
		if err == nil {
			return nil
		}
		return &Error{Do: "copy", Path: path.Join(srcPath, name), Err: err, Remedy: Room(err)}
	}
	if depth > maxCopyDepth {
		return fail("", fmt.Errorf("more than %d directories deep", maxCopyDepth))
	}
	list := -1
	err := how.reading(func() (err error) {
		list, err = openat(src, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fail("", err)
	}
	defer unix.Close(list)
	err = eachEntry(list, func(name string, _ fs.FileMode) error {
		var st unix.Stat_t
		if err := how.reading(func() (err error) { st, err = lstatAt(src, name); return err }); err != nil {
			return fail(name, err)
		}
		var err error
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return how.subdir(src, path.Join(srcPath, name), name, dst, depth)
		case unix.S_IFREG:
			err = how.file(src, dst, name, st.Mode&0o777|0o600)
		case unix.S_IFLNK:
			err = how.link(src, dst, name)
		default:
			if !how.Pass {
				err = fmt.Errorf("it is neither a file nor a directory nor a link")
			}
		}
		return fail(name, err)
	})
	if err != nil {
		return err
	}
	return fail("", how.writing(func() error { return syncNames(dst) }))
}

func (how Copy) subdir(src int, srcPath, name string, dst, depth int) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fail := func(err error) error { return &Error{Do: "copy", Path: srcPath, Err: err, Remedy: Room(err)} }
	from, to := -1, -1
	err := how.reading(func() (err error) { from, err = openat(src, name, flags, 0); return err })
	if err != nil {
		return fail(err)
	}
	defer unix.Close(from)
	err = how.writing(func() (err error) {
		if err = unix.Mkdirat(dst, name, 0o700); err == nil {
			to, err = openat(dst, name, flags, 0)
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	defer unix.Close(to)
	if err := how.dir(from, srcPath, to, depth+1); err != nil {
		return err
	}
	return how.writing(func() error { return unix.Fchmod(to, how.DirMode) })
}

func (how Copy) file(src, dst int, name string, mode uint32) error {
	from, to := -1, -1
	err := how.reading(func() (err error) {
		from, err = openat(src, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return how.writing(func() (err error) {
		to, err = openat(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err != nil {
			return err
		}
		buf := make([]byte, 64<<10)
		for err == nil {
			var n int
			n, err = retry(func() (int, error) { return unix.Read(from, buf) })
			if err != nil || n == 0 {
				break
			}
			err = writeAll(to, buf[:n])
		}
		return finish(to, err, mode, false)
	})
}

func (how Copy) link(src, dst int, name string) error {
	buf := make([]byte, unix.PathMax)
	n := 0
	err := how.reading(func() (err error) { n, err = unix.Readlinkat(src, name, buf); return err })
	if err != nil {
		return err
	}
	return how.writing(func() error { return unix.Symlinkat(string(buf[:n]), dst, name) })
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
