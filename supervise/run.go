package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/logs"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/supervise/console"
	"rlminit/supervise/core"
	"rlminit/supervise/garbage"
	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/supervise/open"
	"rlminit/supervise/probe"
	"rlminit/supervise/publish"
	"rlminit/supervise/registry"
	"rlminit/supervise/remember"
	"rlminit/supervise/serve"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/supervise/spawn"
	"rlminit/supervise/threads"
	"rlminit/supervise/volume"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Supervisor is tier 2: what it is made of, each part with what is its own.
type Supervisor struct {
	loop     mailbox
	tier1    *spawn.Tier1
	fleet    fleet
	prep     preparer
	spawner  *spawn.Driver
	opened   *open.Driver
	probes   *probe.Driver
	logging  logging
	records  records
	commands commands
	services services
	jobs     jobRunner
	takeover takeover
	purpose  purpose
	shutdown shutdown

	backend  *serve.Backend
	registry *registry.Registry
	unfit    func() error  // why we are of no use to clients; nil: they are not served yet
	random   func() uint64 // where chance comes in; a simulation has its own
}

// Run is the life of tier 2. It returns the exit code when PID 1 is gone, or
// when it cannot begin. version is this binary's.
func Run(version string) int {
	reserved := threads.Reserve()
	slog.SetDefault(slog.New(console.NewHandler(console.Stderr())))
	if reserved != nil {
		slog.Error("cannot supervise", "err", reserved)
		return 1
	}
	console.Traceable()
	booted := garbage.Hurry()
	unix.Umask(0o022) // status files are for everybody; what is not says its mode
	// Where the services have our uid they must not read our memory or descriptors.
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
	s.commands.gc = garbage.NewTarget(s.loop.do, boottime)
	s.prep.OpenUser(s.tier1)
	s.jobs.employ(s.backend.Jobs.Employ(), func() []config.Hook { return s.prep.Config().Hooks })
	s.backend.Version = version
	s.backend.ServeMetrics()
	go s.boot(wire.ControlFD, booted)
	if err := s.run(gone); err != nil && !errors.Is(err, wire.ErrClosed) {
		slog.Error("the link to PID 1 is broken", "err", err)
	}
	s.logging.troubles.Say()
	return 0
}

// newSupervisor is a supervisor that knows nothing yet.
func newSupervisor(policy *wire.Policy) *Supervisor {
	s := &Supervisor{
		loop: newMailbox(), tier1: spawn.NewTier1(), fleet: newFleet(),
		prep:   preparer{Preparer: spawn.Preparer{Policy: policy, Container: os.Environ(), Runtime: runtimeDir()}, volume: &volume.Volume{Journal: volume.NewJournal()}},
		random: rand.Uint64,
	}
	s.fleet.apply = s.apply
	s.spawner = spawn.NewDriver(s.tier1, &s.prep.Preparer)
	s.spawner.Do, s.spawner.Apply = s.loop.do, s.apply
	s.spawner.Open = s.openFor
	s.opened = open.New(s.tier1.Send, s.notified, func(name string) string { return s.prep.slots.File(name, slots.NotifySocket) })
	s.records = records{loop: &s.loop, fleet: &s.fleet, volume: s.prep.volume, events: publish.NewEvents()}
	s.commands = commands{
		loop: &s.loop, fleet: &s.fleet, records: &s.records, isFor: s.purpose.isFor,
		changed: map[uint64]chan struct{}{}, problems: map[uint64]*control.Problem{},
	}
	s.jobs = jobRunner{loop: &s.loop, tier1: s.tier1, fleet: &s.fleet, records: &s.records, over: s.shutdown.checkStopped}
	s.probes = probe.New(func(ctx context.Context, in core.Input) {
		s.loop.do(func() {
			if ctx.Err() == nil {
				s.apply(in)
			}
		})
	})
	s.prep.Walls = sync.OnceValue(func() *walls.Place { return walls.New(s.prep.Policy.Volume, s.prep.Runtime) })
	s.backend = serve.New(&s.commands, &serve.Given{
		Policy: policy, Volume: s.prep.volume, Users: &s.prep, Walls: s.prep.Walls, Leaves: s.spawner.Leaves,
		Spawns: spawns{s.tier1, &s.jobs}, Copies: &s.records, Journal: s.prep.volume.Journal.Open.Load, Events: s.records.events.Read, Counts: s.probes.Counts,
		Log: func(ctx context.Context, w io.Writer, query logs.Query) error {
			return s.logging.logs.Read(ctx, w, query)
		},
		Stored: s.opened.Stored, Place: s.spawner.Programs.Place,
	})
	s.services = services{
		loop: &s.loop, tier1: s.tier1, prep: &s.prep, fleet: &s.fleet, records: &s.records, Backend: s.backend,
		opened: s.opened, logging: &s.logging, jobs: &s.jobs, purpose: &s.purpose, commands: &s.commands,
	}
	s.purpose = purpose{loop: &s.loop, tier1: s.tier1, fleet: &s.fleet, records: &s.records, backend: s.backend}
	s.prep.Volume = s.prep.volume
	s.prep.volume.Given = volume.Given{
		Config: s.prep.Config, User: policy.User.UID, Held: s.tier1.Held, Send: s.tier1.Send, BootID: func() string { return s.records.memory.BootID() },
		Files:  func() (*rights.User, profiles.Owners) { return s.prep.User, s.prep.ProfileUsers() },
		Box:    &serve.Revised{Backend: s.backend},
		Recall: func(before []control.Operation, last uint64) { s.loop.do(func() { s.commands.recall(before, last) }) },
		Took:   s.tookVolume, Lost: func() { s.jobs.record(); s.registry.Look() }, // which ends all profiles: another container runs them
	}
	s.takeover = takeover{services: &s.services, spawner: s.spawner, shutdown: &s.shutdown, hear: s.hear}
	s.shutdown = shutdown{
		tier1: s.tier1, fleet: &s.fleet, records: &s.records, commands: &s.commands, jobs: &s.jobs, purpose: &s.purpose,
	}
	s.logging = logging{loop: &s.loop, fleet: &s.fleet, tier1: s.tier1, prep: &s.prep, records: &s.records}
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
	if s.tier1.Link, err = link.Open(wire.LinkFD); err != nil {
		return nil, nil, err
	}
	s.tier1.Link.Failed = s.spawner.Unsent
	gone := make(chan error, 1)
	complete := make(chan struct{})
	go func() {
		whole := false
		gone <- s.tier1.Link.Receive(func(m wire.Message, fds []int) {
			if whole {
				s.loop.do(func() { wire.Each(m, fds, s.hear) })
			} else if s.tier1.Recall(m, fds) {
				whole = true
				close(complete)
			}
		})
	}()
	s.tier1.Send(&wire.Hello{Version: wire.Version}, nil, nil)
	select {
	case <-complete:
		if s.tier1.Welcome.Version != wire.Version {
			return nil, nil, fmt.Errorf("PID 1 speaks version %d of the protocol, and this binary %d: start the container again", s.tier1.Welcome.Version, wire.Version)
		}
		if s.tier1.Welcome.Stopping {
			s.apply(core.Input{Kind: core.Stopping})
		}
		return s, gone, nil
	case err := <-gone:
		return nil, nil, fmt.Errorf("PID 1 did not answer: %w", err)
	}
}

