package loop

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
	"rlminit/supervise/remember"
)

// What a simulation commands as operations, rolling and at once, and what must be true
// of them. Each command has a uid of its own, by which what follows from it is known.

// orders is what was commanded. The test's goroutine has it, but for given, which is
// the world's.
type orders struct {
	uid     uint32                    // of the latest command
	given   map[uint32]*given         // by uid
	intents map[string]service.Intent // as acknowledged; absent: not sure
	latest  map[string]uint32         // the latest command that was acknowledged, by service
	unlike  map[string]bool           // services that may be otherwise than recorded: stopped for now, or not recorded
	rolling map[uint64]*given         // under way, by id
	failed  int                       // writes to the volume that had failed when it was looked last
	before  int                       // and when the supervisor took over
	phases  map[string]machine.Phase  // as they were seen last

	lastID uint64            // the highest that was acknowledged, or seen
	known  map[uint64]string // verb and members by id
	ended  map[uint64]string // state by id, of those that are over
	fresh  []string          // put back since it was looked
	reboot bool              // the container ended: the journal alone has the operations
}

// given is one command.
type given struct {
	uid   uint32
	verb  string
	names []string        // whom it is for
	along []string        // and who is started with them
	stops map[string]bool // whom it may stop: these, and but for a start who requires them
	width int             // how many may be out because of it at once; 0: it does not roll
	taken map[string]bool // members that it has come to
	out   map[string]bool // those of them that were out of service since, and are not back
	to    *supervisor
	now   bool                      // nothing is recorded of it: stop --runtime
	was   map[string]service.Intent // of a rolling one: what was recorded of its members before, where that is sure
	ids   map[string]string         // of the profiles that it is for
}

// begin is before anything is commanded.
func (s *simulation) begin() {
	s.orders = orders{
		uid: 1000, given: map[uint32]*given{}, intents: map[string]service.Intent{}, latest: map[string]uint32{}, unlike: map[string]bool{},
		rolling: map[uint64]*given{}, phases: map[string]machine.Phase{}, known: map[uint64]string{}, ended: map[uint64]string{},
	}
}

// forget has nothing sure of services any more.
func (o *orders) forget(names ...string) {
	for _, name := range names {
		delete(o.intents, name)
		delete(o.latest, name)
	}
}

