package jobs

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/supervise/jobs/output"
)

// conclude makes the result of a job that has ended, or will not begin.
func (t *task) conclude(s job.State, after *control.Telemetry) *control.JobResult {
	result := &control.JobResult{
		Job: t.spec.ID, State: string(s.Outcome), TimedOut: s.Outcome == job.TimedOut, Cancelled: s.Outcome == job.Cancelled,
		TelemetryAfter: after, LeftBehind: t.run.left, Isolation: string(isolationOf(&t.spec.Request)), Tried: tried(&t.spec.Request),
	}
	if result.LeftBehind == nil {
		result.LeftBehind = []control.LeftBehind{}
	}
	if t.prep.ready != nil {
		result.TelemetryBefore = t.prep.ready.before
	}
	switch {
	case t.run.ended != 0:
		result.ExecutionTimeMS = max(0, (t.run.ended-t.run.begun)/1e6)
		result.Spawned = 1 + max(t.run.count, len(t.run.left))
		if s.Exit.Signal != 0 {
			result.Signal = signalName(s.Exit.Signal)
		} else {
			result.ExitCode = &s.Exit.Code
		}
	case t.why.code != 0 && s.Outcome == job.Failed:
		result.ExitCode = &t.why.code
	}
	if t.why.refused != "" {
		result.Refused = &t.why.refused
	}
	why := t.why.problem
	if why == "" && (s.Outcome == job.Cancelled || s.Outcome == job.Interrupted) {
		why = t.why.cause
	}
	if why == "" && s.Outcome == job.Interrupted {
		why = "the container stopped"
	}
	if why = t.spec.masks().Text(why); why != "" {
		result.Error = &why
	}
	t.output.Into(result, t.spec.Request.MaxOutput)
	return result
}

func signalName(signal int) *string {
	name := strings.TrimPrefix(unix.SignalName(unix.Signal(signal)), "SIG")
	if name == "" {
		name = fmt.Sprint(signal)
	}
	return &name
}

// bare is a result as it is recorded: what a job has written is in files.
func bare(r *control.JobResult) *control.JobResult {
	b := *r
	b.Stdout, b.Stderr, b.StdoutBase64, b.StderrBase64 = "", "", nil, nil
	return &b
}

// describe is a job as people see it.
func (t *task) describe() control.Job {
	j := control.Job{
		Job: t.spec.ID, State: string(t.state.Status()), Kind: t.spec.Kind, Command: t.spec.shown(), Actor: t.spec.Actor,
		Submitted: t.spec.Submitted.UTC(), TimeoutMS: t.spec.Request.TimeoutMS,
		Profile: orNull(t.spec.Request.Profile), Service: orNull(t.spec.Request.Service), Session: orNull(t.spec.Request.Session),
	}
	if t.run.pid != 0 {
		j.PID = &t.run.pid
	}
	return j
}

// describe is a job of which only the records are left.
func describe(e *table.Entry) control.Job {
	j := control.Job{
		Job: e.Job, State: string(e.State), Kind: e.Kind, Command: e.Command, Actor: e.Actor,
		Submitted: e.At, Started: e.Started, Ended: e.Ended, TimeoutMS: e.TimeoutMS,
		Profile: orNull(e.Profile), Service: orNull(e.Service), Session: orNull(e.Session),
	}
	return j
}

// recall makes a job of the record of one that is over, with what the volume has of its
// output.
func recall(e *table.Entry, outputs *output.Store) *task {
	t := submittedAs(e)
	t.state = job.State{Stage: job.Over, Outcome: e.State}
	t.output.Streams = outputs.Kept(e.Job)
	result := new(control.JobResult)
	if json.Unmarshal(e.Result, result) == nil {
		truncated, path := result.OutputTruncated, result.OutputFilePath
		t.output.Into(result, control.DefaultJobOutput)
		result.OutputTruncated, result.OutputFilePath = truncated || result.OutputTruncated, path
	} else {
		result.Job = e.Job
	}
	result.State = string(e.State)
	result.Record = recordOf(e)
	t.output.CloseFiles()
	t.outcome.result, t.outcome.told, t.output.told = result, true, true
	close(t.outcome.done)
	close(t.output.begun)
	return t
}

// recordOf is the number of the record of a job's outcome; nil: it is in no journal.
func recordOf(e *table.Entry) *uint64 {
	if e == nil || e.Record == 0 || strings.HasPrefix(e.Job, job.InMemory) {
		return nil
	}
	return &e.Record
}

// submittedAs is a job as its record has it.
func submittedAs(e *table.Entry) *task {
	t := newTask(e.Job, e.Kind, e.Actor, control.RunJob{
		Command: e.Command, Profile: e.Profile, Service: e.Service, Session: e.Session, TimeoutMS: e.TimeoutMS, MaxOutput: control.DefaultJobOutput, Detach: true,
		Key: e.Key,
	})
	t.spec.Schedule, t.spec.Digest, t.spec.Redact = e.Schedule, e.Digest, e.Redact
	t.spec.Hook, t.spec.Event, t.spec.Shown = e.Hook, e.Event, e.Command
	t.spec.Submitted, t.spec.Occurs, t.spec.Attempt = e.At, e.Occurs, e.Attempt
	return t
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// shortened is a command as it is recorded and listed: without secrets.
func shortened(secrets redact.Set, argv []string) []string {
	const most = 1024
	short, size := []string{}, 0
	for _, arg := range secrets.Command(argv) {
		if size += len(arg); size > most || len(short) == 64 {
			return append(short, "…")
		}
		short = append(short, strings.ToValidUTF8(arg, "\uFFFD"))
	}
	return short
}
