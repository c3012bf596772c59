package loop

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/notify"
	"rlminit/supervise/order"
	"rlminit/supervise/process"
	"rlminit/supervise/registry"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/supervise/spawn"
	"rlminit/tests/box"
	"rlminit/wire"
)

var (
	simSeed = flag.Uint64("seed", 0, "run the one simulation of this seed")
	simRuns = flag.Int("simulations", shortRuns, "how many simulations to run")
)

const shortRuns = 30

// raced tells that the race detector is in this program.
var raced bool

// fewRuns tells that a few simulations are enough: too few for each thing to happen.
func fewRuns() bool {
	return testing.Short() || raced && *simRuns == shortRuns
}

// TestSimulation runs the loop, with its launches, dependencies, commands and
// its replacement, against a model of tier 1 with faults. A failure names its
// seed; go test -run Simulation -seed N replays it.
func TestSimulation(t *testing.T) {
	total := simulate(t, *simRuns, func(*simulation) {})
	for _, what := range []string{
		"born", "died", "spawn failed", "stuck", "replaced", "commands", "removed", "taken out", "put back",
		"asked", "ill", "hanging probe", "ended for its health", "disk broken", "write failed", "status not published", "refused", "killed in a command", "torn",
		"rolling", "cancelled", "not cancelled", "stopped for now", "rolling when replaced", "removed when rolling", "rolling when killed in a write",
		"rolling start done", "rolling restart done", "rolling stop done", "rolling failed", "rolling refused",
	} {
		if *simRuns >= 30 && !fewRuns() && *simSeed == 0 && total[what] == 0 {
			t.Errorf("in %d runs nothing was %s", *simRuns, what)
		}
	}
}

// simulate runs so many simulations, each of which prepare has made ready, and returns
// what befell all of them.
func simulate(t *testing.T, runs int, prepare func(*simulation)) (total map[string]int) {
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer slog.SetDefault(was)
	defer func(was func() int64) { boottime = was }(boottime)
	first := rand.Uint64()
	if *simSeed != 0 {
		first, runs = *simSeed, 1
	}
	if fewRuns() {
		runs = min(runs, 5)
	}
	total = map[string]int{}
	for i := range runs {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				boottime = func() int64 { return int64(time.Since(began)) + int64(time.Hour) }
				s := &simulation{T: t, world: newWorld(seed), rand: rand.New(rand.NewPCG(seed, 0)), slots: slots.Dir{Path: t.TempDir()}, home: volumeDir(t), wanted: map[string]machine.Want{}}
				s.begin()
				prepare(s)
				s.run()
				for what, n := range s.world.counts {
					total[what] += n
				}
			})
		})
		if !ok {
			t.Fatalf("replay it with: go test ./supervise/loop -run '%s$' -seed %d", t.Name(), seed)
		}
	}
	t.Logf("figure: %s: %d runs: %v", strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), runs, total)
	return total
}

// simulation is one run: the world, and the supervisor of the moment.
type simulation struct {
	*testing.T
	world  *world
	rand   *rand.Rand
	now    *supervisor
	dead   func() bool        // the supervisor of the moment was killed
	kill   context.CancelFunc // ends the supervisor of the moment
	slots  slots.Dir
	home   string         // the volume
	socket *notify.Socket // of all services: it is closed
	held   handover.Held  // the memfd of what a successor is to know, as tier 1 holds it
	defs   map[string]*service.Definition
	shared map[*service.Definition]string // each that was in force, as it was then
	wanted map[string]machine.Want        // as acknowledged; absent: not sure
	orders orders
	homes  *homes // the profiles; nil: it has none

	settings func(*handover.Table) *settings.Settings // the configuration, which a reload reads again; nil: it never changes
	absent   bool                                     // the volume is another container's
	store    *profiles.Store                          // of the volume, as the supervisor of the moment has it, or would
}

