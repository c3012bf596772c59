package core_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// callers give commands in a world: they are the journal that records them, the memory
// that a successor reads, and those who wait for what becomes of them.
type callers struct {
	last      uint64            // the highest id that was given
	asked     map[uint32]*asked // by the user, each of whom gives one command
	begun     []*asked          // in the order in which they were carried out
	recording []*core.Command   // that are to be recorded
	journal   map[string]service.Intent
	latest    map[string]uint32 // whose command for a service was the last to be carried out
	removing  map[string]bool   // services whose definitions are gone
	unlike    map[string]bool   // services that may be otherwise than the journal says
	wants     map[string]core.Wants
	kept      map[uint64]operation.Operation // that a successor would know of
	rows      []row                          // that are written, and of which the core is yet to hear
	unsaved   map[string]row                 // that could not be written, the latest of each
	vacated   []row                          // likewise, of services that are gone
	refused   map[uint64]bool                // spawns of those, which are not asked for
	logged    []core.Input                   // likewise, of the log
	unmarked  map[uint64]bool                // runs of which the log does not say yet how they ended
	known     map[string]machine.State       // as the core has heard that it is remembered
	joined    map[uint64]int                 // how many others read an operation
	limits    core.Limits
}

// row is what was written of a service.
type row struct {
	core.Row
	name  string
	state machine.State
	wants core.Wants
}

// remember writes what a successor is to know of a service, or fails to.
func (w *world) remember(r row) {
	if w.mortal && w.r.IntN(25) == 0 {
		w.counts["not remembered"]++
		w.unsaved[r.name] = r
		return
	}
	delete(w.unsaved, r.name)
	w.memory[r.name], w.wants[r.name] = r.state, r.wants
	w.rows = append(w.rows, r)
}

// rewrite writes what could not be written, and tells whether there was anything.
func (w *world) rewrite() bool {
	names := slices.Sorted(maps.Keys(w.unsaved))
	for _, name := range names {
		w.remember(w.unsaved[name])
	}
	w.rows, w.vacated = append(w.rows, w.vacated...), nil
	return len(names) > 0
}

// asked is a command, as who gives it knows it.
type asked struct {
	command        *core.Command
	set            *core.Set         // that it is given to
	runs           map[string]uint64 // that its members had
	stops          map[string]bool   // whom it may stop
	refused, begun bool
	over           int // how often it was said to be over
	cancelled      bool
	seen           map[string]operation.State // of its members, as was told last
	took           map[string]bool            // members that a rolling one has recorded and taken
	dropped        bool                       // whoever gave it has read the outcome, or is gone
}

func newCallers() callers {
	return callers{
		asked: map[uint32]*asked{}, journal: map[string]service.Intent{}, latest: map[string]uint32{}, unlike: map[string]bool{}, removing: map[string]bool{},
		wants: map[string]core.Wants{}, kept: map[uint64]operation.Operation{}, known: map[string]machine.State{},
		unmarked: map[uint64]bool{}, unsaved: map[string]row{}, refused: map[uint64]bool{}, joined: map[uint64]int{},
	}
}

