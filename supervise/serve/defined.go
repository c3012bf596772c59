package serve

import (
	"cmp"
	"context"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/registry"
)

// What the registry asks of services: those methods of registry.Services that change
// none.

// Alive is every service of which a process may exist.
func (s *Backend) Alive() map[string]bool {
	alive := map[string]bool{}
	s.loop.Read(func(now Services) {
		for u := range now.All() {
			alive[u.Name] = u.Active()
		}
	})
	return alive
}

// Status is a service as status shows it.
func (s *Backend) Status(name string) (st control.Service, ok bool) {
	if u := s.named(name); u != nil {
		return u.Status(), true
	}
	return st, false
}

// Plan says what an update to a definition would do to a service.
func (s *Backend) Plan(name string, to *service.Definition) control.Change {
	u := s.named(name)
	if u == nil {
		return control.Change{Service: name, Action: "add", Why: "its definition is new"}
	}
	c := registry.PlanUpdate(name, u.Definition, to, u.Restarts(to))
	if u.Wanted && u.State.EndedBadly() {
		c.Action, c.Why = "start", cmp.Or(c.Why, "its definition changed")+"; it is "+u.Condition()
	}
	return c
}

// Recorded has what is seen of a service written to the volume again.
func (s *Backend) Recorded(name string) { s.Copies.Recorded(name) }

// Find is the service that a person means by name.
func (s *Backend) Find(name string) (string, error) {
	u, err := s.LookUp(name)
	if err != nil {
		return "", err
	}
	return u.Name, nil
}

// Await is the outcome of what was just defined: at once without wait, else when
// it is known, and files show it. A service that stop --runtime has stopped stays so, and
// nobody waits for it.
func (s *Backend) Await(ctx context.Context, name string, changed bool, wait *control.Wait) control.Outcome {
	u := s.named(name)
	if u == nil {
		return control.Outcome{Problem: control.NewProblem(control.KindNoSuchName, name+" was removed")}
	}
	outcome := control.Outcome{Service: u.Status(), Changed: changed}
	if wait == nil {
		return outcome
	}
	gate := operation.Gate{}
	if u.policy().Ready == machine.ReadyAtOnce && !u.policy().Oneshot {
		gate.Steady = standing
	}
	if u.Desired == service.Running && u.Wanted && u.Definition.Schedule == nil {
		outcome = s.Outcome(ctx, u, gate, wait)
		outcome.Changed = changed
	}
	s.Copies.Shown()
	return outcome
}

// standing is how long a service that says nothing of its readiness must run before it
// is said that it does: one that cannot read its configuration has ended by then.
const standing = 50 * time.Millisecond
