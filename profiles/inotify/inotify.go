// Package inotify watches directories with the rights of their user. It is fsnotify for
// directories that we may not read ourselves, and tells of names alone.
package inotify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"rlminit/rights"
)

// What is watched of a directory: names that come and go, and the mode that may
// have kept us out.
const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

// Watcher watches directories with the rights of their user, since that takes the
// right to read them.
type Watcher struct {
	user   *rights.User
	file   *os.File
	Events chan fsnotify.Event
	Errors chan error
	done   chan struct{}

	mu   sync.Mutex
	dirs map[int]string // by the kernel's number
}

// New is one that watches nothing yet.
func New(user *rights.User) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	i := &Watcher{
		user: user, file: os.NewFile(uintptr(fd), "inotify"), Events: make(chan fsnotify.Event), Errors: make(chan error),
		done: make(chan struct{}), dirs: map[int]string{},
	}
	go i.read()
	return i, nil
}

// Add watches a directory; one that is watched already is no error.
func (i *Watcher) Add(dir string) (err error) {
	i.mu.Lock() // or an event could come before we know whose it is
	defer i.mu.Unlock()
	raw, err := i.file.SyscallConn()
	if err != nil {
		return err
	}
	var number int
	controlled := raw.Control(func(fd uintptr) { number, err = i.user.Watch(int(fd), dir, watched) })
	if err = errors.Join(controlled, err); err == nil {
		i.dirs[number] = dir
	}
	return err
}

// Remove ends the watch of a directory.
func (i *Watcher) Remove(dir string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for number, is := range i.dirs {
		if is == dir {
			delete(i.dirs, number)
			return i.forget(number)
		}
	}
	return fsnotify.ErrNonExistentWatch
}

// forget has the kernel forget a watch.
func (i *Watcher) forget(number int) error {
	raw, err := i.file.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { _, err = unix.InotifyRmWatch(int(fd), uint32(number)) })
	return errors.Join(controlled, err)
}

// WatchList are the directories that are watched.
func (i *Watcher) WatchList() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Values(i.dirs))
}

// Close ends all of them.
func (i *Watcher) Close() error {
	close(i.done)
	return i.file.Close()
}

// read tells what happens until it is closed.
func (i *Watcher) read() {
	buffer := make([]byte, 16<<10)
	for {
		n, err := i.file.Read(buffer)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				i.tell(fsnotify.Event{}, err)
			}
			return
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			if !i.take(rest[:size]) {
				return
			}
			rest = rest[size:]
		}
	}
}

// take takes one struct inotify_event; false: it was closed.
func (i *Watcher) take(raw []byte) bool {
	number, mask := int(int32(binary.NativeEndian.Uint32(raw))), binary.NativeEndian.Uint32(raw[4:])
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return i.tell(fsnotify.Event{}, fsnotify.ErrEventOverflow)
	}
	i.mu.Lock()
	dir, known := i.dirs[number]
	switch {
	case mask&unix.IN_IGNORED != 0:
		delete(i.dirs, number)
		known = false
	case mask&unix.IN_MOVE_SELF != 0 && known:
		delete(i.dirs, number) // what has moved is not where we look
		_ = i.forget(number)
	}
	i.mu.Unlock()
	var op fsnotify.Op
	for bits, is := range map[uint32]fsnotify.Op{
		unix.IN_CREATE | unix.IN_MOVED_TO: fsnotify.Create, unix.IN_DELETE | unix.IN_DELETE_SELF: fsnotify.Remove,
		unix.IN_MOVED_FROM | unix.IN_MOVE_SELF: fsnotify.Rename, unix.IN_ATTRIB: fsnotify.Chmod,
	} {
		if mask&bits != 0 {
			op |= is
		}
	}
	if !known || op == 0 {
		return true
	}
	name, _, _ := bytes.Cut(raw[unix.SizeofInotifyEvent:], []byte{0})
	return i.tell(fsnotify.Event{Name: filepath.Join(dir, string(name)), Op: op}, nil)
}

// tell passes on what happened, or an error; false: it was closed.
func (i *Watcher) tell(event fsnotify.Event, err error) bool {
	events, failures := i.Events, i.Errors
	if err != nil {
		events = nil
	} else {
		failures = nil
	}
	select {
	case events <- event:
	case failures <- err:
	case <-i.done:
		return false
	}
	return true
}
