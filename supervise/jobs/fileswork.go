package jobs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/files"
	"rlminit/job/table"
	"rlminit/supervise/api"
	"rlminit/supervise/jobs/output"
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

// internalTimeout bounds a job of rlminit's own.
const internalTimeout = 5 * time.Minute

// work is a job that runs a part of rlminit as an owner's user, below its directory.
func (a requests) work(kind string, of Owner, shown []string, args ...string) (*task, error) {
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
	if err := cmp.Or(checkPath(body.Path), checkKey(body.Key)); err != nil {
		return nil, err
	}
	what := files.Write
	if body.Parents {
		what = files.WriteParents
	}
	of, err := a.runner.place.named(body.Profile)
	if err != nil {
		return nil, err
	}
	if file := a.runner.place.host.StateFile(); of.Profile != "" && path.Clean(body.Path) == file {
		return nil, control.BadRequest("%s is rlminit's own, which writes it anew with each change: rlminit start or stop says what is desired of %s", file, of.Profile)
	}
	t, err := a.work(kindWrite, of, []string{"file", "write", body.Path}, what, body.Path, "")
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
	case <-taken.outcome.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return taken.outcome.result, failureOf(taken.outcome.result)
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
	undo, err := a.work(kindUndo, of, []string{"job", "undo", id}, "undo", e.Path, id, string(e.Wrote))
	if err != nil {
		return nil, err
	}
	undo.spec.Actor = &actor
	return a.carryOut(ctx, undo)
}

// writtenInto is the owner, by its name now, into whose directory a job has written.
func writtenInto(e *table.Entry) (Owner, error) {
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
	if err := checkPath(body.Path); err != nil {
		return err
	}
	of, err := a.runner.place.named(body.Profile)
	if err != nil {
		return err
	}
	who, err := a.runner.host.Environment(of)
	if err != nil {
		return err
	}
	_, user := a.runner.host.User(of)
	file, err := user.OpenBelow(cmp.Or(who.Dir, who.Home), body.Path)
	if files.Refused(err) {
		return control.Refused("%v", err)
	}
	if err != nil {
		return control.Failed("%v", err)
	}
	defer closeFD(file)
	out, result := output.NewFrames(w), &control.JobResult{State: string(job.Succeeded)}
	for offset := int64(0); ; {
		piece, err := user.ReadAt(file, readAtOnce, offset)
		if err != nil {
			why := fmt.Sprintf("cannot read %s: %v", body.Path, err)
			result.State, result.Error = string(job.Failed), &why
		}
		if err != nil || len(piece) == 0 {
			_ = out.Send(&control.JobOutput{Result: result}) // or nobody is there
			return nil
		}
		if out.Piece("stdout", offset, 0, piece) != nil {
			return nil
		}
		offset += int64(len(piece))
	}
}

// readAtOnce is how much of a file is read at a time, in bytes.
const readAtOnce = 256 << 10

// checkPath refuses what is no path.
func checkPath(path string) error {
	if strings.ContainsRune(path, 0) || path == "" {
		return control.BadRequest("a path is needed, without a NUL byte")
	}
	return nil
}
