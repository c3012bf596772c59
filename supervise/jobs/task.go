package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/rights"
	"rlminit/supervise/jobs/output"
	"rlminit/supervise/process"
	"rlminit/supervise/telemetry"
	"rlminit/wire"
)

// task is a job that is not over: what it is, how far it has come, and what it has
// of its own. Its goroutine is the runner's, but for what says otherwise.
type task struct {
	spec      spec
	journal   *jobJournal // where it is recorded
	state     job.State   // which job.Step alone changes
	active    bool        // its turn has come: the queue's
	held      held
	followers followers
	prep      preparing
	run       run
	output    written
	copied    *copying // what copies what it writes into its service's log; nil: nothing does
	why       reasons
	outcome   outcome
	accepted  func() // told when it is recorded, or cannot be; nil: nobody is
}

// newTask is a job that nothing has happened to.
func newTask(id, kind string, actor *uint32, request control.RunJob) *task {
	return &task{
		spec: spec{ID: id, Kind: kind, Actor: actor, Request: request, Submitted: time.Now()}, held: held{spec: -1, stdin: -1},
		output: written{begun: make(chan struct{})}, outcome: outcome{done: make(chan struct{})},
	}
}

// followers are those who wait for a job at the other end of a connection. Invariant: a
// timer that was begun for lack of them is of use as long as absence is what it was.
type followers struct {
	count   int
	absence uint // changes with each who comes, and each time that none is left
}

// come notes one more.
func (f *followers) come() {
	f.count++
	f.absence++
}

// run is a job's process, as tier 1 has told of it. Invariant: what has a tag has an id,
// and what has ended had begun.
type run struct {
	id    uint64 // of the spawn; 0: tier 1 was asked for none
	tag   uint32
	pid   int
	begun int64                // CLOCK_BOOTTIME, ns, when it was asked for
	ended int64                // the same, of its end; 0: not yet
	tree  []control.LeftBehind // what had its tag, and has withstood its end
	left  []control.LeftBehind // what had its tag when it had ended, as far as it is known
	count int                  // how many that were
	late  *time.Timer          // surveys when its time is up; nil: it has none
}

// withstood is after how long what has not ended has withstood being asked to: half of
// the time that tier 1 gives it.
const withstood = 500 * time.Millisecond

// survey notes what has withstood: it is killed with the job, and gone when that is told.
func (r *run) survey(masks redact.Set) {
	if r.ended == 0 {
		r.tree = telemetry.Bearers(r.tag, masks)
	}
}

func (t *task) survey() { t.run.survey(t.spec.masks()) }

// leave notes how many processes a job has left, and which.
func (r *run) leave(count int, masks redact.Set) {
	r.count, r.left = count, nil
	for _, of := range append(r.tree, telemetry.Bearers(r.tag, masks)...) { // what is ending now has no command any more
		known := slices.ContainsFunc(r.left, func(l control.LeftBehind) bool { return l.PID == of.PID })
		if len(r.left) < telemetry.Most && !known && of.PID != r.pid {
			r.left = append(r.left, of)
		}
	}
}

// written is what a job writes, for those who wait for it. Invariant: as long as told is
// false there may be some yet, and from then on streams stay what they are.
type written struct {
	output.Streams               // set before anybody but the runner has the task, or under begun
	begun          chan struct{} // closed when they are there, or never will be
	told           bool          // begun is closed
}

// begin has both read, and those told who wait for them; without any: there will be
// none.
func (o *written) begin(ss output.Streams) {
	if o.told {
		return
	}
	o.Streams, o.told = ss, true
	ss.Pump()
	close(o.begun)
}

// reasons are what there is to say of how a job went.
type reasons struct {
	problem string // why it did not run, or what went wrong beside it
	refused string // by which guard
	cause   string // why it was ended
	code    int    // the exit code of what could not be run; 0: none
}

// outcome is a job's result, for those who wait for it. Invariant: result is there, and
// stays, once done is closed.
type outcome struct {
	result *control.JobResult
	unkept bool          // it could not be recorded, and is not run
	done   chan struct{} // closed when result is there
	told   bool          // done is closed
}

// over tells whether a job's result is there.
func (t *task) over() bool {
	select {
	case <-t.outcome.done:
		return true
	default:
		return false
	}
}

// closeFiles closes the files of a job that is over, which were opened once more, to be
// read.
func (t *task) closeFiles() {
	if t.over() {
		t.output.CloseFiles()
	}
}

