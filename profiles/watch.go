package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/profiles/inotify"
)

const (
	// settle is how long changes are gathered before they are told.
	settle = 20 * time.Millisecond
	// maxNamed is how many names a Change holds; with more, all may have changed.
	maxNamed = 1000
	// maxUnmarked is how many directories without a marker are watched.
	maxUnmarked = 1024
)

// rearmAfter is how long it takes until a watch that could not be had is tried
// for again: what uses up inotify ends some day. Until then all is looked at as often.
var rearmAfter = time.Minute

// Change says that profiles may have come, gone or been mended: look again.
type Change struct {
	Names []string // these, sorted; or
	All   bool     // any
}

// watches are directories of which is told what happens in them: those of fsnotify
// where we are who may read them, else an inotify.
type watches interface {
	Add(dir string) error
	Remove(dir string) error
	WatchList() []string
	Close() error
}

// Watcher tells of profiles that appear and disappear on the volume by other
// means than this Store. It does not watch inside profiles: gateways write
// there all the time. What it cannot see (a marker taken out of a directory
// that stays, changes made on another machine) a reload finds.
type Watcher struct {
	tree    *tree
	changes chan Change
	done    chan struct{}
	ended   chan struct{} // closed when run is
	close   sync.Once

	// What follows is run's.
	inotify  watches // nil: there is none to be had
	events   <-chan fsnotify.Event
	errs     <-chan error
	again    <-chan time.Time // not nil: something is not watched, and is tried for then
	root     string           // of the profiles
	home     string           // watched while the profiles directory is missing
	unmarked map[string]bool  // watched directories that have no marker yet
	pending  Change
	named    map[string]bool
}

// Watch starts to watch. Where inotify is exhausted or refused it says so, and
// tries again from time to time.
func (s *Store) Watch() *Watcher {
	w := &Watcher{
		tree: s.tree, changes: make(chan Change), done: make(chan struct{}), ended: make(chan struct{}),
		root: s.tree.home.Path(profilesDir), home: s.tree.home.Path("."),
		unmarked: map[string]bool{}, named: map[string]bool{},
	}
	w.begin()
	go w.run()
	return w
}

// Changes is where they are told, one at a time. It is never closed.
func (w *Watcher) Changes() <-chan Change { return w.changes }

// Close ends the watch and its goroutine.
func (w *Watcher) Close() {
	w.close.Do(func() { close(w.done) })
	<-w.ended
}

// begin watches what there is to be watched.
func (w *Watcher) begin() {
	if w.inotify == nil {
		if err := w.open(); err != nil {
			w.blind(err)
			return
		}
	}
	w.arm()
}

// open opens the watches, for a user that may read the directories.
func (w *Watcher) open() error {
	if w.tree.user != nil {
		i, err := inotify.New(w.tree.user)
		if err != nil {
			return err
		}
		w.inotify, w.events, w.errs = i, i.Events, i.Errors
		return nil
	}
	i, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	w.inotify, w.events, w.errs = i, i.Events, i.Errors
	return nil
}

// blind names the unwatched and why, and has it tried again.
func (w *Watcher) blind(err error) {
	remedy := ""
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EMFILE) {
		remedy = "; or raise fs.inotify.max_user_watches and max_user_instances on the host"
	}
	w.tree.told.once(fmt.Sprintf("cannot watch %s: %v; profiles put there by hand are noticed within a minute, or at rlminit reload%s", w.root, err, remedy))
	if w.again == nil {
		w.again = time.After(rearmAfter)
	}
}

// rearm watches what could not be watched before. What happened meanwhile nobody
// has told, nor what happens until it can be.
func (w *Watcher) rearm() {
	w.again = nil
	w.begin()
	if w.again == nil {
		w.tree.told.once(fmt.Sprintf("%s is watched again", w.root))
	}
	w.all()
}

// run gathers events until it is closed. It never waits for the receiver: what
// happens meanwhile goes into the same Change.
func (w *Watcher) run() {
	defer func() {
		if w.inotify != nil {
			_ = w.inotify.Close() // it has no error to give on Linux
		}
		close(w.ended)
	}()
	var settled <-chan time.Time
	var out chan Change // nil until there is something to tell
	for {
		select {
		case <-w.done:
			return
		case event, open := <-w.events:
			if !open {
				return
			}
			w.note(event)
		case err, open := <-w.errs:
			if !open {
				return
			}
			w.failed(err)
		case <-w.again:
			w.rearm()
		case <-settled:
			settled, out = nil, w.changes
		case out <- w.pending:
			w.pending, out = Change{}, nil
			clear(w.named)
		}
		if w.pending.All || len(w.named) > 0 {
			w.pending.Names = nil
			if !w.pending.All {
				w.pending.Names = slices.Sorted(maps.Keys(w.named))
			}
			if settled == nil && out == nil {
				settled = time.After(settle)
			}
		}
	}
}

