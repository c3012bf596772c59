package core_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// kinds and effectKinds are the names of inputs and effects, in a trace.
var (
	kinds = strings.Fields(`happened notified define redefine announce unannounce give revoke commanded recorded cancel drop join leave became
		want freed remembered marked heard recall resume interrupt hold release booted due lost stopping end`)
	effectKinds = strings.Fields("remember spawn signal sweep acknowledge prolonged start-probe stop-probe changed absent wanted record refused forgot told")
)

// said is an effect, in a trace.
func said(e *core.Effect, name string) string {
	by := "nobody"
	switch e.Kind {
	case core.Changed:
		if e.After.Actor != nil {
			by = fmt.Sprint("user ", *e.After.Actor)
		}
		return fmt.Sprintf("%s is %s, wanted %q, by %s", name, e.After.Phase, e.After.Want, by)
	case core.Remember, core.Wanted:
		return fmt.Sprintf("%s of %s: wanted %+v", effectKinds[e.Kind], name, e.Wants)
	case core.Record, core.Refused:
		return fmt.Sprintf("%s user %d's %s, part of %d", effectKinds[e.Kind], e.Command.Actor.UID, e.Command.Verb, e.Command.Part)
	case core.Told:
		return fmt.Sprintf("told user %d: %s, %+v", e.Operation.Actor.UID, e.Operation.State, e.Operation.Members)
	}
	return fmt.Sprintf("%s of %s: %s %d", effectKinds[e.Kind], name, e.Action.Kind, e.Action.ID)
}

// world drives a Set as the supervisor does: it carries out effects one after the other,
// plays tier 1 and time, and holds what comes out against what must be true whatever
// happens. Some of its supervisors are killed between two effects.
type world struct {
	r      *rand.Rand
	set    *core.Set
	twin   *core.Set // gets the same inputs; nil: there is none
	twins  map[*core.Life]*core.Life
	orders map[*core.Command]*core.Command // as the twin has them
	names  []string
	defs   map[string]*core.Definition // in force; of a name that is not there, the last or none

	nodes    map[order.Node]string
	shadow   map[string]*machine.State // as Changed has told it
	memory   map[string]machine.State  // as Remember has told it
	children map[uint64]*child
	now      int64
	nextID   uint64
	lastPID  int
	held     int
	ended    bool
	stopped  map[string]bool // who may not be wanted any more
	stuck    map[string]bool
	outdated map[string]bool // who is to be told of its definition yet
	mortal   bool            // it may be killed now
	adopting bool

	callers

	trace  []string
	wrong  string
	counts map[string]int
}

// child is a process of tier 1's table.
type child struct {
	id        uint64
	name      string
	pid       int // 0: its spawn is not answered yet
	exited    bool
	code      int
	leftovers int
	ending    bool // it was told to end
}

func newWorld(r *rand.Rand, names []string, twin bool) *world {
	w := &world{
		r: r, names: names, defs: map[string]*core.Definition{}, nextID: 1, now: int64(time.Hour), counts: map[string]int{},
		stopped: map[string]bool{}, outdated: map[string]bool{}, children: map[uint64]*child{}, memory: map[string]machine.State{}, callers: newCallers(),
	}
	if twin {
		w.twin = &core.Set{}
	}
	w.begin()
	return w
}

func (w *world) begin() {
	w.limits = core.Limits{Operations: 1 + w.r.IntN(2), Members: 1 + w.r.IntN(6)}
	w.set, w.held, w.recording, w.rows, w.logged, w.vacated = &core.Set{Limits: w.limits}, 0, nil, nil, nil, nil
	clear(w.joined)
	clear(w.unmarked)
	clear(w.unsaved)
	clear(w.refused)
	if w.twins, w.orders = map[*core.Life]*core.Life{}, map[*core.Command]*core.Command{}; w.twin != nil {
		w.twin = &core.Set{Limits: w.limits}
	}
	w.nodes, w.shadow, w.stuck = map[order.Node]string{}, map[string]*machine.State{}, map[string]bool{}
}

