package jobs

import (
	"context"
	"strconv"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/history"
	"rlminit/rights"
	"rlminit/service"
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
	// Canonical is the name of the profile, or of the service, that a person means.
	Canonical(name string) (string, error)
	// Environment is what a process of a profile has; "": of the service user.
	Environment(profile string) (control.Environment, error)
	// Isolation is that of a profile's gateway; "": none.
	Isolation(profile string) (service.Isolation, error)
	// Limits are those of a profile's gateway; "": none.
	Limits(profile string) (service.Limits, error)
	// Walls are those of a job of a profile, with a directory beside the profile's
	// that is its own, "" for none.
	Walls(profile string, isolation service.Isolation, env []string, own string) (walls.Walls, error)
	// User touches files as the jobs' user.
	User(profile string) (own uint32, user *rights.User)
	// ProfileUsers tells whether profiles can have users of their own here.
	ProfileUsers() control.Enforced
	// Tags tells whether processes bear tags here.
	Tags() bool
	// Volume is where the volume lies, and whether it is ours.
	Volume() (dir string, ours bool)
}

// Journal is where jobs are recorded.
type Journal interface {
	// Append returns when the record is durable, and History knows of it.
	Append(ctx context.Context, kind string, body any) error
	// Note adds a record that may be lost with the machine's power.
	Note(kind string, body any)
	// View shows what follows from the records. f must not keep any of it.
	View(f func(*history.History))
	// Boot is the id of this start of the container.
	Boot() string
}

// Settings are the bounds that the configuration sets.
type Settings struct {
	AtOnce     int // jobs that run
	PerProfile int // of them, of one profile
	Queue      int // jobs that wait
}

// Runner owns every job that is not over.
type Runner struct {
	host     Host
	settings func() Settings
	outputs  *outputs

	memory *book // of what is begun while the volume is not ours

	mu     sync.Mutex // for what follows; never held while something is waited for
	inbox  []func()
	wake   chan struct{}
	volume *book      // the volume's; nil: it is not ours
	clock  *schedules // nil: nothing recurs

	// What follows is the runner's goroutine's alone.
	tasks     map[string]*task
	spawns    map[uint64]*task
	keys      map[string]*task
	line      []*task // that wait for their turn, the oldest first
	active    int     // whose turn has come, and that are not over
	of        map[string]int
	closed    map[string]int // profiles of which nothing begins, and for how many reasons
	quiet     time.Time      // when the last job ended; zero: never
	stopping  bool
	started   bool
	open      bool                // profiles and services are known: what waits may begin
	sessions  map[string]*session // that are open
	internals uint64
	children  []wire.Child   // a predecessor's
	early     []wire.Message // heard before they were taken over
	onIdle    []func()       // once no job is left

	extending sync.Mutex
}

// New is a runner that takes nothing before Start.
func New(host Host, settings func() Settings) *Runner {
	r := &Runner{
		host: host, settings: settings, wake: make(chan struct{}, 1), outputs: openOutputs(""), memory: inMemory(),
		tasks: map[string]*task{}, spawns: map[uint64]*task{}, keys: map[string]*task{}, of: map[string]int{}, closed: map[string]int{}, sessions: map[string]*session{},
	}
	go r.run()
	return r
}

