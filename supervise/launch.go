package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/internal/redact"
	"rlminit/internal/turns"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/open"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// launch is the preparation of a spawn: what touches files that may lie on a
// file system that does not answer is done beside the loop.
type launch struct {
	id    uint64
	abort chan struct{}
}

// launched is what is known of a unit's process besides its state.
type launched struct {
	launch     *launch    // a spawn that was not handed to tier 1 yet; nil: there is none
	program    string     // what execve(2) was given last
	uid        uint32     // of a profile with its own user; 0: the services' user's
	unrunnable int32      // exit code of a last start that found no program to execute; 0: another
	secrets    redact.Set // what of its texts is shown to nobody
}

// A launch is stuck, and its service parked, when neither it nor any other has come
// to its end for stuckAfter since it had its turn; at the latest after stuckAtLast.
// Many at once wait for each other, and for the few processes that touch their files:
// that is no file system which does not answer.
const (
	stuckAfter  = 2 * time.Second
	stuckAtLast = 20 * time.Second
)

// stuckIn is how long is left until a launch is stuck that has had its turn for so
// long, where the last one came to its end such a while ago; not above 0: it is.
func stuckIn(had, lastEnd time.Duration) time.Duration {
	return min(stuckAfter-min(had, lastEnd), stuckAtLast-had)
}

// launcher has the processes of services begun, and hears what becomes of each spawn.
// A unit has one launch at most. The loop's, but for the preparation itself.
type launcher struct {
	loop    *mailbox
	tier1   *tier1
	prep    *preparer
	fleet   *fleet
	records *records
	logging *logging
	opened  *open.Driver
	step    func(*unit, machine.Event)

	probes      probePrograms
	preparation func(d *service.Definition, privileged bool) process.Prepared // the preparer's; a simulation has its own
	turns       *turns.Turns
	turn        time.Duration // how long one of them keeps others from beginning
	lastReady   atomic.Value  // a time.Time: when a launch was last prepared
}

// beginLaunch prepares the spawn id of u, and has it spawned when that is done.
func (l *launcher) beginLaunch(u *unit, id uint64) {
	mine := &launch{id: id, abort: make(chan struct{})}
	u.process.launch = mine
	definition, privileged := u.definition, l.prep.privileged(u)
	go func() {
		begun, ready := make(chan struct{}), make(chan process.Prepared, 1)
		go func() {
			defer l.turns.Take(l.turn)()
			select {
			case <-mine.abort:
			default:
				close(begun)
				p := l.preparation(definition, privileged)
				l.lastReady.Store(time.Now())
				ready <- p
			}
		}()
		select {
		case <-begun:
		case <-mine.abort:
			return
		}
		turned := time.Now()
		stuck := time.NewTimer(stuckAfter)
		defer stuck.Stop()
		for {
			select {
			case p := <-ready:
				l.loop.do(func() { l.finishLaunch(u, mine, p) })
				return
			case <-mine.abort:
				return
			case <-stuck.C:
				lastEnd, _ := l.lastReady.Load().(time.Time)
				left := stuckIn(time.Since(turned), time.Since(lastEnd))
				if left <= 0 && time.Since(turned) < stuckAtLast && !l.prep.filesAnswer() {
					left = stuckAfter // it is replaced, and what only looks is asked again
				}
				if left > 0 {
					stuck.Reset(left)
					continue
				}
				l.loop.do(func() {
					if u.process.launch == mine {
						l.step(u, machine.Event{
							Kind: machine.SpawnStuck, ID: id,
							Reason: "its working directory, program or environment file lies on a file system that does not answer",
						})
					}
				})
			}
		}
	}()
}

// abandonLaunch ends a launch that nobody wants any more. What is stuck in the
// kernel stays there, and its result is thrown away.
func (l *launcher) abandonLaunch(u *unit) {
	mine := u.process.launch
	if mine == nil {
		return
	}
	u.process.launch = nil
	close(mine.abort)
	l.loop.soon(func() {
		l.step(u, machine.Event{Kind: machine.SpawnFailed, ID: mine.id, Reason: "stopped before it was started", Temporary: true})
	})
}

