package explorelife

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"rlminit/service"
	"rlminit/supervise/machine"
)

// Check says which invariant the step from before by e to after breaks. It knows
// nothing of the world: what concerns processes is checked by World.Apply and
// Consistent.
func Check(before machine.State, p machine.Policy, e machine.Event, after machine.State, actions []machine.Action) error {
	spawns, asked := 0, before.Probing
	for _, a := range actions {
		switch a.Kind {
		case machine.Spawn:
			spawns++
		case machine.StartProbe:
			asked = a.Probe
		case machine.StopProbe:
			asked = ""
		}
	}
	d := after.Deadlines
	var earliest int64
	for _, at := range []int64{d.Start, d.Spawn, d.Ready, d.Watchdog, d.Stop, d.Sweep} {
		if at != 0 && (earliest == 0 || at < earliest) {
			earliest = at
		}
	}
	switch {
	case !slices.Contains(machine.Phases, after.Phase):
		return fmt.Errorf("unknown phase %q", after.Phase)
	case spawns > 1:
		return fmt.Errorf("%d spawns in one step", spawns)
	case spawns > 0 && after.Want == machine.WantDown:
		return fmt.Errorf("spawned though wanted down")
	case spawns > 0 && p.Deadline && after.Lease.At <= e.Now:
		return fmt.Errorf("spawned though its deadline has passed")
	case after.ID != 0 && after.ID == before.ID && after.Lease.Fence != before.Lease.Fence && e.Kind != machine.Adopt:
		return fmt.Errorf("the fence %q of a run became %q", before.Lease.Fence, after.Lease.Fence)
	case after.Blocked != "" && spawns > 0:
		return fmt.Errorf("spawned though %s", after.Blocked)
	case after.Timer.At != earliest:
		return fmt.Errorf("timer armed for %d, the earliest deadline is %d", after.Timer.At, earliest)
	case after.Public() == "stopping" && earliest == 0:
		return fmt.Errorf("stopping without a deadline")
	case quiet(after.Phase) && earliest != 0:
		return fmt.Errorf("a timer in phase %q", after.Phase)
	case after.Phase == machine.Backoff && d.Start == 0:
		return fmt.Errorf("back-off without an end")
	case after.Phase == machine.Stopped && after.Want != machine.WantDown:
		return fmt.Errorf("stopped though wanted up")
	case after.Phase == machine.Gone && !after.Removed:
		return fmt.Errorf("gone though not removed")
	case hasRun(after.Phase) != (after.ID != 0):
		return fmt.Errorf("phase %q with id %d", after.Phase, after.ID)
	case after.Probing != "" && after.Phase != machine.Starting && after.Phase != machine.Running:
		return fmt.Errorf("probe %s in phase %q", after.Probing, after.Phase)
	case after.Probing != asked && e.Kind != machine.Adopt:
		return fmt.Errorf("probe %q is noted, and the owner runs %q", after.Probing, asked)
	case spawns > 0 && p.Limit > 0 && after.Unready >= p.Limit && (e.Kind == machine.ExitedEvent || e.Kind == machine.Swept):
		return fmt.Errorf("spawned though %d runs in a row were never ready", after.Unready)
	case p.Limit > 0 && len(after.Starts) > p.Limit:
		return fmt.Errorf("%d starts kept, the limit is %d", len(after.Starts), p.Limit)
	}
	if e.Kind == machine.Stalled {
		if err := checkStalled(before, e, after); err != nil {
			return err
		}
	}
	var wants error
	if !p.Deadline || after.Lease.At > e.Now || !quiet(after.Phase) { // else nothing is wanted of it any more
		wants = checkCommand(before, e, after)
	}
	if err := errors.Join(wants, checkUpdate(before, e, after)); err != nil {
		return err
	}
	if before.Phase == machine.Failed && spawns > 0 {
		return checkRetry(before, p, e)
	}
	if spawns > 0 && before.Phase != machine.Failed && before.ID != 0 {
		return checkRestart(before, p, e)
	}
	return nil
}

// quiet are the phases that wait for nothing but an event from outside.
func quiet(ph machine.Phase) bool {
	switch ph {
	case machine.Stopped, machine.Gone, machine.Exited, machine.Waiting, machine.Parked:
		return true
	}
	return false
}

func hasRun(ph machine.Phase) bool {
	switch ph {
	case machine.Spawning, machine.Parked, machine.Starting, machine.Running, machine.Stopping, machine.Sweeping:
		return true
	}
	return false
}

// checkCommand: a command decides what is wanted from then on.
func checkCommand(before machine.State, e machine.Event, after machine.State) error {
	want := before.Want
	switch e.Kind {
	case machine.Stop, machine.Remove:
		want = machine.WantDown
	case machine.Start, machine.Restart:
		if !before.Removed {
			want = machine.WantUp
		}
	case machine.Adopt:
		return nil
	}
	if after.Want != want {
		return fmt.Errorf("wanted %q after %s, not %q", after.Want, e.Kind, want)
	}
	if e.Kind == machine.Stop && after.StartAgain {
		return fmt.Errorf("to be started again after stop")
	}
	return nil
}

