package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is a directory held by a descriptor. Its methods may be called from
// several goroutines at once; Close only when none runs.
type Dir struct {
	fd     int
	path   string // for people; never resolved again
	helper Helper // who does all that is asked for; nil: this process
	disk   disk
}

// Fail has changes below d, not below what OpenDir returns, fail wherever fault
// returns an error: WriteFile before anything is written ("write"), or when only
// the new name is yet to be made durable ("sync"); and others before they begin
// ("mkdir", "rename", "copy", "remove"). It is for tests.
func (d *Dir) Fail(fault func(step string) error) { d.disk.fault = fault }

// Open opens the directory at path, following links as the system does: the
// path comes from root's configuration. What lies below is not trusted.
func Open(path string) (*Dir, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Do: "open", Path: path, Err: err}
	}
	return &Dir{fd: fd, path: filepath.Clean(path)}, nil
}

// Close gives the descriptor back.
func (d *Dir) Close() error { return unix.Close(d.fd) }

// Path is the path of rel below d, as a person would write it.
func (d *Dir) Path(rel string) string {
	if rel == "." {
		return d.path
	}
	return filepath.Join(d.path, rel)
}

// OpenDir opens a directory below d.
func (d *Dir) OpenDir(rel string) (*Dir, error) {
	fd, err := d.open(OpOpenDir, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{fd: fd, path: d.Path(rel), helper: d.helper}, nil
}

// Handle is a descriptor of what rel is, for nothing but to name it: O_PATH,
// open(2). It takes no right to rel itself, and is the caller's to close.
func (d *Dir) Handle(rel string) (fd int, err error) { return d.open(OpHandle, rel, unix.O_PATH, 0) }

// OpenRegular opens the regular file rel with the flags of open(2), following
// no link and waiting for nobody; perm is for O_CREAT, less the umask.
func (d *Dir) OpenRegular(rel string, flags int, perm uint32) (*os.File, error) {
	fd, err := d.open(OpOpenRegular, rel, flags, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.Path(rel)), nil
}

// open is what is common to those that open something.
func (d *Dir) open(op Op, rel string, flags int, perm uint32) (fd int, err error) {
	switch {
	case d.helper != nil:
		_, opened, err := d.ask(Request{Op: op, Rel: rel, Flags: flags, Mode: perm})
		if err != nil {
			return -1, err
		}
		return opened[0], nil
	case op == OpOpenRegular:
		fd, err = openRegular(d.fd, rel, flags, perm)
	default:
		fd, err = openBeneath(d.fd, rel, flags, perm)
	}
	return fd, d.fail(doing(flags), rel, err)
}

// Info is what lstat(2) says about a name.
type Info struct {
	Type fs.FileMode // fs.ModeType bits; 0 is a regular file
	Perm uint32      // 0 to 0o7777
	Size int64       // bytes
	UID  uint32
	GID  uint32

	Dev, Ino uint64

	Modified time.Time
	Changed  time.Time // it, its owner or its name: st_ctim of stat(3)
}

// Lstat tells what rel is, without following a link. For ".", d itself.
func (d *Dir) Lstat(rel string) (Info, error) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpLstat, Rel: rel})
		return a.Info, err
	}
	st, err := lstatBeneath(d.fd, rel)
	if err != nil {
		return Info{}, d.fail("read", rel, err)
	}
	return infoOf(&st), nil
}

func typeOf(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// Entry is a name in a directory. Type is fs.ModeIrregular where the file
// system does not tell; Lstat does.
type Entry struct {
	Name string
	Type fs.FileMode
}

// ReadDir returns what the directory rel holds, in no order, at most max
// entries: with more, it returns max of them and an error that is ErrTooBig.
func (d *Dir) ReadDir(rel string, max int) (found []Entry, err error) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpReadDir, Rel: rel, Max: int64(max)})
		return a.Entries, err
	}
	// A descriptor of its own: the read position belongs to the open file.
	fd, err := openBeneath(d.fd, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, d.fail("read", rel, err)
	}
	defer unix.Close(fd)
	err = eachEntry(fd, func(name string, kind fs.FileMode) error {
		if len(found) == max {
			return tooMany(d.Path(rel), max)
		}
		found = append(found, Entry{name, kind})
		return nil
	})
	return found, d.fail("read", rel, err)
}

// ReadDirOf is ReadDir for those entries that are wanted; the others do not count.
func (d *Dir) ReadDirOf(rel string, max int, wanted func(Entry) bool) ([]Entry, error) {
	found, err := d.ReadDir(rel, mostEntries)
	found = slices.DeleteFunc(found, func(e Entry) bool { return !wanted(e) })
	if len(found) > max {
		return found[:max], tooMany(d.Path(rel), max)
	}
	return found, err
}

// mostEntries is how many entries of a directory are looked at for those that are
// wanted.
const mostEntries = 1 << 20

