// Package exploreorder walks sets of services through the rules of package order: a
// model of what a service may do, the invariants that must hold whatever it does
// and whatever is asked of it, and a search through every state of every small
// graph. No part of it runs in production.
package exploreorder

import (
	"fmt"
	"strings"

	"rlminit/supervise/order"
)

// Service is one service of a model: what package order knows of it, and what
// only its machine knows.
type Service struct {
	order.Fact
	Blocked bool // what its machine was last told: it may not start
	Again   bool // of one that ends: another run follows
	Old     bool // its process is older than the last restart that was asked for
	Asked   Asked
	With    uint8 // of OldRules alone: what is stopped together with it
}

// Asked is the last command on a service.
type Asked uint8

// The commands.
const (
	Nothing Asked = iota
	AskedStart
	AskedStop
	AskedRestart
)

func (a Asked) String() string { return [...]string{"nothing", "start", "stop", "restart"}[a] }

// Most is how many services a model may have.
const Most = 4

// State is a model at one moment.
type State [Most]Service

// Rules are what is explored: those of package order, or broken ones, to see that
// the exploration finds what is wrong with them.
type Rules struct {
	Decide    func(w *World, s *State, n order.Node) order.Decision
	Remembers bool // Service.With is theirs to look at
	Lenient   bool // what starts or stops too early is let pass, to see what else is wrong
}

// World is a graph with what does not change in it while it is explored.
type World struct {
	Graph   order.Graph
	N       int
	Oneshot [Most]bool
	Rules   Rules

	reach    [Most][Most]bool // over any edges, by brute force
	needs    [Most][Most]bool // over requires alone
	later    [Most][Most]bool // over the edges that order their ends
	Facts    []order.Fact     // of the State that is looked at
	given    uint8            // who was given its turn in this step
	renewed  uint8            // whose process is no longer the one it had before it
	backward bool             // the services are looked at in the opposite order
	calm     bool             // nothing followed when they were looked at last
}

// NewWorld makes a world of a graph of n services: edges[a][b] is what a is to b,
// plus 1; 0: no edge.
func NewWorld(n int, edges [Most][Most]uint8, oneshot [Most]bool, rules Rules) *World {
	w := &World{N: n, Oneshot: oneshot, Rules: rules, Facts: make([]order.Fact, n)}
	for range n {
		w.Graph.Add()
	}
	for a := range n {
		var out []order.Edge
		for b := range n {
			if kind := edges[a][b]; kind > 0 {
				out = append(out, order.Edge{To: order.Node(b), Kind: order.Kind(kind - 1)})
				w.reach[a][b] = true
				w.needs[a][b] = kind == 1
			}
		}
		w.Graph.Link(order.Node(a), out)
	}
	for via := range n {
		for a := range n {
			for b := range n {
				w.reach[a][b] = w.reach[a][b] || w.reach[a][via] && w.reach[via][b]
				w.needs[a][b] = w.needs[a][b] || w.needs[a][via] && w.needs[via][b]
			}
		}
	}
	for a := range n {
		for _, e := range w.Graph.Edges(order.Node(a)) {
			w.later[a][e.To] = !w.excused(order.Node(a), e)
		}
	}
	for via := range n {
		for a := range n {
			for b := range n {
				w.later[a][b] = w.later[a][b] || w.later[a][via] && w.later[via][b]
			}
		}
	}
	return w
}

// Proper are the rules of package order.
var Proper = Rules{Decide: func(w *World, s *State, n order.Node) order.Decision {
	return order.Decide(&w.Graph, w.Facts, n)
}}

// Settle does all that follows at once from what is known, until nothing does.
// It reports the first invariant that is broken.
func (w *World) Settle(s *State) error {
	w.look(s)
	quiet := 0 // so many were looked at since anything changed
	for i := range 20 * w.N * w.N {
		if quiet == w.N {
			w.calm = i == quiet
			return nil
		}
		n := order.Node(i % w.N)
		if w.backward {
			n = order.Node(w.N-1) - n
		}
		if quiet == 0 {
			w.hold(s)
		}
		moved, err := w.attend(s, n)
		if err != nil {
			return err
		}
		if quiet++; moved {
			quiet = 0
			w.Facts[n] = s[n].Fact
		}
	}
	return fmt.Errorf("the decisions do not come to rest")
}

