package jobs

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/history"
	"rlminit/wire"
)

// Start takes over what a predecessor left: its jobs, by what tier 1 holds and has
// in its table, and by the volume's journal; nil: the volume is not ours. held are
// the descriptors of jobs, by key. stopping: the container is.
func (r *Runner) Start(journal Journal, held map[string][]int, stopping bool) {
	if journal != nil {
		r.Use(journal)
	}
	r.loop.Do(func() {
		r.stopping = r.stopping || stopping
		r.adopt(held)
		early := r.early
		r.started, r.early, r.children = true, nil, nil
		for _, m := range early {
			r.hear(m)
		}
		r.idle()
	})
}

// Open has those begin that wait, now that profiles and services are known, and
// ends the sessions of an earlier boot.
func (r *Runner) Open() {
	r.loop.Do(func() {
		if r.queue.open {
			return
		}
		r.queue.open = true
		for _, b := range r.books.all() {
			r.sessions.adopt(b)
		}
		r.turns()
	})
	r.Rescheduled()
}

// HeldKey tells whether descriptors that tier 1 holds are a job's.
func HeldKey(key string) bool { return strings.HasPrefix(key, namePrefix) }

func (r *Runner) adopt(held map[string][]int) {
	children := map[string]wire.Child{}
	for _, c := range r.children {
		children[c.Name] = c
	}
	over := map[string]bool{}
	for _, b := range r.books.all() {
		b.View(func(h *history.History) {
			for id, e := range h.Jobs {
				over[id] = e.State != ""
			}
		})
	}
	var tasks []*task
	for key, fds := range held {
		t := fromSpec(fds, r.outputs)
		if t == nil || t.name() != key || over[t.id] || t.kind == kindInternal {
			wire.CloseAll(fds)
			r.host.Send(&wire.Release{Key: key}, nil, nil)
			continue
		}
		tasks = append(tasks, t)
	}
	for _, t := range sortedTasks(tasks) {
		r.tasks.add(t)
		if t.book = r.books.of(t.id); t.book == nil {
			t.book = &book{Journal: Unrecorded()} // the volume's, which is another container's now
		} else {
			t.book.given(t.id)
		}
		c, has := children[t.name()]
		delete(children, t.name())
		r.resume(t, c, has)
	}
	for name, c := range children { // over, or of a job that nobody knows
		r.discard(name, c)
	}
	for _, b := range r.books.all() {
		r.interruptRest(b)
	}
	for _, t := range r.tasks.ordered() {
		if r.stopping || t.kind != kindInternal && r.books.lost(t.book) {
			r.step(t, job.Event{Kind: job.Shutdown})
		}
	}
}

// fromSpec makes the task of which tier 1 holds descriptors: the spec, and then
// stdin, or pipe and memfd of each stream.
func fromSpec(fds []int, outputs *outputs) *task {
	if len(fds) == 0 {
		return nil
	}
	var s spec
	content, err := readMemfd(fds[0])
	if err != nil || json.Unmarshal(content, &s) != nil {
		return nil
	}
	t := newTask(s.ID, s.Kind, s.Actor, s.Request)
	t.argv, t.submitted, t.attempt, t.occurs, t.schedule, t.spec = s.Argv, s.Submitted, s.Attempt, s.Occurs, s.Schedule, fds[0]
	switch rest := fds[1:]; {
	case len(rest) == 4:
		if t.out, err = openStream("stdout", rest[0], rest[1], s.Request.MaxOutput, outputs.file(s.ID, "stdout")); err != nil {
			return nil
		}
		if t.err, err = openStream("stderr", rest[2], rest[3], s.Request.MaxOutput, outputs.file(s.ID, "stderr")); err != nil {
			return nil
		}
	case len(rest) == 1 && s.Stdin:
		t.stdin = rest[0]
	case len(rest) == 0 && !s.Stdin:
	default:
		return nil
	}
	return t
}

