package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/nearest"
	"rlminit/job/table"
	"rlminit/supervise/api"
	"rlminit/supervise/jobs/hooks"
)

// kindHook is the kind of a hook's job.
const kindHook = table.KindHook

// Bounds of hooks: a hook that starts what triggers it must not be the end of it.
const (
	hooksAtOnce  = 4
	hooksWaiting = 256
)

// HooksOf are the hooks whose commands a runner runs.
func HooksOf(given hooks.Given, r *Runner) *hooks.Hooks {
	r.Tally.hooks = hooks.New(hookJobs{r}, given)
	return r.Tally.hooks
}

// hookJobs is a runner as its hooks know it: hooks.Runner.
type hookJobs struct{ runner *Runner }

// Records is hooks.Runner's.
func (j hookJobs) Records() (hooks.Records, bool) {
	b := j.runner.journal.Load()
	return b, b.durable()
}

// Told is hooks.Runner's.
func (j hookJobs) Told(event uint64) (names []string) {
	j.runner.loop.Ask(func() {
		for _, t := range j.runner.tasks.byID {
			if t.spec.Event == event && t.journal.durable() { // records in memory begin anew with each supervisor
				names = append(names, t.spec.Hook)
			}
		}
	})
	return names
}

// Tell is hooks.Runner's.
func (j hookJobs) Tell(hook *config.Hook, event uint64, about, line string) error {
	t := newHook(hook, nil, line)
	t.spec.Event, t.spec.About, t.spec.Request.Detach = event, about, true
	if _, err := j.runner.submit(t); !errors.Is(err, errStopping) { // then nobody is told any more
		return err
	}
	return nil
}

// newHook is a job that runs a hook's command.
func newHook(hook *config.Hook, actor *uint32, line string) *task {
	t := newTask("", kindHook, actor, control.RunJob{
		Command: slices.Clone(hook.Command), TimeoutMS: max(1, hook.Timeout.Milliseconds()), MaxOutput: control.DefaultJobOutput, Stdin: line,
	})
	t.spec.Hook = hook.Name
	return t
}

// addHooks adds the requests about hooks.
func (a requests) addHooks(server *api.Server) {
	h := a.runner.Tally.hooks
	server.Handle("GET /v1/hooks", api.MaySee, func(*http.Request) (any, error) { return h.List(), nil })
	server.Stream("POST /v1/hooks/{name}/test", api.MayCommand, func(w http.ResponseWriter, q *http.Request) error {
		var body control.TestHook
		if err := api.Decode(q, &body); err != nil {
			return err
		}
		if err := checkKey(body.Key); err != nil {
			return err
		}
		hook, err := hookNamed(q.PathValue("name"), h)
		if err != nil {
			return err
		}
		line, err := json.Marshal(hooks.Sample(hook, h.SampleService(hook), time.Now()))
		if err != nil {
			return err
		}
		actor := api.Actor(q)
		t := newHook(hook, &actor, string(line)+"\n")
		t.spec.Request.Key, t.followers.count = body.Key, 1 // before its absence is noted
		taken, err := a.runner.submit(t)
		if err != nil {
			return err
		}
		if q.URL.Query().Get("follow") != "true" {
			defer a.detach(taken)
			return answer(w, a.describe(taken))
		}
		return a.follow(w, q, taken, [2]int64{}, taken == t)
	})
}

// hookNamed is the hook of a name, or the problem that there is none.
func hookNamed(name string, h *hooks.Hooks) (*config.Hook, error) {
	var known []string
	for _, hook := range h.InForce() {
		if hook.Name == name {
			return &hook, nil
		}
		known = append(known, hook.Name)
	}
	what := fmt.Sprintf("no hook %q", name)
	switch near := nearest.Name(name, known); {
	case near != "":
		what += fmt.Sprintf("; did you mean %q?", near)
	case len(known) == 0:
		what += "; the configuration has none"
	default:
		what += "; see rlminit hooks"
	}
	return nil, control.NewProblem(control.KindNoSuchName, what)
}
