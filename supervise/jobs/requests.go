package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/supervise/api"
	"rlminit/supervise/jobs/output"
	"rlminit/supervise/process"
)

func closeFD(fd int) { unix.Close(fd) }

// requests is what the control socket asks about jobs, sessions and files. It owns
// nothing, and touches what is the runner's goroutine's by asking it.
type requests struct{ runner *Runner }

// Add adds the requests about jobs.
func (r *Runner) Add(server *api.Server) {
	a := requests{r}
	a.addJobs(server)
	a.addSessions(server)
	a.addFiles(server)
	a.addHooks(server)
	server.Handle("GET /v1/capabilities", api.MaySee, func(*http.Request) (any, error) { return r.place.capabilities(), nil })
}

func (a requests) addJobs(server *api.Server) {
	server.Stream("POST /v1/jobs", api.MayCommand, a.serveRun)
	server.Handle("GET /v1/jobs", api.MaySee, func(*http.Request) (any, error) { return a.list(), nil })
	server.Handle("GET /v1/jobs/{id}", api.MaySee, func(q *http.Request) (any, error) {
		j, err := a.show(q.PathValue("id"))
		if j.Result != nil && api.Limited(q) { // what it has written may be a secret
			j.Result = new(*j.Result)
			j.Result.Stdout, j.Result.Stderr, j.Result.StdoutBase64, j.Result.StderrBase64 = "", "", nil, nil
		}
		return j, err
	})
	server.Stream("GET /v1/jobs/{id}/output", api.MayCommand, a.serveOutput)
	server.Handle("POST /v1/jobs/{id}/wait", api.MayCommand, api.WithBody(func(q *http.Request, body control.Wait) (any, error) {
		return a.wait(q.Context(), q.PathValue("id"), time.Duration(body.TimeoutMS)*time.Millisecond)
	}))
	server.Handle("POST /v1/jobs/{id}/cancel", api.MayOperate, func(q *http.Request) (any, error) {
		return a.cancel(q.Context(), q.PathValue("id"))
	})
}

func (a requests) addSessions(server *api.Server) {
	sessions := &a.runner.sessions
	server.Handle("POST /v1/sessions", api.MayCommand, api.WithBody(func(q *http.Request, body control.CreateSession) (any, error) {
		return sessions.create(body, api.Actor(q))
	}))
	server.Handle("GET /v1/sessions", api.MayCommand, func(*http.Request) (any, error) { return sessions.list(), nil })
	server.Handle("GET /v1/sessions/{id}", api.MayCommand, api.Named("id", sessions.show))
	server.Handle("POST /v1/sessions/{id}/extend", api.MayCommand, api.WithBody(func(q *http.Request, body control.ExtendSession) (any, error) {
		return sessions.extend(q.PathValue("id"), body)
	}))
	server.Handle("POST /v1/sessions/{id}/snapshot", api.MayCommand, func(*http.Request) (any, error) {
		return nil, control.NotSupported("a session has no snapshots; rlminit file read copies a file of it, and rlminit profile export all of a profile")
	})
	server.Handle("DELETE /v1/sessions/{id}", api.MayCommand, func(q *http.Request) (any, error) {
		if err := sessions.end(q.PathValue("id"), "by rlminit session end"); err != nil {
			return nil, err
		}
		return sessions.show(q.PathValue("id"))
	})
}

// serveRun takes a job. With follow its output is streamed and its result comes
// last; else it is answered as soon as it is recorded.
func (a requests) serveRun(w http.ResponseWriter, q *http.Request) error {
	var body control.RunJob
	if err := api.Decode(q, &body); err != nil {
		return err
	}
	err := check(&body)
	if err == nil {
		err = a.runner.place.claim(&body) // a wrong name is no job
	}
	if err == nil {
		err = a.runner.place.enforceable(&body)
	}
	if err == nil && body.DryRun {
		return answer(w, a.dryRun(&body))
	}
	follow := q.URL.Query().Get("follow") == "true"
	actor := api.Actor(q)
	t := newTask("", "run", &actor, body)
	if err != nil {
		if concealed := a.runner.conceal(t); concealed == nil && !body.DryRun {
			a.runner.loop.Ask(func() { err = a.runner.turnAway(t, err) })
		}
		return err
	}
	if body.Descriptor {
		if t.held.stdin, err = descriptor(q); err != nil {
			return err
		}
	}
	if follow {
		t.followers.count = 1 // before its absence is noted
	}
	taken, err := a.runner.submit(t)
	switch {
	case err != nil:
		return err
	case !follow:
		return answer(w, a.describe(taken))
	}
	return a.follow(w, q, taken, [2]int64{}, taken == t) // else it is one with the same key
}

