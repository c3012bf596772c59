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

// CopyTree copies what the directory from holds into the existing directory to
// below d, onto the disk. Directories get dirMode, files keep their permission
// bits (and become readable and writable for their owner); set-id bits are
// dropped. Symbolic links are copied as links, never followed; anything but
// files, directories and links is refused, and so is a name that is taken.
func (d *Dir) CopyTree(from *Dir, to string, dirMode uint32) error {
	if d.hands != nil {
		return d.order(Request{Op: OpCopyTree, From: from.path, To: to, Mode: dirMode}, from.fd)
	}
	dst, err := d.OpenDir(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return copyDir(from.fd, from.path, dst.fd, dirMode, 0, false)
}

// CopyFiles is CopyTree that passes over what is neither a file nor a directory
// nor a link: a program's sockets and pipes are its own.
func (d *Dir) CopyFiles(from *Dir, to string, dirMode uint32) error {
	if d.hands != nil {
		return d.order(Request{Op: OpCopyFiles, From: from.path, To: to, Mode: dirMode}, from.fd)
	}
	if err := d.disk.failing("copy"); err != nil {
		return d.fail("copy", to, err)
	}
	dst, err := d.OpenDir(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return copyDir(from.fd, from.path, dst.fd, dirMode, 0, true)
}

func copyDir(src int, srcPath string, dst int, dirMode uint32, depth int, pass bool) error {
	fail := func(name string, err error) error {
		return &Error{Do: "copy", Path: path.Join(srcPath, name), Err: err}
	}
	if depth > maxCopyDepth {
		return fail("", fmt.Errorf("more than %d directories deep", maxCopyDepth))
	}
	list, err := openat(src, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail("", err)
	}
	defer unix.Close(list)
	err = eachEntry(list, func(name string, _ fs.FileMode) error {
		st, err := lstatAt(src, name)
		if err != nil {
			return fail(name, err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return copySubdir(src, path.Join(srcPath, name), name, dst, dirMode, depth, pass)
		case unix.S_IFREG:
			err = copyFile(src, dst, name, st.Mode&0o777|0o600)
		case unix.S_IFLNK:
			err = copyLink(src, dst, name)
		default:
			if pass {
				return nil
			}
			err = fmt.Errorf("it is neither a file nor a directory nor a link")
		}
		if err != nil {
			return fail(name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := syncNames(dst); err != nil {
		return fail("", err)
	}
	return nil
}

func copySubdir(src int, srcPath, name string, dst int, dirMode uint32, depth int, pass bool) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	from, err := openat(src, name, flags, 0)
	if err != nil {
		return &Error{Do: "copy", Path: srcPath, Err: err}
	}
	defer unix.Close(from)
	if err := unix.Mkdirat(dst, name, 0o700); err != nil {
		return &Error{Do: "copy", Path: srcPath, Err: err}
	}
	to, err := openat(dst, name, flags, 0)
	if err != nil {
		return &Error{Do: "copy", Path: srcPath, Err: err}
	}
	defer unix.Close(to)
	if err := copyDir(from, srcPath, to, dirMode, depth+1, pass); err != nil {
		return err
	}
	return unix.Fchmod(to, dirMode)
}

func copyFile(src, dst int, name string, mode uint32) error {
	from, err := openat(src, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err := openat(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
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
	if err == nil {
		err = unix.Fchmod(to, mode)
	}
	if err == nil {
		_, err = retry(func() (int, error) { return 0, unix.Fsync(to) })
	}
	if e := unix.Close(to); err == nil && e != unix.EINTR {
		err = e
	}
	return err
}

func copyLink(src, dst int, name string) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(src, name, buf)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(buf[:n]), dst, name)
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
