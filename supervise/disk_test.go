package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/service"
)

// What the volume of a simulation does: it is a real directory, whose disk
// fails for a while and works again.

// disk is how writes fail; the zero one works.
type disk struct {
	errno unix.Errno
	step  string // as durable.Dir.Fail has it
	odds  int    // percent of the writes that fail
}

// breakDisk has writes fail for a while.
func (w *world) breakDisk(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.disk.errno != 0 {
		return
	}
	w.disk = [...]disk{
		{unix.ENOSPC, "write", 100},
		{unix.ENOSPC, "write", 50},
		{unix.EROFS, "write", 100},
		{unix.EIO, "write", 50},
		{unix.EIO, "sync", 50},
		{unix.EIO, "rename", 50},
		{unix.EIO, "remove", 50},
		{unix.EACCES, "mkdir", 100},
	}[r.IntN(8)]
	w.note("the disk fails: %v", w.disk)
	w.counts["disk broken"]++
	w.later(time.Duration(r.ExpFloat64()*float64(5*time.Second)), func() {
		w.note("the disk works")
		w.disk = disk{}
	})
}

// killAfter has the supervisor killed at the nth write to the volume from now
// on; 0: not any more.
func (w *world) killAfter(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killAt = n
}

// endAfter has the supervisor killed in the middle of the nth write, from now on, of
// what a successor is to know; 0: not any more.
func (w *world) endAfter(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endAt = n
}

// endsHere tells whether a write of that is the supervisor's last.
func (w *world) endsHere(kill func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endAt == 0 {
		return false
	}
	if w.endAt--; w.endAt > 0 {
		return false
	}
	w.counts["torn"]++
	kill()
	return true
}

// write is a step of a write to the volume, and may be the supervisor's last.
func (w *world) write(r *rand.Rand, alive context.Context, kill func(), step string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	luck := r.IntN(100)
	if w.killAt > 0 {
		if w.killAt--; w.killAt == 0 {
			kill()
		}
	}
	if alive.Err() != nil {
		return unix.EIO // nobody is there to write
	}
	if w.peaceful || w.disk.step != step || luck >= w.disk.odds {
		return nil
	}
	w.counts["write failed"]++
	return w.disk.errno
}

// volume gives a supervisor the volume, as long as it lives.
func (s *simulation) volume(next *Supervisor, alive context.Context, kill func()) *profiles.Store {
	settings := profiles.Settings{}
	if s.homes != nil {
		settings = profiles.SettingsOf(s.homes.config)
	}
	store, err := profiles.Open(nil, nil, s.home, settings, func(string) {})
	if err != nil {
		s.Fatal(err)
	}
	r := rand.New(rand.NewPCG(s.rand.Uint64(), 3))
	fault := func(step string) error { return s.world.write(r, alive, kill, step) }
	store.Ours().Fail(fault)
	next.records.volume.Journal.Fault = fault
	if s.homes != nil {
		store.SweepUnfinished() // as who takes a volume over does
	}
	next.prep.volume.Use(store)
	return store
}

// wantedBy is what the journal of a volume has, by service: what a boot makes of
// a copy of it.
func wantedBy(t *testing.T, home string) map[string]service.Intent {
	copied := volumeDir(t)
	defer os.RemoveAll(copied) // there are many in one test
	if err := os.CopyFS(filepath.Join(copied, journal.Home), os.DirFS(filepath.Join(home, journal.Home))); errors.Is(err, fs.ErrNotExist) {
		return nil // there is none yet
	} else if err != nil {
		t.Fatal(err)
	}
	d, err := durable.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	intents := profiles.NewIntents()
	j, err := journal.Open(d, journal.Options{Boot: "0123abcd", Folds: map[string]journal.Fold{"intents": intents}})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer j.Close()
	return intents.Snapshot().(map[string]service.Intent)
}

// volumeDir is a directory for it, in memory where that can be had.
func volumeDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "rlminit-simulation-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// recorded is what the volume has of a service: as a boot would find it.
func (s *simulation) recorded(name string) (desired service.Intent, seen string) {
	var f struct {
		Seen string `json:"gateway_state"`
	}
	if s.homes != nil && s.homes.has(name) {
		content, err := os.ReadFile(filepath.Join(s.home, "profiles", profileOf(name), "gateway_state.json"))
		if err == nil {
			if err := json.Unmarshal(content, &f); err != nil {
				s.world.fault("the record of %s: %v", name, err)
			}
		}
	}
	return wantedBy(s.T, s.home)[name], f.Seen
}
