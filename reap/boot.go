package reap

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/footprint"
	"rlminit/reap/proc"
	"rlminit/reap/runtimedir"
	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// Options are the settings of an init from the command line.
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
		say.Line("cannot start: init does not run on the first thread; please report this")
		return exitFailed
	}
	if why := refusedCall(); why != "" {
		return giveUp(exitFailed, "cannot start: "+why)
	}
	limit := proc.PIDsLimit(proc.PIDsFiles...)
	if limit < wire.FewestPIDs {
		return giveUp(exitFailed, "cannot start: the pids limit of this container is "+say.Number(int(limit))+
			", and rlminit needs "+say.Number(wire.FewestPIDs)+"; raise --pids-limit")
	}
	runtime.GOMAXPROCS(processors)
	debug.SetGCPercent(50)         // there is little garbage, and memory is dearer than time
	debug.SetMemoryLimit(64 << 20) // above which, as with huge requests, the collector hurries
	r := newReaper()
	// A boot takes much that is not needed again. And the first timer makes the runtime
	// open two descriptors: now it finds some free; one of the collector's, later, might
	// not, and that would be its end.
	r.tier2.rest = time.AfterFunc(footprint.After, footprint.Shrink)
	r.place.pids = limit
	if code := r.boot(o); code != 0 {
		return code
	}
	return r.loop()
}

// boot does all that may fail, and starts tier 2 and the main command. It
// returns the exit code of a start that is not to be, having said why.
func (r *reaper) boot(o Options) int {
	closeOnExec()
	unix.Umask(0o022)
	say.Open()
	if err := r.listen(); err != nil {
		return giveUp(exitFailed, "cannot start: "+err.Error())
	}
	release, err := spares(spareThreads)
	if err == nil {
		err = r.threads.Start(r.place.pids)
	}
	if err == nil {
		err = asError(r.events.Add(int32(r.threads.Finished), sys.Readable, keySpawned))
	}
	if err != nil {
		return giveUp(exitFailed, "cannot start: "+err.Error())
	}
	r.leaves.Open(canSetGroups()) // before any child is
	bundle, policy, code := r.compile(o)
	if code != 0 {
		return code
	}
	if r.stop.budget = r.policy.StopNanos; r.stop.budget <= 0 {
		r.stop.budget = defaultBudget
	}
	r.voice.Verbosity = r.policy.Verbosity
	r.place.find(r.policy)
	r.threads.Bounded, r.threads.FewFDs = r.place.setBounds, r.place.fewFDs
	if code := r.place.settle(r.policy); code != 0 {
		return code
	}
	if !r.place.root {
		// Services have our uid: none may trace us. As root that is needed only
		// while a child of theirs shares our memory, and the kernel sees to it.
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		sys.Undumpable = true
	}
	environ := os.Environ()
	own := runtimedir.Directory{
		Root: r.place.root, MayChown: r.place.has(unix.CAP_CHOWN), Policy: r.policy,
		Watch: func(listener int) error { return asError(r.events.Add(int32(listener), sys.OneShot, keyControl)) },
	}
	directory, listener, why := own.Open(environ)
	if why != "" {
		return giveUp(exitFailed, why)
	}
	r.commands.temporary = own.Temporary
	r.prepare.bootFile = directory + "/" + runtimedir.BootFile
	r.place.giveStdio(r.commands.mainUser(), &r.policy.Supervisor)
	r.orphans.open()
	r.held.closer.open()
	r.commands.keep(environ, directory, listener, bundle, policy)
	release()
	if code := r.diesWithParent(); code != 0 {
		return code
	}
	r.now = monotonic()
	r.begin()
	return 0
}

// diesWithParent sets the signal that we are sent when our parent ends.
func (r *reaper) diesWithParent() int {
	if r.policy.ParentDeath != 0 { // else what our parent may have set counts
		// Last, for a change of the rights to files takes it back.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(r.policy.ParentDeath), 0, 0, 0); err != nil {
			return giveUp(exitFailed, "cannot set the signal of the parent's death: "+err.Error())
		}
	}
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
	r.pair.events = r.events
	r.deadlines.openClock(r.events)
	if errno = r.events.Add(r.signals.Children, sys.Readable|sys.Edge, keyChildren); errno == 0 {
		errno = r.events.Add(r.signals.Others, sys.Readable, keySignals)
	}
	return asError(errno)
}

func asError(errno sys.Errno) error {
	if errno == 0 {
		return nil
	}
	return unix.Errno(errno)
}

// compile runs the short-lived child that reads the configuration, and returns
// the sealed memfds that it filled.
func (r *reaper) compile(o Options) (bundle, policy, code int) {
	var fds [2]int
	for i, name := range [...]string{"rlminit-policy", "rlminit-bundle"} {
		fd, err := wire.Memfd(name)
		if err != nil {
			return 0, 0, giveUp(exitFailed, "cannot make a memfd: "+err.Error())
		}
		fds[i] = fd
	}
	r.commands.makeEnclosure()
	argv := append([]string{"rlminit", "compile"}, o.Args...)
	c := &sys.Command{Session: sys.SameGroup, Fds: []int32{int32(fds[0]), int32(fds[1])}, Targets: []int32{wire.CompiledPolicyFD, wire.CompiledBundleFD}}
	if r.commands.enclosure.Ruleset != 0 {
		c.Fds, c.Targets = append(c.Fds, r.commands.enclosure.Ruleset), append(c.Targets, wire.EnclosureFD)
	}
	c.Program(self(), argv, os.Environ())
	c.Start()
	if c.Errno != 0 {
		return 0, 0, giveUp(exitFailed, "cannot read the configuration: cannot run rlminit itself: "+c.Errno.String())
	}
	sys.Widen(int32(fds[0]), manyOpen) // while it reads
	r.place.pidfds = c.PIDFD >= 0
	sys.Close(c.PIDFD)
	var status unix.WaitStatus
	for err := error(unix.EINTR); err == unix.EINTR; {
		_, err = unix.Wait4(int(c.PID), &status, 0, nil)
	}
	if status.Signaled() {
		return 0, 0, giveUp(exitFailed, "cannot read the configuration: its reader was killed by signal "+say.Number(int(status.Signal())))
	}
	if status.ExitStatus() != 0 {
		return 0, 0, status.ExitStatus() // which it has said
	}
	err := wire.Seal(fds[1])
	if err == nil {
		var policy *wire.Policy
		if policy, err = sealedPolicy(fds[0]); err == nil {
			*r.policy = *policy
		}
	}
	if err != nil {
		return 0, 0, giveUp(exitFailed, "cannot read the policy: "+err.Error())
	}
	r.commands.keepEnclosure()
	return fds[1], fds[0], 0
}

// manyOpen is for how many descriptors both tiers' tables have room from the start: some
// for each of a thousand services. The kernel takes 8 bytes for each.
const manyOpen = 4096

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

// largestPolicy bounds the policy that PID 1 reads, in bytes.
const largestPolicy = 16 << 20

// giveUp says why init ends before it has begun, also to where Kubernetes looks.
func giveUp(code int, line string) int {
	say.Line(line)
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