func (w *world) fault(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// apply tells the Set one thing, and carries out what follows.
func (w *world) apply(in core.Input) {
	if w.wrong != "" {
		return
	}
	in.Now, in.Wall, in.Rand, in.NextID = w.now, w.now, w.r.Uint64(), w.nextID
	if stops := in.Turn == order.Stop || in.Turn == order.Remove; in.Kind == core.Give && stops {
		for _, n := range in.Nodes {
			w.stopped[w.nodes[n]] = true
		}
	}
	w.trace = append(w.trace, fmt.Sprintf("%s %s %v %v %v %v", kinds[in.Kind], in.Event.Kind, in.Turn, in.Nodes, in.Name, in.Event.ID))
	twinned := in
	if w.twin != nil {
		twinned = w.twinned(in) // Step may change a command
	}
	effects := w.set.Step(in)
	if w.twin != nil {
		w.alike(effects, w.twin.Step(twinned))
	}
	if most := 60 * (len(w.names) + 1); len(effects) > most {
		w.fault("a cascade of %d effects", len(effects))
	}
	if in.Kind == core.Define {
		if life := w.set.Find(in.Name); life == nil {
			w.fault("%s is defined, and nobody", in.Name)
			return
		} else {
			w.nodes[life.Node()] = in.Name
			if w.twin != nil {
				w.twins[life] = w.twin.Find(in.Name)
			}
			state := *life.State()
			w.shadow[in.Name] = &state
		}
	}
	w.ordered(effects)
	w.told(effects)
	killed := -1
	if w.mortal && w.r.IntN(40) == 0 {
		killed = w.r.IntN(len(effects) + 1)
	}
	for i := range effects {
		if i == killed || w.wrong != "" {
			break
		}
		w.carryOut(&effects[i])
	}
	if killed >= 0 {
		w.succeed()
		return
	}
	w.consistent()
	w.answer(effects)
}

// twinned is an input as the twin knows it, whose lives and commands are its own.
func (w *world) twinned(in core.Input) core.Input {
	if in.Life != nil {
		in.Life = w.twins[in.Life]
	}
	in.Rows = slices.Clone(in.Rows)
	for i := range in.Rows {
		in.Rows[i].Life = w.twins[in.Rows[i].Life]
	}
	if c := in.Command; c != nil {
		if w.orders[c] == nil {
			again := *c
			again.Lives = slices.Clone(c.Lives)
			for i, l := range again.Lives {
				again.Lives[i] = w.twins[l]
			}
			w.orders[c] = &again
		}
		in.Command = w.orders[c]
	}
	return in
}

// alike: the same inputs have the same effects.
func (w *world) alike(effects, again []core.Effect) {
	if len(effects) != len(again) {
		w.fault("the same inputs have other effects: %+v, %+v", effects, again)
		return
	}
	for i := range effects {
		a, b := effects[i], again[i]
		w.twins[a.Life] = b.Life
		if a.Command != nil {
			w.orders[a.Command] = b.Command
		}
		if a.Operation != nil && !reflect.DeepEqual(a.Operation.Operation, b.Operation.Operation) {
			w.fault("the same inputs have other operations: %+v, %+v", a.Operation.Operation, b.Operation.Operation)
		}
		a.Life, b.Life, a.Command, b.Command, a.Operation, b.Operation = nil, nil, nil, nil, nil, nil
		if !reflect.DeepEqual(a, b) {
			w.fault("the same inputs have other effects: %+v, %+v", a, b)
		}
	}
}

// answer has those answer who carry effects out.
func (w *world) answer(effects []core.Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Kind {
		case core.Changed:
			if is, was := e.After.LastExit, e.Before.LastExit; is != nil && (was == nil || *is != *was) {
				if !is.Lost {
					w.unmarked[e.Before.ID] = true
				}
				w.logged = append(w.logged, core.Input{Kind: core.Marked, Life: e.Life, Spawn: e.Before.ID}, core.Input{Kind: core.Heard, Life: e.Life, Spawn: e.Before.ID})
			}
		}
	}
	if !w.mortal || w.r.IntN(4) > 0 {
		w.acknowledge()
	}
}

// told: who is stuck now, and was not before, or the other way round, is said to have
// changed.
func (w *world) told(effects []core.Effect) {
	for n, name := range w.nodes {
		life := w.set.Life(n)
		if life == nil || life.Stuck() == w.stuck[name] {
			continue
		}
		w.stuck[name] = life.Stuck()
		if !slices.ContainsFunc(effects, func(e core.Effect) bool { return e.Kind == core.Changed && e.Node == n }) {
			w.fault("%s is stuck: %v, and nobody is told", name, life.Stuck())
		}
	}
}

