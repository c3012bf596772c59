package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/kernel"
)

// Bounds of what is kept of outputs on the volume, in bytes.
const (
	fileMost    = 256 << 20 // of one stream
	outputsMost = 1 << 30   // of all
)

// Store is the directory with what jobs have written.
type Store struct {
	dir string // "": there is no volume

	again func() error // makes the directory of all logs again, which somebody has removed; nil: nobody can

	making sync.Mutex // has made
	made   bool

	mu   sync.Mutex
	used int64 // bytes of all files. Invariant: at most most, but for what was there
	most int64
}

// Open looks at what there is; "" is no directory. again makes the directory above it again
// that somebody has removed, or says why nothing is to be made there; nil: the Store may do
// that itself.
func Open(dir string, again func() error) *Store {
	o := &Store{dir: dir, again: again, most: outputsMost}
	entries, err := os.ReadDir(dir)
	o.made = err == nil && dir != ""
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			o.used += info.Size()
		}
	}
	return o
}

// file is where a stream of a job is kept.
func (o *Store) file(job, stream string) *file {
	f := &file{of: o, fd: -1}
	if o.dir != "" {
		f.path = filepath.Join(o.dir, job+"."+stream)
	}
	return f
}

// take takes room for n bytes, or for as many as there is.
func (o *Store) take(n int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = max(0, min(n, o.most-o.used))
	o.used += n
	return n
}

func (o *Store) give(n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used -= n
}

// make makes the directory when there is something to put there.
func (o *Store) make() error {
	o.making.Lock()
	defer o.making.Unlock()
	again := o.made
	if again {
		if _, err := os.Lstat(o.dir); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	above := filepath.Dir(o.dir)
	if o.again != nil {
		if err := o.again(); err != nil {
			return err
		}
	}
	if again {
		o.mu.Lock()
		o.used = 0 // what was there is gone
		o.mu.Unlock()
	}
	if err := os.MkdirAll(above, 0o750); err != nil {
		return err
	}
	logs, err := durable.Open(above)
	if err != nil {
		return err
	}
	defer logs.Close()
	err = logs.MkdirAll(filepath.Base(o.dir), 0o750)
	o.made = err == nil
	return err
}

// Sweep removes outputs whose job is not among those that are known, and then the
// oldest until a quarter of the room is free. Those of jobs that run stay.
func (o *Store) Sweep(known, running func(job string) bool) {
	entries, err := os.ReadDir(o.dir)
	if err != nil || o.dir == "" {
		return
	}
	number := func(e fs.DirEntry) (uint64, bool) {
		job, _, ok := strings.Cut(e.Name(), ".")
		n, err := strconv.ParseUint(job, 10, 64)
		return n, ok && err == nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { _, ours := number(e); return !ours })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		m, _ := number(a)
		n, _ := number(b)
		return int(min(max(int64(m)-int64(n), -1), 1))
	})
	o.mu.Lock()
	tight := o.used > o.most*3/4
	o.mu.Unlock()
	for _, e := range entries {
		job, _, _ := strings.Cut(e.Name(), ".")
		o.mu.Lock()
		tight = tight && o.used > o.most/2
		o.mu.Unlock()
		if running(job) || known(job) && !tight {
			continue
		}
		info, err := e.Info()
		if err == nil && os.Remove(filepath.Join(o.dir, e.Name())) == nil {
			o.give(info.Size())
		}
	}
}

// file is all that a stream has written, as far as there is room.
type file struct {
	of   *Store
	path string // "": there is no volume

	mu   sync.Mutex
	fd   int   // -1: not open
	size int64 // bytes that it has
	open bool  // it was tried
	full bool  // no more is put there
	why  error
}

// copyFrom copies what the memfd has and the file has not, up to total. The
// file's size is what tells how far that got, so that a successor goes on there.
func (f *file) copyFrom(mem int, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if total == 0 || f.path == "" || f.full || !f.ready() {
		return
	}
	want := min(total, fileMost) - f.size
	if want <= 0 {
		f.full = f.full || total > fileMost
		return
	}
	room := f.of.take(want)
	end := f.size + room
	for f.size < end {
		n, err := kernel.Append(f.fd, mem, f.size, int(min(end-f.size, 1<<30)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			f.full, f.why = true, err
			break
		}
		f.size += int64(n)
	}
	f.of.give(end - f.size)
	if room < want || total > fileMost {
		f.full = true
	}
}

// length is how much it has, in bytes.
func (f *file) length() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

// abandon puts nothing there any more.
func (f *file) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = true
}

// give has nothing more put there, for why.
func (f *file) give(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full, f.why = true, why
}

// ready opens the file, once.
func (f *file) ready() bool {
	if f.open {
		return f.fd >= 0
	}
	f.open = true
	if f.why = f.of.make(); f.why != nil {
		return false
	}
	dir, err := unix.Open(filepath.Dir(f.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		f.why = err
		return false
	}
	defer unix.Close(dir)
	fd, err := durable.OpenBeneath(dir, filepath.Base(f.path), unix.O_RDWR|unix.O_CREAT, 0o640)
	if err != nil {
		f.why = err
		return false
	}
	size, err := unix.Seek(fd, 0, unix.SEEK_END)
	if err != nil {
		unix.Close(fd)
		f.why = err
		return false
	}
	f.fd, f.size = fd, size
	return true
}

// read reads what the file has at an offset.
func (f *file) read(b []byte, offset int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return 0
	}
	if f.fd < 0 {
		if _, err := os.Lstat(f.path); err != nil {
			return 0
		}
		f.open = false
		if !f.ready() {
			return 0
		}
	}
	n, _ := unix.Pread(f.fd, b, offset)
	return max(n, 0)
}

// close closes the file; it is opened again where it is read.
func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
	}
}
