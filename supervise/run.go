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
	"rlminit/logs"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/wire"
)

// Descriptors that tier 1 gives to tier 2.
const (
	LinkFD    = 3 // the SOCK_SEQPACKET pair to tier 1
	ControlFD = 4 // the listening control socket
	BundleFD  = 5 // memfd: config.Bundle
	PolicyFD  = 6 // memfd: wire.Policy
)

// Supervisor is tier 2.
type Supervisor struct {
	policy     *wire.Policy
	cfg        atomic.Pointer[config.Config] // in force
	firstly    *config.Config                // as this container was started: what no reload changes
	container  []string                      // the container's environment
	runtime    string                        // the runtime directory
	generation uint32                        // of tier 2 in this boot, from 1
	work       bootWork                      // what of the boot is done

	link      *link
	slots     slots
	watch     *watcher
	events    *events
	publisher *publisher
	recorder  *newest[profiles.Subject, profiles.Seen]
	logs      *logs.Collector
	null      int

	terminal       bool // the container has one, for a main command that is a service
	mainOnTerminal bool // a main command uses the container's terminal: other lines would break its screen

	purpose   purpose                  // what the container is for
	registrar sync.Mutex               // one change of what is registered at a time
	bundle    config.Bundle            // that cfg was made of: the registrar's
	deleting  map[string]chan struct{} // by profile, closed when it is deleted: the registrar's
	slotting  sync.Mutex               // what is in a slot is what is defined; taken after registrar
	store     atomic.Pointer[profiles.Store]
	absent    atomic.Value // string: why there is no store
	readOnly  atomic.Bool  // the store cannot be written to: configuration and volume alone decide what runs

	mailbox chan func()

	// Where chance comes in; a simulation has its own.
	random      func() uint64
	preparation func(d service.Definition, privileged bool) prepared
	network     func(context.Context, service.Probe) error // asks over it

	// What follows is the loop's alone.
	units      map[string]*unit
	sources    int // bytes of their definitions
	dependents map[string]map[*unit]struct{}
	byID       map[uint64]*unit
	probeRuns  map[uint64]*probeRun
	tags       map[uint32]*unit
	table      tagTable
	lastTag    uint32 // that was given
	tagged     bool
	nextID     uint64
	timers     *timers
	later      []func()
	active     int                      // units of which a process may exist
	doomed     map[string]bool          // profiles that are being deleted
	leaving    map[string]bool          // services on their way out, until their slot is gone
	withdrawn  map[string]chan struct{} // closed when such a slot is gone
	held       map[string][]int
	children   map[string][]wire.Child
	dismissed  map[uint64]bool // children that no unit answers for, until they have ended
	restored   bool            // what a predecessor left was taken over
	early      []wire.Message  // came before that, about processes that no unit knew yet
	awaited    int64           // the deadline of the latest shutdown; 0: none
	booted     bool
	adopting   bool   // not every unit knows yet what is true
	stopping   bool   // the container is: nothing is started any more
	giveBack   func() // gives the volume's lock back; nil: it was not taken
	shutdowns  int    // how often tier 1 has asked for it
	stopped    bool
}

// Run is the life of tier 2. It returns the exit code when PID 1 is gone, or
// when it cannot begin.
func Run() int {
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
	s.registrar.Lock() // boot's: a reload that comes early must not register what is yet to be restored
	s.slotting.Lock()  // nor the watcher
	go s.boot(ControlFD)
	if err := s.loop(gone); err != nil && !errors.Is(err, wire.ErrClosed) {
		slog.Error("the link to PID 1 is broken", "err", err)
	}
	return 0
}

// newSupervisor is a supervisor that knows nothing yet.
func newSupervisor(policy *wire.Policy) *Supervisor {
	s := &Supervisor{
		random: rand.Uint64, network: askNetwork,
		policy: policy, container: os.Environ(), runtime: runtimeDir(),
		events: newEvents(), mailbox: make(chan func(), 1024),
		units: map[string]*unit{}, dependents: map[string]map[*unit]struct{}{}, byID: map[uint64]*unit{},
		probeRuns: map[uint64]*probeRun{}, tags: map[uint32]*unit{}, timers: newTimers(),
		doomed: map[string]bool{}, leaving: map[string]bool{}, withdrawn: map[string]chan struct{}{}, deleting: map[string]chan struct{}{},
		held: map[string][]int{}, children: map[string][]wire.Child{}, dismissed: map[uint64]bool{},
	}
	s.preparation = s.prepare
	return s
}

