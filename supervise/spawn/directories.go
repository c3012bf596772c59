package spawn

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/prepare"
	"rlminit/wire"
)

// Directories has those of the supervisor's directories on the volume made again that
// somebody has removed: of the logs, and of the journal and the secrets. It takes root's
// rights where the supervisor has a uid of its own, and may not make them itself.
type Directories struct {
	prep  *Preparer
	home  place         // where the volume was when we began
	again time.Duration // until it is tried again to make them

	waiting atomic.Bool // Look is called again

	mu    sync.Mutex
	said  string    // why they could not be made, when that was said last; "": they could
	err   error     // why they could not be made, when that was tried last
	after time.Time // when it is tried again then
}

// place tells a directory from another one that comes to be under its name.
type place struct{ device, inode uint64 }

func placeOf(path string) (is place, there bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return is, false
	}
	return place{st.Dev, st.Ino}, true
}

// NewDirectories are those of the volume that is there now.
func NewDirectories(p *Preparer) *Directories {
	d := &Directories{prep: p, again: directoriesAgain}
	d.home, _ = placeOf(p.Config().Home)
	return d
}

// directoriesAgain is how long after a failure it is tried again to make them.
const directoriesAgain = 5 * time.Second

// Look has them made if one is missing, without waiting for that, and until it is done.
func (d *Directories) Look() {
	if d.waiting.Load() || !d.missing() || !d.mu.TryLock() {
		return
	}
	go func() {
		defer d.mu.Unlock()
		if d.make() != nil && d.waiting.CompareAndSwap(false, true) {
			time.AfterFunc(d.again, func() {
				d.waiting.Store(false)
				d.Look()
			})
		}
	}()
}

// Make has them made if one is missing, and waits for it.
func (d *Directories) Make() error {
	if !d.missing() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.make()
}

// missing tells whether one is not there. Without a process that makes them, or a volume,
// the supervisor makes what it needs as it needs it.
func (d *Directories) missing() bool {
	home := d.prep.Config().Home
	if d.prep.Files == nil {
		return false
	}
	_, there := placeOf(home)
	return there && len(prepare.Missing(home)) > 0
}

// ours says why none may be made; nil: they may. The volume's path may lead to another
// directory by now, or to another container's.
func (d *Directories) ours() error {
	if err := d.prep.Volume.NotOurs(); err != nil {
		return err
	}
	was := d.home
	if store := d.prep.Volume.Store(); store != nil {
		if is, err := store.Ours().Lstat("."); err == nil {
			was = place{is.Dev, is.Ino}
		}
	}
	home := d.prep.Config().Home
	if is, there := placeOf(home); there && is != was {
		return fmt.Errorf("%s is another directory than before: the volume is not mounted there any more", home)
	}
	return nil
}

// make is Make. The caller holds d.mu.
func (d *Directories) make() error {
	if !d.missing() {
		return nil
	}
	if d.err != nil && time.Now().Before(d.after) {
		return d.err
	}
	var made []string
	err := d.ours()
	if err == nil {
		made, err = d.prep.Files.directories()
	}
	if len(made) > 0 {
		for i, dir := range made {
			made[i] = filepath.Join(d.prep.Config().Home, dir)
		}
		slog.Warn("somebody has removed what is the supervisor's on the volume; it is made again, empty", "path", strings.Join(made, " "))
	}
	why := ""
	if d.err = err; err != nil {
		why, d.after = err.Error(), time.Now().Add(d.again)
	}
	if why != d.said && why != "" {
		slog.Error("cannot make what is the supervisor's on the volume again; restart the container", "err", why)
	}
	d.said = why
	return err
}

// directories has tier 1 make them.
func (f *Files) directories() (made []string, err error) {
	said, err := f.answered(&wire.Spawn{Name: wire.DirectoriesProgram, Targets: []int32{1}})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSuffix(line, "\n")
		if why, failed := strings.CutPrefix(line, wire.Failed); failed {
			return made, errors.New(why)
		}
		if line == wire.Done {
			return made, nil
		}
		made = append(made, line)
	}
	return made, errNotGiven
}
