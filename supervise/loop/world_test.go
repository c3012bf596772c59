package loop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/logs"
	"rlminit/supervise/machine"
	"rlminit/supervise/remember"
	"rlminit/wire"
)

// world is a model of tier 1 and the kernel behind it, with faults: what tier 2
// talks to in a simulation. All that happens to one child follows from the seed
// and its spawn id.
type world struct {
	mu       sync.Mutex
	seed     uint64
	peaceful bool // no more faults
	hear     func(wire.Message)
	ready    func(b *body) // READY=1 of a service's process
	disk     disk
	mute     bool // no status can be published
	killAt   int  // the write to the volume at which the supervisor is killed; 0: none
	endAt    int  // the same, of the writes of what a successor is to know

	rows      map[string]remember.Service // of services, as they can be read
	table     map[uint64]*body
	outbox    []func()
	nextID    uint64
	firstID   uint64 // of this supervisor
	takenOver int64  // when it took over
	used      map[uint64]bool
	lastPID   int32
	starts    map[string][]time.Time // since somebody meddled
	ordered   map[string]bool        // is to be restarted in its turn
	removed   map[string]bool        // was removed, and is not put back
	policies  map[string]machine.Policy
	trace     []string
	wrong     []string
	counts    map[string]int
	boots     int                 // of the container: what was to happen in the one before does not
	inhabits  func(m *wire.Spawn) // looks at a service's spawn; nil: nobody does
	script    *script             // of a golden trace, which says what happens; nil: luck does
}

// body is a child as tier 1's table has it.
type body struct {
	id        uint64
	name      string
	rand      *rand.Rand
	state     wire.ChildState
	pid       int32
	bornAt    int64
	started   uint64 // clock ticks since boot
	exit      wire.Exit
	step      wire.Step
	errno     unix.Errno
	leftovers uint32
	deaf      bool
	killed    bool    // was told to end at once
	frozen    bool    // the spawn is stuck
	home      string  // the id of the profile that it is for
	asking    *asking // of a probe
	asked             // of a service
}

func newWorld(seed uint64) *world {
	return &world{
		seed: seed, rows: map[string]remember.Service{}, table: map[uint64]*body{}, nextID: 1, used: map[uint64]bool{}, lastPID: 100,
		starts: map[string][]time.Time{}, ordered: map[string]bool{}, removed: map[string]bool{}, policies: map[string]machine.Policy{},
		counts: map[string]int{},
		hear:   func(wire.Message) {}, ready: func(*body) {},
	}
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) fault(format string, args ...any) {
	w.note("WRONG: "+format, args...)
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// tally counts, and notes, what the simulation does to a service.
func (w *world) tally(what string, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
	for _, name := range names {
		w.note("%s is %s", name, what)
	}
}

// later does something to the world after some time.
func (w *world) later(d time.Duration, f func()) {
	boot := w.boots
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if boot == w.boots {
			f()
		}
	})
}

// say queues a message for tier 2. All of one moment go out together, in order.
func (w *world) say(m wire.Message) {
	w.tell(func() {
		w.note("  → %T%+v", m, m)
		w.script.from(m)
		w.hear(m)
	})
}

func (w *world) tell(f func()) {
	w.outbox = append(w.outbox, f)
	if len(w.outbox) == 1 {
		w.later(10*time.Microsecond, func() {
			for _, f := range w.outbox {
				f()
			}
			w.outbox = nil
		})
	}
}

// take is a message of tier 2.
func (w *world) take(m wire.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script.to(m)
	switch m := m.(type) {
	case *wire.Spawn:
		w.spawn(m)
	case *wire.Signal:
		w.signal(m)
	case *wire.Acknowledge:
		w.note("  acknowledge %d", m.ID)
		b := w.table[m.ID]
		if b != nil && b.state != wire.ChildExited && b.state != wire.ChildFailed {
			w.fault("spawn %d of %s was acknowledged before it ended", m.ID, b.name)
		}
		delete(w.table, m.ID)
	}
}

