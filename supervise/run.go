package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"rlminit/logs"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/supervise/console"
	"rlminit/supervise/garbage"
	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/supervise/loop"
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

// supervisor is tier 2: the loop, its drivers, and what asks it.
type supervisor struct {
	loop.Drivers
	loop     *loop.Loop
	slots    slots.Dir // the service directory in the runtime directory
	troubles console.Troubles

	directories *spawn.Directories // the supervisor's on the volume
	backend     *serve.Backend
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
	booted := garbage.Hurry(garbage.Boot)
	unix.Umask(0o022) // status files are for everybody; other files say their mode
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
	if err == nil {
		err = s.open()
	}
	if err != nil {
		slog.Error("cannot supervise", "err", err)
		return 1
	}
	s.Preparer.OpenUser(s.Tier1)
	s.backend.Version = version
	s.backend.ServeMetrics()
	go s.boot(wire.ControlFD, booted)
	if err := s.loop.Run(gone); err != nil && !errors.Is(err, wire.ErrClosed) {
		slog.Error("the link to PID 1 is broken", "err", err)
	}
	s.troubles.Say()
	return 0
}

// newSupervisor is a supervisor that knows nothing yet.
func newSupervisor(policy *wire.Policy) *supervisor {
	s := &supervisor{loop: loop.New(), Drivers: loop.Drivers{Tier1: spawn.NewTier1(), Volume: &volume.Volume{Journal: volume.NewJournal()}}}
	s.Preparer = &spawn.Preparer{Policy: policy, Container: os.Environ(), Runtime: runtimeDir(), Volume: s.Volume}
	s.Preparer.Walls = sync.OnceValue(func() *walls.Place { return walls.New(policy.Volume, s.Preparer.Runtime) })
	s.Spawner = spawn.NewDriver(s.Tier1, s.Preparer)
	return s
}

