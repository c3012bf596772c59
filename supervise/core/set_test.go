package core

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

func TestTimersFireInOrderAndOnlyTheLastArming(t *testing.T) {
	var timers timers
	lives := make([]*Life, 200)
	want := map[*Life]int64{}
	for i := range lives {
		lives[i] = &Life{}
		lives[i].deadline = deadline{place: -1, life: lives[i]}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		l := lives[r.IntN(len(lives))]
		at := r.Int64N(1000) // 0 disarms
		l.state.Timer.At = at
		timers.set(&l.deadline, at)
		if at == 0 {
			delete(want, l)
		} else {
			want[l] = at
		}
	}
	last := int64(0)
	for at, ok := timers.next(); ok; at, ok = timers.next() {
		l := timers.heap[0].life
		if at < last || want[l] != at || l.Armed() != at {
			t.Fatalf("%d is next after %d, armed for %d", at, last, want[l])
		}
		timers.remove(&l.deadline)
		last = at
		delete(want, l)
	}
	if len(want) != 0 {
		t.Fatalf("%d timers never fired", len(want))
	}
}

// many is a Set of n services that run, each of which requires the first of its ten.
func many(t *testing.T, n int) *Set {
	t.Helper()
	s := &Set{}
	next := uint64(1)
	step := func(in Input) {
		in.Now, in.NextID = 1, next
		for _, e := range s.Step(in) {
			if e.Kind == Spawn {
				next = e.Action.ID + 1
			}
		}
	}
	var all []order.Node
	step(Input{Kind: Hold})
	for i := range n {
		d := &Definition{}
		if i%10 != 0 {
			d.Requires = []string{strconv.Itoa(i - i%10)}
		}
		step(Input{Kind: Define, Name: strconv.Itoa(i), Definition: d})
		all = append(all, s.Find(strconv.Itoa(i)).Node())
	}
	step(Input{Kind: Release})
	step(Input{Kind: Give, Turn: order.Start, Nodes: all, Event: machine.Event{Kind: machine.Start}})
	for range 2 { // the second ones wait for the first
		for _, node := range all {
			if state := s.Life(node).State(); state.Phase == machine.Spawning {
				step(Input{Kind: Happened, Node: node, Event: machine.Event{Kind: machine.Spawned, ID: state.ID, PID: 1}})
			}
		}
	}
	for _, node := range all {
		if state := s.Life(node).State(); state.Phase != machine.Running {
			t.Fatalf("%s is %s", s.naming.names[node], state.Phase)
		}
	}
	return s
}

// What an event costs does not depend on how many services there are: it is that of the
// service, of its neighbours, and of who follows.
func TestTheCostOfAnEvent(t *testing.T) {
	cost := func(n int) (costs []int) {
		s := many(t, n)
		first, fifth := s.Find("0"), s.Find("5")
		for _, in := range []Input{
			{Node: fifth.node, Event: machine.Event{Kind: machine.WatchdogPing, ID: fifth.state.ID}},
			{Node: fifth.node, Event: machine.Event{Kind: machine.ExitedEvent, ID: fifth.state.ID, Code: 1}},
			{Node: first.node, Event: machine.Event{Kind: machine.ExitedEvent, ID: first.state.ID}}, // nine depend on it
			{Kind: Due},
			{Kind: Give, Turn: order.Stop, Nodes: []order.Node{first.node}, Event: machine.Event{Kind: machine.Stop}},
			{Kind: Redefine, Node: first.node, Definition: first.definition},
		} {
			in.Now, in.NextID = 1<<50, 1<<40
			effects := s.Step(in)
			costs = append(costs, s.touched, len(effects))
		}
		return costs
	}
	few, lots := cost(10), cost(10_000)
	for i := range few {
		if few[i] != lots[i] {
			t.Fatalf("of ten services the lives that are touched, and the effects, are %v, and of ten thousand %v", few, lots)
		}
	}
	if few[0] != 1 || few[1] != 1 {
		t.Errorf("a ping touches %d lives and has %d effects", few[0], few[1])
	}
}

