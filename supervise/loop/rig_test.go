package loop

import (
	"context"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/supervise/machine"
	"rlminit/supervise/open"
	"rlminit/supervise/probe"
	"rlminit/supervise/process"
	"rlminit/supervise/publish"
	"rlminit/supervise/registry"
	"rlminit/supervise/remember"
	"rlminit/supervise/serve"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/supervise/spawn"
	"rlminit/supervise/volume"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// supervisor is the loop with its drivers, and what asks it.
type supervisor struct {
	*Loop
	Drivers
	slots   slots.Dir
	policy  *wire.Policy
	table   *handover.Table
	backend *serve.Backend
}

// rigged is a supervisor whose messages to tier 1 a test takes, and that finds what is held.
// Its drivers may be changed before it is assembled.
func rigged(t *testing.T, c *config.Config, runtime string, is slots.Dir, held handover.Held, take func(wire.Message)) *supervisor {
	policy := &wire.Policy{User: wire.Identity{Name: "app", Home: "/"}, TagLow: 50000, TagHigh: 59999}
	s := &supervisor{Loop: New(), slots: is, policy: policy, Drivers: Drivers{
		Tier1: spawn.NewTier1(), Volume: &volume.Volume{Journal: volume.NewJournal()}, Events: publish.NewEvents(),
	}}
	s.Preparer = &spawn.Preparer{Policy: policy, Settings: settings.Fixed(c, policy), Container: os.Environ(), Volume: s.Volume, Runtime: runtime}
	s.Preparer.Walls = sync.OnceValue(func() *walls.Place { return walls.New(policy.Volume, runtime) })
	s.Spawner = spawn.NewDriver(s.Tier1, s.Preparer)
	s.Probes = probe.New(s.Probed)
	s.Opened = open.New(s.Tier1.Send, s.Notified, func(name string) string { return s.slots.File(name, slots.NotifySocket) })
	s.Tier1.Link = link.To(func(o link.Outgoing) { take(o.Message) })
	maps.Copy(s.Tier1.Held, held)
	table, err := handover.OpenTable(s.Tier1.Held, func(key string, fd int) { s.Tier1.Send(&wire.Hold{Key: key}, []int{fd}, nil) })
	if err != nil {
		t.Fatal(err)
	}
	s.table, s.Memory = table, remember.New(table, s.Commands.Tell)
	s.Tier1.Welcome.Tags, s.Tier1.Tags = true, handover.OpenTags(policy.TagLow, policy.TagHigh, table)
	s.Publisher, s.Recorder = publish.New(s.slots), publish.NewCopies(s.Volume.Writable)
	s.Volume.Given = volume.Given{
		Config: s.Preparer.Config, Held: s.Tier1.Held, Send: s.Tier1.Send, BootID: s.Memory.BootID, Recall: s.Commands.Recall,
		Files: func() (*rights.User, profiles.Owners) { return nil, s.Preparer.ProfileUsers() },
	}
	return s
}

// assemble gives the loop its drivers. made is called with each new unit, of a definition
// that looked has seen before.
func (s *supervisor) assemble(looked func(registry.Proposal), made func(*unit)) {
	given := &serve.Given{
		Policy: s.policy, Settings: s.Preparer.Settings, Volume: s.Volume, Users: s.Preparer, Walls: s.Preparer.Walls, Tags: s.Tier1.Tags, Tagged: true,
		Copies: &s.Records, Journal: s.Volume.Journal.Open.Load, Events: s.Events.Read, Counts: s.Probes.Counts, Stored: s.Opened.Stored,
	}
	s.backend = serve.New(&s.Commands, given)
	s.Registry = registry.New(equipped{s.backend, &s.Services, looked, made}, s.Volume, s.Preparer.Settings, s.slots, s.table)
	given.Registry, s.Volume.Look = s.Registry, s.Registry.Look
	s.Use(&s.Drivers)
	s.Commands.gc = nil
}

// equipped is the supervisor as its registry knows it in a test.
type equipped struct {
	*serve.Backend
	*Services
	looked func(registry.Proposal)
	made   func(*unit)
}

func (e equipped) Define(proposals []registry.Proposal) {
	e.Services.loop.ask(func() {
		for _, p := range proposals {
			e.looked(p)
		}
		e.define(proposals, e.made)
	})
}

// plain is a supervisor that runs until the test ends, without a volume and a registry. Each process lives until ends is called with its service.
func plain(t *testing.T) (s *supervisor, ends func(name string)) {
	t.Helper()
	var mu sync.Mutex
	alive := map[string]uint64{}
	s = rigged(t, &config.Config{Home: "/nonexistent"}, t.TempDir(), slots.Dir{Path: t.TempDir()}, nil, func(m wire.Message) {
		if m, is := m.(*wire.Spawn); is {
			mu.Lock()
			defer mu.Unlock()
			alive[m.Name] = m.ID
			s.Hear(&wire.Spawned{ID: m.ID, PID: int32(m.ID), StartTime: m.ID}, nil)
		}
	})
	s.Spawner.Prepare = func(of spawn.Service, _ *rights.Progress) process.Prepared {
		return process.Prepared{Argv: of.Definition.Command, Path: "/bin/true"}
	}
	s.Probes.Network = func(context.Context, service.Probe) error { return unix.ECONNREFUSED }
	s.assemble(nil, nil)
	gone, over := make(chan error), make(chan struct{})
	go func() {
		defer close(over)
		s.Run(gone)
	}()
	t.Cleanup(func() {
		close(gone)
		<-over
	})
	s.TakeOver()
	return s, func(name string) {
		mu.Lock()
		defer mu.Unlock()
		s.Hear(&wire.Exited{ID: alive[name]}, nil)
	}
}

// await waits until something is true of a unit. The loop asks.
func (s *supervisor) await(t *testing.T, name, what string, is func(*unit) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		var true bool
		s.ask(func() { true = s.fleet.units[name] != nil && is(s.fleet.units[name]) })
		if true {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 20s: %s is %s", name, what)
		}
	}
}

