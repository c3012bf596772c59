package explore

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
func Search(w *World, l Limits) (states, steps int, err error) {
	x := &search{World: w, Limits: l, seen: map[State]from{}, ends: [2]map[State]bool{{}, {}}}
	for set := range uint8(1 << w.N) {
		var s State
		if err := w.Boot(&s, set); err != nil {
			return 0, 0, fmt.Errorf("boot of %04b: %w", set, err)
		}
		x.push(s, from{step: step{asked: AskedStart, boot: true, set: set}})
	}
	for ; len(x.todo) > 0; x.todo = x.todo[1:] { // the oldest first: a way to a fault is a short one
		s := x.todo[0]
		if err := x.expand(s); err != nil {
			return len(x.seen), x.steps, err
		}
	}
	return len(x.seen), x.steps, nil
}

type search struct {
	*World
	Limits
	seen  map[State]from
	ends  [2]map[State]bool // known to come to rest: where all goes well, where nothing does
	todo  []State
	steps int
}

// from is how a state was come to.
type from struct {
	before State
	step   step
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

func (x *search) push(s State, f from) {
	for i := range s { // it was looked at with these, and they decide nothing
		s[i].Old, s[i].Asked = false, Nothing
	}
	if _, ok := x.seen[s]; !ok {
		x.seen[s] = f
		x.todo = append(x.todo, s)
	}
}

func (x *search) expand(s State) error {
	for n := range order.Node(x.N) {
		for _, m := range x.Moves {
			if x.Can(&s, n, m) {
				if err := x.take(s, step{node: n, move: m}); err != nil {
					return err
				}
			}
		}
	}
	for _, set := range x.Commands {
		for _, a := range []Asked{AskedStart, AskedStop, AskedRestart} {
			if err := x.take(s, step{asked: a, set: set}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *search) take(s State, t step) error {
	x.steps++
	next, err := x.do(s, t)
	if err == nil {
		// In which order the loop looks at its services must not matter: it is that
		// of their names, or of anything else.
		x.backward = true
		other, otherErr := x.do(s, t)
		x.backward = false
		if otherErr != nil {
			err = otherErr
		} else if other != next {
			err = fmt.Errorf("the order of the services decides: %v, or %v", next, other)
		}
	}
	if err == nil {
		err = x.keeps(&s, &next, t)
	}
	if err == nil {
		err = x.rests(next)
	}
	if err != nil {
		return x.trace(s, t, err)
	}
	x.push(next, from{s, t})
	return nil
}

func (x *search) do(s State, t step) (State, error) {
	x.given = 0
	if t.asked != Nothing {
		return s, x.Command(&s, t.asked, t.set)
	}
	return s, x.Make(&s, t.node, t.move)
}

// rests lets what goes on in s come to its end, in a world in which nothing goes
// wrong and in one in which all does, and looks at what is left.
func (x *search) rests(s State) error {
	for i, ends := range x.ends {
		at := s
		var way []State
		for ; !ends[at] && !x.atRest(&at); way = append(way, at) {
			if len(way) > 40*x.N {
				return fmt.Errorf("it goes on for ever: %v", at)
			}
			if err := x.goOn(&at, i == 0); err != nil {
				return err
			}
		}
		if ends[at] {
			continue
		}
		if err := x.checkRest(&at); err != nil {
			return err
		}
		for _, s := range append(way, at) {
			ends[s] = true
		}
	}
	return nil
}

// goOn makes the next move of the first service that has one.
func (x *search) goOn(s *State, kind bool) error {
	moves := []Move{Registers, Comes, Finishes, Ends, Retries, ComesUnstuck, GivesUp}
	if !kind {
		moves = []Move{Registers, GivesUp, Ends, Retries, ComesUnstuck}
	}
	for n := range order.Node(x.N) {
		if p := s[n].Phase; p == order.Up || p == order.Failed {
			continue
		}
		for _, m := range moves {
			if x.Can(s, n, m) {
				return x.Make(s, n, m)
			}
		}
	}
	return fmt.Errorf("nothing can happen, and it is not at rest: %v", s)
}

// trace adds to an error how its state was come to.
func (x *search) trace(s State, last step, err error) error {
	var way []string
	if last != (step{}) {
		way = append(way, last.String())
	}
	for at := s; ; {
		f, ok := x.seen[at]
		if !ok {
			break
		}
		way = append(way, f.step.String())
		if f.step.boot {
			break
		}
		at = f.before
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
