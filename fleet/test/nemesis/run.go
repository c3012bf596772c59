package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"rlminit/fleet/test/check"
)

// Inflict carries out a plan, and undoes all of it before it returns. Each fault is
// told to say when it begins and when it ends. Faults of one lane are never done at
// once, however late the machine is.
func (w *World) Inflict(ctx context.Context, plan []Step, say func(format string, args ...any)) ([]check.Fault, error) {
	began := time.Now()
	var mu sync.Mutex
	var faults []check.Fault
	var errs []error
	var lanes sync.WaitGroup
	for _, steps := range w.lanes(plan) {
		lanes.Go(func() {
			for _, s := range steps {
				if !until(ctx, began.Add(s.At)) {
					return
				}
				done, err := w.inflict(ctx, s, say)
				mu.Lock()
				faults = append(faults, done...)
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	lanes.Wait()
	return faults, errors.Join(errs...)
}

// inflict does one fault, waits, and undoes it. One for which there is nothing now, as a
// process that has just ended or a leader, is said and left out.
func (w *World) inflict(ctx context.Context, s Step, say func(format string, args ...any)) ([]check.Fault, error) {
	k := kindOf(s.Kind)
	targets, err := k.targets(w, w.container(s.Target))
	if err != nil {
		say("left out: %s: %v", s.Kind, err)
		return nil, nil
	}
	var faults []check.Fault
	var undo []func() error
	for _, on := range targets {
		from := check.Now()
		back, err := k.do(w, on)
		if errors.Is(err, errNoProcess) {
			say("left out: %s: %s: %v", s.Kind, on.Name, err)
			continue
		}
		if err != nil {
			return faults, errors.Join(fmt.Errorf("cannot do %s to %s: %w", s.Kind, on.Name, err), undoAll(undo))
		}
		say("%s: %s for %s", s.Kind, on.Name, s.For.Round(time.Millisecond))
		faults = append(faults, check.Fault{Kind: s.Kind, Target: on.Name, Freezes: k.freezes, From: from})
		undo = append(undo, back)
	}
	until(ctx, time.Now().Add(s.For))
	var errs []error
	for i, back := range undo {
		if err := back(); err != nil {
			errs = append(errs, fmt.Errorf("cannot undo %s of %s: %w", s.Kind, faults[i].Target, err))
		}
		faults[i].Till = check.Now()
		say("over: %s: %s", s.Kind, faults[i].Target)
	}
	return faults, errors.Join(errs...)
}

// undoAll undoes what was done.
func undoAll(undo []func() error) error {
	var errs []error
	for _, back := range undo {
		errs = append(errs, back())
	}
	return errors.Join(errs...)
}

// lanes are the steps of a plan by the group of their targets.
func (w *World) lanes(plan []Step) map[int][]Step {
	all := map[int][]Step{}
	for _, s := range plan {
		i := slices.IndexFunc(w.Members, func(c *Container) bool { return c.Name == s.Target })
		switch {
		case i < 0:
			all[2] = append(all[2], s)
		case i < half(len(w.Members)):
			all[0] = append(all[0], s)
		default:
			all[1] = append(all[1], s)
		}
	}
	return all
}

// container finds a member or a node by its name.
func (w *World) container(name string) *Container {
	all := slices.Concat(w.Members, w.Nodes)
	return all[slices.IndexFunc(all, func(c *Container) bool { return c.Name == name })]
}

// until waits for a time; false if ctx was done before.
func until(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Names are the containers' names.
func Names(all []*Container) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}
