package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/logs"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/jobs"
	"rlminit/supervise/link"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
	"rlminit/supervise/process"
	"rlminit/supervise/registry"
	"rlminit/supervise/revision"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Supervisor is tier 2.
type Supervisor struct {
	policy     *wire.Policy
	settings   *settings.Settings
	container  []string          // the container's environment
	runtime    string            // the runtime directory
	tagged     bool              // tier 1 can give tags
	generation uint32            // of tier 2 in this boot, from 1
	version    uint32            // of the protocol that tier 1 speaks with us
	work       handover.BootWork // what of the boot is done

	link      *link.Link
	held      handover.Held  // what tier 1 gave back and nobody has taken yet; the loop's
	tags      *handover.Tags // the loop's
	registry  *registry.Registry
	volume    *volume
	revisions atomic.Pointer[revision.Revisions] // nil: the volume is not ours
	slots     slots.Dir
	events    *events
	chronicle *chronicle
	publisher *publisher
	recorder  *newest[profiles.Subject, profiles.Seen]
	logs      *logs.Collector
	null      int

	terminal       bool // the container has one, for a main command that is a service
	mainOnTerminal bool // a main command uses the container's terminal: other lines would break its screen

	operations     *operation.Book
	operationsFile int                 // memfd: what a successor is to know of them; 0: none
	earlier        []control.Operation // a predecessor's, until they were resumed

	purpose purpose // what the container is for
	mailbox chan func()
	jobs    *jobs.Runner

	// Where chance comes in; a simulation has its own.
	random      func() uint64
	preparation func(d service.Definition, privileged bool) process.Prepared
	walls       func() *walls.Place                        // looks at the volume, and so is called beside the loop
	network     func(context.Context, service.Probe) error // asks over it

	// What follows is the loop's alone.
	units     map[string]*unit
	order     ordering
	rolls     map[chan struct{}][]*unit // rolling operations that wait for a change, and their members
	byID      map[uint64]*unit
	probeRuns map[uint64]*probeRun
	owners    []Owner          // of what is no service's
	owned     map[uint64]Owner // by spawn id
	nextID    uint64
	timers    *timers
	later     []func()
	active    int // units of which a process may exist
	children  map[string][]wire.Child
	dismissed map[uint64]bool // children that no unit answers for, until they have ended
	restored  bool            // what a predecessor left was taken over
	early     []wire.Message  // came before that, about processes that no unit knew yet
	awaited   int64           // the deadline of the latest shutdown; 0: none
	booted    bool
	adopting  bool   // not every unit knows yet what is true
	stopping  bool   // the container is: nothing is started any more
	giveBack  func() // gives the volume's lock back; nil: it was not taken
	shutdowns int    // how often tier 1 has asked for it
	stopped   bool
	jobsLeft  bool // the container is stopping, and jobs are not over yet
}

// Run is the life of tier 2. It returns the exit code when PID 1 is gone, or
// when it cannot begin. version is this binary's.
func Run(version string) int {
	reserveThreads()
	slog.SetDefault(slog.New(newLogHandler(patientStderr())))
	traceable()
	debug.SetGCPercent(50) // a supervisor is idle: memory is dearer than time
	unix.Umask(0o022)      // status files are for everybody; what is not says its mode
	// The services have our uid: they must not read our memory or descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		slog.Warn("cannot become undumpable", "err", err)
	}
	// Tier 1 has begun us with another effective group, so that this was true
	// from the first moment on.
	if gid := unix.Getgid(); gid != unix.Getegid() {
		if err := unix.Setresgid(gid, gid, gid); err != nil {
			slog.Error("cannot take the service user's group", "err", err)
			return 1
		}
	}
	s, gone, err := connect()
	if err != nil {
		slog.Error("cannot supervise", "err", err)
		return 1
	}
	if err := s.open(); err != nil {
		slog.Error("cannot supervise", "err", err)
		return 1
	}
	s.hostJobs()
	s.serveMetrics(version)
	go s.boot(wire.ControlFD)
	if err := s.loop(gone); err != nil && !errors.Is(err, wire.ErrClosed) {
		slog.Error("the link to PID 1 is broken", "err", err)
	}
	return 0
}

// newSupervisor is a supervisor that knows nothing yet.
func newSupervisor(policy *wire.Policy) *Supervisor {
	s := &Supervisor{
		random: rand.Uint64, network: process.AskNetwork,
		policy: policy, container: os.Environ(), runtime: runtimeDir(),
		events: newEvents(), chronicle: newChronicle(), volume: &volume{}, mailbox: make(chan func(), 1024),
		units: map[string]*unit{}, order: ordering{nodes: map[string]order.Node{}}, operations: &operation.Book{}, rolls: map[chan struct{}][]*unit{}, byID: map[uint64]*unit{},
		probeRuns: map[uint64]*probeRun{}, owned: map[uint64]Owner{}, timers: newTimers(),
		held: handover.Held{}, tags: &handover.Tags{}, children: map[string][]wire.Child{}, dismissed: map[uint64]bool{},
	}
	s.preparation = s.prepare
	s.walls = sync.OnceValue(func() *walls.Place { return walls.New(s.policy.Volume, s.runtime) })
	return s
}

