package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/kernel"
)

// disk is the directory of segments. Names have no slash.
type disk interface {
	list() ([]string, error)
	// create makes a file that must not exist.
	create(name string) (file, error)
	open(name string, write bool) (file, error)
	// rename gives a file a name that must not exist, and makes that durable.
	rename(from, to string) error
	remove(name string) error
	// named tells whether a name is that of the file: somebody may have removed it.
	named(name string, f file) bool
	// sync makes the names durable.
	sync() error
}

// file is a segment. Sizes and offsets are bytes.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	size() (int64, error)
	truncate(size int64) error
	sync() error
	// allocate has the file system set blocks aside up to end, without making
	// the file longer: fallocate(2), FALLOC_FL_KEEP_SIZE.
	allocate(from, end int64) error
}

// directory is the disk that is one: rel below dir. A reader may look at what
// another user wrote; the ground of the supervisor's decisions may not be
// another's.
type directory struct {
	dir    *durable.Dir
	rel    string // "." is dir itself
	anyone bool   // other users' segments too
}

const maxEntries = 10_000

func (d directory) at(name string) string { return path.Join(d.rel, name) }

func (d directory) list() ([]string, error) {
	entries, err := d.dir.ReadDir(d.rel, maxEntries)
	if notThere(err) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, durable.ErrTooBig) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names, nil
}

func (d directory) create(name string) (file, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL
	f, err := d.dir.OpenRegular(d.at(name), flags, 0o600)
	if notThere(err) && d.rel != "." {
		if err := d.dir.MkdirAll(d.rel, 0o700); err != nil {
			return nil, err
		}
		f, err = d.dir.OpenRegular(d.at(name), flags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return segmentFile{f}, nil
}

func (d directory) open(name string, write bool) (file, error) {
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	f, err := d.dir.OpenRegular(d.at(name), flags, 0)
	if err != nil {
		return nil, err
	}
	if err := ours(f); err != nil && !d.anyone {
		f.Close()
		return nil, err
	}
	return segmentFile{f}, nil
}

func (d directory) rename(from, to string) error { return d.dir.RenameNew(d.at(from), d.at(to)) }
func (d directory) remove(name string) error     { return d.dir.RemoveAll(d.at(name)) }
func (d directory) sync() error                  { return d.dir.SyncDir(d.rel) }

// named is true where it cannot be told. The number of names that a file has says less: it
// may be 0 on a network, and 1 of a file whose directory was moved away.
func (d directory) named(name string, f file) bool {
	named, err := d.dir.Lstat(d.at(name))
	var open unix.Stat_t
	switch {
	case err != nil:
		return !notThere(err) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EACCES)
	case unix.Fstat(int(f.(segmentFile).Fd()), &open) != nil:
		return true
	}
	return named.Dev == open.Dev && named.Ino == open.Ino
}

// errAnothers is a file that another user than ours and root wrote.
var errAnothers = errors.New("it is another user's")

// ours refuses what somebody else may have put there, or may still write to
// under another name.
func ours(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch {
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Errorf("%w: uid %d owns it, and %d keeps the journal", errAnothers, st.Uid, os.Geteuid())
	case st.Nlink > 1:
		return fmt.Errorf("%w: it has a second name somewhere", errAnothers)
	}
	return nil
}

// segmentFile is a segment whose errors have its path: they are answers to requests that name
// none.
type segmentFile struct{ *os.File }

func (f segmentFile) failed(err error) error {
	if err == nil {
		return nil
	}
	err = durable.Bare(err)
	return &durable.Error{Do: "write", Path: f.Name(), Err: err, Remedy: durable.Room(err)}
}

func (f segmentFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.failed(err)
}

func (f segmentFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f segmentFile) truncate(size int64) error { return f.failed(f.Truncate(size)) }

// sync needs the content and the size, and no times.
func (f segmentFile) sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return f.failed(kernel.Named("fdatasync", err))
		}
	}
}

func (f segmentFile) allocate(from, end int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, end-from)
		if err != unix.EINTR {
			return f.failed(err)
		}
	}
}

// notThere tells whether err says that a name does not exist.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