// do has f run by the runner's goroutine. It never waits.
func (r *Runner) do(f func()) {
	r.mu.Lock()
	r.inbox = append(r.inbox, f)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// ask has f run and waits until it was.
func (r *Runner) ask(f func()) {
	done := make(chan struct{})
	r.do(func() {
		defer close(done)
		f()
	})
	<-done
}

func (r *Runner) run() {
	for range r.wake {
		for {
			r.mu.Lock()
			batch := r.inbox
			r.inbox = nil
			r.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			for _, f := range batch {
				f()
			}
		}
	}
}

// Takes tells whether a child that a predecessor spawned is a job, which the
// runner then answers for. The supervisor's loop calls it, before Start.
func (r *Runner) Takes(c wire.Child) bool {
	if !isJob(c.Name) {
		return false
	}
	r.do(func() { r.children = append(r.children, c) })
	return true
}

// Hear takes what tier 1 says of a job's spawn.
func (r *Runner) Hear(m wire.Message) { r.do(func() { r.hear(m) }) }

func (r *Runner) hear(m wire.Message) {
	if !r.started {
		r.early = append(r.early, m)
		return
	}
	switch m := m.(type) {
	case *wire.Spawned:
		if t := r.spawns[m.ID]; t != nil {
			t.pid = int(m.PID)
			r.step(t, job.Event{Kind: job.Spawned})
		}
	case *wire.SpawnFailed:
		if t := r.spawns[m.ID]; t != nil {
			t.notSpawned(r.userOf(t), m)
			r.step(t, job.Event{Kind: job.NotSpawned})
		}
	case *wire.Exited:
		if t := r.spawns[m.ID]; t != nil {
			r.exited(t, m.Exit)
		}
	case *wire.Cleared:
		if t := r.spawns[m.ID]; t != nil {
			r.step(t, job.Event{Kind: job.Cleared})
		}
	}
}

// Shutdown ends every job, for the container stops: what runs is interrupted,
// and nothing is started any more. done is called when none is left.
func (r *Runner) Shutdown(done func()) {
	r.do(func() {
		r.stopping = true
		for _, t := range r.ordered() {
			r.step(t, job.Event{Kind: job.Shutdown})
		}
		r.onIdle = append(r.onIdle, done)
		r.idle()
	})
}

func (r *Runner) idle() {
	if len(r.tasks) > 0 || !r.started && len(r.children) > 0 {
		return
	}
	for _, f := range r.onIdle {
		f()
	}
	r.onIdle = nil
}

// ordered are the tasks, the oldest first.
func (r *Runner) ordered() []*task {
	all := make([]*task, 0, len(r.tasks))
	for _, t := range r.tasks {
		all = append(all, t)
	}
	sortTasks(all)
	return all
}

// step takes an event to a job, and does what follows.
func (r *Runner) step(t *task, e job.Event) {
	was := t.state
	var do job.Action
	t.state, do = job.Step(was, e)
	if was.Stage == job.Queued && t.state.Stage != job.Queued {
		r.leaveLine(t)
	}
	if do&job.Queue != 0 {
		r.line = append(r.line, t)
		r.turns()
	}
	if do&job.Prepare != 0 {
		r.prepare(t)
	}
	if do&job.Spawn != 0 {
		r.spawn(t)
	}
	if do&job.Note != 0 && t.kind != kindInternal {
		t.book.Note(history.TypeStarted, history.Started{Job: t.id, PID: t.pid})
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
		time.AfterFunc(time.Second, func() { r.do(func() { r.record(t) }) })
	}
	if do&job.Forget != 0 {
		t.publish()
		r.forget(t)
	}
}

// turns gives those their turn that have waited longest and may run.
func (r *Runner) turns() {
	bounds := r.settings()
	for i := 0; i < len(r.line) && r.active < bounds.AtOnce && r.open && !r.stopping; {
		t := r.line[i]
		if t.request.Profile != "" && r.of[t.request.Profile] >= bounds.PerProfile {
			i++
			continue
		}
		t.active = true
		r.active++
		r.of[t.request.Profile]++
		r.step(t, job.Event{Kind: job.Turn}) // which takes it out of the line
	}
}

func (r *Runner) leaveLine(t *task) {
	for i, other := range r.line {
		if other == t {
			r.line = append(r.line[:i], r.line[i+1:]...)
			return
		}
	}
}

// forget lets go of a job that is over.
func (r *Runner) forget(t *task) {
	t.letGo(r)
	delete(r.tasks, t.id)
	delete(r.keys, t.request.Key)
	if t.active {
		t.active = false
		r.active--
		r.quiet = time.Now()
		if r.of[t.request.Profile]--; r.of[t.request.Profile] == 0 {
			delete(r.of, t.request.Profile)
		}
	}
	r.turns()
	r.idle()
	if n, _ := strconv.Atoi(t.id); n%64 == 0 {
		r.sweep()
	}
}

// sweep removes outputs of jobs that nobody remembers.
func (r *Runner) sweep() {
	running := map[string]bool{}
	for id := range r.tasks {
		running[id] = true
	}
	outputs, b := r.outputs, r.book()
	last := strconv.FormatUint(b.last, 10)
	go func() {
		known := map[string]bool{}
		b.View(func(h *history.History) {
			for id := range h.Jobs {
				known[id] = true
			}
		})
		outputs.sweep(func(id string) bool { return known[id] }, func(id string) bool { return running[id] || job.Compare(id, last) > 0 })
	}()
}