// attend does what follows for n, and tells whether anything did.
func (w *World) attend(s *State, n order.Node) (moved bool, err error) {
	u := &s[n]
	d := w.Rules.Decide(w, s, n)
	t := order.NoTurn
	if d.Go {
		t = u.Turn
		w.given |= 1 << n
		if err := w.mayStop(s, n); err != nil {
			return false, err
		}
		u.Turn, w.Facts[n].Turn = order.NoTurn, order.NoTurn
		d = w.Rules.Decide(w, s, n)
	}
	if u.Held != d.Held {
		u.Held, moved = d.Held, true
	}
	// What holds it is told before the command, that nothing does after it: or
	// what is to be stopped would be started first.
	change := (d.Held != order.Free) != u.Blocked
	if change && d.Held != order.Free {
		u.Blocked, moved = true, true
	}
	if t != order.NoTurn {
		moved = true
		if err := w.give(s, n, t); err != nil {
			return false, err
		}
	}
	if change && d.Held == order.Free {
		u.Blocked, moved = false, true
		if u.Phase == order.Waiting {
			if err := w.launch(s, n); err != nil {
				return false, err
			}
		}
	}
	return moved, nil
}

// hold brings up to date how those that do not run are held, as a Set does.
func (w *World) hold(s *State) {
	for changed := true; changed; {
		changed = false
		for i := range w.N {
			if u := &s[i]; !live(u.Phase) && u.Turn == order.NoTurn {
				if d := w.Rules.Decide(w, s, order.Node(i)); d.Held != u.Held || d.Behind != u.Behind {
					u.Held, u.Behind, changed = d.Held, d.Behind, true
					w.Facts[i] = u.Fact
				}
			}
		}
	}
}

// Decide is what the rules say of n.
func (w *World) Decide(s *State, n order.Node) order.Decision {
	w.look(s)
	return w.Rules.Decide(w, s, n)
}

func (w *World) look(s *State) {
	for i := range w.N {
		w.Facts[i] = s[i].Fact
	}
}

// give is a service's machine when it is given a command.
func (w *World) give(s *State, n order.Node, t order.Turn) error {
	u := &s[n]
	switch t {
	case order.Start:
		return w.start(s, n)
	case order.Stop, order.Remove:
		u.Wanted, u.Again = false, false
		switch u.Phase {
		case order.Starting, order.Working, order.Up:
			u.Phase = order.Ending
		case order.Ending, order.Parked, order.Absent:
		default:
			u.Phase = order.Down
		}
	case order.Restart, order.Along:
		switch u.Phase {
		case order.Starting, order.Working, order.Up:
			u.Phase, u.Wanted, u.Again = order.Ending, true, true
		default:
			return w.start(s, n)
		}
	}
	return nil
}

func (w *World) start(s *State, n order.Node) error {
	u := &s[n]
	was := u.Wanted
	u.Wanted = true
	switch u.Phase {
	case order.Starting, order.Working, order.Up, order.Absent:
	case order.Ending:
		u.Again = true
	case order.Parked:
		u.Again = u.Again || !was
	default:
		return w.launch(s, n)
	}
	return nil
}

// launch starts a process, or waits.
func (w *World) launch(s *State, n order.Node) error {
	u := &s[n]
	u.Again = false
	w.renew(s, n)
	if u.Blocked {
		u.Phase = order.Waiting
		return nil
	}
	if err := w.mayStart(s, n); err != nil {
		return err
	}
	u.Phase = order.Starting
	return nil
}

// renew notes that the process that n had is gone.
func (w *World) renew(s *State, n order.Node) {
	s[n].Old = false
	w.renewed |= 1 << n
}

// Move is something that a service does by itself, or that befalls it.
type Move uint8

// The moves.
const (
	Registers    Move = iota // a name that was announced gets its definition
	IsRefused                // likewise, and it cannot be used
	Comes                    // it is ready; a oneshot is at its work
	Finishes                 // a oneshot has done its work; a daemon has ended and is left at that
	Breaks                   // it ended, or did not get ready, and waits for its next start
	GivesUp                  // likewise, and is not tried again
	Respawns                 // it ended after a good run, and is started again at once
	Ends                     // what was on its way out is gone
	Sickens                  // it is ended for its health
	Hangs                    // its spawn is stuck
	Retries                  // the time of its next start has come
	ComesUnstuck             // a stuck spawn has failed at last
	Vanishes                 // its definition is taken away while nothing of it lives
	movesEnd
)

func (m Move) String() string {
	return [...]string{
		"registers", "is refused", "comes", "finishes", "breaks", "gives up", "respawns", "ends", "sickens", "hangs", "retries",
		"comes unstuck", "vanishes",
	}[m]
}

// Moves lists every move.
func Moves() (all []Move) {
	for m := range movesEnd {
		all = append(all, m)
	}
	return all
}

// Can tells whether a service can make a move.
func (w *World) Can(s *State, n order.Node, m Move) bool {
	u := &s[n]
	switch m {
	case Registers, IsRefused:
		return u.Phase == order.Absent && u.Turn == order.Start
	case Comes:
		return u.Phase == order.Starting
	case Finishes:
		return u.Phase == order.Working || u.Phase == order.Up
	case Breaks, GivesUp, Respawns:
		return u.Phase == order.Starting && m != Respawns || u.Phase == order.Working || u.Phase == order.Up ||
			u.Phase == order.Ending && u.Wanted && !u.Again
	case Ends:
		return u.Phase == order.Ending && (u.Again || !u.Wanted)
	case Sickens:
		return u.Phase == order.Up || u.Phase == order.Starting
	case Hangs:
		return u.Phase == order.Starting
	case Retries:
		return u.Phase == order.Backoff || u.Phase == order.Failed
	case ComesUnstuck:
		return u.Phase == order.Parked
	case Vanishes:
		return u.Phase == order.Down && u.Turn == order.NoTurn
	}
	return false
}