// ask gives a command at random for some services.
func (w *world) ask(lives []*core.Life) {
	w.last++
	id, uid := w.last, uint32(1000+w.last)
	c := &core.Command{ID: id, Actor: operation.Actor{UID: uid}, Event: machine.Event{Cause: "asked", Actor: &uid}, Lives: lives}
	switch w.r.IntN(8) {
	case 0, 1, 2:
		c.Verb, c.Want, c.Along = core.VerbStart, service.Running, w.r.IntN(3) > 0
	case 3, 4:
		c.Verb, c.Want = core.VerbStop, service.Stopped
		if w.r.IntN(6) == 0 {
			c.Want = service.IntentNone
		}
	case 5:
		c.Verb, c.Want, c.Along = core.VerbRestart, service.Running, true
	case 6:
		c.Verb = core.VerbReload
		for _, l := range lives {
			c.Runs = append(c.Runs, []uint64{0, l.State().LastID}[w.r.IntN(2)])
		}
	default:
		c.Verb, c.ID = core.VerbAwait, core.Hidden|id
		c.Gate = operation.Gate{Down: w.r.IntN(3) == 0, Patient: w.r.IntN(2) == 0, Strict: w.r.IntN(2) == 0}
		if c.Gate.Strict {
			c.Gate.Steady = time.Second
		}
	}
	if c.Verb != core.VerbAwait && w.r.IntN(2) == 0 {
		c.Width, c.Steady = 1+w.r.IntN(2), int64(w.r.IntN(2))*int64(time.Second)
	}
	switch w.r.IntN(10) {
	case 0:
		c.Only.Ill = true
	case 1:
		c.Only.Wanted = true
	case 2:
		c.Only.State = "running"
	}
	w.give(c)
}

// give gives a command, which is noted before.
func (w *world) give(c *core.Command) {
	a := &asked{command: c, set: w.set, runs: map[string]uint64{}, stops: map[string]bool{}, seen: map[string]operation.State{}, took: map[string]bool{}}
	for _, l := range c.Lives {
		a.stops[l.Name()] = true
	}
	w.asked[c.Actor.UID] = a
	w.mayStopMore(a)
	how := c.Verb
	if c.Width > 0 {
		how = "rolling " + how
	}
	w.counts[how]++
	w.trace = append(w.trace, fmt.Sprintf("user %d: %s %v, width %d, along %v", c.Actor.UID, c.Verb, slices.Sorted(maps.Keys(a.stops)), c.Width, c.Along))
	w.apply(core.Input{Kind: core.Commanded, Command: c})
}

// mayStopMore notes whom a command may stop besides its members: who requires them, by
// the definitions of now.
func (w *world) mayStopMore(a *asked) {
	for range w.names {
		for _, name := range w.names {
			if d := w.defs[name]; d != nil && slices.ContainsFunc(d.Requires, func(other string) bool { return a.stops[other] }) {
				a.stops[name] = true
			}
		}
	}
}

// startAll commands all services to run.
func (w *world) startAll() {
	for w.record(false) {
	}
	var lives []*core.Life
	for _, n := range w.all() {
		lives = append(lives, w.set.Life(n))
	}
	w.last++
	uid := uint32(1000 + w.last)
	w.give(&core.Command{
		ID: w.last, Verb: core.VerbStart, Actor: operation.Actor{UID: uid}, Event: machine.Event{Cause: "asked", Actor: &uid}, Lives: lives, Want: service.Running,
	})
}

// record records one command that waits for it, or fails to, and tells whether there was
// one. The supervisor may end in between.
func (w *world) record(mayFail bool) bool {
	if len(w.recording) == 0 {
		return false
	}
	i := w.r.IntN(len(w.recording))
	c := w.recording[i]
	w.recording = slices.Delete(w.recording, i, i+1)
	failed := mayFail && w.r.IntN(8) == 0
	for _, l := range slices.Concat(c.Members(), c.AlongWith()) {
		name := l.Name()
		switch {
		case w.set.Find(name) != l:
		case failed && c.Verb == core.VerbStop:
			w.unlike[name] = true // it is carried out all the same
		case failed:
		case c.Records() != service.IntentNone:
			w.journal[name] = c.Want
		case c.Verb == core.VerbStop && c.Want == service.IntentNone:
			w.unlike[name] = true
		}
	}
	if w.mortal && w.r.IntN(20) == 0 {
		w.counts["killed when recorded"]++
		w.succeed()
		return true
	}
	if carriedOut := !failed || c.Verb == core.VerbStop; carriedOut && c.Part == 0 {
		for _, l := range slices.Concat(c.Members(), c.AlongWith()) {
			if w.set.Find(l.Name()) != l {
				continue
			}
			if w.latest[l.Name()] = c.Actor.UID; failed {
				delete(w.latest, l.Name())
			}
			if !l.Wanted() { // along
				w.asked[c.Actor.UID].stops[l.Name()] = true
			}
			w.asked[c.Actor.UID].runs[l.Name()] = l.State().LastID
			if c.Verb == core.VerbStop {
				w.stopped[l.Name()] = true
			}
		}
	}
	if a := w.asked[c.Actor.UID]; c.Part != 0 && !failed {
		for _, l := range c.AlongWith() {
			if a.stops[l.Name()] = true; w.set.Find(l.Name()) == l {
				w.latest[l.Name()] = c.Actor.UID
			}
		}
	}
	if failed {
		w.counts["not recorded"]++
	}
	w.trace = append(w.trace, fmt.Sprintf("recorded of user %d, part of %d: %v", c.Actor.UID, c.Part, !failed))
	w.apply(core.Input{Kind: core.Recorded, Command: c, Unrecorded: failed})
	return true
}