// finishLaunch hands a prepared spawn to tier 1.
func (l *launcher) finishLaunch(u *unit, mine *launch, p process.Prepared) {
	if u.process.launch != mine {
		return
	}
	u.process.launch = nil
	u.process.unrunnable, u.process.uid = p.Unrunnable, p.UID
	defer p.Walls.Close()
	fail := func(err error) {
		_, taken := errors.AsType[*process.PortTaken](err)
		l.step(u, machine.Event{Kind: machine.SpawnFailed, ID: mine.id, Reason: err.Error(), Temporary: taken || passing(err)})
	}
	if p.Err != nil {
		fail(p.Err)
		return
	}
	if u.kept.unsaved {
		fail(errUnknown)
		return
	}
	if l.allotTag(u) != nil {
		fail(handover.ErrNoTag)
		return
	}
	if err := l.logging.openLog(u); err != nil {
		fail(err)
		return
	}
	var fds []int
	var targets []int32
	onTerminal := l.tier1.terminal && u.name == config.MainService && u.ours
	if !onTerminal {
		fds, targets = l.logging.stdio(u)
	}
	opens := l.prep.opens(u, mine.id)
	opened, err := l.opened.Open(u.life.Node(), opens, p.User)
	if err == nil && opens.NotifiesAlone() {
		err = p.Walls.Notifies(opened.Notify)
	}
	if err != nil {
		fail(l.whose(err))
		return
	}
	for i, fd := range opened.Descriptors {
		fds, targets = append(fds, fd), append(targets, int32(3+i))
	}
	u.process.program, u.process.secrets = p.Path, redact.Of(p.Env, p.Walls.Secrets...)
	u.output.slot.Mark("starting " + cmp.Or(p.Path, u.name))
	spawn := &wire.Spawn{
		ID: mine.id, Name: u.name, UID: p.UID, Privileged: l.prep.privileged(u),
		Path: p.Path, Argv: p.Argv, Env: append(p.Env, opened.Environment...), Dir: p.Dir,
		Umask: u.definition.Umask, Rlimits: config.Rlimits(u.definition.Limits), Bounds: config.Bounds(u.definition.Limits), Tag: u.tag,
		Targets: targets, ListenPID: len(opened.Descriptors) > 0,
		NoNewPrivs: !l.prep.privileged(u), Terminal: onTerminal,
	}
	built, err := p.Walls.Fill(spawn)
	if err != nil {
		fail(err)
		return
	}
	for _, note := range p.Walls.Notes {
		u.output.slot.Mark("isolation: " + note)
	}
	l.tier1.link.Send(spawn, append(fds, built...), built)
}

// errUnknown is of a process that nobody would know again.
var errUnknown = errors.New("there is no memory to keep for a successor that it is started")

// passing tells whether a launch that failed with err may well succeed soon, without
// anything being put right: the kernel has no room, or a process of ours has ended.
func passing(err error) bool {
	return durable.Temporary(err) || errors.Is(err, handover.ErrNoTag) || errors.Is(err, errUnknown) || errors.Is(err, errNotGiven) || errors.Is(err, rights.ErrEnded)
}

// whose says of an address that is in use whether it is we who use it.
func (l *launcher) whose(err error) error {
	used, is := errors.AsType[*open.InUse](err)
	if !is {
		return err
	}
	holder := ""
	if started, _ := l.prep.settings.Started(); started.Metrics.Network != "" && open.Collide(started.Metrics, used.Socket) {
		holder = "metrics.listen"
	}
	if node, is := l.opened.Occupies(used.Socket); is {
		holder = l.fleet.byNode[node].title()
	}
	if holder == "" {
		return err
	}
	return fmt.Errorf("cannot listen on %s:%s: rlminit holds that address for %s; give one of the two another", used.Socket.Network, used.Socket.Address, holder)
}

// allotTag sees to it that u has a tag, where tags can be given.
func (l *launcher) allotTag(u *unit) (err error) {
	if u.tag == 0 {
		u.tag, err = l.tier1.tags.Allot(u.name)
	}
	return err
}

// about steps the unit of a spawn. An exit that no unit knows of is
// acknowledged, or tier 1 would keep it for ever.
func (l *launcher) about(id uint64, e machine.Event) {
	e.ID = id
	u := l.fleet.ofSpawn(id)
	if u == nil {
		l.tier1.dismissing(id, e)
		if e.Kind == machine.ExitedEvent {
			l.tier1.link.Send(&wire.Acknowledge{ID: id}, nil, nil)
		}
		return
	}
	l.step(u, e)
}

// spawnFailed finds out why, which may mean to read the program's file, and
// tells whom it concerns.
func (l *launcher) spawnFailed(m *wire.SpawnFailed) {
	u := l.fleet.ofSpawn(m.ID)
	if u == nil {
		l.about(m.ID, machine.Event{Kind: machine.SpawnFailed, Reason: "cannot be started"})
		l.tier1.link.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
		return
	}
	command, program, dir := u.definition.Command, u.process.program, u.definition.WorkingDir
	definition := u.definition
	go func() {
		_, user := l.prep.recordedUser(definition)
		reason, retry := process.ExplainSpawn(user, command, program, dir, m)
		l.loop.do(func() {
			if m.Step == wire.StepExec {
				u.process.unrunnable = process.Unrunnable(syscall.Errno(m.Errno))
			}
			l.about(m.ID, machine.Event{Kind: machine.SpawnFailed, Reason: reason, Temporary: retry})
			l.tier1.link.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
		})
	}()
}

// memoryOf adds to an exit what is known of memory, if it was killed by KILL: by
// its own cgroup, where it has one, and else by the container's.
func (l *launcher) memoryOf(u *unit, e wire.Exit, event *machine.Event) {
	const killedInShell = 128 + int(syscall.SIGKILL)
	memory := l.tier1.memory.Struck()
	if event.Signal != syscall.SIGKILL && event.Code != killedInShell {
		return
	}
	switch {
	case e.OutOfMemory && u != nil:
		memory = l.tier1.memory.Certain(u.definition.Limits.Memory)
	case l.tier1.leaves.Enforces("memory"):
		memory = ""
	}
	if event.Memory = memory; u != nil && memory != "" {
		l.records.chronicle.oomSeen(u.name, memory)
	}
}
