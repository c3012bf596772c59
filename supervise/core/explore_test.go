package core_test

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/tests/exploreorder"
)

var (
	seed  = flag.Uint64("seed", 0, "of the lives that are taken at random")
	walks = flag.Int("walks", 1, "how many lives of each graph")
)

// TestEverySmallSet takes every graph of up to three services through random lives: what
// tier 1 answers, commands, deadlines, definitions that come and go, supervisors that are
// killed between two effects. world has what must be true all along. At the end there is
// peace, in which everything comes up that can, and stops when the container does.
func TestEverySmallSet(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	total, graphs := map[string]int{}, 0
	for n := 1; n <= 3; n++ {
		exploreorder.Graphs(n, func(edges [exploreorder.Most][exploreorder.Most]uint8, oneshot [exploreorder.Most]bool) {
			graphs++
			if testing.Short() && graphs%20 != 0 {
				return
			}
			for walk := range *walks {
				r := rand.New(rand.NewPCG(first, uint64(graphs)<<16|uint64(walk)))
				w := newWorld(r, []string{"a", "b", "c"}[:n], graphs%10 == 0)
				w.live(edges, oneshot)
				if w.wrong != "" {
					t.Fatalf("graph %d, -seed %d: %v %v\n%v", graphs, first, edges, oneshot, w)
				}
				for what, times := range w.counts {
					total[what] += times
				}
			}
		})
	}
	t.Logf("figure: core: %d graphs: %v", graphs, total)
	for _, what := range []string{
		"killed", "ended unheard", "spawns", "stops", "gone", "answered", "exits", "swept", "told", "due", "lost", "start", "stop", "restart", "reload", "await",
		"rolling start", "rolling stop", "rolling restart", "rolling reload", "killed when recorded", "not recorded", "not remembered", "refused spawns", "cancelled", "dropped", "refused", "joined", "left", "forgotten", "recorded one by one",
		"done", "member failed", "member cancelled", "member superseded", "member interrupted",
		"removed", "defined", "redefined", "held", "announced", "revoked", "ended",
	} {
		if total[what] == 0 {
			t.Errorf("nothing was %s", what)
		}
	}
}

// live is one walk.
func (w *world) live(edges [exploreorder.Most][exploreorder.Most]uint8, oneshot [exploreorder.Most]bool) {
	definition := func(i int) *core.Definition {
		d := &core.Definition{Policy: w.policy(oneshot[i])}
		for j, kind := range edges[i][:len(w.names)] {
			of := [...]*[]string{nil, &d.Requires, &d.Wants, &d.After}[kind]
			if of != nil {
				*of = append(*of, w.names[j])
			}
		}
		return d
	}
	for i, name := range w.names {
		w.defs[name] = definition(i)
	}
	w.mortal = true
	for range 60 {
		i := w.r.IntN(len(w.names))
		w.meddle(w.names[i], func() *core.Definition { return definition(i) })
		if w.wrong != "" {
			return
		}
	}
	w.mortal = false
	for ; w.held > 0; w.held-- {
		w.apply(core.Input{Kind: core.Release})
	}
	w.apply(core.Input{Kind: core.Unannounce, Names: w.names}) // or somebody waits for them
	w.peace()
	w.quiet()
	if !w.ended {
		for _, name := range w.names {
			if w.shadow[name] == nil {
				w.define(name)
			}
		}
		w.startAll()
		w.peace()
		w.up()
		w.quiet()
	}
	w.ended = true
	w.apply(core.Input{Kind: core.End, Budget: time.Minute})
	w.peace()
	w.allOver()
	for w.leave(true) {
	}
	w.readable()
	if w.set.Active() != 0 || len(w.children) != 0 {
		w.fault("the container ends, and %d services do not: %v", w.set.Active(), w.children)
	}
	w.apply(core.Input{Kind: core.Give, Turn: order.Remove, Nodes: w.all(), Event: machine.Event{Kind: machine.Remove}})
	w.apply(core.Input{Kind: core.Unannounce, Names: w.names})
	if w.set.Names() != 0 {
		w.fault("nobody is there, and %d names are known", w.set.Names())
	}
}

func (w *world) all() []order.Node { return slices.Sorted(maps.Keys(w.nodes)) }

