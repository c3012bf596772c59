package loop

import (
	"context"
	"log/slog"
	"math/rand/v2"

	"golang.org/x/term"

	"rlminit/control"
	"rlminit/logs"
	"rlminit/supervise/core"
	"rlminit/supervise/garbage"
	"rlminit/supervise/jobs"
	"rlminit/supervise/machine"
	"rlminit/supervise/open"
	"rlminit/supervise/probe"
	"rlminit/supervise/publish"
	"rlminit/supervise/registry"
	"rlminit/supervise/remember"
	"rlminit/supervise/spawn"
	"rlminit/supervise/volume"
	"rlminit/wire"
)

// Loop owns every unit: what it is made of, each part with what is its own.
type Loop struct {
	mailbox
	tier1    *spawn.Tier1
	fleet    fleet
	prep     preparer
	spawner  *spawn.Driver
	opened   *open.Driver
	probes   *probe.Driver
	logging  logging
	jobs     jobRunner
	takeover takeover
	ending   ending
	shutdown shutdown
	unfit    func() error  // why we are of no use to clients; nil: they are not served yet
	random   func() uint64 // where chance comes in; a simulation has its own

	Records  Records
	Commands Commands
	Services Services
}

// Drivers are those of the loop, and what else it reaches.
type Drivers struct {
	Tier1     *spawn.Tier1
	Preparer  *spawn.Preparer
	Null      int // what a process has as stdin
	Spawner   *spawn.Driver
	Opened    *open.Driver
	Probes    *probe.Driver
	Volume    *volume.Volume
	Memory    *remember.Driver
	Events    *publish.Events
	Publisher *publish.Driver
	Recorder  *publish.Copies
	Registry  *registry.Registry
	Logs      *logs.Collector // nil in a simulation, as Jobs is
	Jobs      *jobs.Runner
	Purpose   Purpose
}

// New is a loop that has no drivers yet. What others want of it waits until it runs.
func New() *Loop {
	l := &Loop{mailbox: newMailbox(), fleet: newFleet(), random: rand.Uint64}
	l.fleet.apply = l.apply
	l.Commands = Commands{gc: garbage.NewTarget(l.do, boottime), loop: &l.mailbox, fleet: &l.fleet, records: &l.Records, watched: map[uint64]*watched{}, problems: map[uint64]*control.Problem{}}
	return l
}

// Use gives the loop its drivers, before it runs.
func (l *Loop) Use(d *Drivers) {
	l.tier1, l.spawner, l.opened, l.probes = d.Tier1, d.Spawner, d.Opened, d.Probes
	l.spawner.Do, l.spawner.Apply, l.spawner.Open = l.do, l.apply, l.openFor
	l.prep = preparer{d.Preparer, d.Null}
	l.fleet.absent = d.Registry.AtRest.WakeSoon
	l.Records = Records{loop: &l.mailbox, fleet: &l.fleet, volume: d.Volume, memory: d.Memory, events: d.Events, publisher: d.Publisher, recorder: d.Recorder, isFor: d.Purpose.isFor}
	l.ending = ending{Purpose: d.Purpose, tier1: l.tier1, fleet: &l.fleet, records: &l.Records}
	l.jobs = jobRunner{Runner: d.Jobs, loop: &l.mailbox, over: l.shutdown.checkStopped}
	l.logging = logging{
		loop: &l.mailbox, fleet: &l.fleet, tier1: l.tier1, prep: &l.prep, records: &l.Records, logs: d.Logs, forward: forwarding(d),
		mainOnTerminal: l.tier1.Welcome.Terminal || l.prep.Policy.Main != nil && term.IsTerminal(1),
	}
	l.Services = Services{
		loop: &l.mailbox, tier1: l.tier1, prep: &l.prep, fleet: &l.fleet, records: &l.Records, registry: d.Registry,
		opened: l.opened, logging: &l.logging, jobs: &l.jobs, purpose: d.Purpose, commands: &l.Commands,
	}
	l.shutdown = shutdown{tier1: l.tier1, fleet: &l.fleet, records: &l.Records, commands: &l.Commands, jobs: &l.jobs, ending: &l.ending, logging: &l.logging}
	l.takeover = takeover{Services: &l.Services, spawner: l.spawner, shutdown: &l.shutdown, hear: l.hear, atOnce: 64}
	if l.tier1.Welcome.Stopping {
		l.apply(core.Input{Kind: core.Stopping})
	}
	l.Commands.recall(d.Memory.Operations(), 0)
}