// What an effect leads to waits until the core has been told all before it, and is told
// before anybody else's turn comes.
func TestAnInputThatAnEffectLeadsTo(t *testing.T) {
	s, _ := plain(t)
	s.ask(func() {
		var told []string
		at := true
		s.fleet.absent = func(name string) {
			s.apply(core.Input{Kind: core.Booted})
			told, at = append(told, name), at && !s.fleet.set.Booted()
		}
		s.apply(core.Input{Kind: core.Define, Name: "x", Definition: &core.Definition{Wants: []string{"nobody", "none"}}})
		if !at || !s.fleet.set.Booted() || len(told) != 2 || told[0] != "nobody" || told[1] != "none" || len(s.fleet.queue) != 0 {
			t.Errorf("told of %q; at once: %v; in the end: %v", told, !at, s.fleet.set.Booted())
		}
	})
}

// What a service reported of its failure is in its status until a run has been
// good again, though it is started at once.
func TestLastWordsOutlastAnImmediateRestart(t *testing.T) {
	s, ends := plain(t)
	d := service.Default("web")
	d.Command = []string{"web"}
	d.Restart.Policy, d.Restart.ResetAfter = service.RestartAlways, time.Hour
	p := registry.Ours(d)
	p.Start = true
	s.ask(func() { s.Services.define([]registry.Proposal{p}, func(u *unit) { u.output.slot = silent{} }) })
	running := func(u *unit) bool { return u.state.Public() == "running" }
	s.await(t, "web", "running", running)
	goodRun := func() {
		s.ask(func() { s.fleet.units["web"].state.ReadyAt -= int64(2 * time.Hour) })
	}
	reason := func() (text string) {
		s.ask(func() {
			if why := s.fleet.units["web"].view().Status().Reason; why != nil {
				text = *why
			}
		})
		return text
	}
	again := func() {
		goodRun()
		var before uint64
		s.ask(func() { before = s.fleet.units["web"].state.ID })
		ends("web")
		s.await(t, "web", "started again", func(u *unit) bool { return u.state.ID > before && running(u) })
	}
	s.ask(func() {
		u := s.fleet.units["web"]
		s.apply(core.Input{Kind: core.Happened, Node: u.life.Node(), Event: machine.Event{Kind: machine.Trouble, ID: u.state.ID, Errno: 2}})
	})
	again()
	if got, want := reason(), "before: exit 0: it reported errno 2 (no such file or directory)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	goodRun()
	if got := reason(); got != "" {
		t.Errorf("after a good run: %q", got)
	}
	again() // and says nothing
	if got := reason(); got != "" {
		t.Errorf("after an exit without a word: %q", got)
	}
}
