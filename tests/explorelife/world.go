// Package explorelife walks the service machine: a model of what tier 1 and the
// kernel may do with a service, the invariants that must hold whatever they do,
// and a search through every state that can be reached. The tests of the machine
// and the tables in its specification are made with it. No part of it runs in
// production.
package explorelife

import (
	"fmt"

	"rlminit/supervise/machine"
)

// Child is a process of the service, as tier 1 knows it.
type Child struct {
	State     machine.Child
	ID        uint64
	Stuck     bool // the spawn was reported as stuck
	Leftovers int  // of an exited one
	Deadline  int64
}

// World is a service together with the truth about its process.
type World struct {
	State machine.State
	Child Child
	Now   int64
}

// Apply carries out actions on the model of tier 1. It fails if one of them
// breaks the contract between the tiers: two live processes, an exit forgotten
// while something of it lives, an id used twice.
func (w *World) Apply(actions []machine.Action) error {
	for _, a := range actions {
		if err := w.apply(a); err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
	}
	return nil
}

func (w *World) apply(a machine.Action) error {
	c := &w.Child
	switch a.Kind {
	case machine.Spawn:
		if c.State != machine.ChildNone {
			return fmt.Errorf("spawn beside a child that is %s", c.State)
		}
		if a.ID <= c.ID {
			return fmt.Errorf("id %d is not above %d", a.ID, c.ID)
		}
		*c = Child{State: machine.ChildPending, ID: a.ID, Deadline: w.State.Lease.At}
	case machine.Prolonged:
		switch {
		case a.ID != c.ID || c.State == machine.ChildNone:
			return fmt.Errorf("a deadline for %d, while %d is %s", a.ID, c.ID, c.State)
		case c.Deadline <= w.Now:
			return fmt.Errorf("a deadline that has passed was moved to %d", a.At)
		case a.At <= c.Deadline:
			return fmt.Errorf("a deadline was brought forward")
		}
		c.Deadline = a.At
	case machine.Signal:
		if a.ID == 0 || a.Signal == 0 || a.Scope == "" {
			return fmt.Errorf("signal without id, number or scope")
		}
	case machine.Sweep:
		if a.ID != c.ID || c.State != machine.ChildExited {
			return fmt.Errorf("sweep of %d, while %d is %s", a.ID, c.ID, c.State)
		}
	case machine.Acknowledge:
		if a.ID != c.ID {
			return nil // of long ago
		}
		if c.State != machine.ChildExited || c.Leftovers > 0 {
			return fmt.Errorf("acknowledged while it is %s with %d left", c.State, c.Leftovers)
		}
		c.State = machine.ChildNone
	case machine.Arm:
		if a.Generation != w.State.Timer.Generation || a.At != w.State.Timer.At || a.At == 0 {
			return fmt.Errorf("armed for %d, State has %+v", a.At, w.State.Timer)
		}
	case machine.Disarm, machine.StartProbe, machine.StopProbe:
	default:
		return fmt.Errorf("unknown action")
	}
	return nil
}

// Happen changes the model as a true event of the kernel does. Reports whether
// the event can happen now.
func (w *World) Happen(e machine.Event) bool {
	c := &w.Child
	if e.ID != c.ID {
		return false
	}
	switch e.Kind {
	case machine.Spawned:
		if c.State != machine.ChildPending {
			return false
		}
		c.State, c.Stuck = machine.ChildAlive, false
	case machine.SpawnFailed:
		if c.State != machine.ChildPending {
			return false
		}
		c.State, c.Stuck = machine.ChildNone, false
	case machine.SpawnStuck:
		if c.State != machine.ChildPending || c.Stuck {
			return false
		}
		c.Stuck = true
	case machine.ExitedEvent:
		if c.State != machine.ChildAlive {
			return false
		}
		c.State, c.Leftovers = machine.ChildExited, e.Leftovers
	case machine.Swept:
		if c.State != machine.ChildExited || e.Remaining > c.Leftovers {
			return false
		}
		c.Leftovers = e.Remaining
	default:
		return false
	}
	return true
}

// Adoption is the event by which a new supervisor learns the truth.
func (w *World) Adoption() machine.Event {
	e := machine.Event{Kind: machine.Adopt, Child: w.Child.State}
	if w.Child.State != machine.ChildNone {
		e.ID, e.PID, e.StartTime, e.Lease.At = w.Child.ID, 100, 1, w.Child.Deadline
	}
	if w.Child.State == machine.ChildExited {
		e.Code, e.Leftovers = 1, w.Child.Leftovers
	}
	return e
}