// connect says hello to tier 1 and takes its snapshot.
func connect() (*supervisor, <-chan error, error) {
	var policy *wire.Policy
	raw, err := wire.ReadSealed(wire.PolicyFD, 16<<20)
	if err == nil {
		policy, err = wire.DecodePolicy(raw)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	for fd := wire.LinkFD; fd <= wire.PolicyFD; fd++ {
		unix.CloseOnExec(fd)
	}
	s := newSupervisor(policy)
	if s.Tier1.Link, err = link.Open(wire.LinkFD); err != nil {
		return nil, nil, err
	}
	s.Tier1.Link.Failed = s.Spawner.Unsent
	gone := make(chan error, 1)
	complete := make(chan struct{})
	go func() {
		whole := false
		gone <- s.Tier1.Link.Receive(func(m wire.Message, fds []int) {
			if whole {
				s.loop.Hear(m, fds)
			} else if s.Tier1.Recall(m, fds) {
				whole = true
				close(complete)
			}
		})
	}()
	s.Tier1.Send(&wire.Hello{Version: wire.Version}, nil, nil)
	select {
	case <-complete:
		if s.Tier1.Welcome.Version != wire.Version {
			return nil, nil, fmt.Errorf("PID 1 speaks version %d of the protocol, and this binary %d: start the container again", s.Tier1.Welcome.Version, wire.Version)
		}
		return s, gone, nil
	case err := <-gone:
		return nil, nil, fmt.Errorf("PID 1 did not answer: %w", err)
	}
}

// open prepares the loop's drivers.
func (s *supervisor) open() (err error) {
	if err := s.openHandover(); err != nil {
		return err
	}
	if s.Preparer.Settings, err = settings.Open(wire.BundleFD, s.Memory.Table, s.Preparer.Policy, s.Preparer.Runtime); err != nil {
		return err
	}
	s.slots = slots.Dir{Path: filepath.Join(s.Preparer.Runtime, "services")}
	if err := s.openLogs(); err != nil {
		return err
	}
	return s.assemble()
}

// openHandover takes over, or makes, what outlives us.
func (s *supervisor) openHandover() error {
	table, err := handover.OpenTable(s.Tier1.Held, func(key string, fd int) {
		s.Tier1.Send(&wire.Hold{Key: key}, []int{fd}, nil)
		s.Tier1.Link.Flush()
	})
	if err != nil {
		return err
	}
	s.Memory = remember.New(table, s.loop.Commands.Tell)
	if s.Tier1.Welcome.Tags {
		s.Tier1.Tags = handover.OpenTags(s.Preparer.Policy.TagLow, s.Preparer.Policy.TagHigh, table)
	}
	return nil
}

// collectorKey names the log collector's state for a successor.
const collectorKey = "log"

// openLogs starts the collector, on the volume where there is one, and else in the service
// directory.
func (s *supervisor) openLogs() (err error) {
	s.directories = spawn.NewDirectories(s.Preparer)
	out := console.Open(1)
	options := logs.Options{
		Home: s.Preparer.Config().Home, Held: s.Tier1.Held.Take(collectorKey), Tee: out,
		Colour: out >= 0 && term.IsTerminal(out) && os.Getenv("NO_COLOR") == "", Report: func(service string, err error) {
			s.troubles.Hear(service, err)
			if err != nil {
				s.directories.Look()
			}
		},
	}
	if info, err := os.Stat(options.Home); err != nil || !info.IsDir() {
		// Without a volume there is nothing to write to; the slots' newest lines
		// are still kept, and the tee goes on.
		options.Home = s.slots.Path
	}
	if s.Logs, err = logs.New(options); err != nil {
		return fmt.Errorf("cannot log: %w", err)
	}
	s.Tier1.Send(&wire.Hold{Key: collectorKey}, s.Logs.Held(), nil)
	return nil
}

// remake makes the supervisor's directories on the volume again that somebody has removed.
// Why it cannot was said.
func (s *supervisor) remake() error { return s.directories.Make() }

// assemble makes what stands on the configuration and the service directory, and gives the
// loop all that there is.
func (s *supervisor) assemble() (err error) {
	if s.Null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	p := s.Preparer
	s.Purpose = loop.PurposeOf(p.Settings.Started())
	s.Events, s.Publisher, s.Recorder = publish.NewEvents(), publish.New(s.slots), publish.NewCopies(s.Volume.Writable)
	s.Probes = probe.New(s.loop.Probed)
	s.Opened = open.New(s.Tier1.Send, s.loop.Notified, func(name string) string { return s.slots.File(name, slots.NotifySocket) })
	s.backend = serve.New(&s.loop.Commands, &serve.Given{
		Policy: p.Policy, Settings: p.Settings, Volume: s.Volume, Users: p, Walls: p.Walls, Tags: s.Tier1.Tags, Tagged: s.Tier1.Welcome.Tags,
		Leaves: s.Spawner.Leaves, Spawns: s.Tier1, Copies: &s.loop.Records, Journal: s.Volume.Journal.Open.Load, Events: s.Events.Read,
		Counts: s.Probes.Counts, Log: loop.Logged{Collector: s.Logs, Loop: s.loop}, Stored: s.Opened.Stored, Place: s.Spawner.Programs.Place, Remake: s.remake,
	})
	s.Registry = registry.New(defining{s.backend, &s.loop.Services}, s.Volume, p.Settings, s.slots, s.Memory.Table)
	s.backend.Registry = s.Registry
	s.Volume.Given = volume.Given{
		Config: p.Config, User: p.Policy.User.UID, Page: p.Policy.Profiles.Page, Held: s.Tier1.Held, Send: s.Tier1.Send, BootID: s.Memory.BootID,
		Files: func() (*rights.User, profiles.Owners) { return p.User, p.ProfileUsers() },
		Box:   &serve.Revised{Backend: s.backend}, Recall: s.loop.Commands.Recall, Look: s.Registry.Look,
		Known: s.Memory.Volume, Note: s.Memory.NoteVolume,
		Gone: func() { _ = s.remake() },
		Took: s.tookVolume, Lost: func() { s.Jobs.Use(s.Volume.Journal.JobRecords()); s.Registry.Look() }, // which ends all profiles: another container runs them
	}
	s.Jobs = s.backend.Jobs.Employ() // it is theirs, with the jobs that a predecessor left
	s.Tier1.Host(s.Jobs)
	s.Volume.Journal.Hooks = s.backend.Jobs.TellHooks(s.Events.Publish, s.Memory.Table)
	s.loop.Use(&s.Drivers)
	return nil
}

// defining is the supervisor as its registry knows it: registry.Services.
type defining struct {
	*serve.Backend // answers what only asks
	*loop.Services
}

// runtimeDir is where tier 1 made the service directory.
func runtimeDir() string {
	if dir := os.Getenv("RLMINIT_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return wire.RuntimeDir
}
