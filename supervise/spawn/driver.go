package spawn

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/internal/turns"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/supervise/machine"
	"rlminit/supervise/oom"
	"rlminit/supervise/process"
	"rlminit/supervise/slots"
	"rlminit/supervise/threads"
	"rlminit/wire"
)

// Driver begins the runs of services, and hears what becomes of each. The loop calls it;
// what takes time is done beside the loop.
type Driver struct {
	tier1    *Tier1
	Programs *Programs

	// Do has something run by the loop, some time. Apply takes an input to the core, by
	// the loop.
	Do    func(func())
	Apply func(core.Input)
	// Prepare and Immediate are the preparer's; a simulation has its own.
	Prepare   func(Service, *rights.Progress) process.Prepared
	Immediate func(Service) bool
	Silent    func(at *rights.Progress, over <-chan struct{}) bool
	// Open opens what a process that is prepared gets beside that, and says of it in the
	// message what tier 1 is to know; hold has tier 1 told before what it is to hold, of
	// which nothing may be closed before Open returns. The loop calls it.
	Open func(l *Launch, m *wire.Spawn, hold func(*wire.Hold, []int)) (fds []int, err error)
	// Leaves are the cgroups that tier 1 keeps for services and jobs.
	Leaves cgroup.Leaves

	turn     *link.Batch // what tier 1 is told at the end of the loop's turn
	ready    []*Launch   // prepared, and tier 1 was not asked yet
	flushing bool        // they wait until tier 1 has taken what was sent

	memory   *oom.Watch         // asked when processes have ended, once a turn
	looked   bool               // in this turn
	struck   string             // what it said then
	launches map[uint64]*Launch // by spawn id, until they have failed or ended
	turns    *turns.Turns
	each     time.Duration // how long one of them keeps others from beginning
}

// Service is what the driver knows of one that it starts.
type Service struct {
	Name       string
	Definition *service.Definition
	Privileged bool     // tier 1 holds its definition by name
	Probe      []string // what is run as it, to ask how it is; nil: itself
}

// Launch is the way of a run to its process.
type Launch struct {
	ID uint64
	Service
	process.Prepared
	at       rights.Progress // of the calls that prepare it
	over     chan struct{}   // closed when it is prepared, or given up
	prepared bool
	asked    bool // tier 1 was
}

// NewDriver is a Driver that has begun nothing.
func NewDriver(t *Tier1, p *Preparer) *Driver {
	d := &Driver{tier1: t, Prepare: p.Prepare, Immediate: p.Immediate, Silent: p.Silent, Leaves: cgroup.Find(), memory: oom.Open("/sys/fs/cgroup"), launches: map[uint64]*Launch{}}
	d.turns, d.each = threads.Launches()
	d.Programs = &Programs{driver: d, runs: map[uint64]*program{}}
	t.Host(d.Programs)
	return d
}

// Begin prepares a run of a service, and has it spawned under that id.
func (d *Driver) Begin(s Service, id uint64) *Launch {
	l := &Launch{ID: id, Service: s, over: make(chan struct{})}
	d.launches[id] = l
	if d.Immediate(s) {
		d.isReady(l, d.Prepare(s, nil))
		return l
	}
	go func() {
		defer d.turns.Take(d.each)()
		select {
		case <-l.over:
			return
		default:
		}
		go d.watch(l)
		p := d.Prepare(s, &l.at)
		d.Do(func() { d.isReady(l, p) })
	}()
	return l
}

// isReady takes a launch that is prepared.
func (d *Driver) isReady(l *Launch, p process.Prepared) {
	l.Prepared, l.prepared = p, true
	if d.launches[l.ID] == l { // else it was given up
		close(l.over)
	}
	d.ready = append(d.ready, l)
}

// Turn sends tier 1 what it is to be told, when the loop is through with a thing: then it
// asks for what is prepared, in the order in which it became so, as long as tier 1 takes
// at once what is sent, and for no more than a few lists: others are heard between. A
// message that waits has copies of its descriptors, and a thousand of them would take all
// that there are.
func (d *Driver) Turn() {
	d.looked = false
	d.batch().Send()
	for lists := 0; len(d.ready) > 0 && !d.flushing; lists++ {
		if lists == listsInTurn || d.tier1.Link.Behind() {
			d.flushing = true
			go func() {
				d.tier1.Link.Flush()
				d.Do(func() { d.flushing = false })
			}()
			return
		}
		n := min(len(d.ready), together)
		list := d.ready[:n:n]
		d.ready = d.ready[n:]
		d.finish(list)
	}
}

// batch is what is sent at the end of this turn.
func (d *Driver) batch() *link.Batch {
	if d.turn == nil {
		d.turn = d.tier1.Link.Batch()
	}
	return d.turn
}