// An event that changes nothing that others look at takes no memory, however many
// services there are.
func TestAPlainEventTakesNoMemory(t *testing.T) {
	s := many(t, 1000)
	l := s.Find("7")
	ping := Input{Now: 1, NextID: 1 << 40, Node: l.node, Event: machine.Event{Kind: machine.WatchdogPing, ID: l.state.ID}}
	s.Step(ping)
	own := testing.AllocsPerRun(100, func() { machine.Step(l.state, l.definition.Policy, ping.Event) })
	if n := testing.AllocsPerRun(100, func() { s.Step(ping) }); n > own {
		t.Errorf("it takes memory %v times, of which the machine %v", n, own)
	}
}

// Each of the lives that one deadline wakes has a number of its own: they shall not all
// come back at one time.
func TestChanceIsEachTransitionsOwn(t *testing.T) {
	s := many(t, 10)
	first := s.Find("0")
	s.Step(Input{Now: 1, NextID: 1 << 40, Rand: 7, Node: first.node, Event: machine.Event{Kind: machine.Restart}})
	if s.chance == 7 {
		t.Error("a transition leaves its number to the next one")
	}
	if a, b := s.random(), s.random(); a == b {
		t.Errorf("%d twice", a)
	}
}

// A deadline is not fired before its time.
func TestADeadlineIsNotFiredEarly(t *testing.T) {
	s := many(t, 10)
	l := s.Find("5")
	s.Step(Input{Now: 1, NextID: 1 << 40, Node: l.node, Event: machine.Event{Kind: machine.Restart}})
	s.Step(Input{Now: 1, NextID: 1 << 40, Node: l.node, Event: machine.Event{Kind: machine.ExitedEvent, ID: l.state.ID, Code: 1}})
	at, ok := s.Next()
	if !ok || l.Armed() != at {
		t.Fatalf("it is %+v, and the next deadline %d", l.state, at)
	}
	if early := s.Step(Input{Kind: Due, Now: at - 1, NextID: 1 << 40}); len(early) != 0 {
		t.Errorf("before its time: %+v", early)
	}
	if s.Step(Input{Kind: Due, Now: at, NextID: 1 << 40}); l.state.Phase != machine.Parked { // its spawn is not answered
		t.Errorf("when it is due it is %s", l.state.Phase)
	}
}

// Who waits for one that waits is told in its words what that waits for now.
func TestTheWordsOfAReasonFollow(t *testing.T) {
	s := &Set{}
	step := func(in Input) {
		in.Now, in.NextID = 1, 1
		s.Step(in)
	}
	define := func(name string, requires ...string) {
		step(Input{Kind: Define, Name: name, Definition: &Definition{Requires: requires}})
	}
	define("a")
	define("b", "a", "nobody")
	define("c", "b")
	step(Input{
		Kind: Give, Turn: order.Start, Nodes: []order.Node{s.Find("b").node, s.Find("c").node},
		Event: machine.Event{Kind: machine.Start},
	})
	c := s.Find("c").State()
	if want := "requires b, which is waiting (requires a, which is stopped)"; c.Blocked != want {
		t.Errorf("c %s, want %s", c.Blocked, want)
	}
	step(Input{Node: s.Find("a").node, Event: machine.Event{Kind: machine.Start}})
	if want := "requires b, which is waiting (requires nobody, which does not exist)"; c.Blocked != want {
		t.Errorf("c %s, want %s", c.Blocked, want)
	}
}

