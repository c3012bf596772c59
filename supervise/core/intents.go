package core

import (
	"slices"

	"rlminit/service"
	"rlminit/supervise/order"
)

// intents is what is wanted of services, and how far a successor knows of it.
type intents struct {
	set *Set

	promised []*Life // those with a wants.Before, and perhaps others
	begun    []*Life // whose wants.Before ends with this Step
	intended []*Life // of which copies are to say what is wanted
}

// intend has a command's services be wanted as it is recorded. A successor, who begins
// what the journal alone knows of, learns of that with the first step of what follows,
// which may be that it waits, so with what was wanted before; and of those that take none
// at the end of this Step.
func (s *intents) intend(c *Command, want service.Intent) {
	if want == service.IntentNone {
		return
	}
	for _, l := range slices.Concat(c.Lives, c.along) {
		if l.node == order.None {
			continue
		}
		if w := &l.wants; w.Desired != want {
			if l.begins { // that has begun, and this command came after it
				l.begins, w.Before = false, service.IntentNone
			}
			if w.Before == service.IntentNone && c.restores == nil {
				w.Before, l.fresh = w.Desired, true
				s.promised = append(s.promised, l)
			}
			if c.restores != nil {
				w.Before = service.IntentNone
			}
			if w.Desired, l.unkept = want, true; w.Before == want {
				w.Before = service.IntentNone // there is nothing to go back to
			}
		}
		l.intended = true
		s.intended = append(s.intended, l)
	}
}

// comeTo notes that a command has begun what is wanted of services, so that they do not go
// back to what was wanted before. A successor that was told of the earlier intent is told
// of this too. Who is to be stopped has not come to that by a start.
func (s *intents) comeTo(c *Command, lives []*Life, told bool) {
	for _, l := range lives {
		if l.wants.Before != service.IntentNone && (c.stops() || l.wants.Desired == service.Running) {
			s.begun = append(s.begun, l)
			l.begins, l.tell = true, l.tell || told || !l.fresh
		}
	}
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
		l.wants.Before, l.unkept = service.IntentNone, l.unkept || l.tell
		l.tell, l.begins = false, false
		s.keep(l)
	}
	for _, l := range s.intended {
		if l.intended && l.node != order.None {
			s.keep(l)
			s.set.outbox.effect(Effect{Kind: Wanted, Node: l.node, Life: l})
		}
		l.intended, l.fresh = false, false
	}
	if len(s.begun) > 0 {
		s.promised = slices.DeleteFunc(s.promised, func(l *Life) bool { return l.node == order.None || l.wants.Before == service.IntentNone })
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