// give notes a command before it is given.
func (s *simulation) give(verb string, names, along []string, width int) *given {
	s.orders.uid++
	g := &given{uid: s.orders.uid, verb: verb, names: names, along: along, width: width, stops: map[string]bool{}, taken: map[string]bool{}, out: map[string]bool{}, to: s.now, ids: s.homes.ids(names, along)}
	s.homes.touch(names, along)
	for _, name := range slices.Concat(names, along) {
		g.stops[name] = true // a start too: one that requires what is on its way down goes along with that
	}
	if verb != "start" {
		for range s.defs { // as long as the longest chain
			for name, d := range s.defs {
				g.stops[name] = g.stops[name] || slices.ContainsFunc(d.Requires, func(other string) bool { return g.stops[other] })
			}
		}
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.orders.given[g.uid] = g
	s.world.note("%s %v along %v by %d, %d at once", verb, names, along, g.uid, width)
	return g
}

// attempt has a command given, perhaps to a supervisor that is killed meanwhile, and
// tells whether it was answered. If not, there is another supervisor. writes is about
// how many it takes.
func (s *simulation) attempt(everything context.Context, writes int, command func()) (answered bool) {
	how := s.rand.IntN(10)
	switch how {
	case 1:
		s.world.killAfter(1 + s.rand.IntN(2*writes+1))
	case 2, 3:
		s.world.endAfter(1 + s.rand.IntN(4*writes+1))
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		command()
	}()
	switch how {
	case 0: // it is killed meanwhile
		time.Sleep(time.Duration(s.rand.Int64N(int64(10 * time.Millisecond))))
	default: // or in the middle of a write to the volume, or to the file of states, or not at all
		time.Sleep(time.Second)
	}
	synctest.Wait()
	s.world.killAfter(0)
	s.world.endAfter(0)
	select {
	case <-over:
		answered = !s.dead()
	default:
	}
	if !answered {
		s.world.tally("killed in a command")
		s.succeed(everything)
	}
	return answered
}

// succeed ends the supervisor, unless it was killed already, and has another take over.
// Of the operations that were under way nothing is left to be done then.
func (s *simulation) succeed(everything context.Context) {
	o, w := &s.orders, s.world
	s.meddled(slices.Collect(maps.Keys(s.defs))) // what was to be started is, as if somebody asked for it
	if len(o.rolling) > 0 {
		w.tally("rolling when replaced")
	}
	for id, g := range o.rolling { // which may have ended, and left those that it had not come to
		s.unsure(g)
		s.unwritten(g, w.failures())
		delete(o.rolling, id)
	}
	for _, name := range o.fresh { // its slot may be there, and nothing else of it
		o.unlike[name] = true
	}
	s.kill()
	w.endAfter(0)
	o.before = w.failures()
	s.replace(everything)
	list := s.now.backend.Operations()
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[uint64]bool{}
	for _, is := range list {
		there[is.ID] = true
		if !is.Over() {
			w.fault("%s %d is under way, and nobody goes on with it", is.Verb, is.ID)
		}
		if was := o.ended[is.ID]; was != "" && was != is.State && !o.reboot {
			w.fault("%s %d was %s, and is %s for a successor", is.Verb, is.ID, was, is.State)
		}
	}
	for id, what := range o.known {
		if !there[id] && !o.reboot && len(list) < 50 {
			w.fault("%s (%d) is not known to a successor", what, id)
		}
	}
	if o.reboot { // what was noted last is not in the journal
		maps.DeleteFunc(o.known, func(id uint64, _ string) bool { return !there[id] })
		o.lastID, o.reboot = 0, false
	}
	clear(o.ended)
	clear(o.phases)
}

// unsure has nothing sure of the services of a command that no later one is for.
func (s *simulation) unsure(g *given) {
	for _, name := range slices.Concat(g.names, g.along) {
		if s.orders.latest[name] == g.uid {
			delete(s.orders.intents, name)
			delete(s.wanted, name)
		}
	}
}

// dissolve ends the goroutines of the operations of a supervisor that is dead.
func dissolve(dead *supervisor) {
	dead.ask(func() { dead.fleet.apply(core.Input{Kind: core.Interrupt}) })
}

// tearing has a supervisor end in the middle of a write to what a successor is to know,
// and looks at each such write, which is at each change, whether what must be is so.
func (s *simulation) tearing(next *supervisor, alive context.Context, kill func()) {
	next.Memory.Through(func(f handover.File) handover.File {
		return &mortal{f, s.world, s.rand.Uint64(), func() bool { return alive.Err() == nil }, kill, func() { s.atAnyTime(next) }}
	})
}

// mortal is a file in the middle of which its supervisor may be killed: of what it writes
// then a part is there.
type mortal struct {
	handover.File
	world *world
	torn  uint64
	alive func() bool
	kill  func()
	look  func()
}

// rowHead is how many bytes of a row are before its key.
const rowHead = 20

func (m *mortal) WriteAt(b []byte, at int64) (int, error) {
	if !m.alive() {
		return len(b), nil // nobody is there to write
	}
	if key := b[min(len(b), rowHead):]; bytes.HasPrefix(key, []byte(remember.ServicesUnder)) || bytes.HasPrefix(key, []byte(remember.OperationsUnder)) {
		m.look() // the loop writes this row
	}
	n := len(b)
	if m.world.endsHere(m.kill) {
		m.torn = m.torn*6364136223846793005 + 1442695040888963407
		n = int((m.torn >> 33) % uint64(n+1))
	}
	_, err := m.File.WriteAt(b[:n], at)
	if n == len(b) {
		m.world.remembers(b)
	}
	return len(b), err
}

// remembers takes note of a row that was written.
func (w *world) remembers(row []byte) {
	at := rowHead + binary.LittleEndian.Uint32(row[8:])
	w.script.row(string(row[rowHead:at]), row[at:])
	if name, is := strings.CutPrefix(string(row[rowHead:at]), remember.ServicesUnder); is {
		w.mu.Lock()
		defer w.mu.Unlock()
		var m remember.Service
		_ = json.Unmarshal(row[at:], &m) // of one that is forgotten there is nothing
		w.rows[name] = m
	}
}

func (m *mortal) Clear(at int64) error {
	if !m.alive() || m.world.endsHere(m.kill) {
		return nil
	}
	return m.File.Clear(at)
}

// atAnyTime holds what was commanded against what must be true in the middle of any
// change. The loop calls it.
func (s *simulation) atAnyTime(now *supervisor) {
	w, o := s.world, &s.orders
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, is := range now.Commands.views() {
		if g := o.given[is.Actor.UID]; g != nil && g.to == now && g.width > 0 && !is.Over() {
			s.within(now, g, is)
		}
	}
	for name, u := range now.fleet.units {
		was := o.phases[name]
		o.phases[name] = u.state.Phase
		if u.state.Phase == machine.Stopping && was != machine.Stopping && u.state.Actor != nil {
			if g := o.given[*u.state.Actor]; g != nil && !g.stops[name] {
				w.fault("%s is stopped by %d, which was to %s %v: %+v", name, g.uid, g.verb, g.names, u.state)
			}
		}
		if new := u.state.Phase != was && (u.state.Phase == machine.Stopping || u.state.Phase == machine.Spawning); new && u.state.Actor != nil && s.homes.has(name) {
			id := u.definition.Environment["HOME_ID"].Text // none of one whose definition is gone, and that goes itself
			if g := o.given[*u.state.Actor]; g != nil && g.ids[name] != "" && id != "" && id != g.ids[name] {
				w.fault("%s, which is %q now, is %s by %d, which was to %s %q", name, id, u.state.Phase, g.uid, g.verb, g.ids[name])
			}
		}
	}
}

// within holds a rolling operation to its width: by what it says that it has come to,
// and by who is seen to be out because of it. Who requires one that is out goes along.
func (s *simulation) within(now *supervisor, g *given, is control.Operation) {
	w, taken := s.world, 0
	for _, m := range is.Members {
		m.Name = s.homes.service(m.Name)
		u := now.fleet.find(m.Name)
		if m.State != operation.StateRunning || u == nil {
			delete(g.out, m.Name)
			continue
		}
		taken++
		if !g.taken[m.Name] {
			g.taken[m.Name] = true
			for name := range s.defs {
				w.meddled(name)
			}
		}
		switch serves := now.fleet.set.Up(u.life); {
		case serves != (g.verb != "stop"):
			g.out[m.Name] = true
		case u.state.Phase != machine.Stopping:
			delete(g.out, m.Name)
		}
	}
	out := 0
	for name := range g.out {
		if !s.requires(name, g.out) {
			out++
		}
	}
	if taken > g.width || out > g.width {
		w.fault("%s %d has come to %d at once, of whom %v are out, and may to %d: %+v", is.Verb, is.ID, taken, slices.Sorted(maps.Keys(g.out)), g.width, is.Members)
	}
}

// requires tells whether a service requires one of others, by whatever way.
func (s *simulation) requires(name string, others map[string]bool) bool {
	return slices.ContainsFunc(s.defs[name].Requires, func(other string) bool { return others[other] || s.requires(other, others) })
}

// settle takes note of the operations that have ended, and holds all of them against
// what must be true when nothing is on its way. The loop calls it, with the world. failed
// are the writes to the volume that have failed so far.
func (s *simulation) settle(now *supervisor, failed int) {
	w, o := s.world, &s.orders
	list := now.Commands.views()
	byID := map[uint64]control.Operation{}
	for _, is := range list {
		byID[is.ID] = is
		if is.ID > o.lastID {
			o.lastID = is.ID
		}
		var names []string
		for _, m := range is.Members {
			m.Name = s.homes.service(m.Name)
			names = append(names, m.Name)
			u := now.fleet.units[m.Name]
			yet := m.State == operation.StatePending || m.State == operation.StateRunning
			switch {
			case !yet:
			case is.Over() && is.State != operation.StateFailed && is.State != operation.StateInterrupted: // else it is left where it was
				w.fault("%s %d is over, and %s is %s", is.Verb, is.ID, m.Name, m.State)
			case is.Over():
			case u == nil:
				w.fault("%s is gone, and %s of %s %d", m.Name, m.State, is.Verb, is.ID)
			case u.state.Removed && m.State == operation.StatePending && is.Verb != "stop":
				w.fault("%s is removed, and %s of %s %d", m.Name, m.State, is.Verb, is.ID)
			}
		}
		if g := o.given[is.Actor.UID]; g != nil && g.to == now && g.width > 0 && g.verb != "restart" && !is.Over() && !under(is) {
			w.fault("%s %d waits for nothing: %+v", is.Verb, is.ID, is.Members)
		}
		slices.Sort(names)
		what := is.Verb + " of " + strings.Join(names, ", ")
		if was, known := o.known[is.ID]; known && was != what {
			w.fault("%d was %s, and is %s", is.ID, was, what)
		}
		o.known[is.ID] = what
		if is.Over() {
			if was := o.ended[is.ID]; was != "" && was != is.State {
				w.fault("%s %d was %s, and is %s", is.Verb, is.ID, was, is.State)
			}
			o.ended[is.ID] = is.State
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.rolling)) {
		g, is := o.rolling[id], byID[id]
		s.unwritten(g, failed)
		if is.ID != id || is.Over() {
			delete(o.rolling, id)
			s.ended(g, is)
		}
	}
	o.failed, o.fresh = failed, nil
}

// under tells whether an operation has come to a member that is yet to be done. One that
// only starts or stops takes another if not, whatever else is out of service.
func under(is control.Operation) bool {
	return slices.ContainsFunc(is.Members, func(m control.OperationMember) bool { return m.State == operation.StateRunning })
}

// unwritten is for whom a rolling operation may have left as the disk failed: that is not
// recorded then. failed are the writes that have failed so far.
func (s *simulation) unwritten(g *given, failed int) {
	if failed > s.orders.failed {
		for _, name := range slices.Concat(g.names, g.along) {
			s.orders.unlike[name] = true
		}
	}
}

// ended takes note of a rolling operation that is over.
func (s *simulation) ended(g *given, is control.Operation) {
	w, o := s.world, &s.orders
	w.note("%s %d by %d is %s: %s", is.Verb, is.ID, g.uid, is.State, is.Reason)
	switch is.State {
	case operation.StateDone:
		w.counts["rolling "+is.Verb+" "+is.State]++
	default:
		w.counts["rolling "+is.State]++
	}
	if is.State != operation.StateDone || g.now {
		s.unsure(g)
		s.untouched(g, is)
		return
	}
	all := true
	for _, m := range is.Members {
		m.Name = s.homes.service(m.Name)
		if m.State == operation.StateDone && o.latest[m.Name] == g.uid {
			s.wanted[m.Name] = wantOf(g.verb)
			o.intents[m.Name] = intentOf(g.verb != "stop")
			delete(o.unlike, m.Name)
		}
		all = all && m.State == operation.StateDone
	}
	for _, name := range g.along { // each was started, if it came to all that it goes along with
		if all && o.latest[name] == g.uid && !o.unlike[name] {
			s.wanted[name] = wantOf(g.verb)
		}
	}
}

// untouched has the members that a rolling operation has not come to keep what was recorded
// of them before.
func (s *simulation) untouched(g *given, is control.Operation) {
	o := &s.orders
	for _, m := range is.Members {
		left := m.State == operation.StatePending || m.State == operation.StateCancelled && m.Reason == "it had not begun"
		name := s.homes.service(m.Name)
		intent, sure := g.was[name]
		sure = sure && g.verb == "stop" // else it may have been started along with another member
		for _, other := range o.given { // which may have started it along
			sure = sure && (other == g || other.width == 0 || !slices.Contains(other.along, name))
		}
		if left && sure && o.latest[name] == g.uid && !o.unlike[name] && g.to == s.now {
			o.intents[name] = intent
			s.world.counts["left as it was recorded"]++
		}
	}
}

func wantOf(verb string) machine.Want {
	if verb == "stop" {
		return machine.WantDown
	}
	return machine.WantUp
}

// consistent holds what is wanted of a service against what is recorded of it, unless an
// operation is yet to come to it. The loop calls it, with the world.
func (s *simulation) consistent(now *supervisor, u *unit, recorded service.Intent) {
	w, o := s.world, &s.orders
	w.removed[u.name] = w.removed[u.name] || u.state.Removed && !s.homes.has(u.name) // a profile's may be had back
	if intent, sure := o.intents[u.name]; sure && u.recorded && (u.desired() != intent || recorded != intent) {
		w.fault("%s is to be %s, and is recorded as %s, and %s was acknowledged to %d", u.name, u.desired(), recorded, intent, o.latest[u.name])
	}
	if !u.recorded || o.unlike[u.name] || u.state.Removed || u.life.Turn() == order.Remove || s.awaited(now, u) {
		return
	}
	up := u.state.Want == machine.WantUp && u.life.Turn() != order.Stop || u.life.Turn() == order.Start || u.life.Turn() == order.Restart
	if up != (u.desired() == service.Running) {
		w.fault("%s is to be %s, no operation is to come to it, and it is wanted %q with the turn %s; its state is %+v", u.name, u.desired(), u.state.Want, u.life.Turn(), u.state)
	}
}

// awaited tells whether an operation is yet to take a service, or one with which it is
// started, or is yet to end and leave it as it was.
func (s *simulation) awaited(now *supervisor, u *unit) bool {
	if u.life.Wants().Before != service.IntentNone && len(s.orders.rolling) > 0 {
		return true
	}
	awaited := now.Commands.pending()
	return slices.Contains(awaited, u) || slices.Contains(now.fleet.along(awaited...), u)
}

// over looks that no operation is under way, and nobody waits for a turn: nothing has
// happened for a while.
func (s *simulation) over() {
	w := s.world
	list := s.now.backend.Operations()
	s.now.ask(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, is := range list {
			if !is.Over() {
				w.fault("%s %d never ends: %+v", is.Verb, is.ID, is.Members)
			}
		}
		for _, u := range s.now.fleet.all() {
			if u.life.Turn() != order.NoTurn {
				w.fault("the turn %s of %s never comes; its state is %+v", u.life.Turn(), u.name, u.state)
			}
		}
	})
}