// ordered holds the effects to their order: of each transition Remember, what the machine
// asks for, and Changed, with nothing of another service between them.
func (w *world) ordered(effects []core.Effect) {
	open, remembered := order.None, (*machine.State)(nil)
	gone := map[order.Node]bool{}
	last := map[order.Node]*machine.State{}
	for i := range effects {
		e := &effects[i]
		w.trace = append(w.trace, "    "+said(e, w.nodes[e.Node]))
		switch {
		case e.Kind == core.Absent, e.Kind >= core.Wanted, e.Kind == core.Acknowledge:
			continue
		case e.Kind == core.Remember && !slices.ContainsFunc(effects[i:], func(o core.Effect) bool { return o.Kind == core.Changed && o.Node == e.Node }):
			continue // of what is wanted, at the end
		case w.nodes[e.Node] == "" || gone[e.Node]:
			w.fault("effect %d is about %d, which is nobody", i, e.Node)
		case open != order.None && open != e.Node:
			w.fault("effect %d is about another than the one before it", i)
		}
		switch open = e.Node; e.Kind {
		case core.Remember:
			if remembered != nil {
				w.fault("effect %d is a second Remember of one transition", i)
			}
			remembered = e.After
		case core.Changed:
			before := last[e.Node]
			if before == nil {
				before = w.shadow[w.nodes[e.Node]]
			}
			if !w.adopting && !reflect.DeepEqual(before, e.Before) {
				w.fault("%s was %+v, and is said to have been %+v", w.nodes[e.Node], before, e.Before)
			}
			if e.Remembered != (remembered != nil) || remembered != nil && !reflect.DeepEqual(remembered, e.After) {
				w.fault("%s is %+v after its change, and a successor was told of %+v", w.nodes[e.Node], e.After, remembered)
			}
			last[e.Node], gone[e.Node] = e.After, e.After.Phase == machine.Gone
			open, remembered = order.None, nil
		case core.Spawn:
			if remembered == nil {
				w.fault("effect %d is carried out before it is remembered", i)
			}
		}
	}
	if open != order.None {
		w.fault("the last transition has no end")
	}
}

// carryOut is one effect.
func (w *world) carryOut(e *core.Effect) {
	name := w.nodes[e.Node]
	switch e.Kind {
	case core.Remember:
		w.remember(row{core.Row{Life: e.Life, Version: e.Version}, name, *e.After, e.Wants})
	case core.Spawn:
		w.nextID = max(w.nextID, e.Action.ID+1)
		if _, unsaved := w.unsaved[name]; unsaved { // nobody would know of that process
			w.refused[e.Action.ID] = true
			return
		}
		w.mayStart(name, e.Action.ID)
		delete(w.outdated, name)
		w.children[e.Action.ID] = &child{id: e.Action.ID, name: name}
		w.counts["spawns"]++
	case core.Signal:
		if c := w.children[e.Action.ID]; c != nil && c.pid != 0 {
			c.ending = true
		}
	case core.Sweep:
		if c := w.children[e.Action.ID]; c == nil || !c.exited {
			w.fault("%s is swept, and has not ended", name)
		}
	case core.Acknowledge:
		if c := w.children[e.Action.ID]; c == nil || !c.exited || c.leftovers > 0 {
			w.fault("%d of %s is acknowledged: %+v", e.Action.ID, name, c)
		}
		if w.memory[name].ID == e.Action.ID {
			w.fault("tier 1 is to forget %d, and no successor would know that it ended", e.Action.ID)
		}
		if w.unmarked[e.Action.ID] || w.known[name].ID == e.Action.ID {
			w.fault("tier 1 is to forget %d of %s; marked in the log: %v, remembered: %+v", e.Action.ID, name, !w.unmarked[e.Action.ID], w.known[name])
		}
		delete(w.children, e.Action.ID)
	case core.Record, core.Refused, core.Forgot, core.Told:
		w.order(e)
	case core.Changed:
		w.mayStop(name, e)
		w.mayFollow(name, e)
		if e.After.Want == machine.WantDown && e.Before.Want == machine.WantUp && !w.stopped[name] && !w.ended {
			w.fault("%s is not wanted any more, and nobody has stopped it: %+v", name, e.After)
		}
		state := *e.After
		w.shadow[name] = &state
		if e.After.Phase == machine.Gone {
			delete(w.nodes, e.Node)
			delete(w.shadow, name)
			delete(w.memory, name)
			delete(w.stopped, name)
			delete(w.stuck, name)
			delete(w.outdated, name)
			w.forget(name)
			w.counts["gone"]++
		}
	}
}

// mayStart: one process of a service at most, and what it requires is up.
func (w *world) mayStart(name string, id uint64) {
	for _, c := range w.children {
		if c.name == name && !c.exited { // of one that has ended tier 1 is yet to be told to forget it
			w.fault("%s is spawned as %d, and %d is there: %+v", name, id, c.id, c)
		}
	}
	if w.held > 0 || w.adopting {
		return // nothing is decided
	}
	if w.ended {
		w.fault("%s is spawned, and the container ends", name)
	}
	w.requiredIsUp(name, name, map[string]bool{})
}