// Mkdir makes the directory rel with exactly this mode; its parent must exist.
func (d *Dir) Mkdir(rel string, mode uint32) error {
	if d.helper != nil {
		return d.order(Request{Op: OpMkdir, Rel: rel, Mode: mode})
	}
	if err := d.disk.failing("mkdir"); err != nil {
		return d.fail("make", rel, err)
	}
	err := inParent(d.fd, rel, func(at int, base string) error {
		if err := unix.Mkdirat(at, base, mode); err != nil {
			return err
		}
		// The umask may have taken bits away. The directory is reached by
		// descriptor: the name could have become something else.
		fd, err := openBeneath(at, base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		// Who is not in the directory's group cannot set again the set-group-id bit
		// that it has inherited, and loses it by any other chmod(2).
		if kept := st.Mode & unix.S_ISGID; st.Mode&0o7777&^kept != mode {
			if err := unix.Fchmod(fd, mode|kept); err != nil {
				return err
			}
		}
		Inherit(at, fd)
		return nil
	})
	return d.fail("write", rel, err)
}

// MkdirAll makes rel and what is missing on the way, durably. Directories that
// exist keep their mode.
func (d *Dir) MkdirAll(rel string, mode uint32) error {
	if d.helper != nil {
		return d.order(Request{Op: OpMkdirAll, Rel: rel, Mode: mode})
	}
	st, err := lstatBeneath(d.fd, rel)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err == nil {
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return d.fail("write", rel, unix.ELOOP)
		}
		return d.fail("write", rel, unix.ENOTDIR)
	}
	if err != unix.ENOENT {
		return d.fail("write", rel, err)
	}
	parent := path.Dir(rel)
	if err := d.MkdirAll(parent, mode); err != nil {
		return err
	}
	if err := d.Mkdir(rel, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.SyncDir(parent)
}

// Writable says why entries cannot be made in or taken out of the directory rel, as
// far as owner, mode and mount tell: it changes nothing.
func (d *Dir) Writable(rel string) error {
	if d.helper != nil {
		return d.order(Request{Op: OpWritable, Rel: rel})
	}
	err := inParent(d.fd, rel, func(at int, base string) error {
		return unix.Faccessat(at, base, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	})
	if err == unix.ENOSYS || err == unix.EINVAL { // no faccessat2(2): then the call itself tells
		err = nil
	}
	return d.fail("write", rel+"/.", err)
}

// Symlink makes the link rel, which says target; nothing may be there.
func (d *Dir) Symlink(target, rel string) error {
	if d.helper != nil {
		return d.order(Request{Op: OpSymlink, Rel: rel, To: target})
	}
	err := inParent(d.fd, rel, func(at int, base string) error { return unix.Symlinkat(target, at, base) })
	return d.fail("write", rel, err)
}

// Date gives the file or link rel the time at which it was modified.
func (d *Dir) Date(rel string, modified time.Time) error {
	if d.helper != nil {
		return d.order(Request{Op: OpDate, Rel: rel, Max: modified.UnixNano()})
	}
	when := unix.NsecToTimespec(modified.UnixNano())
	err := inParent(d.fd, rel, func(at int, base string) error {
		return unix.UtimesNanoAt(at, base, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW)
	})
	return d.fail("write", rel, err)
}

// Readlink is what the link rel says.
func (d *Dir) Readlink(rel string) (target string, err error) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpReadlink, Rel: rel})
		return string(a.Data), err
	}
	err = inParent(d.fd, rel, func(at int, base string) error {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(at, base, buf)
		if err == nil {
			target = string(buf[:n])
		}
		return err
	})
	return target, d.fail("read", rel, err)
}

// SyncDir makes the names in directory rel durable.
func (d *Dir) SyncDir(rel string) error {
	if d.helper != nil {
		return d.order(Request{Op: OpSyncDir, Rel: rel})
	}
	fd, err := openBeneath(d.fd, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return d.fail("write", rel, err)
	}
	defer unix.Close(fd)
	return d.fail("write", rel, d.disk.sync(fd))
}

// Rename moves from to the name to, over what is there, durably.
func (d *Dir) Rename(from, to string) error { return d.rename(from, to, false) }

// RenameNew moves from to the name to if nothing is there (fs.ErrExist
// otherwise), durably. Where that cannot be made durable it is taken back.
func (d *Dir) RenameNew(from, to string) error {
	return d.rename(from, to, true)
}

func (d *Dir) rename(from, to string, fresh bool) error {
	if d.helper != nil {
		op := OpRename
		if fresh {
			op = OpRenameNew
		}
		return d.order(Request{Op: op, Rel: from, To: to})
	}
	if err := d.disk.failing("rename"); err != nil {
		return d.fail("rename", from, err)
	}
	err := inParent(d.fd, from, func(fromAt int, fromBase string) error {
		return inParent(d.fd, to, func(toAt int, toBase string) error {
			return d.disk.move(fromAt, fromBase, toAt, toBase, fresh, path.Dir(from) == path.Dir(to))
		})
	})
	return d.fail("move", from, err)
}

const (
	tempPrefix = ".rlminit-"
	tempSuffix = ".tmp"
)

// TempName makes a fresh name for something that is not finished yet.
func TempName() string {
	return fmt.Sprintf("%s%016x%s", tempPrefix, rand.Uint64(), tempSuffix)
}

// IsTemp tells whether TempName made this name.
func IsTemp(name string) bool {
	return len(name) == len(tempPrefix)+16+len(tempSuffix) &&
		strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// CleanTemps removes from directory rel what was never finished. Only for a
// time when nobody else writes there.
func (d *Dir) CleanTemps(rel string) error {
	entries, first := d.ReadDirOf(rel, mostEntries, func(e Entry) bool { return IsTemp(e.Name) })
	if errors.Is(first, ErrTooBig) {
		first = nil
	}
	for _, e := range entries {
		if err := d.RemoveAll(path.Join(rel, e.Name)); err != nil && first == nil {
			first = err
		}
	}
	return first
}