// meddle does something at random, mostly to one service.
func (w *world) meddle(name string, definition func() *core.Definition) {
	life := w.set.Find(name)
	if life == nil {
		if w.held == 0 {
			w.defs[name] = definition()
			w.define(name)
		}
		return
	}
	n := life.Node()
	some := []order.Node{n}
	for other := range w.nodes {
		if other != n && w.r.IntN(2) == 0 {
			some = append(some, other)
		}
	}
	slices.Sort(some)
	switch w.r.IntN(24) {
	case 0, 1, 2, 3:
		var lives []*core.Life
		for _, n := range some {
			lives = append(lives, w.set.Life(n))
		}
		w.ask(lives)
	case 4:
		w.cancel()
	case 19:
		w.late(life)
	case 20:
		w.record(true)
	case 22:
		w.join()
	case 23:
		w.leave(false)
	case 21:
		w.rewrite()
		w.acknowledge()
	case 5:
		w.counts["removed"]++
		w.removing[w.nodes[some[0]]] = true
		w.apply(core.Input{Kind: core.Give, Turn: order.Remove, Nodes: some[:1], Event: machine.Event{Kind: machine.Remove}})
	case 6:
		d := definition()
		if w.r.IntN(4) == 0 { // it depends on nobody, until the next one
			d.Requires, d.Wants, d.After = nil, nil, nil
		}
		w.redefine(life, d)
	case 7:
		if w.held > 0 {
			w.held--
			w.apply(core.Input{Kind: core.Release})
		} else if w.r.IntN(3) == 0 {
			w.held++
			w.counts["held"]++
			w.apply(core.Input{Kind: core.Hold})
		}
	case 8:
		kind := []core.Kind{core.Announce, core.Unannounce}[w.r.IntN(2)]
		w.counts["announced"]++
		w.apply(core.Input{Kind: kind, Names: w.names})
	case 9:
		if w.ended {
			return // nobody takes back the end
		}
		w.counts["revoked"]++
		w.apply(core.Input{Kind: core.Revoke, Nodes: slices.DeleteFunc(some, func(n order.Node) bool {
			return w.commanded(n) || w.set.Life(n).Turn() > order.Start
		})})
	case 10:
		w.counts["lost"]++
		w.now += int64(time.Second)
		w.apply(core.Input{Kind: core.Lost, Event: machine.Event{Within: int64(time.Second)}})
	case 11:
		if w.r.IntN(20) == 0 {
			w.ended = true
			w.counts["ended"]++
			w.apply(core.Input{Kind: core.End, Budget: 10 * time.Second})
		}
	case 12, 13:
		w.due()
	default:
		w.hear(life, w.r.IntN(3) != 0)
	}
}

// late has the run before the one that there is say that it is ready.
func (w *world) late(life *core.Life) {
	was := *life.State()
	if life.Former() == 0 || life.Former() == was.PID || was.Phase != machine.Starting {
		return
	}
	w.counts["late"]++
	w.apply(core.Input{Kind: core.Notified, Node: life.Node(), PID: life.Former(), Events: []machine.Event{{Kind: machine.Ready}}})
	if w.set.Life(life.Node()) == life && life.State().Phase == machine.Running {
		w.fault("%s is running, as the run before it has said", life.Name())
	}
}

func (w *world) define(name string) {
	w.counts["defined"]++
	mortal := w.mortal
	w.mortal = false // of what nothing is known yet nothing is to be taken over
	w.apply(core.Input{Kind: core.Hold})
	w.held++
	want := []service.Intent{service.Running, service.Stopped}[w.r.IntN(2)]
	w.journal[name] = want
	for _, a := range w.asked {
		w.mayStopMore(a)
	}
	w.apply(core.Input{Kind: core.Define, Name: name, Definition: w.defs[name], Wants: core.Wants{Desired: want}})
	if life := w.set.Find(name); life != nil && want == service.Running {
		w.apply(core.Input{Kind: core.Give, Turn: order.Start, Nodes: []order.Node{life.Node()}, Event: machine.Event{Kind: machine.Start}})
	} else if life != nil {
		w.apply(core.Input{Kind: core.Revoke, Nodes: []order.Node{life.Node()}})
	}
	w.held--
	w.apply(core.Input{Kind: core.Release})
	if state := w.shadow[name]; state != nil { // the supervisor keeps it when it is defined
		w.memory[name], w.known[name], w.wants[name] = *state, *state, core.Wants{Desired: want}
	}
	w.mortal = mortal
}

func (w *world) redefine(life *core.Life, d *core.Definition) {
	w.counts["redefined"]++
	n := life.Node()
	name := w.nodes[n]
	w.defs[name], w.outdated[name] = d, true
	for _, a := range w.asked {
		w.mayStopMore(a)
	}
	w.apply(core.Input{Kind: core.Redefine, Node: n, Definition: d})
	if w.set.Life(n) != life {
		return // another supervisor has taken over, or it is gone
	}
	update := machine.Event{Kind: machine.Update, NeedsRestart: w.r.IntN(2) == 0}
	in := core.Input{Kind: core.Give, Turn: order.Restart, Nodes: []order.Node{n}, Event: update}
	if state := life.State(); !update.NeedsRestart || life.Turn().Stops() || !core.Active(state) || state.Want != machine.WantUp {
		in = core.Input{Kind: core.Happened, Node: n, Event: machine.Event{Kind: machine.Update}}
	}
	w.update(name, in)
}