// namePrefix is what tier 1 knows a job by; no service's name has a slash.
const namePrefix = "job/"

func isJob(name string) bool { return strings.HasPrefix(name, namePrefix) }

// hold has tier 1 keep all of a job's descriptors.
func (t *task) hold(r *Runner) {
	fds := append([]int{t.held.spec}, t.output.FDs()...)
	// A client is to notice when its reader has ended. What a hook reads is in memory, and is
	// needed again if the spawn is lost on its way.
	if t.held.stdin >= 0 && (!t.output.There() || t.spec.Kind == kindHook) {
		fds = append(fds, t.held.stdin)
	}
	r.host.Send(&wire.Hold{Key: t.spec.name()}, fds, nil)
}

// spawn asks tier 1 for the process.
func (r *Runner) spawn(t *task) {
	p := t.prep.ready
	until, err := r.host.Deadline(ownerOf(&t.spec.Request))
	var id uint64
	var tag uint32
	if err == nil {
		id, tag, err = r.host.Begin(t.spec.name())
	}
	if err == nil {
		r.tasks.spawned(t, id, tag)
	}
	t.output.begin(p.streams)
	r.toLog(t)
	if err != nil {
		wire.CloseAll(p.ends[:])
		t.why.problem, t.why.code = err.Error(), exitFailed
		r.step(t, job.Event{Kind: job.NotSpawned})
		return
	}
	t.run.begun = int64(wire.SinceBoot())
	t.run.late = time.AfterFunc(time.Duration(t.spec.Request.TimeoutMS)*time.Millisecond+withstood, func() { r.loop.Do(t.survey) })
	t.hold(r)
	fds, targets := slices.Clone(p.ends[:]), []int32{1, 2}
	after := slices.Clone(fds)
	if t.held.stdin >= 0 {
		fds, targets = append(fds, t.held.stdin), append(targets, 0)
		after = append(after, t.held.stdin)
		t.held.stdin = -1
	}
	spawn := &wire.Spawn{
		ID: id, Name: t.spec.name(), UID: p.uid, Path: p.path, Argv: p.argv, Env: p.env, Dir: p.dir, Umask: 0o022,
		Tag: tag, Targets: targets, NoNewPrivs: true, Rlimits: p.limits, Bounds: p.bounds,
		Deadline: t.timeOver(),
	}
	if until != 0 {
		spawn.Deadline = min(spawn.Deadline, until)
	}
	built, err := p.walls.Fill(spawn)
	if err != nil {
		wire.CloseAll(after)
		t.why.problem, t.why.code = err.Error(), exitFailed
		r.step(t, job.Event{Kind: job.NotSpawned})
		return
	}
	r.host.Send(spawn, append(fds, built...), append(after, built...))
}

// timeOver is when its own time is over, on the boot clock.
func (t *task) timeOver() int64 {
	return t.run.begun + t.spec.Request.TimeoutMS*int64(time.Millisecond)
}

// exitFailed is the exit code of `run` where it is rlminit that failed.
const exitFailed = 125

// notSpawned notes why there is no process, and returns what the job is told of it.
func (t *task) notSpawned(user *rights.User, m *wire.SpawnFailed) job.Event {
	if m.Errno == int32(unix.ETIME) {
		t.why.problem = "its time was over before it could start"
		return job.Event{Kind: job.NotSpawned, Exit: job.Exit{TimedOut: true}}
	}
	var argv []string
	path, dir := "", ""
	if t.prep.ready != nil {
		argv, path, dir = t.prep.ready.argv, t.prep.ready.path, t.prep.ready.dir
	}
	if len(argv) == 0 {
		argv = []string{"?"}
	}
	t.why.problem, _ = process.ExplainSpawn(user, argv, path, dir, m)
	if t.why.code = exitFailed; m.Step == wire.StepExec {
		t.why.code = int(process.Unrunnable(unix.Errno(m.Errno)))
	}
	return job.Event{Kind: job.NotSpawned}
}

// exited notes how a job ended, and what it left.
func (r *Runner) exited(t *task, e wire.Exit) {
	t.run.ended = e.At
	exit := job.Exit{Code: int(e.Code), Signal: int(e.Signal), TimedOut: e.TimedOut}
	if e.OutOfMemory && t.why.problem == "" && (e.Signal != 0 || e.Code != 0) {
		t.why.problem = "a process of it was killed: " + r.place.outOfMemory(&t.spec.Request)
	}
	kind := job.Exited
	if e.Leftovers > 0 {
		kind = job.LeftSome
		t.run.leave(int(e.Leftovers), t.spec.masks())
	}
	r.step(t, job.Event{Kind: kind, Exit: exit})
}

