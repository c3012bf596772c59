package loop

import (
	"log/slog"
	"time"

	"rlminit/supervise/console"
	"rlminit/supervise/core"
	"rlminit/supervise/garbage"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// shutdown is the container's end: what runs is stopped in order, within the time that
// there is, and tier 1 told when all of it has. What is wanted does not change.
type shutdown struct {
	tier1    *spawn.Tier1
	fleet    *fleet
	records  *Records
	commands *Commands
	jobs     *jobRunner
	ending   *ending
	logging  *logging

	awaited   int64 // the deadline of the latest shutdown; 0: none
	shutdowns int   // how often tier 1 has asked for it
	stopped   bool  // tier 1 is being told that all has
}

// begin carries out a shutdown that was asked for: it stops everything before the deadline,
// in order. What is wanted does not change: it runs again after the next boot. Before
// everything is restored there is nothing to stop in order: tier 1 waits a second, and then
// sees to it by itself.
func (e *shutdown) begin() {
	e.tier1.Send(&wire.StopBegun{}, nil, nil)
	hurried := e.shutdowns > 0
	e.shutdowns++
	budget := time.Duration(e.awaited - boottime())
	if !hurried {
		if len(e.fleet.units) > 0 {
			slog.Info("stopping", "budget", budget.Round(time.Millisecond), "services", len(e.fleet.units))
		}
		console.NotifyManager("STOPPING=1")
		garbage.Hurry(garbage.Stop)
		e.jobs.stop()
	}
	e.fleet.apply(core.Input{Kind: core.End, Budget: budget, Hurry: hurried})
	e.checkStopped()
}

// checkStopped tells tier 1, once, that every service has stopped.
func (e *shutdown) checkStopped() {
	if !e.fleet.set.Stopping() || e.stopped || e.fleet.set.Active() > 0 || e.jobs.left {
		return
	}
	e.stopped = true
	e.ending.tellCode()
	go func() {
		e.settle()
		e.tier1.Send(&wire.StopDone{}, nil, nil)
	}()
}

// settle brings everything onto the disk and gives the volume back. Status files end with
// the container.
func (e *shutdown) settle() {
	e.records.copied(time.Second)
	e.commands.loop.ask(func() {
		e.fleet.apply(core.Input{Kind: core.Interrupt, Text: "the container stopped"})
	})
	e.logging.sendRest()
	e.records.volume.Journal.End()
	done := make(chan struct{})
	go func() {
		e.records.volume.GiveBack()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