// requiredIsUp looks at what one requires; a oneshot that is done stands for all that it
// requires.
func (w *world) requiredIsUp(name, by string, seen map[string]bool) {
	for _, other := range w.requires(by) {
		if seen[other] {
			continue
		}
		seen[other] = true
		switch state := w.shadow[other]; {
		case state == nil || !state.Satisfies(w.defs[other].Policy):
			w.fault("%s is spawned, and requires %s, which is %+v", name, other, state)
		case state.Phase == machine.Exited:
			w.requiredIsUp(name, other, seen)
		}
	}
}

// mayStop: nobody is stopped by a command while what depends on it is still on its way down,
// whatever lies between.
func (w *world) mayStop(name string, e *core.Effect) {
	by := e.After.Phase == machine.Stopping && e.After.StopBy == machine.StopCommand
	if !by || e.Before.Phase != machine.Running && e.Before.Phase != machine.Starting || w.adopting {
		return
	}
	for d, state := range w.shadow {
		going := state.Phase == machine.Stopping || state.Phase == machine.Sweeping
		if d != name && going && w.leads(w.follows, d, name, map[string]bool{}) && !w.leads(w.refers, name, d, map[string]bool{}) {
			w.fault("%s is stopped, and %s, which depends on it, is %s", name, d, state.Phase)
		}
	}
	w.counts["stops"]++
}

// refers are the names that a service's definition names.
func (w *world) refers(name string) []string {
	d := w.defs[name]
	return slices.Concat(d.Requires, d.Wants, d.After)
}

// follows are those of them that it starts after: no weak edge on a cycle counts, and
// none of a service that is gone.
func (w *world) follows(name string) []string {
	d := w.defs[name]
	if w.set.Find(name) == nil {
		return nil
	}
	weak := slices.DeleteFunc(slices.Concat(d.Wants, d.After), func(other string) bool { return w.leads(w.refers, other, name, map[string]bool{}) })
	return slices.Concat(d.Requires, weak)
}

// requires are the names that a service's definition requires.
func (w *world) requires(name string) []string { return w.defs[name].Requires }

// leads tells whether one service leads to another by names of either kind, by whatever
// way. seen are those that were looked at.
func (w *world) leads(by func(string) []string, from, to string, seen map[string]bool) bool {
	seen[from] = true
	if w.defs[from] == nil {
		return false
	}
	for _, next := range by(from) {
		if next == to || !seen[next] && w.leads(by, next, to, seen) {
			return true
		}
	}
	return false
}

// consistent holds the Set against what was told, when all is carried out.
func (w *world) consistent() {
	active, next := 0, w.set.Awake()
	for n, name := range w.nodes {
		life := w.set.Life(n)
		if life == nil || w.set.Find(name) != life || life.Node() != n {
			w.fault("%s, %d, is not to be found", name, n)
			return
		}
		if life.Lingers() {
			w.fault("%s is a member of an operation that is over", name)
		}
		state := life.State()
		if !w.adopting && !reflect.DeepEqual(state, w.shadow[name]) {
			w.fault("%s is %+v, and was told to be %+v", name, state, w.shadow[name])
		}
		if core.Active(state) {
			active++
		}
		if state.ID != 0 && w.set.OfSpawn(state.ID) != life {
			w.fault("the spawn %d of %s is not to be found", state.ID, name)
		}
		if at := state.Timer.At; at != 0 && (next == 0 || at < next) {
			next = at
		}
		if !w.adopting && life.Armed() != state.Timer.At {
			w.fault("%s is armed for %d, and its state says %d", name, life.Armed(), state.Timer.At)
		}
		if fact := w.set.Fact(n); w.held == 0 && (fact.Turn != life.Turn() || fact.Phase != order.FactOf(*state, w.defs[name].Policy).Phase) {
			w.fault("%s is %+v with the turn %s, and order knows %+v", name, state, life.Turn(), fact)
		}
	}
	for id := range w.nextID {
		if life := w.set.OfSpawn(id); life != nil && life.State().ID != id {
			w.fault("the spawn %d is of one whose run is %d", id, life.State().ID)
		}
	}
	w.withinWidth()
	w.readable()
	for _, o := range w.set.Operations.List() {
		if w.ended && !o.Over() && !o.Down() && !w.adopting && w.held == 0 {
			w.fault("user %d's command is %s, and the container ends", o.Actor.UID, o.State)
		}
	}
	if active != w.set.Active() {
		w.fault("%d are active, counted are %d", active, w.set.Active())
	}
	if at, ok := w.set.Next(); !w.adopting && (at != next || ok != (next != 0)) {
		w.fault("the next deadline is %d, and said is %d", next, at)
	}
}

