package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/internal/redact"
	"rlminit/isolate"
	"rlminit/job"
	"rlminit/job/table"
	"rlminit/rights"
	"rlminit/supervise/jobs/output"
	"rlminit/supervise/process"
	"rlminit/supervise/telemetry"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// prepared is what comes of preparing a spawn.
type prepared struct {
	argv   []string
	path   string
	env    []string
	dir    string
	limits []wire.Rlimit
	bounds wire.Bounds
	uid    uint32 // of its profile's own user; 0: the services'
	before *control.Telemetry

	walls walls.Walls

	pipes

	refused string // by which guard
	problem string // why it cannot be run
	code    int    // what a shell would exit with for that
	passes  bool   // and it may be otherwise soon
	who     control.Environment
}

// close gives back what nobody took.
func (p *prepared) close() {
	p.walls.Close()
	p.pipes.close()
}

// pipes are what a job writes into. Without an error both streams are there.
type pipes struct {
	streams output.Streams
	ends    [2]int // of the pipes that they read: the job's
	err     error
}

func (p *pipes) close() {
	if p.streams.There() {
		wire.CloseAll(append(p.streams.Close(), p.ends[:]...))
	}
}

// openPipes makes them at its first call, for what a job is to do.
func openPipes(of *spec, outputs *output.Store) func() pipes {
	id, keep, patterns := of.ID, of.Request.MaxOutput, of.Redact
	return sync.OnceValue(func() (p pipes) {
		var masks *redact.Lines
		if masks, p.err = redact.NewLines(patterns); p.err == nil {
			p.streams, p.ends, p.err = outputs.New(id, keep, masks)
		}
		return p
	})
}

// noPipes are those of what is not to be run.
func noPipes() pipes { return pipes{} }

// preparing is what is done for a spawn before it, and found. Invariant: what comes out
// of ahead has one owner, who closes it or spawns with it: who has taken ahead.
type preparing struct {
	before *control.Telemetry // as it was when it was submitted
	ahead  <-chan *prepared   // gives one: what is prepared while the submission is written down; nil: nothing is
	ready  *prepared
	tries  int // that failed for something that passes
}

// fresh is how old what was seen of the container may be when a job's turn comes.
const fresh = 50 * time.Millisecond

// take is what was seen and is prepared ahead, the caller's now; nil: that is too old,
// or not there.
func (p *preparing) take() (before *control.Telemetry, ahead <-chan *prepared) {
	if p.before != nil && time.Since(p.before.At) > fresh {
		p.drop()
		return nil, nil
	}
	before, ahead = p.before, p.ahead
	p.ahead = nil
	return before, ahead
}

// drop gives back what was prepared ahead and nobody takes.
func (p *preparing) drop() {
	if ahead := p.ahead; ahead != nil {
		p.ahead = nil
		go func() { (<-ahead).close() }()
	}
}

// prepareWithin bounds one preparation of a job, whatever it waits for: as long as all tries
// of one that fails for something that passes. A file system of its directory or program
// that does not answer is found long before, rights.ErrSilent.
const prepareWithin = 90 * time.Second

// againAfter is when a job is prepared again that could not be for something that passes.
var againAfter = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second}

const silent = "its working directory or program lies on a file system that does not answer"

// prepare goes on with a job once all is there that it needs, which may take time.
func (r *Runner) prepare(t *task) {
	before, coming := t.prep.take()
	if coming == nil {
		seen := r.place.seen()
		if before != nil {
			seen = func() *control.Telemetry { return before }
		}
		coming = r.beginPreparing(t, seen, r.queue.busy(t))
	}
	late := time.AfterFunc(prepareWithin, func() {
		r.loop.Do(func() {
			if t.state.Stage == job.Preparing {
				t.why.problem, t.why.code = "nothing has come of preparing it for 90 s: a file of its environment may lie on a file system that does not answer", 126
				r.step(t, job.Event{Kind: job.NotSpawned})
			}
		})
	})
	go func() {
		p := <-coming
		late.Stop()
		r.loop.Do(func() { r.preparedFor(t, p) })
	}()
}

