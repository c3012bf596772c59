package exploreorder

import (
	"fmt"

	"rlminit/supervise/order"
)

// Limits says how much of what can happen a search tries.
type Limits struct {
	Commands []uint8 // the sets of services that a command is for, as bits
	Moves    []Move
}

// Mostly leaves out what differs from the rest in few rules.
func Mostly(n int) Limits {
	l := Limits{Moves: []Move{Registers, Comes, Finishes, GivesUp, Ends, Breaks, Retries}}
	for i := range n {
		l.Commands = append(l.Commands, 1<<i)
	}
	l.Commands = append(l.Commands, 1<<n-1)
	return l
}

// Everything is what Limits say where time does not matter.
func Everything(n int) Limits {
	l := Limits{Moves: Moves()}
	for set := uint8(1); set < 1<<n; set++ {
		l.Commands = append(l.Commands, set)
	}
	return l
}

// Search visits every state that a world can come to from nothing, by boots of
// any set, by commands and by moves, and checks each step and each state. It
// fails at the first broken invariant, with the way to it.
func Search(w *World, l Limits, known *Shape) (states, steps int, err error) {
	x := &search{World: w, Limits: l, Shape: known, seen: map[key]*visit{}}
	for set := range uint8(1 << w.N) {
		var s State
		if err := w.Boot(&s, set); err != nil {
			return 0, 0, fmt.Errorf("boot of %04b: %w", set, err)
		}
		if _, err := x.visit(s.key(), 0, step{asked: AskedStart, boot: true, set: set}); err != nil {
			return 0, 0, fmt.Errorf("boot of %04b: %w", set, err)
		}
	}
	for ; len(x.todo) > 0; x.todo = x.todo[1:] { // the oldest first: a way to a fault is a short one
		if err := x.expand(x.todo[0]); err != nil {
			return len(x.seen), x.steps, err
		}
	}
	return len(x.seen), x.steps, nil
}

type search struct {
	*World
	Limits
	*Shape
	seen  map[key]*visit
	todo  []key
	steps int
	ways  [2]State // of settle
	next  State    // of take
}

// Shape is what was found out of one world and holds of all that differ from it in
// nothing but which edge is a wants and which an after. Each is waited for as the
// other is: what follows from a state is the same, and only what a start takes
// along is not, and with it which states there are.
type Shape struct {
	follows map[key]outcome    // at once, see settle
	ends    [2]map[key]outcome // what each comes to rest in: where all goes well, where nothing does
}

// NewShape is one of which nothing is known.
func NewShape() *Shape {
	return &Shape{follows: map[key]outcome{}, ends: [2]map[key]outcome{{}, {}}}
}

// visit is a state that was come to.
type visit struct {
	before key
	step   step       // from the one before
	ends   [2]outcome // as in Shape
}

// outcome is what becomes of a state.
type outcome struct {
	to      key
	renewed uint8 // whose process is no longer the one it had
	given   uint8 // who was given its turn
}

type step struct {
	boot  bool
	asked Asked
	set   uint8
	node  order.Node
	move  Move
}

func (s step) String() string {
	switch {
	case s.boot:
		return fmt.Sprintf("boot %04b", s.set)
	case s.asked != Nothing:
		return fmt.Sprintf("%s %04b", s.asked, s.set)
	}
	return fmt.Sprintf("%c %s", 'a'+s.node, s.move)
}

// visit is the visit of a state, which is to be expanded if this is the first.
func (x *search) visit(k, before key, t step) (*visit, error) {
	v, ok := x.seen[k]
	if ok {
		return v, nil
	}
	v = &visit{before: before, step: t}
	for way := range v.ends {
		var err error
		if v.ends[way], err = x.end(k, way); err != nil {
			return nil, err
		}
	}
	x.seen[k] = v
	x.todo = append(x.todo, k)
	return v, nil
}

func (x *search) expand(k key) error {
	s := k.state()
	for n := range order.Node(x.N) {
		for _, m := range x.Moves {
			if x.Can(&s, n, m) {
				if err := x.take(k, &s, step{node: n, move: m}); err != nil {
					return x.trace(k, step{node: n, move: m}, err)
				}
			}
		}
	}
	for _, set := range x.Commands {
		for _, a := range []Asked{AskedStart, AskedStop, AskedRestart} {
			if err := x.take(k, &s, step{asked: a, set: set}); err != nil {
				return x.trace(k, step{asked: a, set: set}, err)
			}
		}
	}
	return nil
}

