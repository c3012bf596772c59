package spawn

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/rights"
	"rlminit/supervise/process"
	"rlminit/supervise/threads"
	"rlminit/wire"
)

// Files has tier 1 start the process that touches the files of the services' user and
// of profiles' users, where these are somebody else than we are, and those that change
// owners; and it answers for them.
type Files struct {
	tier1 *Tier1

	// One for each process that changes owners, until PID 1 has told of its end. own and
	// making allow one process each; making is apart, for the journal waits for it.
	giving, own, making chan struct{}

	mu     sync.Mutex
	givers map[uint64]giver // by id: those that change owners
	former map[uint64]giver // those of a predecessor's
}

// giver is a process that changes owners.
type giver struct {
	program string
	ended   chan string // told why it could not be started, or ""; of a predecessor's closed when it has ended
}

// turns are those that a process of a program has to wait for.
func (f *Files) turns(program string) []chan struct{} {
	switch program {
	case wire.DirectoriesProgram:
		return []chan struct{}{f.making}
	case wire.OwnProgram:
		return []chan struct{}{f.own, f.giving}
	}
	return []chan struct{}{f.giving}
}

// turn waits for those of a program, which given takes away; a limit of 0 is none.
func (f *Files) turn(program string, limit time.Duration) error {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	turns := f.turns(program)
	for i, t := range turns {
		select {
		case t <- struct{}{}:
		case <-over:
			f.leave(turns[:i])
			return errSilent
		}
	}
	return nil
}

func (f *Files) leave(turns []chan struct{}) {
	for _, t := range turns {
		<-t
	}
}

// mostGiving is how many directories change hands at a time: half of what PID 1
// allows, for a predecessor may have as many; and one where processes are few.
func mostGiving() int {
	if threads.Limit() < 2*wire.FewestPIDs {
		return 1
	}
	return 4
}

// OpenUser makes ready whoever touches the service user's files, and others'. It is nil, and
// so ourselves, where there is one uid for all.
func (p *Preparer) OpenUser(t *Tier1) {
	if id := p.Policy.Supervisor.UID; id == 0 || id == p.Policy.User.UID {
		return
	}
	f := newFiles(t)
	p.User, p.Files = rights.New(f.start, p.Policy.User.UID, threads.FilesAtOnce(), func(line string) { slog.Warn(line) }), f
	t.Host(f)
}

func newFiles(t *Tier1) *Files {
	return &Files{
		tier1: t, giving: make(chan struct{}, mostGiving()), own: make(chan struct{}, 1), making: make(chan struct{}, 1),
		givers: map[uint64]giver{}, former: map[uint64]giver{},
	}
}

// start is rights.Start.
func (f *Files) start() (fd int, end func(), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	id, _ := f.spawn(&wire.Spawn{Name: wire.FilesProgram, Targets: []int32{wire.FilesFD}}, pair[1:], pair[1:])
	return pair[0], func() { f.end(id) }, nil
}

// spawn asks for one of the programs that tier 1 fixes. The descriptors after are
// closed when they have been sent. ended is told of the end of one that changes owners.
func (f *Files) spawn(m *wire.Spawn, fds, after []int) (id uint64, ended <-chan string) {
	id = f.tier1.NewID(f)
	m.ID, m.Privileged, m.NoNewPrivs = id, true, true
	if changesOwners(m.Name) {
		why := make(chan string, 1)
		f.mu.Lock()
		f.givers[id], ended = giver{m.Name, why}, why
		f.mu.Unlock()
	}
	f.tier1.Send(m, fds, after)
	return id, ended
}

func (f *Files) end(id uint64) {
	f.tier1.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeMain}, nil, nil)
}

func changesOwners(program string) bool {
	switch program {
	case wire.GiveProgram, wire.TakeProgram, wire.RemoveProgram, wire.DirectoriesProgram, wire.OwnProgram:
		return true
	}
	return false
}

// settleWithin bounds the wait for a predecessor's process that was killed.
const settleWithin = 10 * time.Second

// settle waits until nobody changes owners whom a predecessor has asked to: behind who
// moves a directory it would give that away. A process that makes directories waits
// for others of that program alone.
func (f *Files) settle(program string) error {
	f.mu.Lock()
	former := slices.Collect(maps.Values(f.former))
	f.mu.Unlock()
	within := time.NewTimer(settleWithin)
	defer within.Stop()
	for _, g := range former {
		if program == wire.DirectoriesProgram && g.program != program {
			continue
		}
		select {
		case <-g.ended:
		case <-within.C:
			return fmt.Errorf("one that the supervisor before has started has not ended yet: %w", errNotGiven)
		}
	}
	return nil
}

// Takes is Owner's. A predecessor's is ended, for nobody asks it any more. What it has
// not come to is done by whoever meets it.
func (f *Files) Takes(c wire.Child) bool {
	owner := changesOwners(c.Name)
	if c.Name != wire.FilesProgram && !owner {
		return false
	}
	switch c.State {
	case wire.ChildExited, wire.ChildFailed:
		f.tier1.Send(&wire.Acknowledge{ID: c.ID}, nil, nil)
		f.tier1.Disown(c.ID)
	default:
		if owner {
			f.mu.Lock()
			f.former[c.ID] = giver{c.Name, make(chan string)}
			f.mu.Unlock()
		}
		f.end(c.ID)
	}
	return true
}

// Hear is Owner's.
func (f *Files) Hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.SpawnFailed:
		why, _ := process.ExplainSpawn(nil, []string{"rlminit"}, "", "", m)
		slog.Error("cannot start the process that touches the services' files", "err", why)
		f.given(m.ID, why)
		f.tier1.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
	case *wire.Exited:
		f.given(m.ID, endedWith[m.Exit.Code])
		f.tier1.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
		f.tier1.Disown(m.ID)
	}
}

// endedWith is why a process that changes owners has said nothing, by its exit code: its
// runtime has found no thread.
var endedWith = map[int32]string{control.ExitFailed: process.NoProcess}

// given lets the next directory change hands, if that was a process for it; why is why
// it could not be started, "" if it was.
func (f *Files) given(id uint64, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g, is := f.givers[id]; is {
		delete(f.givers, id)
		g.ended <- why
		f.leave(f.turns(g.program))
	}
	if g, is := f.former[id]; is {
		delete(f.former, id)
		close(g.ended)
	}
}