func (s *simulation) run() {
	s.listen()
	s.hold()
	if s.homes == nil {
		s.define()
	}
	everything, over := context.WithCancel(s.Context())
	s.replace(everything)
	for _, name := range slices.Sorted(maps.Keys(s.defs)) {
		if s.homes != nil {
			break // a boot finds all
		}
		p := registry.Ours(s.defs[name])
		p.Ours = false
		s.now.Registry.Register(p)
	}
	for range 150 {
		time.Sleep(time.Duration(s.rand.ExpFloat64() * float64(400*time.Millisecond)))
		synctest.Wait()
		if s.dead() { // in the middle of a write
			s.succeed(everything)
		}
		s.look()
		s.meddle(everything)
		synctest.Wait()
		s.look()
		if !s.dead() {
			s.check()
			s.published()
		}
		s.world.tally("steps")
		if len(s.world.wrong) > 0 {
			break
		}
	}
	s.end(everything)
	s.kill()
	over()
	synctest.Wait()
	if *simSeed != 0 {
		s.Log(strings.Join(s.world.trace, "\n"))
	}
	if len(s.world.wrong) > 0 {
		trace := s.world.trace
		s.Errorf("%s\n%s", strings.Join(trace[max(0, len(trace)-300):], "\n"), strings.Join(s.world.wrong, "\n"))
	}
}

// listen makes the notify socket of all services.
func (s *simulation) listen() {
	var err error
	if s.socket, err = notify.Listen(filepath.Join(s.TempDir(), "notify"), 0o600); err != nil {
		s.Fatal(err)
	}
	s.socket.Close()
}

// hold has tier 1 hold nothing yet but empty memory.
func (s *simulation) hold() {
	fd, err := unix.MemfdCreate(handover.TableKey, unix.MFD_CLOEXEC)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { unix.Close(fd) })
	s.held = handover.Held{handover.TableKey: []int{fd}}
}

// define makes the definitions: a chain, a diamond and some that stand alone.
func (s *simulation) define() {
	s.defs, s.shared = map[string]*service.Definition{}, map[*service.Definition]string{}
	requires := map[string][]string{
		"base": nil, "left": {"base"}, "right": {"base"}, "top": {"left", "right"},
		"lone": nil, "once": nil, "after": {"once"},
	}
	// Those that sort first wait for those that sort last; two are on a ring.
	wants := map[string][]string{"lone": {"top"}}
	after := map[string][]string{"base": {"once"}, "left": {"right"}, "right": {"left"}}
	for _, name := range slices.Sorted(maps.Keys(requires)) {
		d := service.Default(name)
		d.Command = []string{"/bin/true"}
		d.Requires, d.Wants, d.After = requires[name], wants[name], after[name]
		d.Restart = service.Restart{
			Policy: [...]service.RestartPolicy{service.RestartAlways, service.RestartOnFailure, service.RestartOnFailure, service.RestartNo}[s.rand.IntN(4)],
			Delay:  100 * time.Millisecond, Factor: 2, MaxDelay: 2 * time.Second, Jitter: 0.1,
			ResetAfter: 5 * time.Second, Limit: 4, Window: 10 * time.Second, RetryFailed: 20 * time.Second,
		}
		d.Stop.Timeout = time.Second
		if name == "once" {
			d.Type = service.Oneshot
			if d.Restart.Policy == service.RestartAlways { // which is refused
				d.Restart.Policy = service.RestartOnFailure
			}
		} else if s.rand.IntN(2) == 0 {
			d.Ready = &service.Probe{Notify: true, Timeout: 2 * time.Second}
		}
		s.probes(d)
		s.defs[name] = d
		s.world.policies[name] = machine.PolicyOf(d)
	}
}

