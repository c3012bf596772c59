package exploreorder

import (
	"fmt"

	"rlminit/supervise/order"
)

// The invariants know the graph by brute force and the table of ORDER.md by
// heart: they share no code with what they are held against.

// waits is the table: whether an edge of a kind is waited for while what it leads
// to is in this state.
func waits(kind order.Kind, u *Service) bool {
	if u.Turn != order.NoTurn {
		return true
	}
	switch u.Phase {
	case order.Up, order.Done:
		return false
	case order.Starting, order.Working, order.Ending:
		return true
	case order.Waiting:
		return kind == order.Requires || u.Held == order.OnWay
	}
	return kind == order.Requires
}

// excused tells whether an edge orders nothing: a weak one on a cycle.
func (w *World) excused(from order.Node, e order.Edge) bool {
	return e.Kind != order.Requires && w.reach[e.To][from]
}

// mayStart: nobody starts while an edge that it must wait for is unsettled, nor
// while it is to be stopped.
func (w *World) mayStart(s *State, n order.Node) error {
	if w.Rules.Lenient {
		return nil
	}
	if s[n].Turn.Stops() {
		return fmt.Errorf("%c starts, and is to be stopped: %v", 'a'+n, s)
	}
	return w.unsettled(s, n, n, order.Requires, 0)
}

// unsettled is an error if n, which starts, must wait for an edge of at: itself, or what
// it comes after, by the weakest edge of that kind, and that has no process. It requires
// what a oneshot that is done requires, and otherwise comes after what such a one does.
func (w *World) unsettled(s *State, n, at order.Node, kind order.Kind, passed uint8) error {
	for _, e := range w.Graph.Edges(at) {
		u, k := &s[e.To], max(kind, e.Kind)
		switch {
		case w.excused(at, e) || passed>>e.To&1 == 1:
		case at != n && w.needs[at][at] && w.needs[e.To][at]: // a cycle of requires, which never starts
		case waits(k, u):
			return fmt.Errorf("%c starts, and %s %c: %v", 'a'+n, k, 'a'+e.To, s)
		case !live(u.Phase):
			if err := w.unsettled(s, n, e.To, k, passed|1<<at); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayStop: nobody is stopped before what comes after it, over however many edges,
// and is on its way down itself, is gone; nor while what requires it is alive.
func (w *World) mayStop(s *State, n order.Node) error {
	if p := s[n].Phase; w.Rules.Lenient || s[n].Turn == order.Start || !live(p) || p == order.Ending {
		return nil
	}
	for i := range w.N {
		d := order.Node(i)
		switch {
		case d == n || !live(s[d].Phase) || w.needs[n][d] && w.needs[d][n]:
		case w.needs[d][n]:
			return fmt.Errorf("%c is stopped before %c, which requires it: %v", 'a'+n, 'a'+d, s)
		case w.later[d][n] && (s[d].Phase == order.Ending || s[d].Turn.Stops()):
			return fmt.Errorf("%c is stopped before %c, which comes after it: %v", 'a'+n, 'a'+d, s)
		}
	}
	return nil
}

// licensed: nothing goes along with a stop but what requires a member, nor with a
// start but what is needed.
func (w *World) licensed(a Asked, members uint8, along []order.Node) error {
	for _, n := range along {
		ok := false
		for m := range w.N {
			if members>>m&1 == 0 {
				continue
			}
			if a == AskedStart {
				ok = ok || w.reach[m][n]
			} else {
				ok = ok || w.needs[n][m]
			}
		}
		if !ok {
			return fmt.Errorf("%c goes along with a %s that it has nothing to do with", 'a'+n, a)
		}
	}
	return nil
}

// endsNobody: a start gives nobody a turn by which its process ends, but one that had
// such a turn, and goes along now with what it requires and is to be stopped. s is as it
// was before the command, and Facts as it is with it.
func (w *World) endsNobody(s *State) error {
	for i := range w.N {
		was, is := s[i].Turn, w.Facts[i].Turn
		if !is.Stops() || is == was {
			continue
		}
		ok := false
		for m := range w.N {
			t := w.Facts[m].Turn
			ok = ok || w.needs[i][m] && (t == order.Along || t == order.Restart || t == order.Stop)
		}
		if is != order.Along || !was.Stops() || !ok {
			return fmt.Errorf("a start ends %c: its turn was %s, and is %s: %v", 'a'+i, was, is, s)
		}
	}
	return nil
}

// atRest tells whether nothing happens any more but by a person, or a retry.
func (w *World) atRest(s *State) bool {
	for i := range w.N {
		for _, m := range []Move{Registers, Comes, Ends, ComesUnstuck} {
			if w.Can(s, order.Node(i), m) {
				return false
			}
		}
		if p := s[i].Phase; p == order.Backoff || p == order.Working || p == order.Ending {
			return false
		}
	}
	return true
}

// checkRest: where nothing happens any more every command has ended, or who waits
// names a cause that does not wait for it.
func (w *World) checkRest(s *State) error {
	for i := range w.N {
		u, n := &s[i], order.Node(i)
		switch {
		case u.Turn != order.NoTurn:
			return fmt.Errorf("the %s of %c never ends: %v", u.Turn, 'a'+n, s)
		case u.Phase == order.Waiting && u.Held != order.Stuck:
			return fmt.Errorf("%c waits for ever, and is not stuck: %v", 'a'+n, s)
		}
		if u.Phase == order.Waiting {
			if err := w.checkCause(s, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAsked: where nothing happens any more what was asked for has been done.
func (w *World) checkAsked(s *State) error {
	for i := range w.N {
		u, n := &s[i], order.Node(i)
		switch {
		case u.Old && u.Asked == AskedRestart:
			return fmt.Errorf("%c was restarted, and has its old process: %v", 'a'+n, s)
		case u.Asked == AskedStop && (u.Wanted || live(u.Phase)):
			return fmt.Errorf("%c was stopped, and is not: %v", 'a'+n, s)
		case (u.Asked == AskedStart || u.Asked == AskedRestart) && !u.Wanted:
			return fmt.Errorf("%c was started, and is not wanted: %v", 'a'+n, s)
		}
	}
	return nil
}

// checkCause follows what those that wait name, to one that does not wait.
func (w *World) checkCause(s *State, n order.Node) error {
	at := n
	for range w.N + 1 {
		w.look(s)
		d := w.Rules.Decide(w, s, at)
		if d.Edge.To == order.None {
			return fmt.Errorf("%c waits for nothing: %v", 'a'+at, s)
		}
		if d.Cycle {
			if !w.needs[at][at] || !w.needs[d.Edge.To][at] {
				return fmt.Errorf("%c is said to require itself: %v", 'a'+at, s)
			}
			return nil
		}
		if at = d.Edge.To; s[at].Phase != order.Waiting {
			return nil
		}
	}
	return fmt.Errorf("%c waits for what waits for it: %v", 'a'+n, s)
}

// keeps: a turn ends when it is given, or when somebody commands otherwise, and by
// nothing else. So what holds of a command that is left alone to its end holds of
// one that others follow.
func (w *World) keeps(before, after *State, t step, given uint8) error {
	for i := range w.N {
		was, is := &before[i], &after[i]
		overruled := t.asked != Nothing && (t.set>>i&1 == 1 || was.Turn == order.Along || t.asked == AskedStart)
		if was.Turn != order.NoTurn && is.Turn != was.Turn && given>>i&1 == 0 && !overruled && t.move != IsRefused {
			return fmt.Errorf("the %s of %c is forgotten: %v", was.Turn, 'a'+i, after)
		}
	}
	return nil
}
