package loop

import (
	"context"

	"rlminit/control"
	"rlminit/supervise/core"
	"rlminit/supervise/operation"
	"rlminit/supervise/serve"
)

// operate commands units as a user does, with or without those that go along with them.
func operate(s *supervisor, verb string, units []*unit, along bool, uid uint32, wait *control.Wait) []control.Outcome {
	var views []*serve.View
	s.read(func() {
		for _, u := range units {
			views = append(views, u.view())
		}
	})
	cmd := serve.CommandOf(verb, views, control.Actor{UID: uid})
	cmd.Along = along && verb != core.VerbStop
	outcomes, _, _ := s.backend.Give(context.Background(), cmd, views, wait)
	return outcomes
}

// views are the operations that are remembered. Only the loop calls it.
func (c *Commands) views() (list []control.Operation) {
	for _, o := range c.fleet.set.Operations.List() {
		list = append(list, serve.Shown(c.fleet, o))
	}
	return list
}

// along are the units that must, or should, be started with others and are not wanted
// yet. Only the loop calls it.
func (f *fleet) along(units ...*unit) (along []*unit) {
	for _, n := range f.set.StartAlong(nodesOf(units)) {
		along = append(along, f.byNode[n])
	}
	return along
}

// pending are the units that operations are yet to take. Only the loop calls it.
func (c *Commands) pending() (units []*unit) {
	for _, o := range c.fleet.set.Operations.List() {
		for _, m := range o.Members {
			if u := c.fleet.find(m.Name); u != nil && !o.Over() && m.State == operation.StatePending {
				units = append(units, u)
			}
		}
	}
	return units
}
