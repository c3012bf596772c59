package sys

// Session says where a new process stands among sessions and process groups.
type Session uint8

// The choices of a session.
const (
	OwnSession      Session = iota // setsid(2)
	ForegroundGroup                // its own process group, the terminal's foreground if there is a terminal
	SameGroup                      // as its parent
	TerminalSession                // setsid(2), and the terminal becomes that session's if it is free
)

// Call is the system call of a step that a place may refuse, for a line: "" of others.
func (s Step) Call() string {
	switch s {
	case StepFork:
		return "clone: "
	case StepSession:
		return "setsid: "
	case StepGroups:
		return "setgroups: "
	case StepGID:
		return "setresgid: "
	case StepUID:
		return "setresuid: "
	case StepNoNewPrivs:
		return "prctl: "
	}
	return ""
}

// Step is the part of a spawn that failed.
type Step uint32

// The steps of a spawn, by the numbers that they have in package wire, which this one
// cannot import: it is initialised first. Those before StepSession happen in the parent.
const (
	StepNone Step = iota
	_             // three that are not a child's
	_
	_
	StepFork
	StepSession
	StepTerminal
	StepOOMScore
	StepRlimit
	StepBounding
	StepGroups
	StepGID
	StepUID
	StepCapabilities
	StepNoNewPrivs
	StepDir
	StepDescriptors
	StepSignals
	StepExec
	StepPrivate
	StepLandlock
	StepSeccomp
	StepCgroup
)

// Rlimit is one setrlimit(2).
type Rlimit struct {
	Soft, Hard uint64 // struct rlimit64
	Resource   uint64
}

// Command is all that a child needs between vfork and execve, in the form in
// which the kernel takes it: the child shares our memory and may neither
// allocate nor grow its stack. The zero value of each field changes nothing,
// but that Session is OwnSession.
type Command struct {
	paths []*byte // tried in this order, as execvp(3) does
	argv  []*byte // ends with nil, as envp does
	envp  []*byte
	shell []*byte // argv of /bin/sh for a file that the kernel cannot run; [1] is the path

	// Cgroup is a descriptor of the directory in which the process is born, 0 for
	// that of its parent.
	Cgroup int32
	born   struct {
		joins bool // it goes there by itself
		args  cloneArgs
	}

	Session  Session
	Terminal int32 // of ForegroundGroup and TerminalSession

	OOMScore  []byte // decimal, for oom_score_adj; set by the child, or as Undumpable says
	SetUmask  bool
	Umask     uint32
	Rlimits   []Rlimit
	SetBounds bool // drop all of the bounding set but Caps
	SetGroups bool // setgroups(2) to Groups
	Groups    []uint32
	SetIDs    bool
	UID, GID  uint32
	// EffectiveGID, unless it is 0, is the effective group of SetIDs. It keeps others
	// of the same user from tracing the process, which must take back its own: the
	// kernel makes memory undumpable when a program is executed with two different
	// group ids, ptrace(2).
	EffectiveGID uint32
	SetCaps      bool // permitted, inheritable, ambient and effective become Caps, a bit for each
	Caps         uint64
	NoNewPrivs   bool
	// TimerSlack is by how many ns the kernel may be late to wake each thread of the
	// process, PR_SET_TIMERSLACK of prctl(2); at least by what it was for us at first.
	TimerSlack uintptr
	Dirs       [2]*byte // where to start: the first that can be entered; none: where we are

	// Fds become Targets, in the same order. Everything else above 2 is
	// expected to be close-on-exec. Without a program the child closes Fds in our own
	// table, however long that takes, and exits. Start waits for nothing of that.
	Fds, Targets []int32
	CloseStdio   [3]bool // of 0 to 2, those that are no target
	few          bool    // all of Fds are low numbers, see low
	// Room is for how many descriptors the process's table has room, as Widen makes it;
	// 0: as many as it takes.
	Room int32

	// Deadline is when the program is not executed any more, ns of CLOCK_BOOTTIME; 0: never.
	Deadline int64

	Enclosure Enclosure
	Isolation Isolation

	ListenPID []byte // "LISTEN_PID=" and room for digits and a NUL, part of the environment

	// Ignored has a bit for each signal that the program finds ignored, and Mask one for
	// each that it finds blocked. All others are as by default.
	Ignored, Mask uint64

	// Kill makes a child that sends a signal as UID and exits, in place of
	// execve.
	Kill *Victim

	Outcome
}