// replace starts a supervisor, which takes over what its predecessor left.
func (s *simulation) replace(everything context.Context) {
	w := s.world
	// The configuration has them, and so a slot that a predecessor published and had no
	// time to remember is known for what it is.
	c, runtime := &config.Config{Home: "/nonexistent", Services: maps.Clone(s.defs)}, ""
	if s.homes != nil {
		c, runtime, s.slots = s.homes.config, s.homes.runtime, s.homes.slotsNow()
	}
	alive, kill := context.WithCancel(everything)
	if s.homes != nil {
		kill = s.homes.away(kill)
	}
	next := rigged(s.T, c, runtime, s.slots, s.held, func(m wire.Message) {
		if alive.Err() == nil {
			w.take(m)
		}
	})
	if s.settings != nil {
		next.Preparer.Settings = s.settings(next.Memory.Table)
	}
	next.random = rand.New(rand.NewPCG(s.rand.Uint64(), 2)).Uint64
	slowness := s.rand.Uint64()
	// Each takes another time, and some none: what comes first is the seed's choice.
	chance := func(of spawn.Service) *rand.Rand {
		var sum uint64
		for _, c := range of.Name {
			sum = sum*31 + uint64(c)
		}
		return rand.New(rand.NewPCG(slowness, sum))
	}
	next.Spawner.Immediate = func(of spawn.Service) bool {
		return s.world.script != nil || chance(of).IntN(2) == 0 && next.Preparer.Immediate(of)
	}
	next.Spawner.Prepare = func(of spawn.Service, at *rights.Progress) process.Prepared {
		if of.Probe == nil && !next.Spawner.Immediate(of) { // of a probe the world has the time from its spawn on
			time.Sleep(time.Duration(chance(of).Int64N(int64(time.Millisecond))))
		}
		return next.Preparer.Prepare(of, at)
	}
	next.Probes.Network = w.network
	next.Opened.Listen = func(string, os.FileMode) (*notify.Socket, error) { return s.socket, nil }
	s.tearing(next, alive, kill)
	store := s.volume(next.Volume, alive, kill)
	next.Publisher.Fail = func() error { return w.publish(alive) }
	next.assemble(s.policed, s.equip)
	gone := make(chan error)

	w.mu.Lock()
	next.tier1.Number(func(uint64) uint64 { return w.nextID })
	w.firstID = w.nextID
	w.takenOver = boottime()
	for _, b := range w.table {
		b.inRow = 0
		if b.asking != nil {
			w.orphaned(b)
		}
		next.tier1.Children[b.name] = append(next.tier1.Children[b.name], wire.Child{
			ID: b.id, Name: b.name, State: b.state, PID: b.pid, StartTime: b.started,
			Exit: exitNow(b), Step: b.step, Errno: int32(b.errno),
		})
	}
	w.outbox = nil // what was under way to the predecessor is in the snapshot
	w.hear = func(m wire.Message) {
		if alive.Err() == nil {
			next.Hear(m, nil)
		}
	}
	var ready func(b *body)
	ready = func(b *body) {
		if alive.Err() != nil {
			return
		}
		next.do(func() {
			if !next.takeover.restored { // it waits in the socket
				time.AfterFunc(time.Millisecond, func() { ready(b) })
				return
			}
			if u := next.fleet.units[b.name]; u != nil { // else its socket is gone
				next.apply(core.Input{Kind: core.Notified, Node: u.life.Node(), PID: int(b.pid), Events: []machine.Event{{Kind: machine.Ready}}})
			}
		})
	}
	w.ready = ready
	w.note("a supervisor takes over %d children", len(w.table))
	w.mu.Unlock()
	go func() {
		// The end of the process: the mailbox is emptied, and nobody sees it.
		next.Run(gone)
		for {
			select {
			case <-next.letters.Wake():
				if f, waits := next.letters.Next(); waits {
					next.at.Lock()
					f()
					next.at.Unlock()
				}
			case <-everything.Done():
				return
			}
		}
	}()

	s.now, s.dead = next, func() bool { return alive.Err() != nil }
	unprobed := func() { // nothing of a dead process asks
		next.ask(func() {
			for _, u := range next.fleet.all() {
				next.probes.Stop(u.life.Node(), machine.ProbeReady)
				next.probes.Stop(u.life.Node(), machine.ProbeHealth)
			}
		})
	}
	s.kill = func() {
		kill()
		close(gone)
		synctest.Wait()
		unprobed()
		dissolve(next)
		time.Sleep(time.Second) // until its last write was thrown away
		unprobed()
		dissolve(next)
		synctest.Wait()
		s.forsake(next)
		if j := next.Records.volume.Journal.Open.Load(); j != nil {
			j.Close()
		}
		if err := store.Close(); err != nil {
			s.Error(err)
		}
		next.Registry.Close()
		next.tier1.Link.Close()
		next.Records.publisher.Close()
		next.Records.recorder.Close()
	}
	time.Sleep(time.Duration(s.rand.IntN(300)) * time.Millisecond) // reading what was published takes a while
	next.takeover.atOnce = 1
	outdated := next.takeover.recall()
	next.ask(func() {
		for _, u := range next.fleet.all() {
			s.equip(u)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for name, children := range next.tier1.Children {
			for _, child := range children {
				if next.fleet.units[name] == nil && child.State != wire.ChildExited && child.State != wire.ChildFailed && w.table[child.ID].asking == nil {
					w.fault("nobody takes over %s, spawn %d", name, child.ID)
				}
			}
		}
	})
	next.takeover.takeOver(outdated)
	if s.homes == nil {
		next.Registry.Start(next.Registry.Rescan)
	} else {
		next.Registry.Boot()
	}
	next.Registry.Settle()
	synctest.Wait()
}

func exitNow(b *body) wire.Exit {
	e := b.exit
	e.Leftovers = b.leftovers
	return e
}

// equip gives a unit what is never opened in a simulation.
func (s *simulation) equip(u *unit) {
	u.output.slot = silent{}
}

// check holds the supervisor against the world, and both against what must be
// true of every service at any time.
func (s *simulation) check() {
	now, w := s.now, s.world
	journal, errands := box.Recorded(s.T, s.home), w.failures()
	s.homes.agree(journal)
	now.ask(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.settle(now, errands)
		active := 0
		for _, u := range now.fleet.all() {
			w.awaits(u.name, u.life.Turn().Stops())
			if told := now.fleet.set.Fact(u.life.Node()); told.Turn != u.life.Turn() || told.Phase != order.FactOf(*u.state, u.policy()).Phase {
				w.fault("%s has the turn %s in the phase %s, and the order knows %+v", u.name, u.life.Turn(), u.state.Phase, told)
			}
			if u.active() {
				active++
			}
			if is := string(service.Encode(u.definition)); cmp.Or(s.shared[u.definition], is) != is {
				w.fault("the definition of %s was changed, and others have it", u.name)
			} else {
				s.shared[u.definition] = is
			}
			if u.state.StopBy == machine.StopUnhealthy {
				w.counts["ended for its health"]++
			}
			for _, complaint := range complaints(u, w) {
				w.fault("%s: %s; its state is %+v", u.name, complaint, u.state)
			}
			if want, sure := s.wanted[u.name]; sure && !u.life.Turn().Stops() && u.state.Want != want {
				w.fault("%s is wanted %q, and %q was acknowledged; its state is %+v", u.name, u.state.Want, want, u.state)
			}
			desired := journal[u.name]
			if u.recorded && desired != "" && desired != u.desired() {
				w.fault("%s is to be %s, and %s is recorded", u.name, u.desired(), desired)
			}
			if want, sure := s.wanted[u.name]; sure && u.recorded && desired != intentOf(want == machine.WantUp) {
				w.fault("%q of %s was acknowledged, and %q is recorded", want, u.name, desired)
			}
			s.consistent(now, u, desired)
		}
		if active != now.fleet.set.Active() {
			w.fault("%d units are active, counted are %d", active, now.fleet.set.Active())
		}
		for _, b := range w.table {
			if b.asking != nil {
				if most := int64(5 * time.Second); b.state == wire.ChildAlive && boottime()-b.bornAt > most && boottime()-w.takenOver > most {
					w.fault("the probe %d of %s never ends", b.id, b.name)
				}
				continue
			}
			if u := now.fleet.units[b.name]; b.state == wire.ChildAlive && !b.killed && (u == nil || u.state.ID != b.id) {
				if u == nil {
					w.fault("spawn %d of %s lives, and nobody knows of it", b.id, b.name)
					continue
				}
				w.fault("spawn %d of %s lives, and its unit knows %d", b.id, b.name, u.state.ID)
			}
		}
	})
}