// acknowledge tells the core what is remembered and logged, and whether there was any.
func (w *world) acknowledge() bool {
	n := len(w.rows)
	if n > 1 && w.mortal && w.r.IntN(4) == 0 {
		n = 1 + w.r.IntN(n)
	}
	rows, logged, set := w.rows[:n], w.logged, w.set
	w.rows, w.logged = slices.Clone(w.rows[n:]), nil
	in := core.Input{Kind: core.Remembered}
	for _, r := range rows {
		in.Rows = append(in.Rows, r.Row)
		if w.set.Find(r.name) == r.Life {
			w.known[r.name] = r.state
		}
	}
	if len(rows) > 0 {
		w.apply(in)
	}
	for _, in := range logged {
		if w.set == set { // nobody was killed meanwhile
			if in.Kind == core.Marked {
				delete(w.unmarked, in.Spawn)
			}
			w.apply(in)
		}
	}
	return len(rows)+len(logged) > 0
}

// cancel has a command go no further.
func (w *world) cancel() {
	for _, o := range w.set.Operations.List() {
		if !o.Over() && w.r.IntN(2) == 0 {
			w.counts["cancelled"]++
			w.asked[o.Actor.UID].cancelled = true
			w.trace = append(w.trace, fmt.Sprintf("user %d cancels", o.Actor.UID))
			w.apply(core.Input{Kind: core.Cancel, ID: o.ID})
			return
		}
	}
	w.leave(true)
}

// leave has one that reads an operation go, if there is any: at any time, or when it is
// over.
func (w *world) leave(early bool) bool {
	if ids := slices.Sorted(maps.Keys(w.joined)); len(ids) > 0 {
		id := ids[0]
		if w.joined[id]--; w.joined[id] == 0 {
			delete(w.joined, id)
		}
		w.counts["left"]++
		w.apply(core.Input{Kind: core.Leave, ID: id})
		return true
	}
	for _, uid := range slices.Sorted(maps.Keys(w.asked)) {
		a := w.asked[uid]
		if a.set != w.set || !a.begun || a.dropped || !early && a.over == 0 {
			continue
		}
		if a.dropped = true; a.command.Verb == core.VerbAwait {
			delete(w.asked, uid)
		}
		w.counts["dropped"]++
		w.apply(core.Input{Kind: core.Drop, ID: a.command.ID})
		return true
	}
	return false
}

// join has somebody else read an operation.
func (w *world) join() {
	all := w.set.Operations.List()
	if len(all) == 0 {
		return
	}
	id := all[w.r.IntN(len(all))].ID
	w.counts["joined"]++
	w.joined[id]++
	w.apply(core.Input{Kind: core.Join, ID: id})
}