// connect says hello to tier 1 and takes its snapshot.
func connect() (*Supervisor, <-chan error, error) {
	raw, err := wire.ReadSealed(wire.PolicyFD, 16<<20)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	policy, err := wire.DecodePolicy(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	for fd := wire.LinkFD; fd <= wire.PolicyFD; fd++ {
		unix.CloseOnExec(fd)
	}
	s := newSupervisor(policy)
	if s.link, err = link.Open(wire.LinkFD); err != nil {
		return nil, nil, err
	}
	s.link.Failed = s.unsent
	gone := make(chan error, 1)
	complete := make(chan struct{})
	go func() {
		whole := false
		gone <- s.link.Receive(func(m wire.Message, fds []int) {
			if whole {
				s.do(func() { s.hear(m, fds) })
			} else if s.remember(m, fds) {
				whole = true
				close(complete)
			}
		})
	}()
	s.link.Send(&wire.Hello{Version: wire.Version}, nil, nil)
	select {
	case <-complete:
		if s.version != wire.Version {
			return nil, nil, fmt.Errorf("PID 1 speaks version %d of the protocol, and this binary %d: start the container again", s.version, wire.Version)
		}
		return s, gone, nil
	case err := <-gone:
		return nil, nil, fmt.Errorf("PID 1 did not answer: %w", err)
	}
}

// remember takes one message of the snapshot, and tells whether it was the last.
func (s *Supervisor) remember(m wire.Message, fds []int) (last bool) {
	switch m := m.(type) {
	case *wire.Welcome:
		s.version = m.Version
		s.generation, s.nextID, s.tagged = m.Generation, m.NextID, m.Tags
		s.stopping, s.terminal = m.Stopping, m.Terminal
	case *wire.Child:
		s.children[m.Name] = append(s.children[m.Name], *m)
	case *wire.Held:
		s.held[m.Key] = fds
		return false
	case *wire.SnapshotEnd:
		return true
	case *wire.Ping:
		s.link.Send(&wire.Pong{Seq: m.Seq}, nil, nil)
	}
	wire.CloseAll(fds)
	return false
}

// open makes ready what the loop needs.
func (s *Supervisor) open() (err error) {
	if s.settings, err = settings.Open(wire.BundleFD, s.held, s.policy, s.runtime); err != nil {
		return err
	}
	s.slots = slots.Dir{Path: filepath.Join(s.runtime, "services")}
	if err := s.furnish(); err != nil {
		return err
	}
	return s.openLogs()
}

// furnish makes what stands on the configuration and the service directory.
func (s *Supervisor) furnish() (err error) {
	s.purpose = purposeOf(s.settings.Started())
	if s.null, err = openNull(); err != nil {
		return err
	}
	if err := s.openHandover(); err != nil {
		return err
	}
	s.publisher, s.recorder = newPublisher(s.slots), s.newRecorder()
	s.registry = s.newRegistry()
	return nil
}

func (s *Supervisor) newRegistry() *registry.Registry {
	hold := func(key string, fd int) { s.link.Send(&wire.Hold{Key: key}, []int{fd}, []int{fd}) }
	return registry.New(s, s.volume, s.settings, s.slots, s.work, hold)
}

// openHandover takes over, or makes, what outlives us.
func (s *Supervisor) openHandover() (err error) {
	hold := func(key string, fd int) {
		s.link.Send(&wire.Hold{Key: key}, []int{fd}, nil)
		s.link.Flush()
	}
	low, high := s.policy.TagLow, s.policy.TagHigh
	if !s.tagged {
		low, high = 0, 0
	}
	if s.tags, err = handover.OpenTags(low, high, s.held, hold); err != nil {
		return err
	}
	s.openOperations(hold)
	s.work, err = handover.OpenBootWork(s.held, hold)
	return err
}

// config is the configuration in force.
func (s *Supervisor) config() *config.Config { return s.settings.Current() }

// runtimeDir is where tier 1 made the service directory.
func runtimeDir() string {
	if dir := os.Getenv("RLMINIT_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return wire.RuntimeDir
}

// soon has f run by the loop after what it is doing now.
func (s *Supervisor) soon(f func()) { s.later = append(s.later, f) }

// written waits until status files and the volume show what has happened, but
// for no longer than a caller would bear.
func (s *Supervisor) written(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.publisher.flush(ctx)
	s.recorder.flush(ctx)
}

// settle brings everything onto the disk and gives the volume back.
func (s *Supervisor) settle(giveBack func()) {
	s.written(time.Second)
	s.chronicle.end()
	if giveBack == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		giveBack()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
