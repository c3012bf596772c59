package jobs

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/files"
	"rlminit/job/history"
	"rlminit/supervise/api"
)

// The kinds of jobs that are rlminit's own work with a profile's files.
const (
	kindWrite = "write"
	kindUndo  = "undo"
)

func (a requests) addFiles(server *api.Server) {
	server.Handle("POST /v1/files", api.MayCommand, api.WithBody(a.serveWrite))
	server.Stream("POST /v1/files/read", api.MayCommand, a.serveRead)
	server.Handle("POST /v1/jobs/{id}/undo", api.MayCommand, func(q *http.Request) (any, error) {
		return a.undo(q.Context(), q.PathValue("id"), api.Actor(q))
	})
}

// ownWork is a job that runs a part of rlminit as a profile's user, below the
// profile's directory.
func (a requests) ownWork(kind, profile string, shown []string, args ...string) (*task, error) {
	of, err := a.runner.place.named(profile)
	if err != nil {
		return nil, err
	}
	return a.workOf(kind, of, shown, args...)
}

// workOf is ownWork of an owner that was named.
func (a requests) workOf(kind string, of Owner, shown []string, args ...string) (*task, error) {
	who, err := a.runner.host.Environment(of)
	if err != nil {
		return nil, err
	}
	t := newTask("", kind, nil, control.RunJob{
		Command: shown, Profile: of.Profile, Service: of.Service, TimeoutMS: internalTimeout.Milliseconds(), MaxOutput: control.DefaultJobOutput,
	})
	t.spec.Argv = append([]string{"/proc/self/exe", "files", args[0], cmp.Or(who.Dir, who.Home)}, args[1:]...)
	return t, nil
}

// undoes is the job that an undo is of.
func (s *spec) undoes() string {
	if len(s.Argv) < 6 {
		return ""
	}
	return s.Argv[5]
}

func (a requests) serveWrite(q *http.Request, body control.WriteFile) (any, error) {
	if strings.ContainsRune(body.Path, 0) || body.Path == "" {
		return nil, control.BadRequest("a path is needed, without a NUL byte")
	}
	if err := checkKey(body.Key); err != nil {
		return nil, err
	}
	what := files.Write
	if body.Parents {
		what = files.WriteParents
	}
	t, err := a.ownWork(kindWrite, body.Profile, []string{"file", "write", body.Path}, what, body.Path, "")
	if err != nil {
		return nil, err
	}
	actor := api.Actor(q)
	t.spec.Actor, t.spec.Path, t.spec.Request.Key = &actor, body.Path, body.Key
	t.spec.Request.Stdin = body.Content
	if body.Descriptor {
		if t.held.stdin, err = descriptor(q); err != nil {
			return nil, err
		}
	}
	return a.carryOut(q.Context(), t)
}

// carryOut runs a job of rlminit's own and answers with its result, or with why it
// did not work.
func (a requests) carryOut(ctx context.Context, t *task) (*control.JobResult, error) {
	t.followers.count = 1
	taken, err := a.runner.submit(t)
	if err != nil {
		return nil, err
	}
	if taken != t {
		defer a.attach(taken)()
	} else {
		defer a.detach(t)
	}
	select {
	case <-taken.end.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return taken.end.result, failureOf(taken.end.result)
}

// failureOf is why a job of rlminit's own did not work.
func failureOf(result *control.JobResult) error {
	if result.State == string(job.Succeeded) {
		return nil
	}
	why := strings.TrimSpace(result.Stderr)
	switch {
	case result.Refused != nil:
		why = *result.Refused
	case why == "" && result.Error != nil:
		why = *result.Error
	case why == "":
		why = "job " + result.Job + " " + result.State
	}
	if result.ExitCode != nil && *result.ExitCode == control.ExitRefused || result.Refused != nil {
		return control.Refused("%s", why)
	}
	return control.Failed("%s", why)
}

// undo puts back what a write has replaced.
func (a requests) undo(ctx context.Context, id string, actor uint32) (*control.JobResult, error) {
	t, e, err := a.find(id)
	switch {
	case err != nil:
		return nil, err
	case t != nil:
		return nil, control.Conflict("job %s is not over yet", id)
	case e.Kind != kindWrite:
		return nil, control.Conflict("job %s is no write: there is nothing to undo", id)
	case e.State == job.UndoneAs:
		return nil, control.Conflict("job %s is undone already, by job %s", id, e.RolledBack)
	case e.State != job.Succeeded || len(e.Wrote) == 0:
		return nil, control.Conflict("job %s %s: there is nothing to undo", id, e.State)
	}
	of, err := writtenInto(e)
	if err != nil {
		return nil, err
	}
	undo, err := a.workOf(kindUndo, of, []string{"job", "undo", id}, "undo", e.Path, id, string(e.Wrote))
	if err != nil {
		return nil, err
	}
	undo.spec.Actor = &actor
	return a.carryOut(ctx, undo)
}

// writtenInto is the owner, by its name now, into whose directory a job has written.
func writtenInto(e *history.Entry) (Owner, error) {
	was := recordedOwner(&e.Submitted)
	if was.Profile == "" {
		return was, nil
	}
	in := e.Place()
	if entry, is := in.Trashed(); is {
		return was, control.Conflict("%s, into which job %s has written, is %s in the trash; nothing was undone", was, e.Job, entry)
	}
	profile, is := in.Profile()
	if !is {
		return was, control.Conflict("%s, into which job %s has written, is no more; nothing was undone", was, e.Job)
	}
	return Owner{Profile: profile}, nil
}

// serveRead streams what is in a file, as a job's stdout.
func (a requests) serveRead(w http.ResponseWriter, q *http.Request) error {
	var body control.ReadFile
	if err := api.Decode(q, &body); err != nil {
		return err
	}
	if strings.ContainsRune(body.Path, 0) || body.Path == "" {
		return control.BadRequest("a path is needed, without a NUL byte")
	}
	t, err := a.ownWork(kindInternal, body.Profile, []string{"file", "read", body.Path}, "read", body.Path)
	if err != nil {
		return err
	}
	t.followers.count = 1
	if err := a.runner.begin(t); err != nil {
		return err
	}
	return a.follow(w, q, t, [2]int64{}, true)
}