// connect says hello to tier 1 and takes its snapshot.
func connect() (*Supervisor, <-chan error, error) {
	raw, err := wire.ReadSealed(PolicyFD, 16<<20)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	policy, err := wire.DecodePolicy(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	for fd := LinkFD; fd <= PolicyFD; fd++ {
		unix.CloseOnExec(fd)
	}
	s := newSupervisor(policy)
	if s.link, err = newLink(LinkFD); err != nil {
		return nil, nil, err
	}
	s.link.failed = s.unsent
	gone := make(chan error, 1)
	complete := make(chan struct{})
	go func() {
		whole := false
		gone <- s.link.receive(func(m wire.Message, fds []int) {
			if whole {
				s.do(func() { s.hear(m, fds) })
			} else if s.remember(m, fds) {
				whole = true
				close(complete)
			}
		})
	}()
	s.link.send(&wire.Hello{Version: wire.Version}, nil, nil)
	select {
	case <-complete:
		return s, gone, nil
	case err := <-gone:
		return nil, nil, fmt.Errorf("PID 1 did not answer: %w", err)
	}
}

// remember takes one message of the snapshot, and tells whether it was the last.
func (s *Supervisor) remember(m wire.Message, fds []int) (last bool) {
	switch m := m.(type) {
	case *wire.Welcome:
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
		s.link.send(&wire.Pong{Seq: m.Seq}, nil, nil)
	}
	wire.CloseAll(fds)
	return false
}

// open makes ready what the loop needs.
func (s *Supervisor) open() error {
	cfg, err := s.firstConfig(BundleFD)
	if err != nil {
		return err
	}
	s.cfg.Store(cfg)
	if s.null, err = openNull(); err != nil {
		return err
	}
	s.slots = slots{dir: filepath.Join(s.runtime, "services")}
	s.publisher = newPublisher(s.slots)
	s.recorder = s.newRecorder()
	if err := s.openLogs(); err != nil {
		return err
	}
	if err := s.openTags(); err != nil {
		return err
	}
	return s.openBootWork()
}

// firstConfig is the configuration that is in force: the one that this
// container was started with, which fd holds, or the one that was last reloaded.
func (s *Supervisor) firstConfig(fd int) (*config.Config, error) {
	bundle, err := readBundle(fd)
	if err != nil {
		return nil, err
	}
	if err := s.startedWith(bundle); err != nil {
		return nil, err
	}
	if held := s.takeHeld(bundleKey); len(held) == 1 {
		if bundle, err = readBundle(held[0]); err != nil {
			return nil, err
		}
	}
	s.bundle = bundle
	return s.inForce(bundle)
}

// inForce is the configuration that a bundle, with those in it that count for
// some services, brings into force.
func (s *Supervisor) inForce(bundle config.Bundle) (*config.Config, error) {
	c, _, err := s.understand(bundle)
	if err != nil {
		return nil, err
	}
	for _, own := range bundle.Own {
		other, _, err := s.understand(own.Bundle)
		if err != nil {
			return nil, err
		}
		c = c.With(own.Names, other)
	}
	return c, nil
}

// startedWith notes the configuration that this container was started with.
func (s *Supervisor) startedWith(bundle config.Bundle) error {
	c, faults := config.Parse(bundle, s.lookup)
	s.firstly, s.purpose = c, purposeOf(c, bundle)
	return faults.Err()
}

func readBundle(fd int) (config.Bundle, error) {
	raw, err := wire.ReadSealed(fd, bundleMax)
	if err != nil {
		return config.Bundle{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return config.DecodeBundle(raw)
}

// bundleKey names the configuration that is in force since a reload, and
// bundleMax bounds it, in bytes.
const (
	bundleKey = "bundle"
	bundleMax = 128 << 20
)

// volume is the store of the volume; nil: there is none, or it is another
// container's.
func (s *Supervisor) volume() *profiles.Store { return s.store.Load() }

// config is the configuration in force.
func (s *Supervisor) config() *config.Config { return s.cfg.Load() }

// lookup gives the container's variables.
func (s *Supervisor) lookup(name string) (string, bool) { return os.LookupEnv(name) }

// runtimeDir is where tier 1 made the service directory.
func runtimeDir() string {
	if dir := os.Getenv("RLMINIT_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return "/run/rlminit"
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
