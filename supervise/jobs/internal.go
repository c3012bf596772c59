package jobs

import (
	"errors"
	"strconv"
	"time"

	"rlminit/control"
	"rlminit/job"
)

// internal runs a part of rlminit as an owner's user, as a job that nobody hears
// of: what touches a profile's files is done with that user's rights.
func (r *Runner) internal(of Owner, args []string) (*control.JobResult, error) {
	if _, err := r.host.Environment(of); err != nil {
		return nil, err
	}
	argv := append([]string{"/proc/self/exe", "files"}, args...)
	t := newTask("", kindInternal, nil, control.RunJob{
		Command: argv, Profile: of.Profile, Service: of.Service, TimeoutMS: internalTimeout.Milliseconds(), MaxOutput: control.DefaultJobOutput, Detach: true,
	})
	t.spec.Argv = argv
	if err := r.begin(t); err != nil {
		return nil, err
	}
	<-t.end.done
	if t.end.result.State == string(job.Failed) && t.end.result.Stderr == "" && t.end.result.Error != nil {
		return t.end.result, errors.New(*t.end.result.Error)
	}
	return t.end.result, nil
}

// begin runs a job that is not recorded, out of turn.
func (r *Runner) begin(t *task) (failure error) {
	r.loop.Ask(func() {
		if !r.started || r.stopping {
			failure = control.Refused("the container is stopping")
			return
		}
		r.internals++
		t.spec.ID = "i" + strconv.FormatUint(r.internals, 10)
		if failure = t.held.write(&t.spec); failure != nil {
			return
		}
		r.tasks.add(t)
		t.hold(r)
		t.state.Stage = job.Queued
		r.step(t, job.Event{Kind: job.Turn})
	})
	return failure
}

// kindInternal is the kind of a job that is neither recorded nor listed.
const kindInternal = "internal"

const internalTimeout = 5 * time.Minute
