package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/supervise/jobs/output"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// check refuses a request that makes no sense, and puts in what it leaves out.
func check(q *control.RunJob) error {
	if q.TimeoutMS == 0 {
		q.TimeoutMS = control.DefaultJobTimeout.Milliseconds()
	}
	if q.MaxOutput == 0 {
		q.MaxOutput = control.DefaultJobOutput
	}
	switch {
	case len(q.Command) == 0 || q.Command[0] == "":
		return control.BadRequest("a job needs a command")
	case q.TimeoutMS < 0:
		return control.BadRequest("a timeout must be above 0, not %s", time.Duration(q.TimeoutMS)*time.Millisecond)
	case q.TimeoutMS > control.MostJobTimeout.Milliseconds():
		return control.BadRequest("a timeout may be %d days at most; what runs for longer is a service", control.MostJobTimeout/(24*time.Hour))
	case q.MaxOutput < 0 || q.MaxOutput > control.MostJobOutput:
		return control.BadRequest("max_output may be 1 to %d bytes; all of a longer output is in a file", control.MostJobOutput)
	case strings.ContainsRune(q.Dir, 0):
		return control.BadRequest("dir holds a NUL byte, which no path can")
	case q.Stdin != "" && q.Descriptor:
		return control.BadRequest("stdin is a text or a descriptor, not both")
	case q.Retry && (q.Stdin != "" || q.Descriptor):
		return control.BadRequest("retry goes with no stdin: after the container's end nobody has it any more")
	}
	if err := checkKey(q.Key); err != nil {
		return err
	}
	if q.Isolation != "" && q.Isolation != "none" && q.Isolation != "profile" && q.Isolation != "strict" {
		return control.BadRequest("there is no isolation %q; write none, profile or strict", q.Isolation)
	}
	size := 0
	for _, arg := range q.Command {
		if strings.ContainsRune(arg, 0) {
			return control.BadRequest("an argument holds a NUL byte, which no program can be given")
		}
		size += len(arg) + 1
	}
	for name, value := range q.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) || !utf8.ValidString(name) {
			return control.BadRequest("%q cannot be a variable: a name has no = and no NUL, a value no NUL", name)
		}
		size += len(name) + len(value) + 2
	}
	if size > control.MostJobArguments {
		return control.Refused("the command and its environment have %d bytes, above %d; put what is large into a file or stdin", size, control.MostJobArguments)
	}
	return nil
}

// checkKey refuses a key of a job, or a session, that nobody should have.
func checkKey(key string) error {
	if len(key) > 256 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' }) {
		return control.BadRequest("a key has at most 256 bytes, and no control characters")
	}
	return nil
}

// submit takes a job, or the one that has its key already. It returns when the job is
// recorded. Its stdin is the runner's from now on.
func (r *Runner) submit(t *task) (taken *task, err error) {
	if t.spec.Request.Stdin != "" {
		fd, err := wire.Sealed("rlminit-stdin", []byte(t.spec.Request.Stdin))
		if err != nil {
			return nil, control.Failed("cannot keep its stdin: %v", err)
		}
		t.held.stdin, t.spec.Request.Stdin = fd, ""
	}
	if err := r.conceal(t); err != nil {
		t.held.closeStdin()
		return nil, err
	}
	var past *table.Entry
	var outputs *output.Store
	kept := make(chan *task, 1)
	r.loop.Do(func() {
		var other *task
		if other, past, err = r.admit(t); err != nil || other != nil || past != nil {
			t.held.closeStdin()
			err, outputs = r.turnAway(t, err), r.outputs
			kept <- other
			return
		}
		t.accepted = func() { kept <- t }
		r.submitted(t)
	})
	taken = <-kept
	switch {
	case err != nil:
		return nil, err
	case past != nil:
		return recall(past, outputs), nil
	case taken.outcome.unkept: // its result was there before
		return nil, control.Failed("%s", *taken.outcome.result.Error)
	}
	return taken, nil
}

// secretsOf are the values that are masked in what is shown of a job.
func (r *Runner) secretsOf(of Owner, q *control.RunJob) redact.Set {
	var environ []string
	for name, value := range q.Environment {
		environ = append(environ, name+"="+value)
	}
	var own redact.Set
	if of != (Owner{}) {
		own = r.host.Secrets(of)
	}
	return redact.Of(environ, own.Values()...)
}

// conceal notes what is masked in a job's output, and how its command is shown to others,
// in records, lists and logs. It refuses one with retry that would have a secret on the
// volume. Commands of rlminit itself have no secrets, and rlminit parses them.
func (r *Runner) conceal(t *task) error {
	q := &t.spec.Request
	if t.spec.Argv != nil {
		t.spec.Shown = shortened(redact.Set{}, q.Command)
		return nil
	}
	of := r.sessions.ownerOf(q)
	if of != (Owner{}) {
		t.spec.Redact = r.host.Redact(of)
	}
	secrets := r.secretsOf(of, q)
	t.spec.Shown, t.spec.Secrets = shortened(secrets, q.Command), secrets.Values()
	if !q.Retry {
		return nil
	}
	if !slices.Equal(secrets.Command(q.Command), q.Command) {
		return control.BadRequest("an argument is a secret, and a job with retry has its command on the volume; give it a file")
	}
	for name, value := range q.Environment {
		if redact.Name(name) || secrets.Value(name, value) != value {
			return control.BadRequest("%s is a secret, and a job with retry has its environment on the volume; give it a file", name)
		}
	}
	return nil
}

