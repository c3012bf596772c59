package jobs

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/inbox"
	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/jobs/output"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Host is what the runner needs of the supervisor around it.
type Host interface {
	// Begin gives a spawn its id, whose messages come to Hear, and a tag; 0: there
	// are none to give.
	Begin(name string) (id uint64, tag uint32, err error)
	// Resume gives a name the tag that it had, of a predecessor.
	Resume(name string) (tag uint32)
	// End takes both back.
	End(id uint64, tag uint32)
	// Send queues a message to tier 1; those in after are closed when it is sent.
	Send(m wire.Message, fds, after []int)
	// Directories makes those of the supervisor's directories on the volume again that
	// somebody has removed, or says why nothing is to be made there.
	Directories() error
	// Canonical is the profile, or the service, that a person means.
	Canonical(name string) (Owner, error)
	// Environment is what a process of an owner has.
	Environment(of Owner) (control.Environment, error)
	// Isolation is that of a profile's gateway, or of a service; of nobody: none.
	Isolation(of Owner) (service.Isolation, error)
	// Deadline is when theirs end, of an owner that runs only under one, in nanoseconds of
	// CLOCK_BOOTTIME; 0: nothing but their own time ends them. It fails where that has passed.
	Deadline(of Owner) (at int64, err error)
	// Limits are theirs; what they do not name is as the configuration has it for jobs.
	Limits(of Owner) (service.Limits, error)
	// StateFile is the name of the file in a profile's directory that rlminit alone writes.
	StateFile() string
	// Redact are the patterns that are masked in what theirs write.
	Redact(of Owner) []string
	// Secrets are the values that are masked in what is shown of theirs.
	Secrets(of Owner) redact.Set
	// LogOf are the pipes of a service's log, stdout's and stderr's, as long as done was not
	// called.
	LogOf(service string) (pipes [2]int, done func(), err error)
	// Remember keeps a value for a successor, which Recall gives; none: it is forgotten.
	Remember(key string, value []byte) error
	Recall(key string) []byte
	// Walls are those of a job, with a directory beside the profile's that is its own,
	// "" for none.
	Walls(of Owner, isolation service.Isolation, env []string, own string) (walls.Walls, error)
	// User touches files as the jobs' user.
	User(of Owner) (own uint32, user *rights.User)
	// ProfileUsers tells whether profiles can have users of their own here.
	ProfileUsers() control.Enforced
	// Tags are those that processes bear here, from low to high; 0: they bear none.
	Tags() (low, high uint32)
	// Tag is that of an owner's service; 0: it has none.
	Tag(of Owner) uint32
	// Volume is where the volume lies, and why nothing can be recorded there; "": it can.
	Volume() (dir, lacks string)
}

// Journal is where jobs are recorded.
type Journal interface {
	// Append returns when the record is durable, and the table has it. Nothing bounds that:
	// the disk says when it cannot be.
	Append(kind string, body any) error
	// Note adds a record that may be lost with the machine's power.
	Note(kind string, body any)
	// Flush waits until the notes before it can be seen.
	Flush(ctx context.Context)
	// View shows what follows from the records. f must not keep any of it.
	View(f func(*table.Table))
	// Boot is the id of this start of the container.
	Boot() string
}

// Settings are the bounds that the configuration sets.
type Settings struct {
	AtOnce     int // jobs that run
	PerProfile int // of them, of one profile
	Queue      int // jobs that wait

	Guards config.Guards
}

// Runner takes each job from its submission to its end, as job.Step says. Around
// it are the rooms that know a part of that; what all of them share is its
// goroutine.
type Runner struct {
	loop     inbox.Work // the goroutine; what it is given never waits
	host     Host
	journal  atomic.Pointer[jobJournal]
	place    place
	clock    atomic.Pointer[schedules] // nil: nothing recurs
	sessions sessions
	Tally    Tally

	// What follows is the goroutine's alone.
	tasks    tasks
	queue    queue
	doors    doors
	outputs  *output.Store
	stopping bool
	started  bool
	numbers  numbers
	unknown  map[uint64]uint32    // the tags of a predecessor's children that are ended, of which nothing else is known
	waiting  map[*occurrence]bool // those that wait for the one before; true: it was ended meanwhile

	interrupted map[string]*task // as the journal before this one was lost, for who asks for one by its number

	children []wire.Child   // a predecessor's; until it is started
	early    []wire.Message // heard before they were taken over
	onIdle   []func()       // once no job is left
}

