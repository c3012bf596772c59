package registry

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"rlminit/supervise/slots"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watcher tells of slots that anybody puts into the service directory, changes
// or takes away.
type watcher struct {
	slots   slots.Dir
	notify  *fsnotify.Watcher
	changed func(name string) // a slot may have appeared, changed or gone
	rescan  func()            // anything may have
	blind   sync.Once         // said that inotify is exhausted
}

// watchSlots watches until the process ends. Where the kernel refuses, it says
// so once, and a reload does the work.
func watchSlots(s slots.Dir, changed func(string), rescan func()) *watcher {
	w := &watcher{slots: s, changed: changed, rescan: rescan}
	notify, err := fsnotify.NewWatcher()
	if err == nil {
		err = notify.Add(s.Path)
	}
	if err != nil {
		w.exhausted(err)
		return w
	}
	w.notify = notify
	go w.run()
	return w
}

// slot watches inside a slot, beside the caller, for a definition renamed over
// the one that is there, or written into it. What came before the watch began is
// looked for.
func (w *watcher) slot(name string) {
	if w == nil || w.notify == nil {
		return
	}
	go func() {
		if err := w.notify.Add(w.slots.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.exhausted(err)
		}
		w.changed(name)
	}()
}

func (w *watcher) exhausted(err error) {
	w.blind.Do(func() {
		slog.Warn("cannot watch the service directory; use rlminit reload after changing it by hand",
			"dir", w.slots.Path, "err", err)
	})
}

func (w *watcher) run() {
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.event(event)
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			switch {
			case errors.Is(err, fsnotify.ErrEventOverflow):
				w.rescan()
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