// Run is the loop's life. It ends when PID 1 is gone, and never waits for anything but the
// next thing to do.
func (l *Loop) Run(gone <-chan error) error {
	for {
		next, _ := l.fleet.set.Next()
		l.fleet.alarm.arm(next, boottime())
		f := l.due
		select { // each of those that are ready has its turn, however much waits in the mailbox
		case <-l.letters.Wake():
			letter, waits := l.letters.Next()
			if !waits {
				continue
			}
			f = letter
		case <-l.fleet.alarm.clock.C:
		case err := <-gone:
			return err
		}
		l.at.Lock()
		l.giveTimeBack()
		f()
		l.spawner.Turn()
		l.at.Unlock()
	}
}

// due tells the core that the time which was armed has come.
func (l *Loop) due() {
	l.fleet.alarm.rings = 0
	l.apply(core.Input{Kind: core.Due})
}

// giveTimeBack gives everybody the time back in which nobody ran, before anything else
// of that time is heard.
func (l *Loop) giveTimeBack() {
	if lost := l.fleet.alarm.lost(boottime()); lost != 0 {
		l.apply(core.Input{Kind: core.Lost, Event: machine.Event{Within: lost}})
	}
}

// Hear has a message of tier 1 heard.
func (l *Loop) Hear(m wire.Message, fds []int) { l.do(func() { wire.Each(m, fds, l.hear) }) }

// hear takes a message of tier 1 to whom it concerns.
func (l *Loop) hear(m wire.Message, fds []int) {
	wire.CloseAll(fds)
	switch m := m.(type) {
	case *wire.Ping:
		l.pinged(m)
	case *wire.Shutdown:
		if e := l.spawner.Exit(machine.ExitedEvent, wire.Exit{Code: m.Main}, 0); e.Memory != "" {
			l.Records.volume.Journal.OOMSeen("main", e.Memory)
			l.Records.volume.Journal.Fatal.Store(true)
		}
		if l.shutdown.awaited = m.Deadline; l.takeover.restored {
			l.shutdown.begin()
		}
	case *wire.Reload:
		go l.Services.registry.ReloadAndSay()
	default:
		if !l.takeover.restored {
			l.takeover.early = append(l.takeover.early, m)
			return
		}
		l.spawner.Hear(m)
	}
}

// Serving tells that clients are served, and how to learn why they cannot be.
func (l *Loop) Serving(unfit func() error) { l.ask(func() { l.unfit = unfit }) }

// pinged answers that we are alive, unless that alone is true: one whom nobody can ask for
// anything is to be replaced.
func (l *Loop) pinged(m *wire.Ping) {
	if l.unfit != nil {
		if err := l.unfit(); err != nil {
			slog.Error("the supervisor is of no use: PID 1 is to replace it", "err", err)
			return
		}
	}
	l.tier1.Send(&wire.Pong{Seq: m.Seq}, nil, nil)
	l.Records.volume.LookAtLock() // now that we are awake
}

// Notified takes to the core what a service has said of itself, and returns when what
// follows is decided. Its secrets are shown to nobody, nor what is masked in its log.
func (l *Loop) Notified(in core.Input) {
	l.ask(func() {
		u := l.fleet.byNode[in.Node]
		for i, e := range in.Events {
			if e.Kind == machine.StatusText && u != nil {
				in.Events[i].Reason = u.process.secrets.Line(masks(u).Text(e.Reason))
			}
		}
		l.apply(in)
	})
}

// Probed takes to the core what a probe has found, unless ctx has ended by then.
func (l *Loop) Probed(ctx context.Context, in core.Input) {
	l.do(func() {
		if ctx.Err() == nil {
			l.apply(in)
		}
	})
}