// New is a runner that takes nothing before Start.
func New(host Host, settings func() Settings) *Runner {
	r := &Runner{loop: inbox.NewWork(), host: host, outputs: output.Open("", nil), tasks: newTasks(), waiting: map[*occurrence]bool{}, interrupted: map[string]*task{}, unknown: map[uint64]uint32{}}
	r.journal.Store(inMemory())
	r.queue = newQueue(settings)
	r.doors = doors{loop: r.loop, shut: map[string]int{}}
	r.sessions = sessions{runner: r, open: map[string]*session{}}
	r.place = place{host: host, settings: settings, sessions: &r.sessions}
	go r.loop.Run()
	return r
}

// Takes tells whether a child that a predecessor spawned is a job, which the
// runner then answers for. The supervisor's loop calls it, before Start.
func (r *Runner) Takes(c wire.Child) bool {
	if !isJob(c.Name) {
		return false
	}
	r.loop.Do(func() { r.children = append(r.children, c) })
	return true
}

// Hear takes what tier 1 says of a job's spawn.
func (r *Runner) Hear(m wire.Message) { r.loop.Do(func() { r.hear(m) }) }

func (r *Runner) hear(m wire.Message) {
	if !r.started {
		r.early = append(r.early, m)
		return
	}
	switch m := m.(type) {
	case *wire.Spawned:
		if t := r.tasks.bySpawn[m.ID]; t != nil {
			t.run.pid = int(m.PID)
			r.step(t, job.Event{Kind: job.Spawned})
		}
	case *wire.SpawnFailed:
		if t := r.tasks.bySpawn[m.ID]; t != nil {
			r.step(t, t.notSpawned(r.place.userOf(t), m))
		}
		r.discarded(m.ID)
	case *wire.Exited:
		if t := r.tasks.bySpawn[m.ID]; t != nil {
			r.exited(t, m.Exit)
		}
	case *wire.Cleared:
		if t := r.tasks.bySpawn[m.ID]; t != nil {
			r.step(t, job.Event{Kind: job.Cleared})
		}
		r.discarded(m.ID)
	}
}

// Prolonged has the deadlines of an owner's jobs move on with that of its service.
func (r *Runner) Prolonged(of Owner, at int64) {
	r.loop.Do(func() {
		for _, t := range r.tasks.ordered() {
			if ownerOf(&t.spec.Request) == of && t.run.begun != 0 && t.run.ended == 0 {
				r.host.Send(&wire.Deadline{ID: t.run.id, At: min(at, t.timeOver())}, nil, nil)
			}
		}
	})
}

// Shutdown ends every job, for the container stops: what runs is interrupted,
// and nothing is started any more. done is called when none is left.
func (r *Runner) Shutdown(done func()) {
	r.loop.Do(func() {
		r.stopping = true
		for _, t := range r.tasks.ordered() {
			r.step(t, job.Event{Kind: job.Shutdown})
		}
		r.onIdle = append(r.onIdle, done)
		r.idle()
	})
}

func (r *Runner) idle() {
	if len(r.tasks.byID) > 0 || !r.started && len(r.children) > 0 {
		return
	}
	for _, f := range r.onIdle {
		f()
	}
	r.onIdle = nil
}

// step takes an event to a job, and does what follows.
func (r *Runner) step(t *task, e job.Event) {
	was := t.state
	var do job.Action
	t.state, do = job.Step(was, e)
	if was.Stage == job.Queued && t.state.Stage != job.Queued { // also without its turn
		r.queue.leave(t)
	}
	if do&job.Queue != 0 {
		r.queue.enter(t)
		r.turns()
	}
	if do&job.Prepare != 0 {
		r.prepare(t)
	}
	if do&job.Spawn != 0 {
		r.spawn(t)
	}
	if do&job.Note != 0 {
		t.journal.Note(table.TypeStarted, table.Started{Job: t.spec.ID, PID: t.run.pid})
	}
	if do&job.End != 0 {
		r.end(t)
	}
	if do&job.Record != 0 {
		r.record(t)
	}
	if do&job.Publish != 0 {
		t.publish()
		if t.state.Stage == job.Over {
			r.forget(t)
		}
	}
	if do&job.Again != 0 {
		time.AfterFunc(time.Second, func() { r.loop.Do(func() { r.record(t) }) })
	}
	if do&job.Forget != 0 {
		t.publish()
		r.forget(t)
	}
}

// turns gives those their turn that have waited longest and may run.
func (r *Runner) turns() {
	for !r.stopping {
		t := r.queue.next()
		if t == nil {
			return
		}
		r.step(t, job.Event{Kind: job.Turn})
	}
}

// forget lets go of a job that is over.
func (r *Runner) forget(t *task) {
	r.Tally.over(t)
	if t.lost(r.journal.Load()) {
		r.interrupted[t.spec.ID] = t
	}
	t.letGo(r)
	r.tasks.remove(t)
	r.queue.giveBack(t)
	r.turns()
	r.idle()
	if n, _ := strconv.Atoi(t.spec.ID); n%64 == 0 {
		r.sweepOutputs()
	}
}
