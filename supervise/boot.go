package supervise

import (
	"log/slog"
	"math"
	"os"
	"time"

	"rlminit/profiles"
	"rlminit/reap/footprint"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/usage"
	"rlminit/wire"
)

// settling is how long it takes until what booting caused is over: the records of what was
// seen are written.
const settling = 2 * time.Second

// boot brings up what is wanted: what a predecessor left, then what volume and
// configuration say. Then it serves the control socket. It runs beside the loop. settled
// is called when what booting caused is over.
func (s *Supervisor) boot(control int, settled func()) {
	began := time.Now()
	if !s.records.memory.Done(handover.Registered) {
		s.records.volume.Journal.FirstSteps(usage.Began("/proc", os.Getppid()), s.stepsBefore())
	}
	s.registry.Watch()
	s.prep.volume.Take()
	s.records.volume.Journal.Step("volume")
	s.takeover.takeOver(s.takeover.recall())
	if s.prep.volume.Store() != nil {
		s.prep.volume.Watch() // from here on whatever appears there is looked at
	}
	s.records.volume.Journal.Step("restored")
	s.jobs.start(s.backend.Jobs.Scheduled)
	var meant []string // what the container is for is on its way from the first moment on
	if !s.records.memory.Done(handover.Fulfilled) {
		for _, name := range s.purpose.names() {
			meant = append(meant, name, profiles.GatewayName(name))
		}
	}
	s.services.Announce(meant)
	if !s.records.memory.Done(handover.Registered) {
		s.prep.volume.Rewind() // before anything is started
	}
	s.registry.Boot()
	s.awaitStarts()
	s.registry.Settle()
	s.records.volume.Journal.Step("registered")
	s.jobs.open()
	var running int
	s.loop.ask(func() {
		s.apply(core.Input{Kind: core.Booted})
		s.tier1.Tags.FreeRest()
		running = len(s.fleet.units)
		s.takeover.releaseRest()
	})
	s.purpose.fulfil()
	s.services.Withdraw(meant)
	s.prep.volume.Resume()
	s.records.volume.Journal.Step("fulfilled")
	server := s.backend.Server()
	if err := server.Serve(control); err != nil {
		slog.Error("cannot serve the control socket", "err", err)
	}
	s.loop.ask(func() { s.unfit = server.Open })
	s.records.volume.Journal.Step("serving")
	s.records.volume.Journal.Booted(s.tier1.Welcome.Generation, running)
	s.tier1.Send(&wire.Release{Key: wire.BootStepsKey}, nil, nil) // recorded now
	slog.Info("ready", "services", running, "resting", s.registry.AtRest.Count(), "took", time.Since(began).Round(time.Millisecond), "generation", s.tier1.Welcome.Generation)
	time.AfterFunc(settling/2, s.prep.DropOldTemporary) // it takes a process for each, which may hang
	time.AfterFunc(settling, func() {
		settled()
		footprint.Shrink() // booting takes much that is not needed again
	})
	notifyManager("READY=1")
}

// awaitStarts waits as long as services come up one after the other: what is written of
// them meanwhile would take the time that they need.
func (s *Supervisor) awaitStarts() {
	const most = 50 * time.Millisecond
	for left, pause := math.MaxInt, time.Millisecond; ; pause = min(2*pause, most) {
		now := 0
		s.loop.read(func() {
			for _, u := range s.fleet.units {
				if u.state.Phase == machine.Spawning {
					now++
				}
			}
		})
		if now == 0 || now >= left && pause == most {
			return
		}
		left = now
		time.Sleep(pause)
	}
}

// stepsBefore are the parts of the boot that were done before there was a
// supervisor.
func (s *Supervisor) stepsBefore() (steps []wire.BootStep) {
	for _, fd := range s.tier1.Held.Take(wire.BootStepsKey) {
		steps = wire.ReadBootSteps(fd)
		wire.CloseAll([]int{fd})
	}
	return steps
}