// together is how many launches tier 1 is asked for in one message. More would have more
// descriptors than one takes, most of the time.
const together = 8

// listsInTurn is how many such messages a turn has: a few milliseconds.
const listsInTurn = 8

// watch tells of a launch that waits for a file system which does not answer: that is
// found by its own calls, for a thousand launches at once wait for each other.
func (d *Driver) watch(l *Launch) {
	if !d.Silent(&l.at, l.over) {
		return
	}
	d.Do(func() {
		if d.launches[l.ID] == l && !l.prepared {
			d.tell(l.ID, machine.Event{Kind: machine.SpawnStuck, Reason: "its working directory, program or environment file lies on a file system that does not answer"})
		}
	})
}

// finish asks tier 1 for processes that are prepared, but for those that were given up.
func (d *Driver) finish(list []*Launch) {
	batch := d.batch()
	for _, l := range list {
		if d.launches[l.ID] != l {
			continue
		}
		if err := d.ask(l, batch); err != nil {
			batch.Send() // what follows from the failure may close something
			d.fail(l.ID, err.Error(), passing(err))
		}
	}
	batch.Send()
	for _, l := range list {
		l.Walls.Close()
	}
}

// ask asks for one of them.
func (d *Driver) ask(l *Launch, batch *link.Batch) error {
	l.asked = true
	m := message(l.Service, l.Prepared)
	m.ID = l.ID
	fds, err := d.Open(l, m, func(m *wire.Hold, fds []int) { batch.Add(m, fds, nil) })
	if err != nil {
		return err
	}
	built, err := l.Walls.Fill(m) // of which Open may have changed something
	if err != nil {
		return err
	}
	batch.Add(m, append(fds, built...), built)
	l.Walls.Environment, l.Walls.Secrets = nil, nil // nobody asks for them again
	path := slices.IndexFunc(l.Env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	l.Env = slices.Clone(l.Env[max(path, 0) : path+1])
	return nil
}

// ErrUnknown is of a process that nobody would know again.
var ErrUnknown = errors.New("there is no memory to keep for a successor that it is started")

// passing tells whether a launch that failed with err may well succeed soon, without
// anything being put right: the kernel has no room, or a process of ours has ended.
func passing(err error) bool {
	_, taken := errors.AsType[*process.PortTaken](err)
	for _, passes := range []error{handover.ErrNoTag, ErrUnknown, errNotGiven, rights.ErrEnded, slots.ErrNoSlot} {
		taken = taken || errors.Is(err, passes)
	}
	return taken || durable.Temporary(err)
}

// message is what tier 1 is asked for.
func message(s Service, p process.Prepared) *wire.Spawn {
	of := s.Definition
	return &wire.Spawn{
		Name: s.Name, UID: p.UID, Privileged: s.Privileged, Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir, Home: p.Home,
		Umask: of.Umask, Rlimits: config.Rlimits(of.Limits), Bounds: config.Bounds(of.Limits), NoNewPrivs: !s.Privileged,
	}
}

// Abandon ends a launch that nobody wants any more, if it is one. What is stuck in the
// kernel stays there, and its result is thrown away.
func (d *Driver) Abandon(id uint64) {
	if l := d.launches[id]; l != nil && !l.asked {
		if !l.prepared {
			close(l.over)
		}
		d.fail(id, "stopped before it was started", true)
	}
}

// Adopt hears of a run that a predecessor has begun.
func (d *Driver) Adopt(s Service, user *rights.User, id uint64) *Launch {
	l := &Launch{ID: id, Service: s, Prepared: process.Prepared{User: user}, prepared: true, asked: true}
	d.launches[id] = l
	return l
}

// Tell carries out Signal, Sweep, Prolonged and Acknowledge.
func (d *Driver) Tell(e *core.Effect) {
	a, scope := e.Action, wire.ScopeGroup
	switch {
	case e.Kind == core.Acknowledge:
		d.batch().Add(&wire.Acknowledge{ID: a.ID}, nil, nil)
		return
	case e.Kind == core.Prolonged:
		d.batch().Add(&wire.Deadline{ID: a.ID, At: a.At}, nil, nil)
		return
	case e.Kind == core.Sweep:
		scope = wire.ScopeLeftover
	case a.Scope == machine.ScopeMain:
		scope = wire.ScopeMain
	}
	d.batch().Add(&wire.Signal{ID: a.ID, Signal: int32(a.Signal), Scope: scope}, nil, nil)
}

// tell has the core know what befalls the run of a spawn.
func (d *Driver) tell(id uint64, e machine.Event) {
	e.ID = id
	d.Apply(core.Input{Kind: core.Happened, Spawn: id, Event: e})
}

func (d *Driver) fail(id uint64, reason string, passing bool) {
	delete(d.launches, id)
	d.tell(id, machine.Event{Kind: machine.SpawnFailed, Reason: reason, Temporary: passing})
}

// Hear takes what tier 1 says of a spawn to whoever answers for it.
func (d *Driver) Hear(m wire.Message) {
	if d.tier1.Hear(m) {
		return
	}
	switch m := m.(type) {
	case *wire.Spawned:
		d.tell(m.ID, machine.Event{Kind: machine.Spawned, PID: int(m.PID), StartTime: m.StartTime})
	case *wire.SpawnFailed:
		d.failed(m)
	case *wire.SpawnStuck:
		d.tell(m.ID, machine.Event{Kind: machine.SpawnStuck, Reason: "its working directory or program lies on a file system that does not answer"})
	case *wire.Exited:
		limit := int64(0)
		if l := d.launches[m.ID]; l != nil {
			limit = l.Definition.Limits.Memory
		}
		delete(d.launches, m.ID)
		d.tell(m.ID, d.Exit(machine.ExitedEvent, m.Exit, limit))
	case *wire.Signalled:
		if m.Scope == wire.ScopeLeftover {
			d.tell(m.ID, machine.Event{Kind: machine.Swept, Remaining: int(m.Count)})
		}
	}
}

// failed finds out why a spawn has failed, which may mean to read the program's file.
func (d *Driver) failed(m *wire.SpawnFailed) {
	l := d.launches[m.ID]
	if l == nil {
		d.tier1.forget(m.ID)
		return
	}
	go func() {
		reason, passing, unrunnable := d.explain(l, m)
		d.Do(func() {
			l.Unrunnable = unrunnable
			d.fail(m.ID, reason, passing)
			d.tier1.forget(m.ID)
		})
	}()
}

// explain says why a spawn has failed, whether trying again may help, and which exit
// code a shell has for that; 0: none. It looks for what the process did not find.
func (d *Driver) explain(l *Launch, m *wire.SpawnFailed) (reason string, passes bool, unrunnable int32) {
	found := l.Prepared
	ended := m.Errno == int32(syscall.ETIME) || m.Errno == int32(syscall.ETIMEDOUT) // by PID 1: nothing is missing
	if !l.Privileged && !ended && (m.Step == wire.StepExec || m.Step == wire.StepDir) {
		if len(found.Argv) == 0 { // a predecessor has prepared it
			found = d.Prepare(l.Service, nil)
			found.Walls.Close()
		}
		if found.Err == nil {
			found = process.Prepare(found.User.LookAlong, process.Where{Dir: found.Dir, Home: found.Home}, found.Argv, found.Env)
		}
		if found.Err != nil {
			return found.Err.Error(), passing(found.Err), found.Unrunnable
		}
	}
	if m.Step == wire.StepExec {
		unrunnable = process.Unrunnable(syscall.Errno(m.Errno))
	}
	reason, passes = process.ExplainSpawn(l.User, l.Definition.Command, found.Path, l.Definition.WorkingDir, m)
	return reason, passes, unrunnable
}

// Exit is an exit as the core takes it, with what is known of memory if it was killed by
// KILL: by its own cgroup, where it has one, and else by the container's.
func (d *Driver) Exit(kind machine.EventKind, e wire.Exit, limit int64) machine.Event {
	event := machine.Event{Kind: kind, Leftovers: int(e.Leftovers)}
	if e.Signal != 0 {
		event.Signal = syscall.Signal(e.Signal)
	} else {
		event.Code = int(e.Code)
	}
	const killedInShell = 128 + int(syscall.SIGKILL)
	if !d.looked {
		d.looked, d.struck = true, d.memory.Struck()
	}
	switch {
	case event.Signal != syscall.SIGKILL && event.Code != killedInShell:
	case e.OutOfMemory:
		event.Memory = d.memory.Certain(limit)
	case !d.Leaves.Enforces("memory"):
		event.Memory = d.struck
	}
	return event
}

// Unsent answers a spawn that could not even be asked for: too large, say.
func (d *Driver) Unsent(m wire.Message, why error) {
	spawn, ok := m.(*wire.Spawn)
	if !ok {
		return
	}
	failed := &wire.SpawnFailed{ID: spawn.ID, Step: wire.StepMessage, Reason: why.Error()}
	if errno, ok := errors.AsType[syscall.Errno](why); ok {
		failed.Step, failed.Errno = wire.StepDescriptors, int32(errno)
	}
	d.Do(func() { d.Hear(failed) })
}
