package supervise

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/threads"
)

// copiesAtOnce is how many errands with copies of what was seen are under way at a time.
// None waits for the disk, and all are behind what people ask for.
const copiesAtOnce = 2

// records is what is known of services outside of this process: what a successor is
// to know, what is wanted and was seen on the volume, the journal, status files, and
// those who read events. A command, and the end of a run, count when they are
// durable here; a copy that cannot be written delays nobody. The loop's, but for
// recordCommand and written, which wait.
type records struct {
	version string // of this binary, as it is told; "": of no release

	loop   *mailbox
	tier1  *tier1
	fleet  *fleet
	volume *volume

	states    *handover.States  // what a successor is to know
	work      handover.BootWork // what of the boot is done
	chronicle *chronicle
	events    *events
	publisher *publisher                               // of copies: status files
	recorder  *newest[profiles.Subject, profiles.Seen] // of what was seen, on the volume
}

// kept is how far what is true of a unit is known outside.
type kept struct {
	seen     string         // the public state that was published last
	before   service.Intent // what desired was, until what follows from it has begun; IntentNone: it has
	changed  bool           // desired is newer than the state that a predecessor left
	intended bool           // desired has changed since a successor was told
	unsaved  bool           // a successor would not know what is true of it
	ended    []uint64       // exits to be acknowledged once a successor and the log would know of them
	outdated outdated       // what of its run is older than the definition

	// commanded: desired is what a person has commanded, and was recorded nowhere, for
	// there is no volume of ours. It is when we take one over.
	commanded bool
	owed      bool // a start was recorded, and its fault kept it from being carried out
}

// written waits until status files and the volume show what has happened, but
// for no longer than a caller would bear.
func (r *records) written(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.publisher.flush(ctx)
	r.recorder.flush(ctx)
}

// recordCommand makes what a command wants durable, of the units and of what goes
// along, and returns why not; then nothing of it is recorded. One that changes no
// intent is only noted. Without a volume of ours there is nothing to make it
// durable on.
func (r *records) recordCommand(ctx context.Context, id uint64, v verb, units, along []*unit, by control.Actor) *control.Problem {
	all := append(slices.Clone(units), along...)
	actor := profiles.Actor(by)
	c := profiles.Command{Operation: id, Verb: v.name, Intent: v.intent, Services: []string{}, Actor: &actor}
	var subjects []profiles.Subject
	r.loop.ask(func() {
		for _, u := range all {
			if u.recorded && u.state.Phase != machine.Gone && v.intent != service.IntentNone && !u.onlyScheduled() {
				subjects = append(subjects, profiles.SubjectOf(u.name, u.definition.Profile))
				c.Services = append(c.Services, u.name)
			}
		}
		for _, u := range units {
			c.Members = append(c.Members, u.name)
		}
	})
	if slices.Equal(c.Members, c.Services) {
		c.Members = nil
	}
	store := r.volume.Store()
	switch {
	case store == nil:
		r.loop.ask(func() {
			for _, u := range all {
				if v.intent != service.IntentNone && !u.onlyScheduled() {
					u.kept.commanded = true
					r.keepState(u)
				}
			}
		})
	case len(subjects) == 0:
		store.Records.Note(c)
	default:
		// A caller who goes away does not make it a half command; a disk that does not
		// answer keeps no command waiting for ever.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
		defer cancel()
		if err := store.Records.Command(ctx, c, subjects, v.intent == service.Stopped); err != nil {
			return notRecorded(err)
		}
	}
	return nil
}

// intend has units be wanted as a command is recorded, and begins what follows from
// that; nil: a rolling operation, which is in the book, is yet to come to each of them. A
// successor, who begins what the journal alone knows of, learns of a unit's intent with
// the first step of what follows, which may be that it waits, so with what it was before;
// and of those that take none when all others have taken theirs. Only the loop calls it.
func (r *records) intend(intent service.Intent, units, along []*unit, begin func()) {
	all := slices.Concat(units, along)
	var fresh []*unit
	for _, u := range all {
		if intent != service.IntentNone && u.desired != intent && u.state.Phase != machine.Gone {
			if u.kept.before == service.IntentNone {
				u.kept.before, fresh = u.desired, append(fresh, u)
			}
			u.desired, u.kept.intended = intent, true
		}
	}
	if begin != nil {
		begin()
		for _, u := range fresh { // a successor makes nothing of it where it has begun
			u.kept.before = service.IntentNone
		}
		r.cameTo(all...)
	}
	for _, u := range all {
		if u.kept.intended && u.state.Phase != machine.Gone {
			r.keepState(u)
			r.publishStatus(u)
		}
		if intent != service.IntentNone {
			r.recordSeen(u) // the state file is to say what is wanted, too
		}
	}
}

