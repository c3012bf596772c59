package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/history"
	"rlminit/rights"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// task is a job that is not over. Its goroutine is the runner's, but for what
// says otherwise.
type task struct {
	id       string
	kind     string
	book     *book // where it is recorded
	actor    *uint32
	request  control.RunJob
	argv     []string // what is executed, in place of the request's command; nil: that
	again    json.RawMessage
	attempt  int
	occurs   *time.Time // of a schedule: the time that it is for
	schedule string     // the service whose it is
	path     string     // of a write

	state    job.State
	spec     int  // the memfd with all of this; -1: none
	stdin    int  // -1: none
	active   bool // its turn has come
	cause    string
	attached int  // who follows it
	absence  uint // counts the times that nobody did

	submitted time.Time
	begun     int64 // CLOCK_BOOTTIME, ns, when it was asked for
	ended     int64 // the same, of its end; 0: not yet
	pid       int
	spawnID   uint64
	tag       uint32
	ready     *prepared
	ahead     chan *prepared     // takes one: what is prepared while the submission is written down; nil: nothing is
	before    *control.Telemetry // as it was when it was submitted
	out, err  *stream            // set before anybody but the runner has the task, or under started
	left      []control.LeftBehind
	problem   string // why it did not run, or what went wrong beside it
	refused   string
	code      int // the exit code of what could not be run; 0: none

	started  chan struct{} // closed when out and err are there, or never will be
	begins   bool          // started is closed
	done     chan struct{} // closed when result is there
	told     bool          // done is closed
	result   *control.JobResult
	unkept   bool   // it could not be recorded, and is not run
	accepted func() // told when it is recorded, or cannot be
}

// namePrefix is what tier 1 knows a job by; no service's name has a slash.
const namePrefix = "job/"

func isJob(name string) bool { return strings.HasPrefix(name, namePrefix) }

func (t *task) name() string { return namePrefix + t.id }

// spec is what a successor needs of a job that tier 1 does not have yet.
type spec struct {
	ID        string         `json:"id"`
	Kind      string         `json:"kind"`
	Actor     *uint32        `json:"actor"`
	Request   control.RunJob `json:"request"`
	Argv      []string       `json:"argv,omitempty"`
	Submitted time.Time      `json:"submitted"`
	Stdin     bool           `json:"stdin"`
	Attempt   int            `json:"attempt,omitempty"`
	Occurs    *time.Time     `json:"occurs,omitempty"`
	Schedule  string         `json:"schedule,omitempty"`
}

// label goes along with the spawn.
type label struct {
	Begun  int64              `json:"begun"`
	Before *control.Telemetry `json:"before,omitempty"`
}

// writeSpec puts a task into a memfd.
func (t *task) writeSpec() error {
	content, err := json.Marshal(spec{
		ID: t.id, Kind: t.kind, Actor: t.actor, Request: t.request, Argv: t.argv,
		Submitted: t.submitted, Stdin: t.stdin >= 0, Attempt: t.attempt, Occurs: t.occurs, Schedule: t.schedule,
	})
	if err != nil {
		return err
	}
	t.spec, err = memfdOf("rlminit-spec", content)
	return err
}