// take takes a step from s, whose key is k, and looks at where it leads: at once,
// and when all has come to rest.
func (x *search) take(k key, s *State, t step) error {
	x.steps++
	x.next = *s
	r, err := x.do(&x.next, t)
	if err != nil {
		return err
	}
	v, err := x.visit(r.to, k, t)
	if err != nil {
		return err
	}
	if k&turns != 0 {
		if err := x.keeps(s, &x.next, t, r.given); err != nil {
			return err
		}
	}
	if t.asked == Nothing {
		return nil // then there is nothing that it does not share with others that come to r.to
	}
	for _, end := range v.ends {
		at := x.next
		end.apply(&at)
		if err := x.checkAsked(&at); err != nil {
			return err
		}
	}
	return nil
}

// do takes a step.
func (x *search) do(s *State, t step) (outcome, error) {
	x.renewed = 0
	var err error
	if t.asked != Nothing {
		err = x.command(s, t.asked, t.set)
	} else {
		err = x.make(s, t.node, t.move)
	}
	if err != nil {
		return outcome{}, err
	}
	renewed := x.renewed
	r, err := x.settle(s)
	r.apply(s)
	r.renewed |= renewed
	return r, err
}

// apply makes s what became of it.
func (r outcome) apply(s *State) {
	next := r.to.state()
	for i := range next {
		next[i].Old = s[i].Old && r.renewed>>i&1 == 0
		next[i].Asked = s[i].Asked
	}
	*s = next
}

// settle is World.Settle, which many steps come to from one state, in both orders.
func (x *search) settle(s *State) (outcome, error) {
	k := s.key()
	if r, ok := x.follows[k]; ok {
		return r, nil
	}
	// In which order the loop looks at its services must not matter: it is that of
	// their names, or of anything else.
	var found [2]outcome
	for i := range x.ways {
		way := &x.ways[i]
		*way, x.given, x.renewed, x.backward = *s, 0, 0, i == 1
		if err := x.Settle(way); err != nil {
			return outcome{}, err
		}
		found[i] = outcome{to: way.key(), renewed: x.renewed, given: x.given}
		if x.calm {
			found[1] = found[i] // whoever is looked at first
			break
		}
	}
	if found[0] != found[1] {
		return outcome{}, fmt.Errorf("the order of the services decides: %v, or %v", x.ways[0], x.ways[1])
	}
	r := found[0]
	x.follows[k] = r
	return r, nil
}

// end is what a state comes to rest in, in a world in which nothing goes wrong or
// in one in which all does, and looks at what is left.
func (x *search) end(k key, way int) (outcome, error) {
	type passed struct {
		key     key
		renewed uint8
	}
	ends := x.ends[way]
	var passes []passed
	for {
		if _, ok := ends[k]; ok {
			break
		}
		at := k.state()
		if x.atRest(&at) {
			if err := x.checkRest(&at); err != nil {
				return outcome{}, err
			}
			ends[k] = outcome{to: k}
			break
		}
		if len(passes) > 40*x.N {
			return outcome{}, fmt.Errorf("it goes on for ever: %v", at)
		}
		next, err := x.goOn(&at, way == 0)
		if err != nil {
			return outcome{}, err
		}
		passes = append(passes, passed{k, next.renewed})
		k = next.to
	}
	end := ends[k]
	for i := len(passes) - 1; i >= 0; i-- {
		end.renewed |= passes[i].renewed
		ends[passes[i].key] = end
	}
	return end, nil
}

// What goes on by itself, where all goes well and where nothing does.
var (
	kindMoves  = []Move{Registers, Comes, Finishes, Ends, Retries, ComesUnstuck, GivesUp}
	cruelMoves = []Move{Registers, GivesUp, Ends, Retries, ComesUnstuck}
)

// goOn makes the next move of the first service that has one.
func (x *search) goOn(s *State, kind bool) (outcome, error) {
	moves := cruelMoves
	if kind {
		moves = kindMoves
	}
	for n := range order.Node(x.N) {
		if p := s[n].Phase; p == order.Up || p == order.Failed {
			continue
		}
		for _, m := range moves {
			if x.Can(s, n, m) {
				return x.do(s, step{node: n, move: m})
			}
		}
	}
	return outcome{}, fmt.Errorf("nothing can happen, and it is not at rest: %v", s)
}

// trace adds to an error how its state was come to.
func (x *search) trace(k key, last step, err error) error {
	way := []string{last.String()}
	for at, boot := k, false; !boot; {
		v := x.seen[at]
		way = append(way, v.step.String())
		at, boot = v.before, v.step.boot
	}
	text := ""
	for i := len(way) - 1; i >= 0; i-- {
		text += "\n\t" + way[i]
	}
	return fmt.Errorf("%w\nthe graph: %s\nthe way:%s", err, x.describe(), text)
}

func (w *World) describe() string {
	text := ""
	for n := range order.Node(w.N) {
		if w.Oneshot[n] {
			text += fmt.Sprintf("%c is a oneshot; ", 'a'+n)
		}
		for _, e := range w.Graph.Edges(n) {
			text += fmt.Sprintf("%c %s %c; ", 'a'+n, e.Kind, 'a'+e.To)
		}
	}
	return text
}
