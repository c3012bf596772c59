package reap

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// Options is what the command line says of an init.
type Options struct {
	// Args are the arguments of `rlminit init`, flags included: what they mean
	// is for the reader of the configuration to say.
	Args []string
}

// Exit codes of init. Otherwise it exits with its main command's.
const (
	exitFailed        = 1
	exitConfig        = 78
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Run is tier 1 of a container with a configuration: it boots, runs until the
// last process has gone, and returns the exit code. It takes over the process,
// signals and all.
//
// It must be called from an init function. Until those are done the runtime
// keeps the main goroutine on the first thread, to which the kernel gives
// orphans; LockOSThread would do the same at the cost of one more thread.
func Run(o Options) int {
	if sys.Gettid() != sys.Getpid() {
		say("cannot start: init does not run on the first thread; please report this")
		return exitFailed
	}
	limit := pidsLimit("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
	if limit < wire.FewestPIDs {
		return giveUp(exitFailed, "cannot start: the pids limit of this container is "+decimal(int(limit))+
			", and rlminit needs "+decimal(wire.FewestPIDs)+"; raise --pids-limit")
	}
	processors := processorsFor(limit)
	runtime.GOMAXPROCS(processors)
	debug.SetGCPercent(50) // there is little garbage, and memory is dearer than time
	// The first timer, perhaps one of the collector's, makes the runtime open
	// two descriptors. Now it finds some free; later that could be its end.
	time.AfterFunc(time.Hour, func() {}).Stop()
	r := &reaper{
		children: newChildren(),
		held:     make(map[string][]int),
		unheld:   make(map[string]string),
		said:     make(map[string]struct{}),
		tier2:    tier2{socket: -1, pidfd: -1, restartAt: never},
		main:     mainCommand{pidfd: -1},
		stop:     stop{code: -1},
		null:     -1,
	}
	r.receiver.Close = r.close
	if code := r.boot(o, sparesFor(processors)); code != 0 {
		return code
	}
	return r.loop()
}

// boot does all that may fail, and starts tier 2 and the main command. It
// returns the exit code of a start that is not to be, having said why.
func (r *reaper) boot(o Options, spareThreads int) int {
	closeOnExec()
	unix.Umask(0o022)
	openStderr()
	if err := r.listen(); err != nil {
		return giveUp(exitFailed, "cannot start: "+err.Error())
	}
	release, err := spares(spareThreads)
	if err == nil {
		err = r.threads.start()
	}
	if err == nil {
		err = r.addEvent(r.threads.finished, sys.Readable, keySpawned)
	}
	if err != nil {
		return giveUp(exitFailed, "cannot start: "+err.Error())
	}
	r.leaves.open() // before any child is
	bundle, policy, code := r.compile(o)
	if code != 0 {
		return code
	}
	if r.stop.budget = r.policy.StopNanos; r.stop.budget <= 0 {
		r.stop.budget = defaultBudget
	}
	r.place.find(r.policy)
	r.threads.few = r.place.fewFDs
	if code := r.settle(); code != 0 {
		return code
	}
	if !r.place.root {
		// Services have our uid: none may trace us. As root that is needed only
		// while a child of theirs shares our memory, and the kernel sees to it.
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	environ := os.Environ()
	directory, listener, why := r.runtimeDirectory(environ)
	if why != "" {
		return giveUp(exitFailed, why)
	}
	r.directory = directory
	r.giveStdio()
	r.orphans.open()
	r.makeWaker()
	r.tier2.keep(environ, directory, listener, bundle, policy)
	release()
	if r.policy.ParentDeath != 0 { // else what our parent may have set counts
		// Last, for a change of the rights to files takes it back.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(r.policy.ParentDeath), 0, 0, 0); err != nil {
			return giveUp(exitFailed, "cannot set the signal of the parent's death: "+err.Error())
		}
	}
	r.now = monotonic()
	r.begin()
	return 0
}

// listen catches signals and makes the loop's set of events. From here on, a
// stop that comes before the loop is handled as soon as that runs.
func (r *reaper) listen() error {
	r.place.pid = sys.Getpid()
	if r.place.pid != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	var errno sys.Errno
	if r.signals, errno = sys.CatchAll(); errno != 0 {
		return unix.Errno(errno)
	}
	if r.events, errno = sys.NewEvents(); errno != 0 {
		return unix.Errno(errno)
	}
	if err := r.addEvent(int(r.signals.Children), sys.Readable|sys.Edge, keyChildren); err != nil {
		return err
	}
	return r.addEvent(int(r.signals.Others), sys.Readable, keySignals)
}

func (r *reaper) addEvent(fd int, conditions uint32, key uint64) error {
	if errno := r.events.Add(int32(fd), conditions, key); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

// settle refuses what would break the promise, and says once what this place
// does not allow and is done without.
func (r *reaper) settle() int {
	p := &r.place
	if p.root {
		if r.policy.User.UID == 0 {
			return giveUp(exitConfig, "cannot start: running as root and no user is set; add \"user: app\" to "+
				pure.DefaultConfig+" or use docker run --user")
		}
		if missing := p.missing(); missing != "" {
			return giveUp(exitConfig, "cannot start: user "+r.policy.User.Name+" cannot be reached without "+missing+
				"; add it with --cap-add, or start the container with --user "+decimal(int(r.policy.User.UID)))
		}
	} else if !p.setIDs {
		r.policy.User.UID, r.policy.User.GID = uint32(unix.Geteuid()), uint32(unix.Getegid())
		r.policy.Supervisor = r.policy.User
	}
	for _, lack := range p.lacks(r.policy) {
		if r.policy.Strict {
			return giveUp(exitConfig, "cannot start: "+lack+"; strict is set, so make it possible, or leave strict out")
		}
		say(lack)
	}
	return 0
}

// compile runs the short-lived child that reads the configuration, and returns
// the sealed memfds that it filled.
func (r *reaper) compile(o Options) (bundle, policy, code int) {
	var fds [2]int
	for i, name := range [...]string{"rlminit-policy", "rlminit-bundle"} {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return 0, 0, giveUp(exitFailed, "cannot make a memfd: "+err.Error())
		}
		fds[i] = fd
	}
	r.makeEnclosure()
	argv := append([]string{"rlminit", "compile"}, o.Args...)
	c := &sys.Command{Session: sys.SameGroup, Fds: []int32{int32(fds[0]), int32(fds[1])}, Targets: []int32{wire.CompiledPolicyFD, wire.CompiledBundleFD}}
	if r.enclosure.Ruleset != 0 {
		c.Fds, c.Targets = append(c.Fds, r.enclosure.Ruleset), append(c.Targets, wire.EnclosureFD)
	}
	c.Program(self(), argv, os.Environ())
	c.Start()
	if c.Errno != 0 {
		return 0, 0, giveUp(exitFailed, "cannot read the configuration: cannot run rlminit itself: "+c.Errno.String())
	}
	if r.place.pidfds = c.PIDFD >= 0; r.place.pidfds {
		sys.Close(c.PIDFD)
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(int(c.PID), &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if status.Signaled() {
		return 0, 0, giveUp(exitFailed, "cannot read the configuration: its reader was killed by signal "+decimal(int(status.Signal())))
	}
	if status.ExitStatus() != 0 {
		return 0, 0, status.ExitStatus() // which it has said
	}
	err := wire.Seal(fds[1])
	if err == nil {
		r.policy, err = sealedPolicy(fds[0])
	}
	if err != nil {
		return 0, 0, giveUp(exitFailed, "cannot read the policy: "+err.Error())
	}
	r.keepEnclosure()
	return fds[1], fds[0], 0
}

// sealedPolicy reads the policy that a child has filled a memfd with, which
// nobody changes from then on.
func sealedPolicy(fd int) (*wire.Policy, error) {
	if err := wire.Seal(fd); err != nil {
		return nil, err
	}
	content, err := wire.ReadSealed(fd, largestPolicy)
	if err != nil {
		return nil, err
	}
	return wire.DecodePolicy(content)
}

// largestPolicy bounds what is read into PID 1, in bytes.
const largestPolicy = 16 << 20

// self returns the paths of this program, the surest first.
func self() []string {
	paths := []string{"/proc/self/exe"}
	if len(os.Args) > 0 {
		paths = append(paths, pure.Candidates(os.Args[0], os.Getenv("PATH"))...)
	}
	return paths
}

// keep notes what each tier 2 is started with.
func (t *tier2) keep(environ []string, directory string, listener, bundle, policy int) {
	t.passed = [3]int{listener, bundle, policy}
	for _, entry := range environ {
		name, _ := variable(entry)
		switch name {
		case "RLMINIT_RUNTIME_DIR", "RLMINIT_GOTRACEBACK":
			continue
		case "GOTRACEBACK": // which the Go runtime of an opaque tier 2 sets anew
			t.environ = append(t.environ, "RLMINIT_"+entry)
		}
		t.environ = append(t.environ, entry)
	}
	t.environ = append(t.environ, "RLMINIT_RUNTIME_DIR="+directory)
	// Not by its path: what lies there may have been replaced since, by something
	// that is no supervisor, and tier 1 would be without one at the next crash.
	t.paths = self()
}

// tier2Command is the supervisor's process, with its end of the pair.
func (r *reaper) tier2Command(socket int) *sys.Command {
	t := &r.tier2
	c := &sys.Command{
		Session: sys.OwnSession, OOMScore: r.oomScore(oomTier2), NoNewPrivs: true,
		SetUmask: true, Umask: 0o027,
		KeepSignals: true, Mask: 1 << (sys.SIGUSR1 - 1), // which tier 2 reads
	}
	who := &r.policy.Supervisor
	r.identity(c, who, 0)
	if c.SetIDs && c.SetGroups && who.UID == r.policy.User.UID && !t.traceable {
		// A service may wait for the moment in which its supervisor begins and
		// can be traced yet. Its own group it keeps as one of the others.
		c.Opaque, c.EffectiveGID = true, opaqueGID
		if c.GID == opaqueGID {
			c.EffectiveGID--
		}
		c.Groups = append(c.Groups, c.GID)
	}
	r.limits(c, nil, true)
	r.descriptors(c, []int{1, 2, socket, t.passed[0], t.passed[1], t.passed[2]}, []int32{1, 2, 3, 4, 5, 6})
	c.Program(t.paths, []string{"rlminit", "supervise"}, t.environ)
	return c
}

// opaqueGID is a group that has no rights: nogroup.
const opaqueGID = 65534

// giveUp says why init ends before it has begun, also to where Kubernetes looks.
func giveUp(code int, line string) int {
	say(line)
	fd, err := unix.Open("/dev/termination-log", unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err == nil {
		sys.Write(int32(fd), []byte("rlminit: "+line+"\n"))
		unix.Close(fd)
	}
	return code
}

// closeOnExec marks everything that was inherited beyond 0 to 2.
func closeOnExec() {
	if unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	for fd := 3; fd < int(min(limit.Cur, 1<<16)); fd++ {
		unix.CloseOnExec(fd)
	}
}