// open makes ready what the loop needs.
func (s *Supervisor) open() (err error) {
	if err := s.openHandover(); err != nil {
		return err
	}
	if s.prep.Settings, err = settings.Open(wire.BundleFD, s.records.memory.Table, s.prep.Policy, s.prep.Runtime); err != nil {
		return err
	}
	s.prep.slots = slots.Dir{Path: filepath.Join(s.prep.Runtime, "services")}
	if err := s.assemble(); err != nil {
		return err
	}
	return s.logging.openLogs(s.prep.slots.Path)
}

// assemble makes what stands on the configuration and the service directory.
func (s *Supervisor) assemble() (err error) {
	s.purpose.read(s.prep.Settings.Started())
	if s.prep.null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	s.records.publisher, s.records.recorder = publish.New(s.prep.slots), publish.NewCopies(s.prep.volume.Writable)
	s.use(registry.New(&s.services, s.prep.volume, s.prep.Settings, s.prep.slots, s.records.memory.Table))
	return nil
}

// use makes known who knows which services there are.
func (s *Supervisor) use(r *registry.Registry) {
	s.registry, s.backend.Registry, s.backend.Settings = r, r, s.prep.Settings
	s.backend.Tags, s.backend.Tagged = s.tier1.Tags, s.tier1.Welcome.Tags
	s.fleet.absent, s.prep.volume.Look = r.AtRest.WakeSoon, r.Look
}

// openHandover takes over, or makes, what outlives us.
func (s *Supervisor) openHandover() error {
	table, err := handover.OpenTable(s.tier1.Held, func(key string, fd int) {
		s.tier1.Send(&wire.Hold{Key: key}, []int{fd}, nil)
		s.tier1.Link.Flush()
	})
	if err != nil {
		return err
	}
	s.records.memory = remember.New(table, func(in core.Input) { s.loop.do(func() { s.apply(in) }) })
	if s.tier1.Welcome.Tags {
		s.tier1.Tags = handover.OpenTags(s.prep.Policy.TagLow, s.prep.Policy.TagHigh, table)
	}
	s.commands.recall(s.records.memory.Operations(), 0)
	return nil
}

// runtimeDir is where tier 1 made the service directory.
func runtimeDir() string {
	if dir := os.Getenv("RLMINIT_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return wire.RuntimeDir
}