// Who waits for a oneshot that is done is told what that would wait for; and in the end
// those that stop one after the other share the budget, whatever lies between them.
func TestAOneshotThatIsDoneStandsForWhatItRequires(t *testing.T) {
	s, next := &Set{}, uint64(1)
	var stops []Effect
	step := func(in Input) {
		in.Now, in.NextID = 1, next
		for _, e := range s.Step(in) {
			if e.Kind == Spawn {
				next = e.Action.ID + 1
			}
			if e.Kind == Changed && e.After.Phase == machine.Stopping && e.Before.Phase != machine.Stopping {
				stops = append(stops, e)
			}
		}
	}
	define := func(name string, oneshot bool, requires ...string) *Life {
		policy := machine.Policy{Oneshot: oneshot, StopTimeout: 10 * time.Second, ExitSuccess: []int{0}, Restart: service.RestartOnFailure}
		step(Input{Kind: Define, Name: name, Definition: &Definition{Requires: requires, Policy: policy}})
		return s.Find(name)
	}
	happens := func(l *Life, e machine.Event) {
		e.ID = l.State().ID
		step(Input{Kind: Happened, Node: l.Node(), Event: e})
	}
	turn := func(t order.Turn, kind machine.EventKind, l *Life) {
		step(Input{Kind: Give, Turn: t, Nodes: []order.Node{l.Node()}, Event: machine.Event{Kind: kind}})
	}
	db := define("db", false)
	migrate := define("migrate", true, "db")
	web := define("web", false, "migrate")
	for _, l := range []*Life{db, migrate} {
		turn(order.Start, machine.Start, l)
		happens(l, machine.Event{Kind: machine.Spawned, PID: 10})
	}
	happens(migrate, machine.Event{Kind: machine.ExitedEvent})
	turn(order.Stop, machine.Stop, db)
	happens(db, machine.Event{Kind: machine.ExitedEvent})
	stops = nil
	turn(order.Start, machine.Start, web)
	if want := "requires migrate, which requires db, which is stopped"; web.State().Blocked != want {
		t.Errorf("web %s, want %s; migrate is %+v", web.State().Blocked, want, migrate.State())
	}
	turn(order.Start, machine.Start, db)
	if want := "requires migrate, which requires db, which is starting"; web.State().Blocked != want {
		t.Errorf("web %s, want %s", web.State().Blocked, want)
	}
	for _, l := range []*Life{db, web} {
		happens(l, machine.Event{Kind: machine.Spawned, PID: 20})
	}
	if web.State().Phase != machine.Running || migrate.State().Phase != machine.Exited {
		t.Fatalf("web is %s, migrate %s", web.State().Phase, migrate.State().Phase)
	}
	step(Input{Kind: End, Budget: 10 * time.Second})
	if len(stops) != 1 || stops[0].Node != web.Node() {
		t.Errorf("first stop %+v", stops)
	}
	if within := web.State().Deadlines.Stop - 1; within != int64(4500*time.Millisecond) {
		t.Errorf("web has %s to stop", time.Duration(within))
	}
}

// A supervisor that was killed between remembering a spawn and asking for it leaves an
// id that tier 1 has never heard of. Its successor gives it to nobody else: what is said
// of that spawn would reach the wrong one.
func TestARememberedSpawnIDIsGivenToNobodyElse(t *testing.T) {
	s, next := &Set{}, uint64(5)
	step := func(in Input) {
		in.Now, in.NextID = 1<<40, next
		for _, e := range s.Step(in) {
			if e.Kind == Spawn {
				next = max(next, e.Action.ID+1)
			}
		}
	}
	step(Input{Kind: Hold})
	for name, state := range map[string]machine.State{
		"asked":  {Want: machine.WantUp, Phase: machine.Spawning, Run: machine.Run{ID: 5}, LastID: 5},
		"exited": {Want: machine.WantUp, Phase: machine.Running, Run: machine.Run{ID: 4, Process: machine.Process{PID: 1}}, LastID: 4},
	} {
		step(Input{Kind: Define, Name: name, Definition: &Definition{Policy: machine.Policy{Restart: "always"}}, State: &state})
	}
	exited, asked := s.Find("exited"), s.Find("asked")
	step(Input{Node: exited.Node(), Event: machine.Event{Kind: machine.Adopt, Child: machine.ChildExited, ID: 4}})
	step(Input{Node: asked.Node(), Event: machine.Event{Kind: machine.Adopt, Child: machine.ChildNone}})
	step(Input{Kind: Release})
	for _, l := range []*Life{exited, asked} {
		if id := l.State().ID; id <= 5 || s.spawns[id] != l {
			t.Errorf("%s has the spawn %d, which is %v's", l.name, id, s.spawns[id])
		}
	}
}