// readable: an operation is remembered as long as somebody reads it, and of the others that
// are over as many as the limits say.
func (w *world) readable() {
	read := map[uint64]bool{}
	for id := range w.joined {
		read[id] = true
	}
	for _, a := range w.asked {
		if a.set == w.set && a.begun && !a.dropped {
			read[a.command.ID] = true
		}
	}
	for id := range read {
		if w.set.Operations.Get(id) == nil {
			w.fault("operation %d is forgotten, and somebody reads it", id)
		}
	}
	count, members := 0, 0
	for _, o := range w.set.Operations.List() {
		if o.Over() && !read[o.ID] {
			count, members = count+1, members+len(o.Members)
		}
	}
	if count > w.limits.Operations || members > w.limits.Members {
		w.fault("%d operations with %d members are remembered, and nobody reads them", count, members)
	}
}

// order carries out an effect that is about a command or an operation.
func (w *world) order(e *core.Effect) {
	switch e.Kind {
	case core.Record:
		if w.ended && e.Command.Part == 0 {
			w.fault("user %d's command is recorded, and the container ends", e.Command.Actor.UID)
		}
		for _, other := range w.recording {
			if slices.ContainsFunc(e.Command.Members(), func(l *core.Life) bool { return slices.Contains(slices.Concat(other.Members(), other.AlongWith()), l) }) {
				w.fault("user %d's command is recorded beside user %d's, and both are for a service", e.Command.Actor.UID, other.Actor.UID)
			}
		}
		if c := e.Command; c.Part != 0 {
			a := w.asked[c.Actor.UID]
			o := w.set.Operations.Get(c.Part)
			if over := a != nil && a.set == w.set && a.over > 0; over || len(c.Members()) != 1 {
				w.fault("user %d's command is over: %v, and %d services are recorded for it", c.Actor.UID, over, len(c.Members()))
			} else if o != nil && slices.ContainsFunc(o.Members, func(m operation.Member) bool {
				return m.Name == c.Members()[0].Name() && (m.State == operation.StatePending || m.State == operation.StateCancelled)
			}) {
				w.fault("%s is recorded for user %d, whose command has not come to it: %+v", c.Members()[0].Name(), c.Actor.UID, o.Members)
			}
			w.counts["recorded one by one"]++
		}
		w.recording = append(w.recording, e.Command)
	case core.Refused:
		w.counts["refused"]++
		if a := w.asked[e.Command.Actor.UID]; a.begun || a.refused {
			w.fault("user %d is refused what has begun, or was refused", e.Command.Actor.UID)
		} else if e.Text == "" && e.Command.Verb == core.VerbStop {
			w.fault("user %d's stop is not carried out, as it could not be recorded", e.Command.Actor.UID)
		} else {
			a.refused = true
		}
	case core.Forgot:
		w.counts["forgotten"]++
		delete(w.kept, e.Operation.ID)
	case core.Told:
		if o := e.Operation; o.ID < core.Hidden && (e.Begun || e.Over) {
			is := o.Operation
			is.Members = slices.Clone(is.Members)
			w.kept[o.ID] = is
		}
		if a := w.asked[e.Operation.Actor.UID]; a != nil && a.set == w.set {
			w.toldOf(a, e)
		}
	}
}