// Victim is what gets a signal: a process, a group (negative), or our own group (0).
type Victim struct{ PID, Signal int32 }

// Outcome is what the kernel and the child write. Another thread may read PID and
// PIDFD, atomically, while the spawn is under way.
type Outcome struct {
	PID   int32
	PIDFD int32 // -1 where the kernel refuses pidfds
	// StartTime is when the process was started, in hundredths of a second of
	// CLOCK_BOOTTIME, as proc_pid_stat(5) has it.
	StartTime uint64
	Step      Step  // the one under way; StepExec once the program is being executed
	Errno     Errno // why that step failed
	// TerminalErrno is why the process runs without the terminal, and 0 where
	// it was given that.
	TerminalErrno Errno
}

// Undumpable is set where we are not root and may not be dumped: then /proc/self of a
// child is root's until its program runs, and the spawner sets its OOM score.
var Undumpable bool

// Program sets what is executed. Strings are used up to their first NUL. paths
// are tried in turn as execvp(3) does.
func (c *Command) Program(paths, argv, env []string) {
	size := 0
	for _, list := range [...][]string{paths, argv, env} {
		for _, s := range list {
			size += len(s) + 1
		}
	}
	room := make([]byte, 0, size+len(listenPID)+12)
	pointers := make([]*byte, 0, len(paths)+len(argv)+len(env)+4)
	add := func(s string) {
		start := len(room)
		room = append(append(room, s...), 0)
		pointers = append(pointers, &room[start])
	}
	cut := func(from int) []*byte { return pointers[from:len(pointers):len(pointers)] }

	for _, s := range paths {
		add(s)
	}
	c.paths = cut(0)
	from := len(pointers)
	for _, s := range argv {
		add(s)
	}
	pointers = append(pointers, nil)
	c.argv = cut(from)
	from = len(pointers)
	for _, s := range env {
		add(s)
	}
	if c.ListenPID != nil {
		start := len(room)
		room = append(room, listenPID...)
		room = room[:len(room)+12]
		c.ListenPID = room[start:]
		pointers = append(pointers, &room[start])
	}
	pointers = append(pointers, nil)
	c.envp = cut(from)
}

const listenPID = "LISTEN_PID="

// ShellFallback makes /bin/sh run what the kernel says it cannot, ENOEXEC, as
// execvp(3) does. Call it after Program.
func (c *Command) ShellFallback() {
	c.shell = make([]*byte, 0, len(c.argv)+2)
	c.shell = append(c.shell, &binSh[0], nil)
	if len(c.argv) > 2 {
		c.shell = append(c.shell, c.argv[1:len(c.argv)-1]...)
	}
	c.shell = append(c.shell, nil)
}

// WorkingDir sets where the program starts: in dir, or where that is "", in home, or in /
// if it cannot enter that. Without both it starts where we are.
func (c *Command) WorkingDir(dir, home string) {
	c.Dirs = [2]*byte{}
	if dir != "" {
		c.Dirs[0] = cstring(dir)
	} else if home != "" {
		c.Dirs = [2]*byte{cstring(home), cstring("/")}
	}
}

var (
	cgroupProcs = [...]byte{'c', 'g', 'r', 'o', 'u', 'p', '.', 'p', 'r', 'o', 'c', 's', 0}
	cgroupSelf  = [...]byte{'0'}
	binSh       = [...]byte{'/', 'b', 'i', 'n', '/', 's', 'h', 0}
	oomScore    = [...]byte{
		'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/',
		'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0,
	}
)
