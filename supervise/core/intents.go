package core

import (
	"rlminit/service"
	"rlminit/supervise/order"
)

// intents are the desired states of services, and how far a successor knows of them.
type intents struct {
	set *Set

	turns    uint64  // how many commands there were
	begun    []*Life // whose wants.Before ends with this Step
	intended []*Life // whose copies are to show the desired state
}

// intend has services be wanted as is recorded of them, by a command of that turn. A
// successor, which begins what the journal alone knows of, learns of that with the first
// step of what follows, which may be that it waits, so with what was wanted before; and of
// services that take none at the end of this Step.
func (s *intents) intend(lives []*Life, want service.Intent, turn uint64) {
	if want == service.IntentNone {
		return
	}
	for _, l := range lives {
		if l.node == order.None {
			continue
		}
		l.commanded = turn
		if w := &l.wants; w.Desired != want {
			if l.begins { // by an earlier command of this Step
				l.begins, w.Before = false, service.IntentNone
			}
			if w.Before == service.IntentNone {
				w.Before, l.begins = w.Desired, true
				s.begun = append(s.begun, l)
			}
			if w.Desired, l.unkept = want, true; w.Before == want {
				w.Before = service.IntentNone // there is nothing to go back to
			}
		}
		l.intended = true
		s.intended = append(s.intended, l)
	}
}

// next is the turn of a command that changes desired states.
func (s *intents) next() uint64 {
	s.turns++
	return s.turns
}

// keepIntents tells a successor, at the end of a Step, of intents that no transition has
// told it.
func (s *intents) keepIntents() {
	if s.set.holds > 0 {
		return
	}
	for _, l := range s.begun {
		if !l.begins { // it is wanted otherwise since
			continue
		}
		l.wants.Before, l.begins = service.IntentNone, false
		s.keep(l)
	}
	for _, l := range s.intended {
		if l.intended && l.node != order.None {
			s.keep(l)
			s.set.outbox.effect(Effect{Kind: Wanted, Node: l.node, Life: l})
		}
		l.intended = false
	}
	clear(s.begun)
	clear(s.intended)
	s.begun, s.intended = s.begun[:0], s.intended[:0]
}

// keep has a successor know of a life's intent, if no transition has told it.
func (s *intents) keep(l *Life) {
	if l.unkept && l.node != order.None {
		s.set.outbox.remember(l, s.set.outbox.copy(&l.state))
	}
}
