package registry

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"rlminit/supervise/slots"
)

// rearmAfter is how long it takes until a watch that could not be had is tried
// for again: what uses up inotify ends some day. Until then all is looked at as often.
var rearmAfter = time.Minute

// watcher tells of slots that anybody puts into the service directory, changes
// or takes away.
type watcher struct {
	slots   slots.Dir
	changed func(name string) // a slot may have appeared, changed or gone
	rescan  func()            // anything may have
	said    sync.Once         // that something is not watched

	mu     sync.Mutex
	notify *fsnotify.Watcher // nil: there is none to be had
	late   bool              // something is not watched, and will be tried for
}

// watchSlots watches until the process ends. Where the kernel refuses, it says
// so once, and looks and tries again from time to time.
func watchSlots(s slots.Dir, changed func(string), rescan func()) *watcher {
	w := &watcher{slots: s, changed: changed, rescan: rescan}
	w.begin()
	return w
}

// begin watches the service directory.
func (w *watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notify == nil {
		notify, err := fsnotify.NewWatcher()
		if err != nil {
			w.exhausted(err)
			return
		}
		w.notify = notify
		go w.run(notify)
	}
	if err := w.notify.Add(w.slots.Path); err != nil {
		w.exhausted(err)
	}
}

// again watches what could not be watched before, each slot too, and has it all
// looked at.
func (w *watcher) again() {
	w.mu.Lock()
	w.late = false
	w.mu.Unlock()
	w.begin()
	names, err := w.slots.List()
	if err != nil {
		w.mu.Lock()
		w.exhausted(err)
		w.mu.Unlock()
	}
	for _, name := range names {
		w.add(name)
	}
	w.rescan()
}

// slot watches inside a slot, beside the caller, for a definition renamed over
// the one that is there, or written into it. What came before the watch began is
// looked for.
func (w *watcher) slot(name string) {
	if w == nil {
		return
	}
	go func() {
		w.add(name)
		w.changed(name)
	}()
}

func (w *watcher) add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notify == nil {
		return
	}
	if err := w.notify.Add(w.slots.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.exhausted(err)
	}
}

// exhausted has it tried again what there was no room for. The caller has the lock.
func (w *watcher) exhausted(err error) {
	w.said.Do(func() {
		slog.Warn("cannot watch the service directory; what is changed there by hand is noticed within a minute, or at rlminit reload",
			"dir", w.slots.Path, "err", err)
	})
	if !w.late {
		w.late = true
		time.AfterFunc(rearmAfter, w.again)
	}
}

func (w *watcher) run(notify *fsnotify.Watcher) {
	for {
		select {
		case event, ok := <-notify.Events:
			if !ok {
				return
			}
			w.event(event)
		case err, ok := <-notify.Errors:
			if !ok {
				return
			}
			switch {
			case errors.Is(err, fsnotify.ErrEventOverflow):
				w.again() // slots may have come
			case errors.Is(err, unix.EINVAL): // the watch of a directory that is gone already
			default:
				slog.Warn("cannot watch the service directory", "err", err)
			}
		}
	}
}

func (w *watcher) event(event fsnotify.Event) {
	if event.Op == fsnotify.Chmod {
		return
	}
	dir, base := filepath.Split(event.Name)
	switch dir = filepath.Clean(dir); {
	case strings.HasPrefix(base, "."):
	case dir == w.slots.Path && event.Has(fsnotify.Create):
		w.slot(base) // a definition may yet be written into it
	case dir == w.slots.Path:
		w.changed(base)
	case base == slots.DefinitionFile:
		w.changed(filepath.Base(dir))
	}
}