// What a process of an earlier run has sent late is nothing that this one says; what has
// no sender that is known, or this one's, is.
func TestWhatAnEarlierRunSaysLate(t *testing.T) {
	s, next := &Set{}, uint64(1)
	step := func(in Input) {
		in.Now, in.NextID = int64(time.Hour), next
		for _, e := range s.Step(in) {
			if e.Kind == Spawn {
				next = e.Action.ID + 1
			}
		}
	}
	policy := machine.Policy{Ready: machine.ReadyNotify, Restart: service.RestartAlways}
	step(Input{Kind: Hold})
	step(Input{Kind: Define, Name: "a", Definition: &Definition{Policy: policy}})
	step(Input{Kind: Release})
	l := s.Find("a")
	happens := func(e machine.Event) {
		e.ID = l.State().ID
		step(Input{Kind: Happened, Node: l.Node(), Event: e})
	}
	says := func(pid int, kinds ...machine.EventKind) {
		var events []machine.Event
		for _, kind := range kinds {
			events = append(events, machine.Event{Kind: kind, Errno: 5})
		}
		step(Input{Kind: Notified, Node: l.Node(), PID: pid, Events: events})
	}
	step(Input{Kind: Give, Turn: order.Start, Nodes: []order.Node{l.Node()}, Event: machine.Event{Kind: machine.Start}})
	happens(machine.Event{Kind: machine.Spawned, PID: 10})
	says(10, machine.Ready)
	if l.State().Phase != machine.Running {
		t.Fatalf("it is ready, and %s", l.State().Phase)
	}
	happens(machine.Event{Kind: machine.ExitedEvent, Code: 1})
	for range 3 { // until it is spawned again
		if l.State().Phase != machine.Spawning {
			step(Input{Kind: Happened, Node: l.Node(), Event: machine.Event{Kind: machine.Restart}})
		}
	}
	happens(machine.Event{Kind: machine.Spawned, PID: 11})
	if l.State().Phase != machine.Starting || l.Former() != 10 {
		t.Fatalf("%s, after %d", l.State().Phase, l.Former())
	}
	before := *l.State()
	says(10, machine.Trouble, machine.Ready, machine.StoppingItself)
	if is := *l.State(); is.Phase != before.Phase || is.StopReason != before.StopReason || is.LastExit != before.LastExit {
		t.Errorf("an earlier run says something, and it is %+v", is)
	}
	says(0, machine.Ready)
	if l.State().Phase != machine.Running {
		t.Errorf("somebody says that it is ready, and it is %s", l.State().Phase)
	}
}

// What a service waits for behind one that does not run is said, and not what keeps that one.
func TestReasonBehind(t *testing.T) {
	s := &Set{}
	step := func(in Input) {
		in.Now, in.NextID = 1, 1
		s.Step(in)
	}
	define := func(name string, is Definition) *Life {
		is.Policy = machine.Policy{StopTimeout: 10 * time.Second, ExitSuccess: []int{0}, Restart: service.RestartOnFailure}
		step(Input{Kind: Define, Name: name, Definition: &is})
		return s.Find(name)
	}
	start := func(l *Life) {
		step(Input{Kind: Give, Turn: order.Start, Nodes: []order.Node{l.Node()}, Event: machine.Event{Kind: machine.Start}})
	}
	db := define("db", Definition{})
	define("cache", Definition{After: []string{"db"}})
	define("api", Definition{Requires: []string{"cache"}})
	web := define("web", Definition{After: []string{"api"}})
	start(db)
	start(web)
	if want := "waits for api, which comes after what is on its way"; web.State().Blocked != want {
		t.Errorf("web %s, want %s", web.State().Blocked, want)
	}
	step(Input{Kind: Happened, Node: db.Node(), Event: machine.Event{Kind: machine.Spawned, ID: db.State().ID, PID: 10}})
	if web.State().Phase != machine.Spawning {
		t.Errorf("db runs, and web is %s: %s", web.State().Phase, web.State().Blocked)
	}
}
