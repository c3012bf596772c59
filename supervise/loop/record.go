package loop

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/publish"
	"rlminit/supervise/remember"
	"rlminit/supervise/volume"
)

// Records is what is known of services outside of this process: what a successor is
// to know, what is wanted and was seen on the volume, the journal, status files, and
// those who read events. A command, and the end of a run, count when they are
// durable here; a copy that cannot be written delays nobody. Copied and Shown wait, beside
// the loop.
type Records struct {
	loop   *mailbox
	fleet  *fleet
	volume *volume.Volume
	isFor  func(service string) bool // whether the container is for it

	memory    *remember.Driver // what a successor is to know
	events    *publish.Events
	publisher *publish.Driver // of copies: status files
	recorder  *publish.Copies // of profiles: state files, on the volume

	cuts int // services that the container's stop has left less than their time
}

// kept is how far what is true of a unit is known outside.
type kept struct {
	fresh   bool            // its definition was remembered since it changed
	slot    bool            // there is one, where its status is written
	changed bool            // what is wanted is newer than the state that a predecessor left
	started service.Started // what its run was started with
	told    remember.Told

	scheduling bool // its schedules count: it is to run

	// commanded: what is wanted is what a person has commanded, and was recorded nowhere,
	// for there is no volume of ours. It is when we take one over.
	commanded bool
}

// copied waits until the volume shows what has happened, but for no longer than that.
func (r *Records) copied(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.recorder.Flush(ctx)
}

// flushPatience is how long an answer is held back for files to show it.
const flushPatience = 300 * time.Millisecond

// recordCommand makes what a command wants durable, of the units and of what goes
// along, and says why not; then nothing of it is recorded. One that changes no intent
// is only noted. Without a volume of ours there is nothing to make it durable on. The
// loop calls it, and then is called by it.
func (r *Records) recordCommand(cmd *core.Command, units, along []*unit, then func(*control.Problem)) {
	all := slices.Concat(units, along)
	actor := profiles.Actor(cmd.Actor)
	c := profiles.Command{Operation: cmd.ID, Verb: cmd.Verb, Intent: cmd.Records(), Services: []string{}, Actor: &actor}
	if cmd.Part != 0 {
		c.Operation = 0
	}
	for _, u := range all {
		if u.recorded && c.Intent != service.IntentNone && !u.onlyScheduled() {
			c.Services = append(c.Services, u.name)
		}
	}
	for _, u := range units {
		c.Members = append(c.Members, u.name)
	}
	if slices.Equal(c.Members, c.Services) {
		c.Members = nil
	}
	store := r.volume.Store()
	switch {
	case store == nil:
		for _, u := range all {
			if c.Intent != service.IntentNone && !u.onlyScheduled() {
				u.kept.commanded = true
				r.keepState(u)
			}
		}
		then(nil)
	case len(c.Services) == 0:
		store.Records.Note(c)
		then(nil)
	default:
		go func() {
			// A disk that does not answer keeps no command waiting for ever.
			ctx, cancel := context.WithTimeout(context.Background(), recordPatience)
			defer cancel()
			var problem *control.Problem
			if err := store.Records.Command(ctx, c, cmd.Want == service.Stopped); err != nil {
				problem = control.Failed("cannot record it: %v; nothing was done, for it would not survive a restart", err)
				problem.Retryable = durable.Temporary(err)
			}
			r.loop.do(func() { then(problem) })
		}()
	}
}

// Shown, Copied and Recorded are serve.Copies.
func (r *Records) Shown() {
	ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
	defer cancel()
	r.publisher.Flush(ctx)
	r.recorder.Flush(ctx)
}

func (r *Records) Recorded(name string) {
	r.loop.read(func() {
		if u := r.fleet.units[name]; u != nil {
			r.recordSeen(u)
		}
	})
}

func (r *Records) Copied() { r.copied(copyPatience) }

// copyPatience is how long the answer to a command waits for copies of what was recorded:
// it counts by the journal, but whoever edits one afterwards, for an adoption, is not to
// lose that.
const copyPatience = 250 * time.Millisecond

// recordPatience is how long a command waits for its record to be durable.
const recordPatience = 10 * time.Second

// recordSeen has the state file of u's profile written. What the container's own stop
// brings about is not: the next boot is to know what ran before it.
func (r *Records) recordSeen(u *unit) {
	if u.definition.Profile == "" || r.fleet.set.Stopping() || !u.recorded || u.forgotten {
		return // of what was deleted nothing is to be written
	}
	seen := profiles.Seen{State: seenAs(u), Restarts: u.state.Restarts, Started: service.Start(u.kept.started.With)}
	if u.state.Alive() {
		seen.PID, seen.StartTime = u.state.PID, u.state.StartTime
	}
	switch {
	case seen.State == service.SeenStartupFailed && u.state.LastExit == nil:
		seen.ExitReason = cmp.Or(u.fault, u.state.Reason)
	case u.state.LastExit != nil:
		seen.ExitReason = u.state.LastExit.String()
	}
	r.recorder.Put(u.definition.Profile, seen)
}

// seenAs is u's state in the words of the state file.
func seenAs(u *unit) service.Seen {
	switch u.state.Public() {
	case "running":
		if u.state.Health == machine.Unhealthy {
			return service.SeenDegraded
		}
		return service.SeenRunning
	case "starting", "waiting", "backoff":
		return service.SeenStarting
	case "stopping":
		return service.SeenDraining
	case "failed":
		return service.SeenStartupFailed
	}
	if u.fault != "" {
		return service.SeenStartupFailed
	}
	return service.SeenStopped
}