// Make makes a move that can be made, and what follows.
func (w *World) Make(s *State, n order.Node, m Move) error {
	if err := w.make(s, n, m); err != nil {
		return err
	}
	return w.Settle(s)
}

// make is Make without what follows, as command is Command.
func (w *World) make(s *State, n order.Node, m Move) error {
	u := &s[n]
	var err error
	switch m {
	case Registers:
		u.Phase = order.Down
	case IsRefused:
		u.Phase, u.Turn, u.Asked = order.Down, order.NoTurn, Nothing
	case Comes:
		u.Phase = order.Up
		if w.Oneshot[n] {
			u.Phase = order.Working
		}
	case Finishes:
		u.Phase = order.Exited
		w.renew(s, n)
		if w.Oneshot[n] {
			u.Phase = order.Done
		}
	case Breaks:
		u.Phase = order.Backoff
		w.renew(s, n)
	case GivesUp:
		u.Phase = order.Failed
		w.renew(s, n)
	case Respawns, Retries:
		err = w.launch(s, n)
	case Ends:
		if u.Again {
			err = w.launch(s, n)
		} else {
			u.Phase = order.Down
			w.renew(s, n)
		}
	case Sickens:
		u.Phase = order.Ending
	case Hangs:
		u.Phase = order.Parked
	case ComesUnstuck:
		switch {
		case !u.Wanted:
			u.Phase = order.Down
		case u.Again:
			err = w.launch(s, n)
		default:
			u.Phase = order.Backoff
		}
		w.renew(s, n)
	case Vanishes:
		u.Phase = order.Absent
	}
	return err
}

// Command is what somebody asks of the members, a set of bits.
func (w *World) Command(s *State, a Asked, members uint8) error {
	if err := w.command(s, a, members); err != nil {
		return err
	}
	return w.Settle(s)
}

func (w *World) command(s *State, a Asked, members uint8) error {
	t := [...]order.Turn{AskedStart: order.Start, AskedStop: order.Stop, AskedRestart: order.Restart}[a]
	named := make([]order.Node, 0, Most)
	for i := range w.N {
		if members>>i&1 == 1 && s[i].Phase != order.Absent {
			named = append(named, order.Node(i))
		}
	}
	w.look(s)
	var along []order.Node
	if t == order.Start {
		along = order.StartAlong(&w.Graph, w.Facts, named)
	} else {
		along = order.StopAlong(&w.Graph, w.Facts, t, named)
	}
	if err := w.licensed(a, members, along); err != nil {
		return err
	}
	order.Command(&w.Graph, w.Facts, t, named, along, func(n order.Node, t order.Turn) { w.Facts[n].Turn = t })
	if a == AskedStart {
		if err := w.endsNobody(s); err != nil {
			return err
		}
	}
	with := uint8(0)
	for i := range w.N {
		s[i].Turn = w.Facts[i].Turn
		if s[i].Turn.Stops() {
			with |= 1 << i
		}
	}
	for _, n := range named {
		s[n].Asked = a
		s[n].Old = a == AskedRestart && live(s[n].Phase)
	}
	for _, n := range along {
		if a == AskedStart {
			s[n].Asked = AskedStart
		}
	}
	if w.Rules.Remembers {
		for _, n := range append(named, along...) {
			s[n].With = with
		}
	}
	return nil
}

// Boot announces a set that nothing is known of yet.
func (w *World) Boot(s *State, members uint8) error {
	for i := range w.N {
		if members>>i&1 == 1 {
			s[i].Turn, s[i].Asked = order.Start, AskedStart
		}
	}
	return w.Settle(s)
}

func live(p order.Phase) bool {
	return p == order.Starting || p == order.Working || p == order.Up || p == order.Ending
}

// String shows a state as a person would note it.
func (s State) String() string {
	var b strings.Builder
	for i, u := range s {
		if u == (Service{}) {
			continue
		}
		fmt.Fprintf(&b, "%c: %s", 'a'+i, u.Phase)
		for _, flag := range []struct {
			is   bool
			what string
		}{{u.Wanted, "wanted"}, {u.Again, "again"}, {u.Old, "old"}, {u.Blocked, "blocked"}} {
			if flag.is {
				b.WriteString(" " + flag.what)
			}
		}
		fmt.Fprintf(&b, " turn=%s held=%s asked=%s; ", u.Turn, u.Held, u.Asked)
	}
	return b.String()
}