// operate begins an operation on some of the services, as a client does.
func (s *simulation) operate(everything context.Context, names []string) {
	now, o, w := s.now, &s.orders, s.world
	how := control.BeginOperation{Verb: [...]string{"start", "start", "stop", "restart", "restart"}[s.rand.IntN(5)]}
	how.Rolling = s.rand.IntN(4)
	how.SteadyMS = s.rand.Int64N(800)
	how.Runtime = how.Verb == "stop" && s.rand.IntN(4) == 0
	var along []string
	serving := how.Verb == "restart" && s.rand.IntN(3) > 0 // else it is refused, or ends, as a rule
	now.ask(func() {
		var units []*unit
		for _, name := range names {
			if u := now.fleet.units[name]; u != nil && s.rand.IntN(2) == 0 && (!serving || now.fleet.set.Up(u.life)) {
				how.Names, units = append(how.Names, name), append(units, u)
			}
		}
		if how.Verb != "stop" {
			along = namesOf(now.fleet.along(units...))
		}
	})
	if len(how.Names) == 0 {
		return
	}
	s.meddled(names)
	if how.Rolling == 0 {
		w.tally("at once")
	} else {
		w.tally("rolling")
	}
	g := s.give(how.Verb, how.Names, along, how.Rolling)
	if g.now = how.Runtime; g.now {
		w.tally("stopped for now", how.Names...)
	}
	g.was = map[string]service.Intent{}
	for _, name := range how.Names {
		if intent, sure := o.intents[name]; sure && !o.unlike[name] {
			g.was[name] = intent
		}
	}
	failures, was := w.failures(), o.before
	var begun control.Operation
	var refused error
	answered := s.attempt(everything, len(how.Names)+len(along), func() {
		begun, refused = now.backend.BeginOperation(context.Background(), how, control.Actor{UID: g.uid})
	})
	involved := slices.Concat(how.Names, along)
	unwritten := w.failures() > failures || !answered && failures > was
	if !answered || refused == nil || unwritten {
		o.forget(involved...)
		for _, name := range involved {
			delete(s.wanted, name)
			o.unlike[name] = how.Runtime || unwritten || o.unlike[name] && (!answered || how.Rolling > 0)
		}
	}
	if !answered {
		return
	}
	if refused != nil && how.Verb == "stop" { // it is carried out, and not recorded
		o.forget(involved...)
		for _, name := range involved {
			delete(s.wanted, name)
			o.unlike[name] = true
		}
	}
	if refused != nil {
		w.tally("rolling refused")
		w.mu.Lock()
		w.note("refused: %v", refused)
		w.mu.Unlock()
		return
	}
	if begun.ID <= o.lastID {
		w.wrongly("%s has the id %d, and %d was given", how.Verb, begun.ID, o.lastID)
	}
	o.lastID = begun.ID
	for _, earlier := range now.backend.Operations() {
		for _, m := range earlier.Members {
			if earlier.ID < begun.ID && !earlier.Over() && slices.Contains(how.Names, s.homes.service(m.Name)) && (m.State == operation.StatePending || m.State == operation.StateRunning) {
				w.wrongly("%s is %s of %s %d, and %d came later", m.Name, m.State, earlier.Verb, earlier.ID, begun.ID)
			}
		}
	}
	for _, name := range involved {
		if s.leaving(name) { // and is not started any more, unless its profile comes back
			delete(o.intents, name)
			continue
		}
		o.latest[name] = g.uid
		if !how.Runtime && !unwritten && how.Rolling == 0 { // else it is recorded when it is come to
			o.intents[name] = intentOf(how.Verb != "stop")
		}
	}
	if how.Rolling > 0 {
		o.rolling[begun.ID] = g
		if s.rand.IntN(6) == 0 { // some time until it is over
			w.endAfter(1 + s.rand.IntN(60))
			w.tally("rolling when killed in a write")
		}
	}
}