// happened puts into the journal, for hooks and for readers of events, what a step has
// changed of u, whose public state was the one given: first what its health probe has
// come to say of it, once each time that this changes, and then the state that follows.
func (r *Records) happened(u *unit, was string, before, state *machine.State) {
	is, health := state.Public(), state.Health
	event := control.Event{Service: u.name, Profile: u.definition.Profile, At: time.Unix(0, state.Since)}
	if pid := state.PID; pid > 0 && state.Alive() {
		event.PID = &pid
	}
	if health != before.Health && health != machine.HealthUnknown {
		told := event
		told.From, told.To, told.Cause = cmp.Or(string(before.Health), was), string(health), "its health probe passed"
		if health == machine.Unhealthy {
			told.Cause = state.Reason
		}
		if is == was {
			told.At = time.Now()
		}
		r.volume.Journal.Note(r.events.Publish(told))
	}
	if is != was {
		event.From, event.To, event.Cause, event.Actor = was, is, cmp.Or(state.Cause, state.Reason), state.Actor
		r.volume.Journal.Note(r.events.Publish(event))
	}
}

// outdated tells that u's process goes on with older values than those in force.
func (r *Records) outdated(u *unit) {
	event := control.Event{Service: u.name, Profile: u.definition.Profile, At: time.Now(), From: u.state.Public(), To: control.Outdated, Cause: u.older()}
	if pid := u.state.PID; u.state.Alive() {
		event.PID = &pid
	}
	r.volume.Journal.Note(r.events.Publish(event))
	r.publishStatus(u)
}

// cutsSaid is of how many services it is said, one by one, that the container's stop did not
// leave them their time.
const cutsSaid = 5

// tellCut says that a service was killed before the time was over that its definition gives
// it to stop, for the container's stop budget was.
func (r *Records) tellCut(u *unit, before, is *machine.State) {
	within := time.Duration(is.StopWithin)
	if !is.Killed || before.Killed || within <= 1 || within >= u.definition.Stop.Timeout || !r.fleet.set.Stopping() {
		return
	}
	if r.cuts++; r.cuts <= cutsSaid {
		slog.Warn("the container's stop left a service less than its stop.timeout, and it was killed; write a longer stop_timeout, and have the engine wait for it", "service", u.name, "had", within.Round(time.Millisecond), "timeout", u.definition.Stop.Timeout)
	} else if r.cuts == cutsSaid+1 {
		slog.Warn("more services were killed so; of these nothing is said")
	}
}

// tell says in our own log what befell u though nobody asked for it.
func (r *Records) tell(u *unit, before, is *machine.State) {
	r.tellCut(u, before, is)
	if is.Phase == before.Phase || r.fleet.set.Stopping() {
		return
	}
	level, what, cause := slog.LevelWarn, "", is.Reason
	switch is.Phase {
	case machine.Spawning: // at once, after a run that was healthy
		if is.Restarts > before.Restarts && before.Phase != machine.Backoff {
			what, cause = "a service ended and is started again", before.StopReason
			if e := is.LastExit; before.Phase == machine.Failed {
				what, cause = "a failed service is tried again", before.Reason
			} else if e != nil && (before.LastExit == nil || *before.LastExit != *e) {
				cause = cmp.Or(is.LastWords, e.String())
			}
		}
	case machine.Backoff:
		what = "a service ended and will be started again"
	case machine.Failed:
		level, what = slog.LevelError, "a service failed"
	case machine.Exited:
		if is.Verdict != machine.VerdictSuccess {
			what = "a service ended"
		}
	}
	if what == "" {
		return
	}
	args := []any{"service", u.name}
	if pid := cmp.Or(before.PID, u.life.Former()); pid > 0 && before.ID != 0 {
		args = append(args, "pid", pid)
	}
	slog.Log(context.Background(), level, what, append(args, "cause", cause)...)
}

// remember keeps what a successor is to know of u, and tells whether it is kept already.
func (r *Records) remember(u *unit, state *machine.State, wants core.Wants, row core.Row) bool {
	if u.kept.fresh = true; r.fleet.set.Stopping() {
		return true // there is no successor: PID 1 starts none
	}
	m := remember.Service{
		Profile: u.definition.Profile, Recorded: u.recorded, Desired: wants.Desired, Before: wants.Before, Commanded: u.kept.commanded, Owed: wants.Owed,
		Definition: []byte(u.fingerprint), Machine: *state, Told: u.kept.told,
	}
	if u.fault != "" {
		m.Kind = u.definition.Kind
	}
	if state.ID != 0 && u.kept.started.Run != state.ID {
		u.kept.started = service.Started{Run: state.ID, With: []byte(u.starts)}
	}
	if state.ID != 0 {
		m.Started = u.kept.started
	}
	return r.memory.Service(u.name, m, row)
}

// keepState keeps what a successor is to know of u. It is called after each change
// of that, before anything is done or said that follows from it.
func (r *Records) keepState(u *unit) {
	row := core.Row{Life: u.life, Version: u.life.Version()}
	if r.remember(u, u.state, u.life.Wants(), row) {
		r.fleet.apply(core.Input{Kind: core.Remembered, Rows: []core.Row{row}})
	}
}

// publishStatus has u's status written.
func (r *Records) publishStatus(u *unit) {
	if !u.kept.slot {
		return // which it is when there is one
	}
	r.publisher.Put(u.name, publish.Status{Service: u.view().Status(), MainPID: u.state.MainPID})
}