// toldOf holds what is told of a command against what must be true of it.
func (w *world) toldOf(a *asked, e *core.Effect) {
	o := e.Operation
	uid := o.Actor.UID
	if e.Begun == a.begun || a.refused {
		w.fault("user %d is told that it has begun: %v, and was: %v; refused: %v", uid, e.Begun, a.begun, a.refused)
	}
	if !a.begun {
		w.begun = append(w.begun, a)
		// What is yet to be decided or to be remembered, and changes nothing of what is
		// recorded, is nowhere when a supervisor ends.
		for _, l := range slices.Concat(a.command.Lives, a.command.AlongWith()) {
			if _, unsaved := w.unsaved[l.Name()]; !unsaved && w.set.Find(l.Name()) == l && w.latest[l.Name()] == uid && !o.Unrecorded && w.held == 0 && a.command.Width == 0 && a.command.Want != service.IntentNone {
				delete(w.unlike, l.Name())
			}
		}
	}
	a.begun = true
	if e.Over {
		a.over++
	}
	if o.Over() != (a.over == 1) {
		w.fault("user %d's command is %s, and was said %d times to be over", uid, o.State, a.over)
	}
	for i, m := range o.Members {
		was, told := a.seen[m.Name]
		a.seen[m.Name], a.took[m.Name] = m.State, m.Changed
		open := m.State == operation.StatePending || m.State == operation.StateRunning
		switch {
		case open && o.Over() && o.State != operation.StateFailed && o.State != operation.StateInterrupted: // else it is left where it was
			w.fault("user %d's command is over, and %s is %s", uid, m.Name, m.State)
		case told && was != m.State && was != operation.StatePending && was != operation.StateRunning:
			w.fault("%s of user %d was %s, and is %s", m.Name, uid, was, m.State)
		case m.State == operation.StateDone && was != m.State:
			w.counts["done"]++
			w.doneIs(a, a.command.Lives[i])
		case m.State != was && !open:
			w.counts["member "+m.State]++
		}
	}
	if e.Over && o.State == operation.StateDone && !o.Unrecorded && a.command.Want != service.IntentNone {
		for i, m := range o.Members {
			if m.State == operation.StateDone && w.set.Find(m.Name) == a.command.Lives[i] && w.latest[m.Name] == uid {
				delete(w.unlike, m.Name)
			}
		}
	}
}

// doneIs: what is said to be done is so, and a successor would know it.
func (w *world) doneIs(a *asked, l *core.Life) {
	name, c := l.Name(), a.command
	known, ok := w.known[name]
	if w.set.Find(name) != l {
		if c.Verb != core.VerbStop && !c.Gate.Down {
			w.fault("user %d: %s is %s, and gone", c.Actor.UID, name, c.Verb)
		}
		return
	}
	if c.Verb == core.VerbReload && c.Width > 0 { // one that needed nothing
		return
	}
	policy := w.defs[name].Policy
	ended := known.Phase == machine.Exited && known.Verdict == machine.VerdictSuccess
	up := known.Satisfies(policy) || c.Gate.Patient && known.Phase == machine.Running || ended && c.Width == 0 && !c.Gate.Strict || c.Gate.Patient && ended
	switch {
	case c.Verb == core.VerbStop || c.Gate.Down:
		if ok && core.Active(&known) {
			w.fault("user %d: %s is said to be down, and remembered is %+v", c.Actor.UID, name, known)
		}
	case !ok || !up && c.Width == 0:
		w.fault("user %d: %s is said to be up, and remembered is %+v", c.Actor.UID, name, known)
	case c.Verb == core.VerbRestart && known.LastID <= a.runs[name]:
		w.fault("user %d: %s is said to be restarted, and remembered is %+v, after %d", c.Actor.UID, name, known, a.runs[name])
	}
}

// mayFollow holds a change that follows from a command against who has the service.
func (w *world) mayFollow(name string, e *core.Effect) {
	is, was := e.After, e.Before
	if is.Actor == nil || was.Actor != nil && *was.Actor == *is.Actor || w.adopting {
		return
	}
	a := w.asked[*is.Actor]
	if a == nil || a.set != w.set {
		return
	}
	c, member, along, started := a.command, false, false, false
	for _, l := range slices.Concat(c.Lives, c.AlongWith()) {
		member = member || w.set.Find(name) == l
		started = started || c.Width > 0 && w.leads(w.refers, l.Name(), name, map[string]bool{}) // along, when its turn comes
		along = along || l.Name() != name && w.leads(w.requires, name, l.Name(), map[string]bool{})
	}
	switch latest := w.asked[w.latest[name]]; {
	case a.refused:
		w.fault("%s is %s by user %d, who was refused that", name, is.Phase, *is.Actor)
	case member && !along && latest != nil && latest != a && latest.set == w.set && latest.begun && latest.has(name) && (latest.command.Verb == core.VerbStop) != (c.Verb == core.VerbStop) && w.later(latest, a):
		w.fault("%s is %s by user %d, and user %d has it since", name, is.Phase, *is.Actor, latest.command.Actor.UID)
	case a.cancelled && a.seen[name] == operation.StateCancelled && member && !along && (c.Verb == core.VerbRestart || c.Verb == core.VerbReload) && is.Phase == machine.Stopping:
		w.fault("%s is restarted by user %d, who has cancelled that", name, *is.Actor)
	case is.Phase == machine.Stopping && is.StopBy == machine.StopCommand && !a.stops[name] && !started && c.Verb != core.VerbStart:
		w.fault("%s is stopped by user %d, who may stop %v", name, *is.Actor, a.stops)
	}
}