// beginPreparing has all looked for that a job needs, beside the runner: what another
// process is asked for first, and the rest meanwhile.
func (r *Runner) beginPreparing(t *task, seen func() *control.Telemetry, busy bool) <-chan *prepared {
	request, argv, outputs := t.spec.Request, t.spec.Argv, r.outputs
	tags := r.tasks.tagsOf(ownerOf(&request))
	guarded := argv == nil && t.spec.Kind != kindHook // who tells of trouble is not kept out by it
	piped, coming := openPipes(&t.spec, outputs), make(chan *prepared, 1)
	go func() {
		coming <- r.place.preparation(&request, argv, seen, piped, guarding{on: guarded, busy: busy, tags: tags})
	}()
	go piped()
	go seen()
	return coming
}

// preparedFor goes on with a job that was prepared.
func (r *Runner) preparedFor(t *task, p *prepared) {
	if t.state.Stage != job.Preparing {
		p.close() // it was cancelled meanwhile
		return
	}
	if p.passes && p.refused == "" && t.prep.tries < len(againAfter) {
		time.AfterFunc(againAfter[t.prep.tries], func() {
			r.loop.Do(func() {
				if t.state.Stage == job.Preparing {
					r.prepare(t)
				}
			})
		})
		t.prep.tries++
		return
	}
	t.prep.ready = p
	switch {
	case p.refused != "":
		t.why.refused = p.refused
		r.step(t, job.Event{Kind: job.Refused})
	case p.problem != "":
		t.why.problem, t.why.code = p.problem, p.code
		r.step(t, job.Event{Kind: job.NotSpawned})
	default:
		t.journal.Note(table.TypeValidated, table.Validated{Job: t.spec.ID})
		r.step(t, job.Event{Kind: job.Prepared})
	}
}

// place is what a job finds here: directory and program, environment, and what can
// be enforced of limits and isolation. Of what it sees it keeps the pressure for a moment.
type place struct {
	host     Host
	settings func() Settings
	sessions *sessions
	gauges   telemetry.Gauges
}

// look tells how the container is doing now.
func (l *place) look() *control.Telemetry {
	dir, _ := l.host.Volume()
	return l.gauges.Read(dir)
}

// seen looks at its first call, for all that ask.
func (l *place) seen() func() *control.Telemetry { return sync.OnceValue(l.look) }

// named is whose a job is to be, by what a person calls a profile, or a service; "" for
// nobody.
func (l *place) named(name string) (of Owner, err error) {
	if name != "" {
		of, err = l.host.Canonical(name)
	}
	return of, err
}

// claim makes a job that is asked for that of whom the request names.
func (l *place) claim(q *control.RunJob) error {
	switch {
	case q.Service == "":
		of, err := l.named(q.Profile)
		if err == nil {
			of.give(q)
		}
		return err
	case q.Profile != "":
		return control.BadRequest("a job is a profile's or a service's, not both")
	}
	of, err := l.named(q.Service)
	if err == nil && of.Service == "" {
		err = control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no service %q", q.Service))
	}
	return err
}

// userOf is who touches the files of a job's profile.
func (l *place) userOf(t *task) *rights.User {
	_, user := l.host.User(ownerOf(&t.spec.Request))
	return user
}

// guarding says how guards look at a job.
type guarding struct {
	on   bool
	busy bool     // another job runs, or has just run
	tags []uint32 // of the owner's jobs that run
}

// own is what guards look at of a job's owner.
func (l *place) own(of Owner, tags []uint32, seen *control.Telemetry) telemetry.Own {
	low, high := l.host.Tags()
	tag := l.host.Tag(of)
	own := telemetry.Own{Name: of.String(), Memory: func() (used, limit int64) {
		use, _ := cgroup.Find().Tagged(tag)
		return use.Memory, use.MemoryMax
	}}
	if of == (Owner{}) {
		own.Name = "what belongs to no profile or service"
	}
	if low == 0 { // nobody can tell whose they are
		own.Name, own.Zombies = "the container", func() int { return seen.Zombies }
		return own
	}
	if tag != 0 {
		tags = append(slices.Clone(tags), tag)
	}
	own.Zombies = func() int {
		return telemetry.Zombies(func(groups []uint32) bool {
			borne := slices.ContainsFunc(groups, func(g uint32) bool { return slices.Contains(tags, g) })
			return borne || of == (Owner{}) && !slices.ContainsFunc(groups, func(g uint32) bool { return low <= g && g <= high })
		})
	}
	return own
}