func (w *world) spawn(m *wire.Spawn) {
	w.note("  spawn %d of %s", m.ID, m.Name)
	w.counts["spawn"]++
	if m.ID < w.firstID || w.used[m.ID] {
		w.fault("spawn id %d of %s was used before", m.ID, m.Name)
		return
	}
	w.used[m.ID] = true
	w.nextID = max(w.nextID, m.ID+1)
	b := &body{id: m.ID, name: m.Name, rand: rand.New(rand.NewPCG(w.seed, m.ID)), state: wire.ChildPending}
	w.table[m.ID] = b
	if wire.IsProbe(m.Name) {
		w.probe(b, m.Argv[1])
		return
	}
	if w.removed[m.Name] {
		w.fault("%s is spawned, and was removed", m.Name)
	}
	if at := w.rows[m.Name]; at.Machine.LastID < m.ID || at.Machine.ID == m.ID && at.Machine.Phase != machine.Spawning {
		w.fault("%s is spawned as %d, and a successor would know %+v", m.Name, m.ID, at)
	}
	for _, other := range w.table {
		if other != b && other.asking == nil && other.name == m.Name && (other.state == wire.ChildPending || other.state == wire.ChildAlive || other.leftovers > 0) {
			w.fault("%s is spawned as %d, and %d still has %d leftovers in state %d", m.Name, m.ID, other.id, other.leftovers, other.state)
		}
	}
	if w.inhabits != nil {
		w.inhabits(m)
	}
	delay := time.Duration(b.rand.Int64N(int64(20 * time.Millisecond)))
	switch luck := b.rand.IntN(100); {
	case w.script != nil:
		w.later(soon(b), func() { w.born(b) })
	case w.peaceful:
		w.later(delay, func() { w.born(b) })
	case luck < 15:
		fault := [...]struct {
			step  wire.Step
			errno unix.Errno
		}{{wire.StepFork, unix.EAGAIN}, {wire.StepFork, unix.ENOMEM}, {wire.StepExec, unix.ENOENT}, {wire.StepExec, unix.ETXTBSY}}[b.rand.IntN(4)]
		w.later(delay, func() { w.fell(b, fault.step, fault.errno) })
	case luck < 20:
		b.frozen = true
		w.later(2*time.Second, func() {
			if b.state == wire.ChildPending {
				w.counts["stuck"]++
				w.say(&wire.SpawnStuck{ID: b.id})
			}
		})
		if b.rand.IntN(2) == 0 { // else never
			w.later(time.Duration(b.rand.Int64N(int64(time.Minute))), func() { w.fell(b, wire.StepExec, unix.EINTR) })
		}
	default:
		w.later(delay, func() { w.born(b) })
	}
}

// soon is when a script has something happen to a child: to no two at the same time.
func soon(b *body) time.Duration { return time.Millisecond + time.Duration(b.id)*50*time.Microsecond }

func (w *world) fell(b *body, step wire.Step, errno unix.Errno) {
	if b.state != wire.ChildPending {
		return
	}
	w.counts["spawn failed"]++
	b.state, b.step, b.errno, b.frozen = wire.ChildFailed, step, errno, false
	w.say(&wire.SpawnFailed{ID: b.id, Step: step, Errno: int32(errno)})
	if b.asking != nil {
		w.concluded(b, false)
	}
}

// born is a program that was executed, and what becomes of it.
func (w *world) born(b *body) {
	w.lastPID++
	b.state, b.pid = wire.ChildAlive, w.lastPID
	w.counts["born"]++
	b.bornAt = boottime()
	b.started = uint64(boottime()) / wire.Tick
	w.counted(b.name)
	w.awake(b)
	if w.script != nil {
		w.say(&wire.Spawned{ID: b.id, PID: b.pid, StartTime: b.started})
		return
	}
	announce := func() {
		w.tell(func() {
			b.said = true
			w.ready(b)
		})
	}
	early := b.rand.IntN(5) == 0
	if early {
		announce() // overtakes the answer
	}
	switch luck := b.rand.IntN(100); {
	case w.peaceful && w.policies[b.name].Oneshot:
		w.later(time.Second, func() { w.dies(b, 0, 0) })
	case w.peaceful:
	case luck < 8: // it has gone before it is announced
		w.say(&wire.Spawned{ID: b.id, PID: b.pid, StartTime: b.started})
		w.dies(b, 1, 0)
		return
	case luck < 12:
		w.dies(b, 1, 0)
		return
	case luck < 45:
		after := time.Duration(b.rand.ExpFloat64() * float64(3*time.Second))
		code := [...]int32{0, 1, 1, 75, 78}[b.rand.IntN(5)]
		w.later(after, func() { w.dies(b, code, 0) })
	}
	b.deaf = !w.peaceful && b.rand.IntN(5) == 0
	w.say(&wire.Spawned{ID: b.id, PID: b.pid, StartTime: b.started})
	if !early && (w.peaceful || b.rand.IntN(6) > 0) {
		most := 3 * time.Second // later than what it is given
		if w.peaceful {
			most = time.Second
		}
		w.later(time.Duration(b.rand.Int64N(int64(most))), func() {
			if b.state == wire.ChildAlive {
				announce()
			}
		})
	}
}

