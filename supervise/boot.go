package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"rlminit/profiles"
	"rlminit/profiles/lease"
	"rlminit/wire"
)

// lockKey names the volume's lock among what tier 1 holds.
const lockKey = "lock"

// settled is when what booting caused is over: the records of what was seen are
// written.
const settled = 3 * time.Second

// boot brings up what is wanted: what a predecessor left, then what volume and
// configuration say. Then it serves the control socket. It runs beside the loop.
func (s *Supervisor) boot(control int) {
	began := time.Now()
	s.slots.sweep()
	s.watch = watchSlots(s.slots, s.noticed, s.rescan)
	s.openVolume()
	s.restore()
	s.slotting.Unlock()
	s.takeUp()
	s.registrar.Unlock()
	s.rescan()
	var running int
	s.ask(func() {
		s.booted = true
		s.freeRest()
		running = len(s.units)
		s.releaseRest()
	})
	s.fulfil()
	if err := s.serve(control); err != nil {
		slog.Error("cannot serve the control socket", "err", err)
	}
	slog.Info("ready", "services", running, "took", time.Since(began).Round(time.Millisecond), "generation", s.generation)
	time.AfterFunc(settled, debug.FreeOSMemory) // booting takes much that is not needed again
	s.notifyManager("READY=1")
	if s.volume() != nil {
		s.watchVolume()
	}
}

// openVolume takes the volume, if there is one and it is ours.
func (s *Supervisor) openVolume() {
	cfg := s.config()
	back := heldBack{say: s.say}
	say := back.line
	defer func() {
		back.release(s.volume() == nil || s.canRecord(s.volume()))
	}()
	store, err := profiles.Open(cfg.Home, profiles.SettingsOf(cfg), say)
	if err != nil {
		s.absent.Store(err.Error())
		slog.Warn("there is no volume; nothing is recorded", "err", err)
		return
	}
	if !cfg.Profiles {
		slog.Info("no profile is started here: they are switched off")
		s.absent.Store("profiles are off, by RLMINIT_PROFILES, --profiles or a route of main")
		return
	}
	claim := lease.NewClaim(store.Home(), lease.Self(), say)
	var held *lease.Lease
	taken := s.takeHeld(lockKey)
	adopted := len(taken) == 1
	if adopted {
		held, err = claim.Adopt(os.NewFile(uintptr(taken[0]), "lock"))
	} else {
		held, err = claim.Try()
	}
	if err != nil {
		s.absent.Store(err.Error())
		slog.Warn(err.Error())
		var other *lease.Held
		if errors.As(err, &other) {
			go s.awaitVolume(claim, store)
		}
		return
	}
	// One that was locked for writing before could be written to then: a disk that
	// fails now is no leave to acknowledge what is not recorded.
	if err := store.CheckWritable(); err != nil && (!adopted || held.ReadOnly()) {
		s.readOnly.Store(true)
		slog.Warn(err.Error() + "; nothing is recorded on it, no profile can be made, and it is not locked against other containers")
	}
	s.own(store, held)
}

// heldBack keeps lines until it is clear whether another has said it all.
type heldBack struct {
	say func(string)

	mu       sync.Mutex
	lines    []string
	released bool
}

func (h *heldBack) line(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		h.say(text)
	} else {
		h.lines = append(h.lines, text)
	}
}

// release says what was kept, if it is of use, and everything from now on.
func (h *heldBack) release(useful bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	for _, text := range h.lines {
		if useful {
			h.say(text)
		}
	}
	h.lines = nil
}

// canRecord tells whether the volume can be written to. One that could not be
// when it was opened is tried again: somebody may have given it to us meanwhile.
func (s *Supervisor) canRecord(store *profiles.Store) bool {
	if !s.readOnly.Load() {
		return true
	}
	if store.CheckWritable() != nil {
		return false
	}
	s.readOnly.Store(false)
	slog.Info("the volume can be written to now; what is asked for is recorded from here on")
	return true
}

// own uses the volume from now on, and keeps its lock.
func (s *Supervisor) own(store *profiles.Store, held *lease.Lease) {
	s.store.Store(store)
	hold := func(f *os.File) {
		if f != nil {
			s.link.send(&wire.Hold{Key: lockKey}, []int{int(f.Fd())}, nil)
		}
	}
	hold(held.File())
	ctx, release := context.WithCancel(context.Background())
	released := make(chan struct{})
	s.ask(func() {
		s.giveBack = func() {
			release()
			<-released
		}
	})
	go func() {
		defer close(released)
		if err := held.Keep(ctx, hold); err != nil {
			slog.Error("the volume was taken by another container while this one was silent; its profiles end here", "err", err)
			s.loseVolume(err)
			return
		}
		if err := held.Release(); err != nil {
			slog.Warn("cannot release the volume's lock", "err", err)
		}
	}()
}

// loseVolume ends all profiles: another container runs them.
func (s *Supervisor) loseVolume(why error) {
	s.registrar.Lock()
	defer s.registrar.Unlock()
	s.absent.Store(why.Error())
	s.store.Store(nil)
	if _, err := s.reconcile(false); err != nil {
		slog.Error("cannot reconcile", "err", err)
	}
}

// awaitVolume takes the volume over when the container that has it gives it up.
func (s *Supervisor) awaitVolume(claim *lease.Claim, store *profiles.Store) {
	held, err := claim.Wait(context.Background(), 2*time.Second)
	if err != nil {
		slog.Error("cannot wait for the volume", "err", err)
		return
	}
	slog.Info("the volume is free; its profiles are started here now")
	s.registrar.Lock()
	defer s.registrar.Unlock()
	s.own(store, held)
	s.ask(func() {
		for _, u := range s.units {
			if u.log != nil {
				s.reconfigureLog(u)
			}
		}
	})
	s.takeUp()
	s.watchVolume()
}

// takeUp registers what volume and configuration have. With the volume it does,
// in the order that a successor can go on with, what is to be done once a boot.
// The caller holds s.registrar.
func (s *Supervisor) takeUp() {
	first := s.volume() != nil && !s.work.done(registered)
	if first && !s.work.done(cleaned) {
		s.prepareProfiles()
		s.work.finish(cleaned)
	}
	if _, err := s.reconcile(first); err != nil {
		slog.Error("cannot reconcile", "err", err)
		return
	}
	if first {
		s.work.finish(registered)
	}
}

// prepareProfiles removes from the profiles what must not outlive a boot.
func (s *Supervisor) prepareProfiles() {
	list, err := s.volume().List()
	if err != nil {
		slog.Warn("cannot list the profiles", "err", err)
		return
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	s.volume().PrepareBoot(names)
}

// watchVolume registers profiles that appear on the volume by other means. Of
// those that it does not hear of nothing is taken up: somebody may be in the
// middle of a change, and says reload at its end.
func (s *Supervisor) watchVolume() {
	changes := s.volume().Watch().Changes()
	go func() {
		for change := range changes {
			s.look(change.Names...) // none, if all may have changed
		}
	}()
}

// releaseRest lets go of what a predecessor held and nobody claimed.
func (s *Supervisor) releaseRest() {
	for key, fds := range s.held {
		wire.CloseAll(fds)
		s.link.send(&wire.Release{Key: key}, nil, nil)
	}
	s.held = map[string][]int{}
	s.logs.Settled()
}

// say tells a person what nobody asked for.
func (s *Supervisor) say(line string) { slog.Warn(line) }
