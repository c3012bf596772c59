package journal

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// model is a disk in memory that knows what of it a power cut would leave, and
// that fails when it is told to.
type model struct {
	mu    sync.Mutex
	names map[string]*inode // as processes see them
	kept  map[string]*inode // as a power cut leaves them: at the last sync of the directory
	// fault is asked before each call that changes something or makes it durable.
	fault func(call string) error
	calls int
	room  int64 // bytes that may still be allocated; negative: no bound
	nofal bool  // the file system cannot allocate

	outcome *outcome // of the life that runs on it
}

type inode struct {
	data      []byte
	durable   []byte
	allocated int64
}

func newModel() *model {
	return &model{names: map[string]*inode{}, kept: map[string]*inode{}, room: -1}
}

func (m *model) call(name string) error {
	m.calls++
	if m.fault == nil {
		return nil
	}
	return m.fault(name)
}

// crash is the disk after a power cut. keep says for each file what of the bytes
// that were not synced is there.
func (m *model) crash(keep func(in *inode) []byte) *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.crashed(keep)
}

// crashed is crash with the lock held, as in a fault.
func (m *model) crashed(keep func(in *inode) []byte) *model { return after(m.kept, keep) }

func after(names map[string]*inode, keep func(in *inode) []byte) *model {
	after := newModel()
	for name, in := range names {
		data := slices.Clone(keep(in))
		after.names[name] = &inode{data: data, durable: slices.Clone(data)}
	}
	after.kept = maps.Clone(after.names)
	return after
}

// nothing of what was not synced is left.
func nothingMore(in *inode) []byte { return in.durable }

// everything that was written is left.
func everything(in *inode) []byte { return in.data }

// copy is the disk as a process that was killed leaves it.
func (m *model) copy() *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed()
}

// killed is copy with the lock held.
func (m *model) killed() *model { return after(m.names, everything) }

func (m *model) list() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.names)), nil
}

func (m *model) create(name string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("create"); err != nil {
		return nil, err
	}
	if m.names[name] != nil {
		return nil, unix.EEXIST
	}
	in := &inode{}
	m.names[name] = in
	return &modelFile{m, in}, nil
}

func (m *model) open(name string, write bool) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if write {
		if err := m.call("open"); err != nil {
			return nil, err
		}
	}
	in := m.names[name]
	if in == nil {
		return nil, fs.ErrNotExist
	}
	return &modelFile{m, in}, nil
}

func (m *model) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("rename"); err != nil {
		return err
	}
	if m.names[to] != nil {
		return unix.EEXIST
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	if err := m.call("sync names"); err != nil {
		return err
	}
	m.kept = maps.Clone(m.names)
	return nil
}

func (m *model) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("remove"); err != nil {
		return err
	}
	if in := m.names[name]; in != nil {
		m.free(max(int64(len(in.data)), in.allocated))
	}
	delete(m.names, name)
	return nil
}

func (m *model) sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("sync names"); err != nil {
		return err
	}
	m.kept = maps.Clone(m.names)
	return nil
}

func (m *model) free(n int64) {
	if m.room >= 0 {
		m.room += n
	}
}

// need takes room for a file to be end bytes long.
func (m *model) need(in *inode, end int64) error {
	has := max(int64(len(in.data)), in.allocated)
	if m.room < 0 || end <= has {
		return nil
	}
	if end-has > m.room {
		return unix.ENOSPC
	}
	m.room -= end - has
	return nil
}

type modelFile struct {
	m  *model
	in *inode
}

func (f *modelFile) ReadAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if at >= int64(len(f.in.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.in.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt that fails has written half.
func (f *modelFile) WriteAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	n := len(b)
	err := f.m.call("write")
	if err != nil {
		n /= 2
	} else if err = f.m.need(f.in, at+int64(n)); err != nil {
		n = 0
	}
	if end := at + int64(n); end > int64(len(f.in.data)) {
		f.in.data = append(f.in.data, make([]byte, end-int64(len(f.in.data)))...)
	}
	copy(f.in.data[at:], b[:n])
	return n, err
}

func (f *modelFile) Close() error { return nil }

func (f *modelFile) size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.in.data)), nil
}

func (f *modelFile) truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.call("truncate"); err != nil {
		return err
	}
	f.m.free(max(int64(len(f.in.data)), f.in.allocated) - size)
	f.in.data, f.in.allocated = f.in.data[:size], 0
	return nil
}

func (f *modelFile) sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.call("sync"); err != nil {
		return err
	}
	f.in.durable = slices.Clone(f.in.data)
	return nil
}

func (m *model) named(string, file) bool { return true }

func (f *modelFile) allocate(from, end int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.m.nofal {
		return unix.EOPNOTSUPP
	}
	if err := f.m.need(f.in, end); err != nil {
		return err
	}
	f.in.allocated = max(f.in.allocated, end)
	return nil
}

// texts is a fold that keeps every text, in order.
type texts struct{ all []string }

type text struct {
	Text string `json:"text"`
}

func say(format string, args ...any) Entry {
	return Entry{Type: "text", Body: text{fmt.Sprintf(format, args...)}}
}