// patience is how long the end of what a job left may take.
const patience = 3 * time.Second

// end has tier 1 end all of a job.
func (r *Runner) end(t *task) {
	if t.run.ended == 0 {
		time.AfterFunc(withstood, func() { r.loop.Do(t.survey) })
	}
	r.host.Send(&wire.Deadline{ID: t.run.id}, nil, nil)
	if t.state.Stage == job.Sweeping {
		time.AfterFunc(patience, func() {
			r.loop.Do(func() {
				if t.state.Stage == job.Sweeping {
					t.why.problem = "some of what it left behind cannot be ended: the kernel holds on to it"
				}
				r.step(t, job.Event{Kind: job.Patience})
			})
		})
	}
}

// record makes the result and has it recorded.
func (r *Runner) record(t *task) {
	t.output.begin(output.Streams{})
	streams, state, copied, within := t.output.Streams, t.state, t.copied, logWithin
	if r.stopping {
		within = logWithinStop
	}
	again := t.spec.Request.Retry && state.Outcome == job.Interrupted && r.stopping // the next boot finds it unfinished
	go func() {
		first := t.outcome.result == nil
		if first {
			streams.Finish()
			if copied != nil {
				copied.await(within)
			}
			t.outcome.result = t.conclude(state, r.place.look())
		}
		if again {
			r.loop.Do(func() { r.step(t, job.Event{Kind: job.Recorded}) })
			return
		}
		failure := t.keep(state)
		if first && failure == nil { // else somebody may read it already
			t.outcome.result.Record = recordOf(over(t.journal, t.spec.ID))
		}
		r.loop.Do(func() {
			if failure == nil || t.lost(r.journal.Load()) { // who has the volume now has recorded it as interrupted
				r.step(t, job.Event{Kind: job.Recorded})
				return
			}
			if t.outcome.result.Error == nil {
				why := fmt.Sprintf("its outcome cannot be recorded: %v", failure)
				t.outcome.result.Error = &why
			}
			r.step(t, job.Event{Kind: job.NotRecorded})
		})
	}()
}

// keep records the outcome, and before it that of a write that was undone.
func (t *task) keep(state job.State) error {
	of := ownerOf(&t.spec.Request)
	ended := table.Ended{
		Job: t.spec.ID, Kind: t.spec.Kind, Profile: of.Profile, Service: of.Service,
		State: state.Outcome, ExitCode: t.outcome.result.ExitCode, TookMS: t.outcome.result.ExecutionTimeMS,
	}
	ended.Result, _ = json.Marshal(bare(t.outcome.result)) // of strings and numbers
	if state.Outcome == job.Succeeded {
		switch t.spec.Kind {
		case kindWrite:
			if wrote := []byte(t.outcome.result.Stdout); json.Valid(wrote) {
				ended.Wrote = wrote
			}
		case kindUndo:
			if err := t.journal.Append(table.TypeRolledBack, table.RolledBack{Job: t.spec.undoes(), By: t.spec.ID}); err != nil {
				return err
			}
		}
	}
	return t.journal.Append(table.TypeOf(state.Outcome), ended)
}

// publish tells whoever waits what came of it.
func (t *task) publish() {
	t.output.begin(output.Streams{})
	if !t.outcome.told {
		t.outcome.told = true
		close(t.outcome.done)
	}
}

// letGo gives back all that a job has had.
func (t *task) letGo(r *Runner) {
	fds := append(t.output.Close(), t.held.take()...)
	if t.copied != nil {
		t.copied.forget()
	}
	t.prep.drop()
	if t.run.late != nil {
		t.run.late.Stop()
	}
	if t.run.id != 0 {
		r.host.Send(&wire.Acknowledge{ID: t.run.id}, nil, nil)
		delete(r.tasks.bySpawn, t.run.id)
		r.host.End(t.run.id, t.run.tag)
	}
	r.host.Send(&wire.Release{Key: t.spec.name()}, nil, fds)
}

// cancel ends a job; cause is what is said of it.
func (r *Runner) cancel(t *task, cause string) {
	if t.state.Marked == 0 && t.state.Outcome == "" {
		t.why.cause = cmp.Or(t.why.cause, cause)
	}
	r.step(t, job.Event{Kind: job.Cancel})
}
