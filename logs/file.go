package logs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/wire"
)

// current is the name of the file that is being written.
const current = "current"

// A file rotated at a time bears that time, in ISO 8601's basic form: it sorts,
// and no file system or tool stumbles over a colon.
const (
	rotatedLayout = "20060102T150405.000000Z"
	rotatedSuffix = ".log"
)

// checkEvery is how often, in µs, a file that is written to is compared with
// what bears its name, for a person may have moved or removed it.
const checkEvery = 1e6

// file is a slot's `current` and its rotated predecessors. Its methods wait for
// the disk; only one goroutine at a time may call them (disk.go).
type file struct {
	home int     // the volume's descriptor
	dir  string  // relative to home
	cfg  *Config // the slot's, when it was last made ready

	fd      int // -1: not open
	dev     uint64
	ino     uint64
	size    int64
	born    int64 // µs of sinceBoot: since when there are bytes in it
	checked int64 // µs: when it was last known to bear its name
	mid     bool  // its last byte is no newline

	put    func(fd int, p []byte) (int, error) // write(2), or a test's
	packer *packer
}

// openDir opens a directory below home.
func openDir(home int, dir string) (int, error) {
	return durable.OpenBeneath(home, dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
}

// makeDir opens a directory below home, and makes it, 0750, with those above it, where it
// is missing.
func makeDir(home int, dir string) (int, error) {
	fd, err := openDir(home, dir)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	at, name := home, dir
	if i := strings.LastIndexByte(dir, '/'); i >= 0 {
		if at, err = makeDir(home, dir[:i]); err != nil {
			return -1, err
		}
		defer unix.Close(at)
		name = dir[i+1:]
	}
	if err := unix.Mkdirat(at, name, 0o750); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	if fd, err = openDir(at, name); err == nil {
		durable.Inherit(at, fd)
	}
	return fd, err
}

// open opens current for appending, and makes it where it is missing.
func (f *file) open(now int64) error {
	dir, err := makeDir(f.home, f.dir)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", f.dir, err)
	}
	defer unix.Close(dir)
	return f.openAt(dir, now)
}

func (f *file) openAt(dir int, now int64) error {
	fd, err := durable.OpenBeneath(dir, current, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT, 0o640)
	if err != nil {
		return fmt.Errorf("cannot open %s/%s: %w", f.dir, current, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return fmt.Errorf("cannot examine %s/%s: %w", f.dir, current, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return fmt.Errorf("cannot write %s/%s: it is no regular file; remove it", f.dir, current)
	}
	f.close()
	f.fd, f.dev, f.ino, f.size, f.checked, f.born, f.mid = fd, st.Dev, st.Ino, st.Size, now, sinceBoot(), false
	if st.Size > 0 {
		// Its age by the wall clock, the only one that outlives a container. From
		// here on no step of that clock counts.
		f.born -= max(now-bornAt(fd, st), 0)
		last := []byte{'\n'}
		if _, err := unix.Pread(fd, last, st.Size-1); err == nil {
			f.mid = last[0] != '\n'
		}
	}
	return nil
}

// bornAt is when a file was made, in µs, or where the file system does not
// tell, when it was last written.
func bornAt(fd int, st unix.Stat_t) int64 {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x)
	if err == nil && x.Mask&unix.STATX_BTIME != 0 {
		return x.Btime.Sec*1e6 + int64(x.Btime.Nsec)/1e3
	}
	return st.Mtim.Sec*1e6 + st.Mtim.Nsec/1e3
}

// sinceBoot is a clock that nobody sets, in µs; it runs on while the machine
// sleeps.
func sinceBoot() int64 { return wire.SinceBoot().Microseconds() }

// ready makes the file fit for n more bytes: open, still bearing its name, and
// not too large or old.
func (f *file) ready(now int64, n int) error {
	if f.fd >= 0 && (now-f.checked > checkEvery || now < f.checked) {
		if f.moved() {
			f.close()
		}
		f.checked = now
	}
	if f.fd < 0 {
		if err := f.open(now); err != nil {
			return err
		}
	}
	size, err := unix.Seek(f.fd, 0, unix.SEEK_END)
	if err != nil {
		return fmt.Errorf("cannot examine %s/%s: %w", f.dir, current, err)
	}
	if f.size = size; size == 0 {
		f.mid, f.born = false, sinceBoot()
	}
	if f.due(n) {
		if err := f.rotate(now); err != nil {
			return err
		}
	}
	if f.mid && f.cfg.Timestamps { // without them before, or a person's edit
		if _, err := f.write([]byte{'\n'}); err != nil {
			return err
		}
	}
	return nil
}

// moved says that another file, or none, bears the name current now.
func (f *file) moved() bool {
	fd, err := durable.OpenBeneath(f.home, f.dir+"/"+current, unix.O_PATH, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Dev != f.dev || st.Ino != f.ino
}

// due says that the file is to be rotated before n more bytes are written: at
// a line's end, or where a line without end makes it grow too far.
func (f *file) due(n int) bool {
	if f.size == 0 || f.mid && f.size < f.cfg.MaxSize+MaxLine {
		return false
	}
	return f.cfg.MaxSize > 0 && f.size+int64(n) > f.cfg.MaxSize ||
		f.cfg.MaxAge > 0 && sinceBoot()-f.born >= f.cfg.MaxAge.Microseconds()
}

// left is how many bytes the file takes before it is rotated; 0 for no limit.
func (f *file) left() int64 {
	if f.cfg.MaxSize <= 0 {
		return 0
	}
	if f.size >= f.cfg.MaxSize {
		return f.cfg.MaxSize
	}
	return f.cfg.MaxSize - f.size
}

// write appends b and returns how much of it is in the file.
func (f *file) write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := f.put(f.fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = unix.EIO
		}
		if err != nil {
			return done, fmt.Errorf("cannot write %s/%s: %w", f.dir, current, err)
		}
		done += n
		f.size += int64(n)
		f.mid = b[done-1] != '\n'
	}
	return done, nil
}

