// Package inotify watches directories, inotify(7), with the rights of their user, since
// that takes the right to read them. It tells of names alone.
package inotify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/rights"
)

// Names is what is watched of a directory: names that come and go, also its own.
const Names = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// ErrOverflow is of events that were lost: there were too many at once.
var ErrOverflow = errors.New("inotify lost events")

// Event is what has happened to a path, or why nobody knows.
type Event struct {
	Path  string
	Comes bool // it is new, or was moved there
	Goes  bool // it was removed, or moved away
	Err   error
}

// Watcher watches directories.
type Watcher struct {
	Events chan Event // never closed

	user *rights.User // nil: ourselves
	mask uint32
	file *os.File
	done chan struct{}

	mu   sync.Mutex
	dirs map[int]string // by the kernel's number
}

// New is one that watches nothing yet; mask is of inotify_add_watch(2).
func New(user *rights.User, mask uint32) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		Events: make(chan Event), user: user, mask: mask, file: os.NewFile(uintptr(fd), "inotify"),
		done: make(chan struct{}), dirs: map[int]string{},
	}
	go w.read()
	return w, nil
}

// Add watches a directory; one that is watched already is no error.
func (w *Watcher) Add(dir string) (err error) {
	w.mu.Lock() // or an event could come before we know whose it is
	defer w.mu.Unlock()
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var number int
	controlled := raw.Control(func(fd uintptr) { number, err = w.user.Watch(int(fd), dir, w.mask) })
	if err = errors.Join(controlled, err); err == nil {
		w.dirs[number] = dir
	}
	return err
}

// Remove ends the watch of a directory, if there is one.
func (w *Watcher) Remove(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for number, is := range w.dirs {
		if is == dir {
			w.forget(number)
		}
	}
}

// forget has the kernel forget a watch, which it may have done first. The caller holds mu.
func (w *Watcher) forget(number int) {
	delete(w.dirs, number)
	if raw, err := w.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(number)) })
	}
}

// Close ends all of them.
func (w *Watcher) Close() {
	close(w.done)
	w.file.Close()
}

// read tells what happens until it is closed.
func (w *Watcher) read() {
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				w.tell(Event{Err: err})
			}
			return
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			if e, is := w.take(rest[:size]); is && !w.tell(e) {
				return
			}
			rest = rest[size:]
		}
	}
}

// take takes one struct inotify_event; false: it is of no directory that is watched.
func (w *Watcher) take(raw []byte) (e Event, is bool) {
	number, mask := int(int32(binary.NativeEndian.Uint32(raw))), binary.NativeEndian.Uint32(raw[4:])
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return Event{Err: ErrOverflow}, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dir, is := w.dirs[number]
	switch {
	case mask&unix.IN_IGNORED != 0:
		delete(w.dirs, number)
		return e, false
	case is && mask&unix.IN_MOVE_SELF != 0:
		w.forget(number) // what has moved is not where we look
	}
	name, _, _ := bytes.Cut(raw[unix.SizeofInotifyEvent:], []byte{0})
	return Event{
		Path:  filepath.Join(dir, string(name)),
		Comes: mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0,
		Goes:  mask&(unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVED_FROM|unix.IN_MOVE_SELF) != 0,
	}, is
}

// tell passes on an event; false: it was closed.
func (w *Watcher) tell(e Event) bool {
	select {
	case w.Events <- e:
		return true
	case <-w.done:
		return false
	}
}
