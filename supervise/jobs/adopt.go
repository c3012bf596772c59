package jobs

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"slices"

	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/supervise/jobs/output"
	"rlminit/wire"
)

// Start takes over what a predecessor left: its jobs, by what tier 1 holds and has
// in its table, and by the volume's journal; nil: the volume is not ours. held are
// the descriptors of jobs, by key. stopping: the container is.
func (r *Runner) Start(journal Journal, held map[string][]int, stopping bool) {
	r.Use(journal)
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
		r.sessions.adopt(r.journal.Load())
		r.turns()
	})
	r.Rescheduled()
}

func (r *Runner) adopt(held map[string][]int) {
	children := map[string]wire.Child{}
	for _, c := range r.children {
		children[c.Name] = c
	}
	over, recorded := map[string]bool{}, map[string]bool{}
	b := r.journal.Load()
	b.View(func(h *table.Table) {
		for id, e := range h.Jobs {
			over[id], recorded[id] = e.State != "", true
		}
	})
	var tasks []*task
	for key, fds := range held {
		t := fromSpec(fds, r.outputs)
		if t == nil || t.spec.name() != key || over[t.spec.ID] {
			if t != nil { // its pipes are files by now, which are closed once
				fds = append(t.output.Close(), t.held.take()...)
			}
			wire.CloseAll(fds)
			r.host.Send(&wire.Release{Key: key}, nil, nil)
			continue
		}
		tasks = append(tasks, t)
	}
	for _, t := range sortedTasks(tasks) {
		r.tasks.add(t)
		r.numbers.given(job.Number(t.spec.ID), job.Number(t.spec.Request.Session))
		if t.journal = b; !b.has(t.spec.ID) {
			t.journal = inMemory() // that is not there any more
		}
		c, has := children[t.spec.name()]
		delete(children, t.spec.name())
		if b.durable() && t.journal == b && !has && !recorded[t.spec.ID] {
			r.submitted(t) // its record did not come to be, and comes before all else
			continue
		}
		r.resume(t, c, has)
	}
	for name, c := range children { // over, or of a job that nobody knows
		r.discard(name, c)
	}
	r.interruptRest(b)
	r.endLost("the volume was taken over, or lost")
	for _, t := range r.tasks.ordered() {
		if r.stopping {
			r.step(t, job.Event{Kind: job.Shutdown})
		}
	}
}

// fromSpec makes the task of which tier 1 holds descriptors: the spec, and then
// stdin, or what each stream has.
func fromSpec(fds []int, outputs *output.Store) *task {
	if len(fds) == 0 {
		return nil
	}
	var s spec
	content, err := wire.ReadSealed(fds[0], mostSpec)
	if err != nil || json.Unmarshal(content, &s) != nil {
		return nil
	}
	t := newTask(s.ID, s.Kind, s.Actor, s.Request)
	t.spec, t.held.spec = s, fds[0]
	masks, err := redact.NewLines(s.Redact)
	if err != nil {
		return nil
	}
	switch rest := fds[1:]; {
	case len(rest) == output.Held(masks), len(rest) == output.Held(masks)+1 && s.Kind == kindHook:
		if t.output.Streams, err = outputs.TakeOver(s.ID, s.Request.MaxOutput, masks, rest[:output.Held(masks)]); err != nil {
			return nil
		}
		if own := output.Held(masks); len(rest) > own {
			t.held.stdin = rest[own]
		}
	case len(rest) == 1 && s.Stdin:
		t.held.stdin = rest[0]
	case len(rest) == 0 && !s.Stdin:
	default:
		return nil
	}
	return t
}

// resume goes on with a job, at the stage that tier 1 knows of.
func (r *Runner) resume(t *task, c wire.Child, has bool) {
	if !has && t.output.There() && t.held.stdin >= 0 { // of a hook, all of which is there to begin again
		wire.CloseAll(t.output.Close())
		t.output.Streams = output.Streams{}
	}
	if has {
		t.held.closeStdin() // it has it
	}
	if t.output.There() {
		t.output.begin(t.output.Streams)
		r.toLog(t)
	}
	t.gone(r) // until its client is back
	if !has {
		if t.output.There() { // the spawn itself was lost on its way
			t.why.problem, t.why.code = "the supervisor was replaced at the moment at which it was started", exitFailed
			t.state = job.State{Stage: job.Preparing}
			r.step(t, job.Event{Kind: job.NotSpawned})
			return
		}
		t.state = job.State{Stage: job.Queued}
		r.queue.enter(t)
		return
	}
	t.run.begun = cmp.Or(int64(c.StartTime)*wire.Tick, int64(wire.SinceBoot())) // it may be on its way yet
	t.prep.ready = &prepared{argv: t.spec.Request.Command}
	r.queue.take(t)
	r.tasks.spawned(t, c.ID, r.host.Resume(t.spec.name()))
	t.state = job.State{Stage: job.Alive}
	t.run.pid = int(c.PID)
	switch c.State {
	case wire.ChildPending:
		t.state.Stage = job.Starting
	case wire.ChildExited:
		r.exited(t, c.Exit)
	case wire.ChildFailed:
		t.state.Stage = job.Starting
		r.step(t, t.notSpawned(r.place.userOf(t), &wire.SpawnFailed{ID: c.ID, Step: c.Step, Errno: c.Errno, Reason: c.Reason}))
	}
}

// discard ends a child of which nothing is known but its name.
func (r *Runner) discard(name string, c wire.Child) {
	r.host.Send(&wire.Deadline{ID: c.ID}, nil, nil)
	if r.unknown[c.ID] = r.host.Resume(name); c.State == wire.ChildExited || c.State == wire.ChildFailed {
		r.discarded(c.ID)
	}
}

// discarded lets go of a child that was discarded, and has ended.
func (r *Runner) discarded(id uint64) {
	if tag, is := r.unknown[id]; is {
		delete(r.unknown, id)
		r.host.Send(&wire.Acknowledge{ID: id}, nil, nil)
		r.host.End(id, tag)
	}
}

// interruptRest gives those an outcome that no child and no descriptor is left of:
// their container ended. One with retry is run again.
func (r *Runner) interruptRest(b *jobJournal) {
	var rest []table.Entry
	b.View(func(h *table.Table) {
		for _, e := range h.Unfinished() {
			if r.tasks.byID[e.Job] == nil {
				rest = append(rest, *e)
			}
		}
	})
	for _, e := range rest {
		t := submittedAs(&e)
		t.journal = b
		asked := r.tasks.keyed(e.Key, b) != nil // once more, and it is run already
		r.tasks.add(t)
		if len(e.Again) > 0 && !asked && e.Boot != b.Boot() && json.Unmarshal(e.Again, &t.spec.Request) == nil && !r.stopping {
			t.spec.Again, t.spec.Attempt = e.Again, e.Attempt+1
			err := t.held.write(&t.spec)
			if err == nil {
				t.hold(r)
				r.submitted(t)
				continue
			}
			slog.Warn("a job is not run again", "job", e.Job, "err", err)
		}
		t.why.cause = "the container ended before it did"
		if e.Boot == b.Boot() {
			t.why.cause = "the supervisor was replaced, and what it needs was lost"
		}
		t.state = job.State{Stage: job.Queued}
		r.step(t, job.Event{Kind: job.Shutdown})
	}
}

// Keys are those of what is held that are jobs'.
func Keys(held map[string][]int) []string {
	var keys []string
	for key := range held {
		if isJob(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