// complaints are what is wrong with a unit.
func complaints(u *unit, w *world) (all []string) {
	state := u.state
	must := func(true bool, what string) {
		if !true {
			all = append(all, what)
		}
	}
	must(state.Timer.At == u.life.Armed(), "its timer is not what the state says")
	b := w.table[state.ID]
	switch state.Phase {
	case machine.Stopped, machine.Waiting, machine.Exited, machine.Gone:
		must(u.life.Armed() == 0, "at rest, with a timer")
		must(state.ID == 0, "at rest, with a spawn")
	case machine.Starting:
		must(state.Deadlines.Ready != 0, "starting without a deadline")
	case machine.Running:
		if b != nil {
			unasked(u, b, w, must)
		}
	case machine.Stopping:
		must(state.StopBy != machine.StopUnhealthy || b == nil || b.failed > 0, "ended for its health, and it was well")
		must(state.Deadlines.Stop != 0, "stopping without a deadline")
	case machine.Sweeping:
		must(state.Deadlines.Sweep != 0, "sweeping without a next look")
	}
	if state.Alive() {
		must(b != nil && (b.state == wire.ChildAlive || b.state == wire.ChildExited) && int(b.pid) == state.PID, "it is alive, and tier 1 knows nothing of it")
	}
	return all
}