// succeed is a kill of the supervisor, and a successor that takes over by what was
// remembered and by tier 1's table.
func (w *world) succeed() {
	w.counts["killed"]++
	mortal := w.mortal
	w.trace = append(w.trace, "killed")
	w.begin()
	w.now += w.r.Int64N(int64(10 * time.Second)) // nobody is there meanwhile
	for _, id := range slices.Sorted(maps.Keys(w.children)) {
		if c := w.children[id]; c.pid != 0 && !c.exited && w.r.IntN(4) == 0 {
			c.exited, c.code, c.leftovers = true, w.r.IntN(2), w.r.IntN(3)
			w.counts["ended unheard"]++
		}
	}
	newest := map[string]uint64{}
	for id, c := range w.children {
		newest[c.name] = max(newest[c.name], id)
	}
	for id, c := range w.children { // tier 1 is to forget what nobody knows of, and what ended before another run
		if _, known := w.memory[c.name]; c.exited && (!known || newest[c.name] != id) {
			delete(w.children, id)
		}
	}
	w.mortal, w.adopting = false, true
	w.apply(core.Input{Kind: core.Hold})
	w.recall()
	known := slices.Sorted(maps.Keys(w.memory))
	changed := map[string]bool{}
	for _, name := range known {
		state := w.memory[name]
		changed[name] = w.takeBack(name, &state)
	}
	if w.ended {
		w.apply(core.Input{Kind: core.Stopping})
	}
	for _, name := range known {
		e := w.adoption(name)
		if changed[name] && w.set.Find(name).Wants().Desired == service.Running {
			e.SetWant, e.Want = true, machine.WantUp
		}
		w.apply(core.Input{Kind: core.Happened, Node: w.set.Find(name).Node(), Event: e})
	}
	w.apply(core.Input{Kind: core.Release})
	w.stopOverdue()
	w.apply(core.Input{Kind: core.Resume})
	for _, o := range w.set.Operations.List() {
		if !o.Over() {
			w.fault("user %d's command is %s, and nobody goes on with it", o.Actor.UID, o.State)
		}
	}
	w.mortal, w.adopting = mortal, false
	for name := range w.shadow {
		if life := w.set.Find(name); life != nil {
			state := *life.State()
			w.shadow[name] = &state
		}
	}
	w.consistent()
	for _, name := range slices.Sorted(maps.Keys(w.outdated)) {
		if life := w.set.Find(name); life != nil {
			w.update(name, core.Input{Kind: core.Happened, Node: life.Node(), Event: machine.Event{Kind: machine.Update}})
		}
	}
	if w.ended {
		w.apply(core.Input{Kind: core.End, Budget: 10 * time.Second})
	}
}

// adoption is what tier 1 knows of a service.
func (w *world) adoption(name string) machine.Event {
	e := machine.Event{Kind: machine.Adopt, Child: machine.ChildNone}
	for _, c := range w.children {
		if c.name != name {
			continue
		}
		e.ID, e.PID = c.id, c.pid
		switch {
		case c.exited:
			e.Child, e.Code, e.Leftovers = machine.ChildExited, c.code, c.leftovers
		case c.pid != 0:
			e.Child = machine.ChildAlive
		default:
			e.Child = machine.ChildPending
		}
	}
	return e
}

// policy is one at random.
func (w *world) policy(oneshot bool) machine.Policy {
	p := machine.Policy{
		Oneshot: oneshot,
		Restart: []service.RestartPolicy{service.RestartAlways, service.RestartOnFailure, service.RestartNo}[w.r.IntN(3)],
		Delay:   100 * time.Millisecond, Factor: 2, Jitter: 0.1, ResetAfter: 5 * time.Second, Limit: 3, Window: 10 * time.Second,
		RetryFailed: 20 * time.Second, StopTimeout: time.Second, StopScope: machine.ScopeGroup, ReadyTimeout: 2 * time.Second,
		ExitSuccess: []int{0},
	}
	if oneshot && p.Restart == service.RestartAlways {
		p.Restart = service.RestartOnFailure
	}
	if !oneshot && w.r.IntN(3) == 0 {
		p.Ready = machine.ReadyNotify
	}
	if !oneshot && w.r.IntN(3) == 0 {
		p.Health, p.HealthRetries, p.HealthRestart = true, 1, w.r.IntN(2) == 0
	}
	return p
}

func (w *world) String() string {
	var lines []string // without those that only say again what the two before them said
	for i, line := range w.trace {
		if i < 2 || line != w.trace[i-2] {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-120):], "\n") + "\n" + w.wrong
}
