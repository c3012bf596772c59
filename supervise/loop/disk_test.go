package loop

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

	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/slots"
	"rlminit/supervise/volume"
	"rlminit/tests/box"
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

// breakStatus has nothing published of services for a while: /run is full.
func (w *world) breakStatus(r *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute {
		return
	}
	w.mute = true
	w.note("no status can be published")
	w.later(time.Duration(r.ExpFloat64()*float64(5*time.Second)), func() { w.mute = false })
}

// publish is why the status of a service cannot be written.
func (w *world) publish(alive context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case alive.Err() != nil:
		return unix.EIO // nobody is there to write
	case w.mute && !w.peaceful:
		w.counts["status not published"]++
		return unix.ENOSPC
	}
	return nil
}

// published holds the statuses against what is so, while they can be written.
func (s *simulation) published() {
	s.world.mu.Lock()
	mute := s.world.mute && !s.world.peaceful
	s.world.mu.Unlock()
	if mute {
		return
	}
	s.now.Records.publisher.Flush(s.Context())
	s.now.ask(func() {
		for _, u := range s.now.fleet.all() {
			if !u.kept.slot {
				continue
			}
			var is struct{ State string }
			content, err := os.ReadFile(s.now.slots.File(u.name, slots.StatusFile))
			if err == nil {
				err = json.Unmarshal(content, &is)
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue // somebody has taken the slot out
			}
			if public := u.state.Public(); err != nil || is.State != public {
				s.world.mu.Lock()
				s.world.fault("%s is %s, and published is %q: %v", u.name, public, is.State, err)
				s.world.mu.Unlock()
			}
		}
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
func (s *simulation) volume(v *volume.Volume, alive context.Context, kill func()) *profiles.Store {
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
	if s.world.script != nil { // all that waits for a record follows it, and all else comes before
		fault = func(string) error {
			time.Sleep(time.Microsecond)
			return nil
		}
	}
	store.Ours().Fail(fault)
	v.Journal.Fault = fault
	if s.homes != nil {
		store.SweepUnfinished() // as who takes a volume over does
	}
	if s.store = store; !s.absent {
		v.Use(store)
	}
	return store
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
	return box.Recorded(s.T, s.home)[name], f.Seen
}