// memfdOf is a memfd with a content, at its beginning.
func memfdOf(name string, content []byte) (int, error) {
	fd, err := newMemfd(name)
	if err != nil {
		return -1, err
	}
	for at := int64(0); len(content) > 0; {
		n, err := unix.Pwrite(fd, content, at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		content, at = content[n:], at+int64(n)
	}
	return fd, nil
}

// hold has tier 1 keep all of a job's descriptors.
func (t *task) hold(r *Runner) {
	fds := []int{t.spec}
	if t.out != nil {
		fds = append(append(fds, t.out.fds()...), t.err.fds()...)
	} else if t.stdin >= 0 {
		fds = append(fds, t.stdin)
	}
	r.host.Send(&wire.Hold{Key: t.name()}, fds, nil)
}

// spawn asks tier 1 for the process.
func (r *Runner) spawn(t *task) {
	p := t.ready
	var failure error
	id, tag, err := r.host.Begin(t.name())
	if err != nil {
		failure = err
	} else {
		r.tasks.spawned(t, id, tag)
	}
	t.out, t.err = p.out, p.err
	go t.out.pump()
	go t.err.pump()
	t.begin()
	if failure != nil {
		wire.CloseAll([]int{p.outWrite, p.errWrite})
		t.problem, t.code = failure.Error(), exitFailed
		r.step(t, job.Event{Kind: job.NotSpawned})
		return
	}
	t.begun = boottime()
	t.hold(r)
	label, _ := json.Marshal(label{Begun: t.begun, Before: p.before}) // of plain numbers
	fds, targets := []int{p.outWrite, p.errWrite}, []int32{1, 2}
	after := slices.Clone(fds)
	if t.stdin >= 0 {
		fds, targets = append(fds, t.stdin), append(targets, 0)
		after = append(after, t.stdin)
		t.stdin = -1
	}
	spawn := &wire.Spawn{
		ID: id, Name: t.name(), UID: p.uid, Path: p.path, Argv: p.argv, Env: p.env, Dir: p.dir, Umask: 0o022,
		Tag: tag, Targets: targets, NoNewPrivs: true, Label: label, Rlimits: p.limits, Bounds: p.bounds,
		Deadline: t.begun + t.request.TimeoutMS*int64(time.Millisecond),
	}
	built, err := p.walls.Fill(spawn)
	if err != nil {
		wire.CloseAll(after)
		p.outWrite, p.errWrite = -1, -1
		t.problem, t.code = err.Error(), exitFailed
		r.step(t, job.Event{Kind: job.NotSpawned})
		return
	}
	r.host.Send(spawn, append(fds, built...), append(after, built...))
	p.outWrite, p.errWrite = -1, -1
}

// begin tells those who wait for a job's output that it has some, or never will.
func (t *task) begin() {
	if !t.begins {
		t.begins = true
		close(t.started)
	}
}

// exitFailed is the exit code of `run` where it is rlminit that failed.
const exitFailed = 125

// notSpawned notes why there is no process.
func (t *task) notSpawned(user *rights.User, m *wire.SpawnFailed) {
	var argv []string
	path, dir := "", ""
	if t.ready != nil {
		argv, path, dir = t.ready.argv, t.ready.path, t.ready.dir
	}
	if len(argv) == 0 {
		argv = []string{"?"}
	}
	t.problem, _ = process.ExplainSpawn(user, argv, path, dir, m)
	if t.code = exitFailed; m.Step == wire.StepExec {
		t.code = int(process.Unrunnable(unix.Errno(m.Errno)))
	}
}

// exited notes how a job ended, and what it left.
func (r *Runner) exited(t *task, e wire.Exit) {
	t.ended = e.At
	exit := job.Exit{Code: int(e.Code), Signal: int(e.Signal), TimedOut: e.TimedOut}
	if e.OutOfMemory && t.problem == "" && (e.Signal != 0 || e.Code != 0) {
		t.problem = "a process of it was killed: " + r.place.outOfMemory(&t.request)
	}
	kind := job.Exited
	if e.Leftovers > 0 {
		kind = job.LeftSome
		if t.left = bearers(t.tag); len(t.left) == 0 {
			t.left = make([]control.LeftBehind, e.Leftovers) // they have ended since, or there are no tags
		}
	}
	r.step(t, job.Event{Kind: kind, Exit: exit})
}

// patience is how long the end of what a job left may take.
const patience = 3 * time.Second

// end has tier 1 end all of a job.
func (r *Runner) end(t *task) {
	r.host.Send(&wire.Deadline{ID: t.spawnID}, nil, nil)
	if t.state.Stage == job.Sweeping {
		time.AfterFunc(patience, func() {
			r.loop.Do(func() {
				if t.state.Stage == job.Sweeping {
					t.problem = "some of what it left behind cannot be ended: the kernel holds on to it"
				}
				r.step(t, job.Event{Kind: job.Patience})
			})
		})
	}
}

// record makes the result and has it recorded.
func (r *Runner) record(t *task) {
	t.begin()
	out, err := t.out, t.err
	state, kind := t.state, t.kind
	dir, _ := r.host.Volume()
	go func() {
		if t.result == nil {
			for _, s := range []*stream{out, err} {
				if s != nil {
					s.finish()
				}
			}
			t.result = t.conclude(state, telemetry(dir))
		}
		if kind == kindInternal {
			r.loop.Do(func() { r.step(t, job.Event{Kind: job.Recorded}) })
			return
		}
		failure := t.keep(state)
		r.loop.Do(func() {
			if failure == nil || r.books.lost(t.book) { // who has the volume now has recorded it as interrupted
				r.step(t, job.Event{Kind: job.Recorded})
				return
			}
			if t.result.Error == nil {
				why := fmt.Sprintf("its outcome cannot be recorded: %v", failure)
				t.result.Error = &why
			}
			r.step(t, job.Event{Kind: job.NotRecorded})
		})
	}()
}

// keep records the outcome, and before it that of a write that was undone.
func (t *task) keep(state job.State) error {
	ended := history.Ended{Job: t.id, State: state.Outcome, TookMS: t.result.ExecutionTimeMS}
	ended.Result, _ = json.Marshal(bare(t.result)) // of strings and numbers
	if state.Outcome == job.Succeeded {
		switch t.kind {
		case kindWrite:
			if wrote := []byte(t.result.Stdout); json.Valid(wrote) {
				ended.Wrote = wrote
			}
		case kindUndo:
			if err := t.book.Append(forRecord(), history.TypeRolledBack, history.RolledBack{Job: t.undoes(), By: t.id}); err != nil {
				return err
			}
		}
	}
	return t.book.Append(forRecord(), history.TypeOf(state.Outcome), ended)
}

// abandonFiles has no more of a job's output written to the volume.
func (t *task) abandonFiles() {
	for _, s := range []*stream{t.out, t.err} {
		if s != nil {
			s.file.abandon()
		}
	}
}

// publish tells whoever waits what came of it.
func (t *task) publish() {
	t.begin()
	if !t.told {
		t.told = true
		close(t.done)
	}
}

// letGo gives back all that a job has had.
func (t *task) letGo(r *Runner) {
	var fds []int
	for _, s := range []*stream{t.out, t.err} {
		if s != nil {
			fds = append(fds, s.close()...)
		}
	}
	for _, fd := range []int{t.spec, t.stdin} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	t.spec, t.stdin = -1, -1
	t.dropAhead()
	if t.spawnID != 0 {
		r.host.Send(&wire.Acknowledge{ID: t.spawnID}, nil, nil)
		delete(r.tasks.bySpawn, t.spawnID)
		r.host.End(t.spawnID, t.tag)
	}
	r.host.Send(&wire.Release{Key: t.name()}, nil, fds)
}

// dropAhead gives back what was prepared ahead and nobody takes.
func (t *task) dropAhead() {
	if ahead := t.ahead; ahead != nil {
		t.ahead = nil
		go func() { (<-ahead).close() }()
	}
}

// cancel ends a job; cause is what is said of it.
func (r *Runner) cancel(t *task, cause string) {
	if t.state.Marked == 0 && t.state.Outcome == "" {
		t.cause = cmp.Or(t.cause, cause)
	}
	r.step(t, job.Event{Kind: job.Cancel})
}

// boottime is CLOCK_BOOTTIME in ns, which tier 1 reads too.
func boottime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