// sameKey finds the job that has a job's key, which is the same one, asked for once more:
// one that is not over, or past, what is recorded of it. The key of another is refused.
// What it reads and with what environment is not compared.
func sameKey(t *task, running *tasks, b *jobJournal) (other *task, past *table.Entry, err error) {
	key := t.spec.Request.Key
	if key == "" {
		return nil, nil, nil
	}
	var had table.Submitted
	if other = running.keyed(key, b); other != nil {
		had = other.spec.submission()
	}
	b.View(func(h *table.Table) {
		if e := h.Keyed(key); other == nil && e != nil && e.State != "" {
			copied := *e
			past, had = &copied, e.Submitted
		}
	})
	if other == nil && past == nil {
		return nil, nil, nil
	}
	asked := t.spec.submission()
	of := recordedOwner(&asked)
	if asked.Session != "" && of == (Owner{}) {
		of = recordedOwner(&had) // the session's
	}
	if asked.Kind != had.Kind || of != recordedOwner(&had) || asked.Session != had.Session || asked.Digest != had.Digest {
		return nil, nil, control.Conflict("job %s has the key %q, and is another: a key is for one request, sent again", had.Job, key)
	}
	return other, past, nil
}

// admit gives a job its number, or finds the one with its key, or says why there
// can be none.
func (r *Runner) admit(t *task) (other *task, past *table.Entry, err error) {
	if !r.started {
		return nil, nil, control.NoAnswer("the supervisor is not ready yet")
	}
	if other, past, err = sameKey(t, &r.tasks, r.journal.Load()); other != nil || past != nil || err != nil {
		return other, past, err
	}
	return nil, nil, r.enlist(t)
}

// errStopping is why no job is begun any more.
var errStopping error = control.Refused("the container is stopping: no job is started any more")

// enlist gives a job its number, and has it held.
func (r *Runner) enlist(t *task) error {
	switch {
	case r.stopping:
		return errStopping
	case r.queue.lane(t).full(partyOf(t)):
		return control.Refused("the queue is full: %d jobs wait already; wait for some, or cancel them", len(r.queue.lane(t).line)+r.queue.lane(t).coming).Retry()
	}
	err := r.doors.vacant(t.spec.Request.Profile)
	if err != nil {
		return err
	}
	room := process.Room
	if laneOf(t) != laneUsers {
		room = process.RoomKeptBack
	}
	// Stdin and what it is, two pipes, two memories; where it is masked, two more.
	if err = room(8 + 2*min(len(t.spec.Redact), 1)); err != nil {
		return control.Refused("%v", err).Retry()
	}
	if err := r.sessions.admit(t); err != nil {
		return err
	}
	t.journal = r.journal.Load()
	t.spec.ID = r.numbers.nextJob(t.journal)
	if t.spec.Kind == kindWrite {
		t.spec.Argv[len(t.spec.Argv)-1] = t.spec.ID
	}
	if err := t.held.write(&t.spec); err != nil {
		return control.Failed("cannot keep the job: %v", err)
	}
	r.tasks.add(t)
	t.hold(r)
	return nil
}

// turnAway records a job that is refused before it is one. What is asked for
// wrongly, and not refused, is no job. The record waits for no disk: nothing was done.
func (r *Runner) turnAway(t *task, why error) error {
	var problem *control.Problem
	refused := errors.As(why, &problem) && problem.ExitCode == control.ExitRefused
	if !refused || !r.started || r.stopping {
		return why
	}
	t.journal = r.journal.Load()
	t.spec.ID, t.why.refused = r.numbers.nextJob(t.journal), problem.Detail
	submitted := t.spec.submission()
	submitted.TurnedAway, submitted.Again = true, nil
	result, _ := json.Marshal(t.conclude(job.State{Outcome: job.RefusedAs}, nil)) // of strings and numbers
	t.journal.Note(table.TypeSubmitted, submitted)
	t.journal.Note(table.TypeFailed, table.Ended{Job: t.spec.ID, State: job.RefusedAs, Result: result})
	t.state.Outcome = job.RefusedAs
	r.Tally.over(t)
	told := *problem
	told.Job = t.spec.ID
	return &told
}

// submitted has a job recorded, before anything else is done with it.
func (r *Runner) submitted(t *task) {
	r.queue.come(t)
	record := t.spec.submission()
	t.gone(r)
	seen := r.place.seen()
	if t.spec.Argv == nil && !r.stopping && r.queue.free(t) {
		t.prep.ahead = r.beginPreparing(t, seen, r.queue.busy(nil))
	} else {
		go seen()
	}
	go func() {
		failure := t.journal.Append(table.TypeSubmitted, record)
		before := seen()
		r.loop.Do(func() {
			r.queue.came(t)
			t.prep.before = before
			if failure == nil {
				r.step(t, job.Event{Kind: job.Kept})
			} else {
				why := fmt.Sprintf("the job cannot be recorded, and is not run: %v", failure)
				t.outcome.unkept = true
				t.outcome.result = &control.JobResult{Job: t.spec.ID, State: string(job.Failed), Error: &why}
				r.step(t, job.Event{Kind: job.NotKept})
			}
			if t.accepted != nil {
				t.accepted()
			}
		})
	}()
}

// clientPatience is how long a job that is not detached goes on without a client.
const clientPatience = 5 * time.Second

// gone cancels a job that nobody follows, unless somebody comes in time.
func (t *task) gone(r *Runner) {
	if t.spec.Request.Detach || t.followers.count > 0 {
		return
	}
	t.followers.absence++
	absence := t.followers.absence
	time.AfterFunc(clientPatience, func() {
		r.loop.Do(func() {
			if t.followers.absence == absence && t.followers.count == 0 {
				r.cancel(t, "its client was gone for 5 s; use --detach for a job that shall go on")
			}
		})
	})
}