// rotate gives the file a name of its time, starts a new one and removes what
// is beyond MaxFiles.
func (f *file) rotate(now int64) error {
	dir, err := openDir(f.home, f.dir)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", f.dir, err)
	}
	defer unix.Close(dir)
	if f.moved() { // by a person, a moment ago: theirs is not ours to rename
		return f.openAt(dir, now)
	}
	old, err := rotated(dir)
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", f.dir, err)
	}
	at := time.UnixMicro(now).UTC()
	if n := len(old); n > 0 { // though the clock was set back, or two in one µs
		// A service may have put one there of the year 9999, after which no
		// time has a name.
		if last, err := rotatedAt(old[n-1]); err == nil && !at.After(last) && last.Year() < 9999 {
			at = last.Add(time.Microsecond)
		}
	}
	name := at.Format(rotatedLayout) + rotatedSuffix
	if err := durable.RenameNewAt(dir, current, dir, name); err != nil {
		return fmt.Errorf("cannot rotate %s/%s: %w", f.dir, current, err)
	}
	old = append(old, name)
	f.close()
	err = f.openAt(dir, now)
	if f.cfg.MaxFiles > 0 && len(old) > f.cfg.MaxFiles {
		for _, name := range old[:len(old)-f.cfg.MaxFiles] {
			_ = unix.Unlinkat(dir, name, 0) // the next rotation tries again
			if !packed(name) {
				_ = unix.Unlinkat(dir, name+packedSuffix, 0) // as a kill has left it
			}
		}
	}
	if f.cfg.Compress {
		f.packer.ask(f.dir)
	}
	return err
}

func (f *file) close() {
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
	}
}

// rotated returns the names of the rotated files in a directory, oldest first,
// each once.
//
// It lists twice: while it does, a file may be compressed, and a listing may then
// have passed the place of the new name and come too late for the old one. That
// happens to a file once.
func rotated(dir int) ([]string, error) {
	var names []string
	for range 2 {
		all, err := list(dir)
		if err != nil {
			return nil, err
		}
		names = append(names, all...)
	}
	slices.Sort(names)
	return slices.CompactFunc(names, func(a, b string) bool { return nameAfter(a) == nameAfter(b) }), nil
}

func list(dir int) ([]string, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), "")
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(name string) bool {
		_, err := rotatedAt(name)
		return err != nil
	}), nil
}

// rotatedAt is the time in a rotated file's name.
func rotatedAt(name string) (time.Time, error) {
	text, ok := strings.CutSuffix(strings.TrimSuffix(name, packedSuffix), rotatedSuffix)
	if !ok || len(text) != len(rotatedLayout) {
		return time.Time{}, errors.New("no rotated file")
	}
	return time.Parse(rotatedLayout, text)
}