// preparation looks for directory and program, and at the guards. before is how the
// container is doing, piped what the job is to write into.
func (l *place) preparation(q *control.RunJob, argv []string, before func() *control.Telemetry, piped func() pipes, guard guarding) *prepared {
	p := l.found(q, argv)
	p.before = before()
	if guard.on {
		p.refused = telemetry.Refusal(p.before, l.settings().Guards, l.own(ownerOf(q), guard.tags, p.before), guard.busy)
	}
	p.pipes = piped()
	if p.err != nil && p.problem == "" {
		p.fail(fmt.Errorf("cannot make its pipes: %w", p.err))
	}
	if p.refused != "" || p.problem != "" {
		p.close()
		p.pipes = noPipes()
	}
	return p
}

// fail notes that it is rlminit that failed.
func (p *prepared) fail(err error) *prepared {
	p.problem, p.code, p.passes = err.Error(), exitFailed, passes(err)
	return p
}

// passes tells whether what failed for err may well succeed soon.
func passes(err error) bool { return errors.Is(err, rights.ErrEnded) || durable.Temporary(err) }

// found is what preparation looks for; argv, where it is set, is in the place of what
// is asked for.
func (l *place) found(q *control.RunJob, argv []string) *prepared {
	p := &prepared{argv: q.Command}
	if argv != nil {
		p.argv = argv
	}
	of := ownerOf(q)
	who, err := l.host.Environment(of)
	if err != nil {
		return p.fail(err)
	}
	uid, user := l.host.User(of)
	p.uid, p.who, p.env = uid, who, withEnvironment(who.Environment, q.Environment)
	session, problem := l.sessions.dir(q.Session)
	if problem != "" {
		return p.fail(errors.New(problem))
	}
	if session != "" {
		who.Dir = session
		p.env = append(p.env, "RLMINIT_SESSION="+q.Session, "SESSION_DIR="+session)
	}
	where := process.Where{Dir: who.Dir, Home: who.Home}
	switch {
	case filepath.IsAbs(q.Dir):
		where.Dir = q.Dir
	case q.Dir != "":
		where.Dir = filepath.Join(cmp.Or(who.Dir, who.Home), q.Dir)
	}
	if argv != nil { // rlminit itself
		p.path, p.dir = argv[0], "/"
		return p
	}
	limits, err := l.limitsOf(q)
	if err != nil {
		return p.fail(err)
	}
	p.limits, p.bounds = rlimits(limits), config.Bounds(limits)
	if level := isolationOf(q); level.Above(isolate.None) {
		isolation, err := l.host.Isolation(of)
		if err == nil {
			isolation.Level = level
			p.walls, err = l.host.Walls(of, isolation, p.env, session)
		}
		if err != nil {
			return p.fail(err)
		}
		p.env = withEnvironment(p.walls.Environment, q.Environment)
	}
	found := process.Prepare(user.LookUntilSilent, where, q.Command, p.env)
	p.path, p.dir, p.code = found.Path, found.Dir, int(found.Unrunnable)
	if errors.Is(found.Err, rights.ErrSilent) {
		p.problem, p.code = silent, 126
	} else if found.Err != nil {
		p.passes = passes(found.Err)
		p.problem = strings.ReplaceAll(found.Err.Error(), "working_dir ", "")
		if found.Unrunnable == 0 {
			p.code = exitFailed
		}
	}
	return p
}

// withEnvironment adds to an environment what was asked for.
func withEnvironment(environment []string, more map[string]string) []string {
	if len(more) == 0 {
		return slices.Clip(environment)
	}
	all := slices.DeleteFunc(slices.Clone(environment), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := more[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(more)) {
		all = append(all, name+"="+more[name])
	}
	return all
}