// counted holds a start against the limit of its policy.
func (w *world) counted(name string) {
	if w.ordered[name] {
		return // somebody asked for it, and it may be that
	}
	p := w.policies[name]
	now := time.Now()
	recent := []time.Time{now}
	for _, at := range w.starts[name] {
		if now.Sub(at) < p.Window {
			recent = append(recent, at)
		}
	}
	w.starts[name] = recent
	if p.Limit > 0 && len(recent) > p.Limit {
		w.fault("%s was started %d times within %s", name, len(recent), p.Window)
	}
}

func (w *world) dies(b *body, code int32, sig unix.Signal) {
	if b.state != wire.ChildAlive {
		return
	}
	if w.script == nil && b.rand.IntN(4) == 0 && b.asking == nil {
		b.leftovers = uint32(1 + b.rand.IntN(3))
	}
	w.counts["died"]++
	b.state = wire.ChildExited
	b.exit = wire.Exit{Code: code, Signal: int32(sig), Leftovers: b.leftovers}
	w.say(&wire.Exited{ID: b.id, Exit: b.exit})
	if b.asking != nil {
		w.concluded(b, code == 0)
	}
}

func (w *world) signal(m *wire.Signal) {
	b := w.table[m.ID]
	w.note("  signal %v to %d, scope %d", unix.Signal(m.Signal), m.ID, m.Scope)
	answer := &wire.Signalled{ID: m.ID, Scope: m.Scope}
	sig := unix.Signal(m.Signal)
	if b != nil && b.asking != nil {
		w.abandon(b)
	}
	if b != nil && sig == unix.SIGKILL {
		b.killed = true
	}
	switch {
	case b == nil || b.state == wire.ChildFailed, b.state == wire.ChildExited && m.Scope != wire.ScopeLeftover:
		answer.Errno = int32(unix.ESRCH)
	case b.state == wire.ChildPending:
		answer.Errno = int32(unix.EAGAIN)
	case m.Scope == wire.ScopeLeftover:
		answer.Count = b.leftovers
		switch {
		case sig == unix.SIGKILL:
			w.later(time.Millisecond, func() { b.leftovers /= 2 }) // a fork slipped past
		case sig != 0 && b.rand.IntN(2) == 0:
			w.later(50*time.Millisecond, func() { b.leftovers = 0 })
		}
	default:
		answer.Count = 1
		switch {
		case sig == unix.SIGKILL:
			w.later(time.Millisecond+time.Duration(b.id)*time.Microsecond, func() { w.dies(b, -1, unix.SIGKILL) })
		case sig == unix.SIGCONT, b.deaf:
		case w.script != nil:
			w.later(soon(b), func() { w.dies(b, -1, sig) })
		default:
			w.later(time.Duration(b.rand.Int64N(int64(3*time.Second))), func() { w.dies(b, 0, 0) })
		}
	}
	w.say(answer)
}

// meddled forgets how often a service was started: somebody asked for it.
func (w *world) meddled(name string) { delete(w.starts, name) }

// awaits notes whether a service is yet to be restarted, when what requires it
// has stopped.
func (w *world) awaits(name string, is bool) {
	if was := w.ordered[name]; was && !is {
		w.meddled(name)
	}
	w.ordered[name] = is
}

// calm ends all faults: what is stuck comes free, what is deaf hears.
func (w *world) calm() {
	w.peaceful = true
	for _, id := range slices.Sorted(maps.Keys(w.table)) {
		b := w.table[id]
		b.deaf, b.ill, b.listens = false, well, min(b.listens, boottime())
		if w.policies[b.name].Oneshot {
			w.later(time.Second+time.Duration(id)*time.Millisecond, func() { w.dies(b, 0, 0) })
		}
		if b.frozen {
			w.later(time.Duration(id)*time.Millisecond, func() { w.fell(b, wire.StepExec, unix.EINTR) })
		}
	}
}

// silent is a log that nobody reads.
type silent struct{}

func (silent) Stdout() int                                         { return 1 }
func (silent) Stderr() int                                         { return 2 }
func (silent) Mark(string)                                         {}
func (silent) MarkExit(_ uint64, _ string, done func(string))      { done("") }
func (silent) Tail(int, time.Duration) (lines []string, err error) { return nil, nil }
func (silent) Stats() logs.Stats                                   { return logs.Stats{} }
func (silent) Reconfigure(logs.Config) error                       { return nil }
func (silent) AwaitWritten(done func(bool))                        { done(false) }
func (silent) Close()                                              {}
func (silent) Closed() <-chan struct{}                             { return nil }