// resume goes on with a job, at the stage that tier 1 knows of.
func (r *Runner) resume(t *task, c wire.Child, has bool) {
	if t.out != nil {
		go t.out.pump()
		go t.err.pump()
		t.begin()
	}
	r.gone(t) // until its client is back
	if !has {
		if t.out != nil { // the spawn itself was lost on its way
			t.problem, t.code = "the supervisor was replaced at the moment at which it was started", exitFailed
			t.state = job.State{Stage: job.Preparing}
			r.step(t, job.Event{Kind: job.NotSpawned})
			return
		}
		t.state = job.State{Stage: job.Queued}
		r.queue.enter(t)
		return
	}
	var l label
	_ = json.Unmarshal(c.Label, &l) // or the times are not known
	t.begun, t.ready = l.Begun, &prepared{argv: t.request.Command, before: l.Before}
	r.queue.take(t)
	r.tasks.spawned(t, c.ID, r.host.Resume(t.name()))
	t.state = job.State{Stage: job.Alive}
	t.pid = int(c.PID)
	switch c.State {
	case wire.ChildPending:
		t.state.Stage = job.Starting
	case wire.ChildExited:
		r.exited(t, c.Exit)
	case wire.ChildFailed:
		t.state.Stage = job.Starting
		t.notSpawned(r.place.userOf(t), &wire.SpawnFailed{ID: c.ID, Step: c.Step, Errno: c.Errno, Reason: c.Reason})
		r.step(t, job.Event{Kind: job.NotSpawned})
	}
}

// discard ends a child of which nothing is known but its name.
func (r *Runner) discard(name string, c wire.Child) {
	t := newTask(strings.TrimPrefix(name, namePrefix), "run", nil, control.RunJob{})
	t.spawnID, t.book = c.ID, r.books.memory
	if c.State == wire.ChildExited || c.State == wire.ChildFailed {
		r.host.Send(&wire.Deadline{ID: c.ID}, nil, nil)
		t.letGo(r)
		return
	}
	r.host.Send(&wire.Deadline{ID: c.ID}, nil, nil)
	// It is acknowledged when it has ended: see hear.
	t.kind = kindInternal // there is nothing to record
	t.state = job.State{Stage: job.Alive, Marked: job.Cancel}
	t.cause = "nothing of it was left but its process"
	r.tasks.add(t)
	r.tasks.spawned(t, c.ID, r.host.Resume(name))
	r.queue.take(t)
}

// interruptRest gives those an outcome that no child and no descriptor is left of:
// their container ended. One with retry is run again.
func (r *Runner) interruptRest(b *book) {
	var rest []history.Entry
	b.View(func(h *history.History) {
		for _, e := range h.Unfinished() {
			if r.tasks.byID[e.Job] == nil {
				rest = append(rest, *e)
			}
		}
	})
	for _, e := range rest {
		t := newTask(e.Job, e.Kind, e.Actor, control.RunJob{
			Command: e.Command, Profile: e.Profile, Session: e.Session, TimeoutMS: e.TimeoutMS, MaxOutput: control.DefaultJobOutput, Detach: true,
		})
		t.schedule = e.Schedule
		t.submitted, t.occurs, t.attempt, t.book = e.At, e.Occurs, e.Attempt, b
		r.tasks.add(t)
		if len(e.Again) > 0 && e.Boot != b.Boot() && json.Unmarshal(e.Again, &t.request) == nil && !r.stopping {
			t.again, t.attempt = e.Again, e.Attempt+1
			r.submitted(t)
			continue
		}
		t.cause = "the container ended before it did"
		if e.Boot == b.Boot() {
			t.cause = "the supervisor was replaced, and what it needs was lost"
		}
		t.state = job.State{Stage: job.Queued}
		r.step(t, job.Event{Kind: job.Shutdown})
	}
}

func readMemfd(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	content := make([]byte, min(st.Size, 64<<20))
	for at := 0; at < len(content); {
		n, err := unix.Pread(fd, content[at:], int64(at))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, os.ErrInvalid
		}
		at += n
	}
	return content, nil
}

// Keys are those of what is held that are jobs'.
func Keys(held map[string][]int) []string {
	var keys []string
	for key := range held {
		if HeldKey(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
