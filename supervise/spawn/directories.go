package spawn

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"rlminit/prepare"
	"rlminit/wire"
)

// Directories has those of the supervisor's directories on the volume made again that
// somebody has removed: of the logs, and of the journal and the secrets. It takes root's
// rights where the supervisor has a uid of its own, and may not make them itself.
type Directories struct {
	prep *Preparer

	mu   sync.Mutex
	said string // why they could not be made, when that was tried last; "": they could
}

// NewDirectories are those of a volume.
func NewDirectories(p *Preparer) *Directories { return &Directories{prep: p} }

// directoriesAgain is when it is tried again to make them.
const directoriesAgain = 5 * time.Second

// Look has them made if one is missing, without waiting for that, and until it is done.
func (d *Directories) Look() {
	if d.missing() == nil || !d.mu.TryLock() {
		return
	}
	go func() {
		defer d.mu.Unlock()
		if d.make() != nil {
			time.AfterFunc(directoriesAgain, d.Look)
		}
	}()
}

// Make has them made if one is missing, and waits for it.
func (d *Directories) Make() error {
	if d.missing() == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.make()
}

// missing are those that are not there. Without a process that makes them, or a volume,
// the supervisor makes what it needs as it needs it.
func (d *Directories) missing() []string {
	home := d.prep.Config().Home
	if d.prep.Files == nil {
		return nil
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() {
		return nil
	}
	return prepare.Missing(home)
}

// make is Make. The caller holds d.mu.
func (d *Directories) make() error {
	if d.missing() == nil {
		return nil
	}
	made, err := d.prep.Files.directories()
	if len(made) > 0 {
		for i, dir := range made {
			made[i] = filepath.Join(d.prep.Config().Home, dir)
		}
		slog.Warn("somebody has removed what is the supervisor's on the volume; it is made again, empty", "path", strings.Join(made, " "))
	}
	why := ""
	if err != nil {
		why = err.Error()
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
			err = errors.New(why)
		} else {
			made = append(made, line)
		}
	}
	return made, err
}
