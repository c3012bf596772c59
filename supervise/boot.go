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
	"rlminit/supervise/handover"
	"rlminit/usage"
	"rlminit/wire"
)

// lockKey names the volume's locks among what tier 1 holds.
const lockKey = "lock"

// settled is when what booting caused is over: the records of what was seen are
// written.
const settled = 3 * time.Second

// boot brings up what is wanted: what a predecessor left, then what volume and
// configuration say. Then it serves the control socket. It runs beside the loop.
func (s *Supervisor) boot(control int) {
	began := time.Now()
	if !s.records.work.Done(handover.Registered) {
		s.records.chronicle.firstSteps(usage.Began("/proc", os.Getppid()), s.stepsBefore())
	}
	s.registry.Watch()
	s.openVolume()
	s.records.chronicle.step("volume")
	s.restore()
	if s.volume.Store() != nil {
		s.watchVolume() // from here on whatever appears there is looked at
	}
	s.records.chronicle.step("restored")
	s.jobs.start()
	var meant []string // what the container is for is on its way from the first moment on
	if !s.records.work.Done(handover.Fulfilled) {
		for _, name := range s.purpose.names() {
			meant = append(meant, name, profiles.GatewayName(name))
		}
	}
	s.services.Announce(meant)
	s.rewind()
	s.registry.Boot()
	s.registry.Settle()
	s.records.chronicle.step("registered")
	s.jobs.open()
	var running int
	s.ask(func() {
		s.booted = true
		s.tags.FreeRest()
		running = len(s.units)
		s.releaseRest()
	})
	s.purpose.fulfil()
	s.services.Withdraw(meant)
	s.resume()
	s.records.chronicle.step("fulfilled")
	server := s.server()
	if err := server.Serve(control); err != nil {
		slog.Error("cannot serve the control socket", "err", err)
	}
	s.ask(func() { s.unfit = server.Open })
	s.records.chronicle.step("serving")
	s.records.chronicle.booted(s.generation, running)
	s.link.Send(&wire.Release{Key: wire.BootStepsKey}, nil, nil) // recorded now
	slog.Info("ready", "services", running, "resting", s.registry.Resting(), "took", time.Since(began).Round(time.Millisecond), "generation", s.generation)
	time.AfterFunc(settled, debug.FreeOSMemory) // booting takes much that is not needed again
	s.notifyManager("READY=1")
}

// stepsBefore are the parts of the boot that were done before there was a
// supervisor.
func (s *Supervisor) stepsBefore() (steps []wire.BootStep) {
	for _, fd := range s.held.Take(wire.BootStepsKey) {
		steps = wire.ReadBootSteps(fd)
		wire.CloseAll([]int{fd})
	}
	return steps
}

// openVolume takes the volume, if there is one and it is ours.
func (s *Supervisor) openVolume() {
	cfg := s.config()
	back := heldBack{say: s.say}
	say := back.line
	defer func() {
		back.release(s.volume.Store() == nil || s.volume.canRecord())
	}()
	store, err := profiles.OpenAs(s.user, s.profileUsers(), cfg.Home, profiles.SettingsOf(cfg), say)
	if err != nil {
		s.volume.absent.Store(err.Error())
		slog.Warn("there is no volume; nothing is recorded", "err", err)
		return
	}
	if !cfg.Profiles {
		slog.Info("no profile is started here: they are switched off")
		s.volume.absent.Store("profiles are off, by RLMINIT_PROFILES, --profiles or a route of main")
		return
	}
	claim := lease.NewClaim(store.Ours(), lease.Self(), say)
	var held *lease.Lease
	taken := s.held.Take(lockKey)
	adopted := len(taken) > 0
	if adopted {
		var files []*os.File
		for _, fd := range taken {
			files = append(files, os.NewFile(uintptr(fd), lockKey))
		}
		held, err = claim.Adopt(files)
	} else {
		held, err = claim.Try()
	}
	if err != nil {
		s.volume.absent.Store(err.Error())
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
		s.volume.readOnly.Store(true)
		slog.Warn(err.Error() + "; nothing is recorded on it, no profile can be made, and it is not locked against other containers")
	}
	if adopted {
		store.SweepUnfinished()
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

// own uses the volume from now on, and keeps its lock.
func (s *Supervisor) own(store *profiles.Store, held *lease.Lease) {
	s.records.chronicle.lost.Store(false)
	s.openJournal(store)
	s.volume.store.Store(store)
	s.openRevisions(store)
	hold := func(files []*os.File) {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		if len(fds) > 0 {
			s.link.Send(&wire.Hold{Key: lockKey}, fds, nil)
		}
	}
	hold(held.Files())
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
	s.records.chronicle.lose()
	s.volume.absent.Store(why.Error())
	s.volume.store.Store(nil)
	s.revisions.Store(nil)
	s.jobs.lose()
	s.registry.Look()
}

// awaitVolume takes the volume over when the container that has it gives it up.
func (s *Supervisor) awaitVolume(claim *lease.Claim, store *profiles.Store) {
	held, err := claim.Wait(context.Background(), 2*time.Second)
	if err != nil {
		slog.Error("cannot wait for the volume", "err", err)
		return
	}
	slog.Info("the volume is free; its profiles are started here now")
	s.own(store, held)
	s.ask(func() {
		for _, u := range s.units {
			if u.log != nil {
				s.reconfigureLog(u)
			}
		}
	})
	s.jobs.haveVolume()
	s.rewind()
	s.watchVolume()
	s.registry.TakeUp()
	s.jobs.open()
}

// watchVolume registers profiles that appear on the volume by other means. Of
// those that it does not hear of nothing is taken up: somebody may be in the
// middle of a change, and says reload at its end.
func (s *Supervisor) watchVolume() {
	changes := s.volume.Store().Watch().Changes()
	go func() {
		for change := range changes {
			s.registry.Look(change.Names...) // none, if all may have changed
		}
	}()
}

// releaseRest lets go of what a predecessor held and nobody claimed.
func (s *Supervisor) releaseRest() {
	for key, fds := range s.held {
		wire.CloseAll(fds)
		s.link.Send(&wire.Release{Key: key}, nil, nil)
	}
	s.held = handover.Held{}
	s.logs.Settled()
}

// say tells a person what nobody asked for.
func (s *Supervisor) say(line string) { slog.Warn(line) }