// descriptor is the one that came with a request. One on a file system that may be
// silent goes no further: PID 1 would close it, and wait for ever.
func descriptor(q *http.Request) (int, error) {
	fd, ok := api.Descriptor(q)
	if !ok {
		return -1, control.BadRequest("no descriptor came with the request")
	}
	if kind, ok := process.MayPass(fd, process.OwnMounts); !ok {
		go closeFD(fd) // as we would
		return -1, control.BadRequest("stdin is a %s, which might never be closed; pass what is in it through a pipe", kind)
	}
	return fd, nil
}

func answer(w http.ResponseWriter, value any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

// serveOutput streams what a job has written, from the offsets that are given, and
// its result when it is over; without follow, what there is now.
func (a requests) serveOutput(w http.ResponseWriter, q *http.Request) error {
	t, err := a.known(q.PathValue("id"))
	if err != nil {
		return err
	}
	var from [2]int64
	for i, name := range output.Names {
		if text := q.URL.Query().Get(name); text != "" {
			if from[i], err = strconv.ParseInt(text, 10, 64); err != nil || from[i] < 0 {
				return control.BadRequest("%s=%s: write a number of bytes", name, text)
			}
		}
	}
	if q.URL.Query().Get("follow") == "true" || t.over() {
		return a.follow(w, q, t, from, false)
	}
	defer t.closeFiles()
	out := output.NewFrames(w)
	select {
	case <-t.output.begun:
		if t.output.There() {
			_ = out.Both(t.output.Streams, from, false, nil) // or nobody is there
		}
	default:
	}
	return nil
}

// follow streams a job's output as it comes, and its result.
func (a requests) follow(w http.ResponseWriter, q *http.Request, t *task, from [2]int64, attached bool) error {
	if !attached {
		a.attach(t)
	}
	defer a.detach(t)
	defer t.closeFiles()
	out := output.NewFrames(w)
	if out.Send(&control.JobOutput{Job: t.spec.ID}) != nil {
		return nil
	}
	gone := q.Context().Done()
	select {
	case <-t.output.begun:
	case <-gone:
		return nil
	}
	if t.output.There() && out.Both(t.output.Streams, from, true, gone) != nil {
		return nil
	}
	select {
	case <-t.outcome.done:
		_ = out.Send(&control.JobOutput{Result: t.outcome.result}) // or nobody is there
	case <-gone:
	}
	return nil
}

// list is every job that is not over, and those that are remembered.
func (a requests) list() []control.Job {
	list := []control.Job{}
	live := map[string]control.Job{}
	a.runner.loop.Ask(func() {
		for id, t := range a.runner.tasks.byID {
			live[id] = t.describe()
		}
		for id, t := range a.runner.interrupted {
			live[id] = t.describe()
		}
	})
	a.runner.journal.Load().View(func(h *table.Table) {
		for _, e := range h.All() {
			j, is := live[e.Job]
			if is {
				j.Started = e.Started
				delete(live, e.Job)
			} else if j = describe(e); e.State == "" {
				continue // it became over between the two looks, or is none of ours
			}
			list = append(list, j)
		}
	})
	for _, j := range live {
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b control.Job) int { return job.Compare(a.Job, b.Job) })
	return list
}

// show is one of them, with its result if it is over.
func (a requests) show(id string) (j control.Job, err error) {
	t, err := a.known(id)
	if err == nil {
		j = a.describe(t)
	}
	return j, err
}

func (a requests) describe(t *task) (j control.Job) {
	a.runner.loop.Ask(func() { j = t.describe() })
	a.runner.journal.Load().View(func(h *table.Table) {
		if e := h.Jobs[j.Job]; e != nil {
			j.Started, j.Ended = e.Started, e.Ended
		}
	})
	if t.over() {
		j.Result = t.outcome.result
	}
	return j
}