// copied waits until the state files say what was wanted before, but for no longer
// than copyPatience: a command counts by the journal, and its copies follow.
func (r *records) copied() {
	ctx, cancel := context.WithTimeout(context.Background(), copyPatience)
	defer cancel()
	r.recorder.flush(ctx)
}

// copyPatience is how long the answer to a command waits for copies of what was
// recorded: whoever edits one afterwards, for an adoption, is not to lose that.
const copyPatience = 250 * time.Millisecond

// cameTo notes that no rolling operation is yet to come to the units, when what follows
// from their being recorded as they are has begun. Only the loop calls it.
func (r *records) cameTo(units ...*unit) {
	for _, u := range units {
		if u.kept.before != service.IntentNone && u.state.Phase != machine.Gone { // a successor would look for that
			u.kept.before = service.IntentNone
			r.keepState(u)
		}
	}
}

// recordPatience is how long a command waits for its record to be durable.
const recordPatience = 10 * time.Second

// recordPause is how long what was seen waits for what is seen next: most states
// on the way to another last for less.
const recordPause = 100 * time.Millisecond

// newRecorder writes what was last seen of services to the volume. What cannot
// be written, which is said once, is tried again until the disk is well.
func newRecorder(v *volume) *newest[profiles.Subject, profiles.Seen] {
	failing := map[profiles.Subject]bool{}
	return newNewest(recordPause, func(batch map[profiles.Subject]profiles.Seen) (failed map[profiles.Subject]profiles.Seen) {
		if !v.canRecord() {
			return nil
		}
		store := v.Store()
		subjects := slices.Collect(maps.Keys(batch))
		seen := make([]profiles.Seen, len(subjects))
		for i, of := range subjects {
			seen[i] = batch[of]
		}
		failures := store.Records.SaveSeen(subjects, seen, min(copiesAtOnce, threads.Share()))
		failed = map[profiles.Subject]profiles.Seen{}
		for i, of := range subjects {
			err := failures[i]
			if err == nil || errors.Is(err, profiles.ErrNotFound) || errors.Is(err, fs.ErrNotExist) { // deleted since it was seen
				delete(failing, of)
				continue
			}
			failed[of] = batch[of]
			if !failing[of] {
				failing[of] = true
				slog.Warn("cannot record the state of a service", "service", of, "err", err)
			}
		}
		return failed
	})
}

// recordSeen has u's state written to the volume. What the container's own stop
// brings about is not: the next boot is to know what ran before it.
func (r *records) recordSeen(u *unit) {
	if r.fleet.set.Stopping() || !u.recorded || u.forgotten {
		return // of what was deleted nothing is to be written
	}
	seen := profiles.Seen{State: seenAs(u), Restarts: u.state.Restarts}
	if u.state.Alive() {
		seen.PID, seen.StartTime = u.state.PID, u.state.StartTime
	}
	switch {
	case seen.State == service.SeenStartupFailed && u.state.LastExit == nil:
		seen.ExitReason = cmp.Or(u.fault, u.state.Reason)
	case u.state.LastExit != nil:
		seen.ExitReason = u.state.LastExit.String()
	}
	r.recorder.put(profiles.SubjectOf(u.name, u.definition.Profile), func(profiles.Seen) profiles.Seen { return seen })
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
func (r *records) happened(u *unit, was string, before, state *machine.State) {
	is, health := state.Public(), state.Health
	event := control.Event{Service: u.name, At: time.Unix(0, state.Since)}
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
		r.chronicle.note(r.events.publish(told))
	}
	if is != was {
		event.From, event.To, event.Cause, event.Actor = was, is, cmp.Or(state.Cause, state.Reason), state.Actor
		r.chronicle.note(r.events.publish(event))
	}
}

// tell says in our own log what befell u though nobody asked for it.
func (r *records) tell(u *unit, before, is *machine.State) {
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
	if pid := cmp.Or(before.PID, u.open.formerPID); pid > 0 && before.ID != 0 {
		args = append(args, "pid", pid)
	}
	slog.Log(context.Background(), level, what, append(args, "cause", cause)...)
}