// update tells a service of its definition, unless the supervisor ends meanwhile. Who is
// restarted for it is told when its turn comes.
func (w *world) update(name string, in core.Input) {
	set := w.set
	if w.apply(in); w.set == set && in.Kind == core.Happened {
		delete(w.outdated, name)
	}
}

// due lets time go by until the next deadline.
func (w *world) due() bool {
	at, ok := w.set.Next()
	if !ok {
		return false
	}
	w.counts["due"]++
	w.now = max(w.now, at)
	w.apply(core.Input{Kind: core.Due})
	return true
}

// hear has tier 1, or the service itself, say something about it, and tells whether there
// was anything. What is well is not ill meanwhile.
func (w *world) hear(life *core.Life, well bool) bool {
	n, state := life.Node(), life.State()
	tell := func(what string, e machine.Event) bool {
		w.counts[what]++
		e.ID = state.ID
		w.apply(core.Input{Kind: core.Happened, Spawn: state.ID, Event: e})
		return true
	}
	c := w.children[state.ID]
	if w.refused[state.ID] {
		delete(w.refused, state.ID)
		return tell("refused spawns", machine.Event{Kind: machine.SpawnFailed, Temporary: true})
	}
	switch {
	case c == nil:
		return false
	case c.pid == 0 && !c.exited:
		if well {
			w.lastPID++
			c.pid = w.lastPID
			return tell("answered", machine.Event{Kind: machine.Spawned, PID: c.pid})
		}
		if w.r.IntN(3) == 0 {
			return tell("answered", machine.Event{Kind: machine.SpawnStuck})
		}
		delete(w.children, c.id)
		return tell("answered", machine.Event{Kind: machine.SpawnFailed, Temporary: w.r.IntN(2) == 0})
	case c.exited:
		if c.leftovers > 0 && (well || w.r.IntN(2) == 0) {
			c.leftovers--
		}
		return tell("swept", machine.Event{Kind: machine.Swept, Remaining: c.leftovers})
	case !well && w.r.IntN(2) == 0, c.ending, well && w.defs[c.name].Policy.Oneshot && state.Phase == machine.Running:
		c.exited = true
		if !well {
			c.code, c.leftovers = w.r.IntN(2), w.r.IntN(3)
		}
		return tell("exits", machine.Event{Kind: machine.ExitedEvent, Code: c.code, Leftovers: c.leftovers})
	case state.Phase == machine.Starting && w.defs[c.name].Policy.Ready == machine.ReadyNotify:
		w.counts["told"]++
		w.apply(core.Input{Kind: core.Notified, Node: n, PID: c.pid, Events: []machine.Event{{Kind: machine.Ready}}})
		return true
	case well && core.Unhealthy(state):
		return tell("told", machine.Event{Kind: machine.HealthPassed})
	case well:
		return false
	}
	return tell("told", machine.Event{Kind: []machine.EventKind{machine.HealthFailed, machine.HealthPassed, machine.StoppingItself, machine.WatchdogPing}[w.r.IntN(4)]})
}

// peace lets everything go well until nothing happens by itself any more, or in an hour.
func (w *world) peace() {
	for until, rounds := w.now+int64(time.Hour), 0; w.now < until && w.wrong == ""; rounds++ {
		if rounds == 20_000 {
			w.fault("there is no peace")
		}
		heard := w.rewrite()
		heard = w.acknowledge() || heard
		heard = w.record(false) || heard
		for _, n := range w.all() {
			if life := w.set.Life(n); life != nil {
				heard = w.hear(life, true) || heard
			}
		}
		if !heard && !w.due() {
			return
		}
	}
}

// up: in peace everything runs, or has done its work, whose requirements can.
func (w *world) up() {
	for _, name := range w.names {
		if w.leads(w.requires, name, name, map[string]bool{}) {
			continue
		}
		bound := false // to a ring, or to one of which a run failed before
		for _, other := range w.names {
			bound = bound || w.leads(w.requires, name, other, map[string]bool{}) && w.leads(w.requires, other, other, map[string]bool{})
		}
		if state := w.shadow[name]; !bound && (state == nil || !state.Satisfies(w.defs[name].Policy)) {
			w.fault("in peace %s is not up: %+v", name, state)
		}
	}
}