// wait waits until a job is over, for at most so long; 0: as long as it takes.
func (a requests) wait(ctx context.Context, id string, within time.Duration) (*control.JobResult, error) {
	t, err := a.known(id)
	if err != nil {
		return nil, err
	}
	defer a.attach(t)()
	var late <-chan time.Time
	if within > 0 {
		timer := time.NewTimer(within)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.outcome.done:
		return t.outcome.result, nil
	case <-late:
		var state string
		a.runner.loop.Ask(func() { state = string(t.state.Status()) })
		return nil, control.TimedOut("job "+id, state, within, "job show "+id)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cancel ends a job, and returns when it is over.
func (a requests) cancel(ctx context.Context, id string) (*control.JobResult, error) {
	t, err := a.known(id)
	if err != nil {
		return nil, err
	}
	state := job.Status("")
	a.runner.loop.Ask(func() {
		if state = t.state.Outcome; state == "" {
			a.runner.cancel(t, "by rlminit job cancel")
		}
	})
	if state != "" {
		return nil, control.Conflict("job %s is over: %s", id, state)
	}
	select {
	case <-t.outcome.done:
		return t.outcome.result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find is a job that is not over, or was interrupted as its journal was lost, or else what is
// recorded of one that is.
func (a requests) find(id string) (t *task, e *table.Entry, err error) {
	a.runner.loop.Ask(func() {
		t = cmp.Or(a.runner.tasks.byID[id], a.runner.interrupted[id])
	})
	if t != nil {
		return t, nil, nil
	}
	b := a.runner.journal.Load()
	if e = over(b, id); e == nil { // one that was refused has just been noted
		ctx, done := context.WithTimeout(context.Background(), notePatience)
		b.Flush(ctx)
		done()
		e = over(b, id)
	}
	if e == nil {
		return nil, nil, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no job %q; see rlminit job list", id))
	}
	return nil, e, nil
}

// known is a job by its number; one that is over is as it was recorded.
func (a requests) known(id string) (*task, error) {
	t, e, err := a.find(id)
	if e != nil {
		var outputs *output.Store
		a.runner.loop.Ask(func() { outputs = a.runner.outputs })
		t = recall(e, outputs)
	}
	return t, err
}

// notePatience is how long a note is waited for, on a disk that does not answer.
const notePatience = 250 * time.Millisecond

// over is what a journal has of a job that is over; nil: nothing.
func over(b *jobJournal, id string) (e *table.Entry) {
	b.View(func(h *table.Table) {
		if found := h.Jobs[id]; found != nil && found.State != "" {
			copied := *found
			e = &copied
		}
	})
	return e
}

// attach notes that somebody follows a job, until the function that it returns is
// called.
func (a requests) attach(t *task) (detach func()) {
	a.runner.loop.Do(t.followers.come)
	return func() { a.detach(t) }
}

// detach notes that one who followed a job does not any more.
func (a requests) detach(t *task) {
	a.runner.loop.Do(func() {
		if t.followers.count--; t.followers.count == 0 {
			t.gone(a.runner)
		}
	})
}

// dryRun says what would be run.
func (a requests) dryRun(q *control.RunJob) *control.DryRun {
	r, guard := a.runner, guarding{on: true}
	r.loop.Ask(func() { guard.busy, guard.tags = r.queue.busy(nil), r.tasks.tagsOf(ownerOf(q)) })
	before := r.place.seen()
	go before()
	coming := make(chan *prepared, 1)
	go func() { coming <- r.place.preparation(q, nil, before, noPipes, guard) }()
	p := &prepared{problem: silent}
	select {
	case p = <-coming:
		defer p.close()
	case <-time.After(prepareWithin):
		go func() { (<-coming).close() }()
	}
	secrets := r.secretsOf(r.sessions.ownerOf(q), q)
	d := &control.DryRun{
		Command: secrets.Command(q.Command), Program: p.path, UID: p.who.UID, GID: p.who.GID, Groups: p.who.Groups, Dir: p.dir,
		Environment: secrets.Environ(p.env), TimeoutMS: q.TimeoutMS, Isolation: string(isolationOf(q)),
		Tried: tried(q), Telemetry: p.before,
	}
	if p.refused != "" {
		d.Refused = &p.refused
	}
	if why := secrets.Text(p.problem); why != "" {
		d.Error = &why
	}
	r.loop.Ask(func() { d.Waiting = r.queue.waiting() })
	return d
}
