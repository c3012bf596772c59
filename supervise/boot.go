package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/reap/footprint"
	"rlminit/service"
	"rlminit/supervise/console"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/serve"
	"rlminit/usage"
	"rlminit/wire"
)

// boot brings up the desired services: those that a predecessor left, then those that volume and
// configuration say. Then it serves the control socket. It runs beside the loop. settled
// is called when what booting caused is over.
func (s *supervisor) boot(control int, settled func()) {
	began, journal := time.Now(), s.Volume.Journal
	if !s.Memory.Done(handover.Registered) {
		journal.FirstSteps(usage.Began("/proc", os.Getppid()), s.stepsBefore())
	}
	s.Registry.Watch()
	s.Volume.Take()
	journal.Step("volume")
	s.loop.TakeOver()
	if s.Volume.Store() != nil {
		s.Volume.Watch() // from here on whatever appears there is looked at
	}
	journal.Step("restored")
	held, stopping := s.loop.LeftOfJobs()
	s.Jobs.Start(journal.JobRecords(), held, stopping)
	s.Jobs.Schedules(s.backend.Jobs.Scheduled)
	go journal.Hooks.Run()
	var meant []string // the container's main service is on its way from the first moment on
	if !s.Memory.Done(handover.Fulfilled) {
		for _, name := range s.Purpose.Names() {
			meant = append(meant, name, profiles.GatewayName(name))
		}
	}
	s.loop.Services.Announce(meant)
	if !s.Memory.Done(handover.Registered) {
		s.Volume.Rewind() // before anything is started
	}
	s.Registry.Boot()
	s.awaitStarts()
	s.Registry.Settle()
	journal.Step("registered")
	s.Jobs.Open()
	running := s.loop.Booted()
	s.fulfil()
	s.loop.Services.Withdraw(meant)
	s.Volume.Resume()
	journal.Step("fulfilled")
	server := s.backend.Server()
	if err := server.Serve(control); err != nil {
		slog.Error("cannot serve the control socket", "err", err)
	}
	s.loop.Serving(server.Open)
	journal.Step("serving")
	journal.Booted(s.Tier1.Welcome.Generation, running)
	s.Tier1.Send(&wire.Release{Key: wire.BootStepsKey}, nil, nil) // recorded now
	slog.Info("ready", "services", running, "resting", s.Registry.AtRest.Count(), "took", time.Since(began).Round(time.Millisecond), "generation", s.Tier1.Welcome.Generation)
	time.AfterFunc(time.Second, s.Preparer.DropOldTemporary) // before memory is given back; it takes a process for each, which may hang
	time.AfterFunc(footprint.After, func() {
		settled()
		footprint.Shrink() // booting takes much that is not needed again
	})
	console.NotifyManager("READY=1")
}

// awaitStarts waits as long as services come up one after the other: files that are written
// meanwhile would take the time that they need.
func (s *supervisor) awaitStarts() {
	const most = 50 * time.Millisecond
	for left, pause := math.MaxInt, time.Millisecond; ; pause = min(2*pause, most) {
		now := s.loop.Starting()
		if now == 0 || now >= left && pause == most {
			return
		}
		left = now
		time.Sleep(pause)
	}
}

// stepsBefore are the parts of the boot that were done before there was a
// supervisor.
func (s *supervisor) stepsBefore() (steps []wire.BootStep) {
	for _, fd := range s.Tier1.Held.Take(wire.BootStepsKey) {
		steps = wire.ReadBootSteps(fd)
		wire.CloseAll([]int{fd})
	}
	return steps
}

// fulfil starts, once a boot, the services of the arguments and those that the container
// lives with, whatever was recorded of them. Nobody's intent changes by that.
func (s *supervisor) fulfil() {
	if !s.Memory.Done(handover.Fulfilled) {
		for _, name := range s.Purpose.Names() {
			if code, err := s.startFor(name); err != nil {
				slog.Error("cannot start what the container is for: " + err.Error())
				s.Tier1.Send(&wire.End{Code: code}, nil, nil)
				break
			}
		}
		s.Memory.Finish(handover.Fulfilled)
	}
	s.loop.Fulfilled()
}

// startFor starts one of them, and the services that go along with it. What has been started
// in this boot already is not, though it may have ended: by a predecessor that
// died while it was at it, say.
func (s *supervisor) startFor(name string) (code int32, err error) {
	u, err := s.backend.LookUp(name)
	if err != nil {
		return control.ExitNoSuchName, err
	}
	if u.Fault != "" {
		return control.ExitFailed, fmt.Errorf("%s: %s", name, u.Fault)
	}
	s.loop.Services.Want(u)
	units := []*serve.View{u}
	cmd := serve.CommandOf(core.VerbStart, units, control.Actor{UID: s.backend.Policy.User.UID})
	cmd.Want, cmd.Only.Fresh = service.IntentNone, true
	s.backend.Give(context.Background(), cmd, units, nil)
	return 0, nil
}

// tookVolume goes on with a volume that has come to be ours, and was not at the boot.
func (s *supervisor) tookVolume() {
	s.loop.TookVolume()
	s.Jobs.Use(s.Volume.Journal.JobRecords()) // what waits begins with Open
	s.Registry.TakeUp()
	s.Volume.Resume()
	s.Jobs.Open()
}