// has tells whether a command decides what a service does from now on, and no earlier one
// does. A rolling command decides nothing of a service before it takes it, and one that
// changes no intent leaves what was wanted before.
func (a *asked) has(name string) bool {
	return a.command.Want != service.IntentNone && (a.command.Width == 0 || a.took[name] || a.seen[name] == operation.StateDone)
}

// later tells whether a command was carried out after another.
func (w *world) later(a, than *asked) bool {
	return slices.Index(w.begun, a) > slices.Index(w.begun, than)
}

// withinWidth: no more are taken at once, and out of service by a restart, than may be.
func (w *world) withinWidth() {
	for _, o := range w.set.Operations.List() {
		a := w.asked[o.Actor.UID]
		if a == nil || a.set != w.set || a.command.Width == 0 || o.Over() {
			continue
		}
		taken, out := 0, map[string]bool{}
		for _, m := range o.Members {
			state := w.shadow[m.Name]
			if m.State == operation.StateRunning {
				taken++
			}
			if life := w.set.Find(m.Name); state != nil && state.Actor != nil && *state.Actor == o.Actor.UID && m.State == operation.StateRunning && !w.set.Up(life) {
				out[m.Name] = true
			}
		}
		for name := range out {
			if slices.ContainsFunc(w.names, func(other string) bool {
				return other != name && out[other] && w.leads(w.refers, name, other, map[string]bool{})
			}) {
				delete(out, name) // it goes along
			}
		}
		waits := a.command.Verb == core.VerbReload // also for those that need nothing
		if taken > a.command.Width && !waits || a.command.Verb != core.VerbStop && len(out) > a.command.Width {
			w.fault("user %d's command has come to %d at once, of which %v are out, and may to %d: %+v", o.Actor.UID, taken, out, a.command.Width, o.Members)
		}
	}
}

// quiet: when nothing is on its way any more each command is over, and each service is as
// the journal says, which the core and a successor know.
func (w *world) quiet() {
	w.allOver()
	for n, name := range w.nodes {
		life, want := w.set.Life(n), w.journal[name]
		is := life.State()
		if w.removing[name] || life.Turn() != 0 {
			continue
		}
		// That it was otherwise before may still be remembered: a successor begins it then, again.
		if wants := w.wants[name]; wants.Desired != life.Wants().Desired || wants.Owed != life.Wants().Owed {
			w.fault("a successor would know that %s is wanted as %+v, and it is %+v", name, wants, life.Wants())
		}
		if known := w.known[name]; !reflect.DeepEqual(known.Want, is.Want) || known.Phase != is.Phase || known.ID != is.ID {
			w.fault("%s is %+v, and remembered as %+v", name, is, known)
		}
		switch {
		case life.Wants().Desired != want:
			w.fault("%s is recorded as %s, and wanted as %+v", name, want, life.Wants())
		case w.unlike[name]:
		case life.Wants().Before != service.IntentNone && !w.ended:
			w.fault("%s is recorded as %s, and wanted as %+v", name, want, life.Wants())
		case want == service.Stopped && (is.Want == machine.WantUp || core.Active(is)):
			w.fault("%s is recorded as stopped, and is %+v", name, is)
		case want == service.Running && is.Want != machine.WantUp && !w.ended:
			w.fault("%s is recorded as running, and is %+v", name, is)
		}
	}
}