func (w *Watcher) failed(err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.tree.told.once(fmt.Sprintf("so much changes below %s that inotify lost events; all profiles are read again when it does", w.root))
	} else {
		w.tree.told.once(fmt.Sprintf("cannot watch %s: %v", w.root, err))
	}
	w.arm()
	w.all()
}

func (w *Watcher) all() {
	w.pending.All = true
	clear(w.named)
}

func (w *Watcher) changed(name string) {
	if w.pending.All {
		return
	}
	w.named[name] = true
	if len(w.named) > maxNamed {
		w.all()
	}
}

// note takes one event.
func (w *Watcher) note(event fsnotify.Event) {
	dir, name := filepath.Split(event.Name)
	dir = filepath.Clean(dir)
	gone := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	switch {
	case event.Name == w.root:
		if gone || event.Has(fsnotify.Create) {
			w.arm()
			w.all()
		}
	case dir == w.root:
		if name[0] == '.' || event.Op == fsnotify.Write {
			return
		}
		if gone {
			w.unwatch(name)
		} else {
			w.await(name)
		}
		w.changed(name)
	case filepath.Dir(dir) == w.root:
		// In a directory without a marker; the other events there are noise.
		if name != w.tree.settings.Load().Marker {
			return
		}
		within := filepath.Base(dir)
		if w.marked(within) {
			w.unwatch(within)
			w.changed(within)
		}
	}
}

// arm watches the profiles directory, or the home directory until there is one,
// and what there is without a marker.
func (w *Watcher) arm() {
	err := w.inotify.Add(w.root)
	if errors.Is(err, fs.ErrNotExist) {
		if err = w.inotify.Add(w.home); err == nil {
			// It may have come between the two.
			if err = w.inotify.Add(w.root); errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
	}
	if err != nil {
		w.blind(err)
		return
	}
	if slices.Contains(w.inotify.WatchList(), w.home) {
		_ = w.inotify.Remove(w.home) // only that it fires no more
	}
	entries, err := w.tree.home.ReadDir(profilesDir, maxProfiles)
	if err != nil && len(entries) == 0 {
		return // List reports it
	}
	for some := range slices.Chunk(entries, atOnce) {
		for _, name := range w.unmarkedOf(some) {
			w.await(name)
		}
	}
}

// unmarkedOf are the directories that may have no marker yet.
func (w *Watcher) unmarkedOf(entries []durable.Entry) []string {
	var names []string
	for _, e := range entries {
		if e.Type == fs.ModeDir || e.Type == fs.ModeIrregular {
			names = append(names, e.Name)
		}
	}
	dir, err := w.tree.home.OpenDir(profilesDir)
	if err != nil {
		return names
	}
	defer dir.Close()
	seen, err := dir.Glances(names, w.tree.settings.Load().Marker, nil, 0)
	if err != nil {
		return names
	}
	var unmarked []string
	for i, name := range names {
		if !seen[i].Marked && !seen[i].Odd {
			unmarked = append(unmarked, name)
		}
	}
	return unmarked
}

// await watches a directory until it has its marker.
func (w *Watcher) await(name string) {
	if w.unmarked[name] || checkForm(name) != nil || w.marked(name) {
		return
	}
	info, err := w.tree.home.Lstat(dirOf(name))
	if err != nil || info.Type != fs.ModeDir {
		return
	}
	if len(w.unmarked) >= maxUnmarked {
		w.tree.told.once(fmt.Sprintf("more than %d directories in %s have no %s; one that becomes a profile is noticed at rlminit reload",
			maxUnmarked, w.root, w.tree.settings.Load().Marker))
		return
	}
	if err := w.inotify.Add(filepath.Join(w.root, name)); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.blind(err)
		}
		return
	}
	w.unmarked[name] = true
	if w.marked(name) { // it came before the watch
		w.unwatch(name)
		w.changed(name)
	}
}

// marked tells whether the directory has a marker; one that is broken counts,
// for List has something to say about it.
func (w *Watcher) marked(name string) bool {
	found, err := isRegular(w.tree.home, dirOf(name)+"/"+w.tree.settings.Load().Marker)
	return found || err != nil
}

func (w *Watcher) unwatch(name string) {
	if w.unmarked[name] {
		delete(w.unmarked, name)
		_ = w.inotify.Remove(filepath.Join(w.root, name)) // the kernel may have been first
	}
}