// checkUpdate: a new definition starts what the one before has failed, whatever is left of
// that, and with a clean history.
func checkUpdate(before machine.State, e machine.Event, after machine.State) error {
	if e.Kind != machine.Update || after.Want == machine.WantDown {
		return nil
	}
	switch {
	case len(after.Starts) > 0 || after.Tries > 0 || after.Unready > 0:
		return fmt.Errorf("starts under the definition before count")
	case after.Phase == machine.Backoff || after.Phase == machine.Failed:
		return fmt.Errorf("%s under the definition before, and still so", after.Public())
	case after.ID != 0 && after.EndedBadly() && !after.StartAgain:
		return fmt.Errorf("%s under the definition before, and that decides what follows", after.Public())
	case before.Phase == machine.Exited && before.EndedBadly() && after.Phase == machine.Exited:
		return fmt.Errorf("exited without success under the definition before, and still so")
	}
	return nil
}

// checkStalled: a pause leaves a service as it is, with as much time as it had
// left; only the container's stop budget runs on.
func checkStalled(before machine.State, e machine.Event, after machine.State) error {
	left := func(was, is int64) error {
		if was != 0 && is != was+e.Within && is != math.MaxInt64 {
			return fmt.Errorf("due at %d after a pause of %d, before at %d", is, e.Within, was)
		}
		return nil
	}
	if after.Phase != before.Phase || after.StopBy != before.StopBy {
		return fmt.Errorf("%s by a pause", after.Public())
	}
	if before.StopMax == 0 {
		if err := left(before.Deadlines.Stop, after.Deadlines.Stop); err != nil {
			return err
		}
	}
	return errors.Join(left(before.Deadlines.Ready, after.Deadlines.Ready), left(before.Deadlines.Watchdog, after.Deadlines.Watchdog))
}

// checkRetry: what failed is started by a person, by a new definition, or as
// retry_failed says.
func checkRetry(before machine.State, p machine.Policy, e machine.Event) error {
	switch e.Kind {
	case machine.Start, machine.Restart:
		return nil
	case machine.Update:
		return nil
	case machine.TimerFired:
		if p.RetryFailed > 0 && !before.NoRetry {
			return nil
		}
	}
	return fmt.Errorf("a failed service was started by %s", e.Kind)
}

// checkRestart: a run is followed by another only as the policy says, or because
// somebody asked for it.
func checkRestart(before machine.State, p machine.Policy, e machine.Event) error {
	if e.Kind == machine.Adopt || before.StartAgain || before.StopBy == machine.StopCommand {
		return nil
	}
	if e.Kind == machine.SpawnFailed {
		return fmt.Errorf("a failed spawn was repeated at once")
	}
	verdict := before.Verdict // of a sweep
	if e.Kind == machine.ExitedEvent {
		switch {
		case before.StopBy != machine.StopNone && before.StopBy != machine.StopSelf,
			before.Killed, e.Signal != 0:
			verdict = machine.VerdictFailure
		case slices.Contains(p.ExitFatal, e.Code):
			verdict = machine.VerdictFatal
		case slices.Contains(p.ExitRestart, e.Code):
			verdict = machine.VerdictRestart
		case slices.Contains(p.ExitSuccess, e.Code):
			verdict = machine.VerdictSuccess
		default:
			verdict = machine.VerdictFailure
		}
	}
	switch verdict {
	case machine.VerdictRestart:
		return nil
	case machine.VerdictSuccess:
		if p.Restart == service.RestartAlways && !p.Oneshot {
			return nil
		}
	case machine.VerdictFailure:
		if p.Restart != service.RestartNo {
			return nil
		}
	}
	return fmt.Errorf("restarted after %s under policy %q", verdict, p.Restart)
}

// Consistent holds what the State believes against the truth, once all actions
// are carried out.
func Consistent(w World) error {
	want := map[machine.Phase][]machine.Child{
		machine.Spawning: {machine.ChildPending},
		machine.Parked:   {machine.ChildPending},
		machine.Starting: {machine.ChildAlive},
		machine.Running:  {machine.ChildAlive},
		machine.Stopping: {machine.ChildAlive},
		machine.Sweeping: {machine.ChildExited},
	}[w.State.Phase]
	if want == nil {
		want = []machine.Child{machine.ChildNone}
	}
	if !slices.Contains(want, w.Child.State) {
		return fmt.Errorf("phase %q, but the child is %q", w.State.Phase, w.Child.State)
	}
	if w.State.ID != 0 && w.State.ID != w.Child.ID {
		return fmt.Errorf("the State has spawn %d, the child is %d", w.State.ID, w.Child.ID)
	}
	return nil
}