// allOver: each command is over.
func (w *world) allOver() {
	for _, uid := range slices.Sorted(maps.Keys(w.asked)) {
		a := w.asked[uid]
		waits := a.command.Verb == core.VerbAwait // may wait for ever
		if a.set == w.set && !a.refused && !waits && a.over != 1 {
			w.fault("user %d's command is not over: begun %v, %+v", uid, a.begun, w.set.Operations.Get(a.command.ID))
		}
	}
	if w.set.Operations.Waiting() > 0 {
		w.fault("%d commands wait to be recorded, and nothing is being recorded", w.set.Operations.Waiting())
	}
}

// forget lets go of a service that is gone.
func (c *callers) forget(name string) {
	delete(c.journal, name)
	delete(c.wants, name)
	delete(c.unlike, name)
	delete(c.removing, name)
	delete(c.latest, name)
	delete(c.known, name)
	if r, is := c.unsaved[name]; is {
		c.vacated = append(c.vacated, r)
		delete(c.unsaved, name)
	}
}

// commanded tells whether somebody has asked something of a service that is not over.
func (w *world) commanded(n order.Node) bool {
	for _, a := range w.asked {
		if a.set == w.set && a.over == 0 && slices.ContainsFunc(slices.Concat(a.command.Lives, a.command.AlongWith()), func(l *core.Life) bool { return l.Node() == n }) {
			return true
		}
		// A rolling one starts others along when it comes to a member, which may be recorded
		// after its end, and begins when decisions are not held back any more.
		if a.set == w.set && (a.over == 0 || w.held > 0) && a.command.Width > 0 && a.stops[w.nodes[n]] {
			return true
		}
	}
	return false
}

// recall tells a successor of the operations that a predecessor kept.
func (w *world) recall() {
	in := core.Input{Kind: core.Recall, ID: w.last}
	for _, id := range slices.Sorted(maps.Keys(w.kept)) {
		in.Operations = append(in.Operations, w.kept[id])
	}
	w.apply(in)
}

// takeBack defines a service as a predecessor left it, and tells whether another thing is
// recorded of it than that knew.
func (w *world) takeBack(name string, state *machine.State) bool {
	was := w.wants[name]
	w.apply(core.Input{Kind: core.Define, Name: name, Definition: w.defs[name], State: state, Wants: core.Wants{Desired: was.Desired, Owed: was.Owed}})
	w.known[name] = *state
	recorded := w.journal[name]
	if recorded == was.Desired {
		return was.Before != service.IntentNone
	}
	w.apply(core.Input{Kind: core.Want, Node: w.set.Find(name).Node(), Wants: core.Wants{Desired: recorded, Owed: was.Owed}})
	return true
}

// stopOverdue stops, and removes, what a predecessor was yet to.
func (w *world) stopOverdue() {
	in := core.Input{Kind: core.Give, Turn: order.Stop, Event: machine.Event{Kind: machine.Stop}}
	for _, n := range w.all() {
		if l := w.set.Life(n); l.Wants().Desired == service.Stopped && l.State().Want == machine.WantUp {
			in.Nodes = append(in.Nodes, n)
		}
	}
	if len(in.Nodes) > 0 && !w.set.Stopping() {
		in.Along = w.set.StopAlong(order.Stop, in.Nodes)
		w.apply(in)
	}
	for _, name := range w.names {
		if l := w.set.Find(name); l != nil && w.removing[name] {
			w.apply(core.Input{Kind: core.Give, Turn: order.Remove, Nodes: []order.Node{l.Node()}, Event: machine.Event{Kind: machine.Remove}})
		}
	}
}