// end makes peace, stops everything, and looks that nothing is left.
func (s *simulation) end(everything context.Context) {
	w := s.world
	w.endAfter(0)
	w.killAfter(0)
	if s.dead() {
		s.succeed(everything)
	}
	now := s.now
	w.mu.Lock()
	w.note("peace")
	w.calm()
	w.mu.Unlock()
	s.comesToRest()
	for _, name := range slices.Sorted(maps.Keys(s.defs)) {
		var known bool
		now.ask(func() { known = now.fleet.units[name] != nil })
		switch {
		case known:
		case s.homes != nil:
			s.settleIn(name)
		default:
			s.putBack(name)
		}
	}
	s.meddled(slices.Collect(maps.Keys(s.defs)))
	var all []*unit
	now.ask(func() { all = now.fleet.all() })
	s.orders.forget(namesOf(all)...)
	for _, v := range []string{"start", "restart", "stop"} {
		runs := map[*unit]uint64{}
		now.ask(func() {
			for _, u := range all {
				runs[u] = u.state.LastID
			}
		})
		want := machine.WantDown
		if v != "stop" {
			want = machine.WantUp
		}
		for name := range s.defs {
			s.wanted[name] = want
		}
		for i, outcome := range operate(now, v, all, false, 1000, &control.Wait{TimeoutMS: 300_000}) {
			if v == "restart" && all[i].state.LastID <= runs[all[i]] {
				w.mu.Lock()
				w.fault("in peace, %s was restarted and has its old run", outcome.Service.Name)
				w.mu.Unlock()
			}
			if v != "stop" && outcome.Problem == nil && outcome.Service.State != "running" && all[i].definition.Type != service.Oneshot {
				w.mu.Lock()
				w.fault("in peace, %s was started and is %s", outcome.Service.Name, outcome.Service.State)
				w.mu.Unlock()
			}
			if outcome.Problem != nil {
				w.mu.Lock()
				w.fault("in peace, %s of %s: %s", v, outcome.Service.Name, outcome.Problem.Detail)
				w.mu.Unlock()
			}
		}
	}
	s.comesToRest()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range all {
		if _, seen := s.recorded(u.name); u.recorded && u.definition.Profile != "" && seen != string(seenAs(u)) {
			w.fault("%s is %s, and %s is recorded", u.name, seenAs(u), seen)
		}
	}
	for _, b := range w.table {
		w.fault("spawn %d of %s is left in state %d", b.id, b.name, b.state)
	}
}

// comesToRest waits until nothing happens any more, and looks at everything.
func (s *simulation) comesToRest() {
	time.Sleep(time.Minute)
	synctest.Wait()
	s.look()
	s.check()
	s.published()
	s.over()
}