// leaving tells whether a service is removed, or on its way to it.
func (s *simulation) leaving(name string) (leaving bool) {
	s.now.ask(func() {
		u := s.now.fleet.units[name]
		leaving = u == nil || u.state.Removed || u.life.Turn() == order.Remove
	})
	return leaving
}

// cancel has an operation go no further, that is under way or over.
func (s *simulation) cancel(everything context.Context) {
	now, w, o := s.now, s.world, &s.orders
	list := now.backend.Operations()
	if len(list) == 0 {
		return
	}
	list = list[max(0, len(list)-4):]
	is := list[s.rand.IntN(len(list))]
	if under := slices.DeleteFunc(list, func(o control.Operation) bool { return o.Over() }); len(under) > 0 && s.rand.IntN(4) > 0 {
		is = under[s.rand.IntN(len(under))]
	}
	w.mu.Lock()
	w.note("cancel %d", is.ID)
	w.mu.Unlock()
	if g := o.rolling[is.ID]; g != nil {
		s.unsure(g)
	}
	var after control.Operation
	var refused error
	if !s.attempt(everything, len(is.Members), func() { after, refused = now.backend.CancelOperation(is.ID) }) {
		return
	}
	switch {
	case refused != nil:
		w.tally("not cancelled")
	case after.State != operation.StateCancelled:
		w.wrongly("%d was cancelled, and is %s", is.ID, after.State)
	default:
		w.tally("cancelled")
	}
}

// failures is how many writes to the volume have failed.
func (w *world) failures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts["write failed"]
}

// wrongly is fault, for who has not the world.
func (w *world) wrongly(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault("%s", fmt.Sprintf(format, args...))
}
