package wire

import "rlminit/internal/coder"

// Version is the version of the protocol. Tier 1 outlives tier 2, so it is
// tier 2 that may be newer: it says its version first, and tier 1 answers with
// the one that both will speak, which is the lower.
const Version = 6

// Kind is the first byte of a message.
type Kind uint8

// The kinds of message. Numbers are for ever: a kind that is no longer used
// leaves a gap.
const (
	KindHello Kind = 1 + iota // tier 2 to tier 1
	KindSpawn
	KindSignal
	KindAcknowledge
	KindHold
	KindRelease
	KindPong
	KindStopBegun
	KindStopDone
	KindEnd
	KindDeadline

	KindWelcome Kind = 65 + iota - KindDeadline // tier 1 to tier 2
	KindChild
	KindHeld
	KindSnapshotEnd
	KindSpawned
	KindSpawnFailed
	KindSpawnStuck
	KindExited
	KindSignalled
	KindPing
	KindShutdown
	KindReload
	KindCleared

	KindMany // either direction
)

// Message is one message of either direction.
type Message interface {
	Kind() Kind
	fields(*coder.Coder)
}

// Many is some messages in one, each as if it had been sent alone, in their order: one
// send and one wake-up for all.
type Many struct {
	Parts []Part
}

// Part is one message of Many, which is none itself.
type Part struct {
	Message     Message
	Descriptors uint8 // how many of those that go with Many are this one's
}

// Each calls f for a message and its descriptors, or for each of Many.
func Each(m Message, descriptors []int, f func(Message, []int)) {
	many, is := m.(*Many)
	if !is {
		f(m, descriptors)
		return
	}
	for _, p := range many.Parts {
		n := int(p.Descriptors)
		f(p.Message, descriptors[:n:n])
		descriptors = descriptors[n:]
	}
}

// Hello is what tier 2 says first, and until then tier 1 says nothing.
type Hello struct {
	Version uint32
}

// Spawn asks for a process. Exactly one of Spawned, SpawnFailed answers it
// (SpawnStuck may come before), and after Spawned exactly one Exited.
//
// The descriptors that go with the message become those listed in Targets, in
// the same order; the process has no other.
type Spawn struct {
	ID         uint64   // not used before in this boot: from Welcome.NextID on, in any order
	Name       string   // the service: bears the tag, and names a privileged definition
	UID        uint32   // whose it is, of those that Policy.Profiles has; 0: Policy.User's
	Privileged bool     // run the policy's program Name: Path, Argv, Dir, limits and identity come from there
	Path       string   // the program: one without a slash is looked for along PATH of Env, as execvp(3) does
	Argv       []string // argv[0] included
	Env        []string // K=V; of a privileged spawn only what Passable allows
	Dir        string   // working directory, entered as the target user; absolute, "": Home is
	Home       string   // entered where Dir is "", or else /; "": neither
	Umask      uint32
	Rlimits    []Rlimit
	Bounds     Bounds  // of its cgroup; where there is none, nothing enforces them
	Tag        uint32  // supplementary gid, 0: none
	Targets    []int32 // descriptor numbers in the process
	ListenPID  bool    // set LISTEN_PID to the process's own pid, sd_listen_fds(3)
	NoNewPrivs bool    // false only together with Privileged
	Terminal   bool    // the container's own descriptors 0 to 2, and the foreground of its terminal: Welcome.Terminal
	Deadline   int64   // CLOCK_BOOTTIME, ns: when tier 1 ends all that bears its tag; 0: never

	// Credentials tells that the first descriptor beyond Targets is a directory
	// of tier 2's own, which gets the tag for its group: it is for this service
	// alone. Nothing is done where services bear no tags.
	Credentials bool
	// Notify tells that the next descriptor without a target is the service's
	// notify socket, opened with O_PATH, which gets that group too.
	Notify bool
	// Ruleset tells that the last descriptor, which has no target, is a Landlock
	// ruleset for the process to restrict itself, after one of tier 1's own.
	// It needs no_new_privs, as Filter does.
	Ruleset bool
	// Private are directories that the process makes, as its user and with mode
	// 0700, where they are not there, and allows with Rights in the ruleset.
	// One of another user's fails the spawn. Absolute; at most 8.
	Private []string
	Rights  uint64
	Filter  []byte // of seccomp(2): an array of struct sock_filter; none: no filter
}

// Rlimit is one setrlimit(2).
type Rlimit struct {
	Resource   int32
	Soft, Hard uint64
}

// Bounds are what all processes of a service or a job may use together, as its
// cgroup enforces it, cgroups(7). 0: no bound.
type Bounds struct {
	Memory int64 // bytes: memory.max
	Pids   int64 // processes and threads: pids.max
	CPU    int64 // thousandths of a processor: cpu.max
}

// Where PID 1 keeps cgroups below the one that it was started in: itself, tier 2
// and processes without a tag in the first, and in the second a leaf for each tag.
const (
	CgroupInit   = "rlminit"
	CgroupLeaves = "services"
)

// Scope says which processes a signal is for.
type Scope uint32

// The scopes of a signal.
const (
	ScopeMain     Scope = iota // the process of the spawn
	ScopeGroup                 // its process group
	ScopeLeftover              // what bears the spawn's tag and was orphaned: double forks, other sessions
)

// Signal asks for a signal to the processes of a spawn. It is answered by
// Signalled. Signal number 0 only counts.
type Signal struct {
	ID     uint64
	Signal int32
	Scope  Scope
}

// Acknowledge lets tier 1 forget the exit, or the failed spawn, of ID.
type Acknowledge struct {
	ID uint64
}

// Hold gives tier 1 descriptors to keep under a key, in place of those held
// there before. They come back in Held after tier 2 was replaced.
type Hold struct {
	Key string
}

// Release lets tier 1 close the descriptors under Key.
type Release struct {
	Key string
}

// Pong answers Ping.
type Pong struct {
	Seq uint64
}

// StopBegun answers Shutdown: tier 2 is stopping the services in order.
type StopBegun struct{}

// StopDone tells that tier 2 has stopped all services; main and whatever is
// left are tier 1's to end.
type StopDone struct{}

// End asks tier 1 to stop the container, as TERM would. Code is what init
// exits with where there is no main command, or a service is in its place; -1
// leaves it to tier 1, and the first other one counts.
type End struct {
	Code int32
}

// Deadline gives a spawn another deadline, unless the one that it has has passed: that
// stays. At 0 all of it is ended now, which counts as no time-out; a time that has passed
// is one. Cleared tells when nothing is left.
type Deadline struct {
	ID uint64
	At int64 // CLOCK_BOOTTIME, ns; 0: now
}

// Welcome answers Hello.
type Welcome struct {
	Version    uint32
	Generation uint32 // of tier 2 in this boot, from 1
	NextID     uint64 // the lowest spawn id not used yet
	Tags       bool   // setgroups(2) works: services bear a tag
	Stopping   bool   // a Shutdown is under way and will be said again
	Terminal   bool   // there is one, and the service MainService may have it
}

// ChildState is tier 1's view of a child.
type ChildState uint32

// The states of a child in tier 1's table, PROTOCOL.md.
const (
	ChildPending ChildState = iota // spawn under way
	ChildAlive
	ChildExited // and not acknowledged
	ChildFailed // the spawn failed, and that was not acknowledged
)

// Tick is one of the units of start times, in ns: USER_HZ is 100 on every architecture
// that Go knows.
const Tick = 10_000_000

// Child tells a new tier 2 of one entry of the table.
type Child struct {
	ID        uint64
	Name      string
	State     ChildState
	PID       int32  // 0 where there is none yet
	StartTime uint64 // clock ticks since boot, field 22 of proc_pid_stat(5)
	Deadline  int64  // CLOCK_BOOTTIME, ns; 0: none
	Exit      Exit   // of ChildExited
	Step      Step   // of ChildFailed
	Errno     int32  // of ChildFailed
	Reason    string // of ChildFailed
}

// Held gives back the descriptors that were held under a key.
type Held struct {
	Key string
}

// SnapshotEnd tells that all of the table and all held descriptors were sent.
type SnapshotEnd struct{}

// Spawned tells that the process of a Spawn has executed its program.
type Spawned struct {
	ID        uint64
	PID       int32
	StartTime uint64
}

// Step is the part of a spawn that failed.
type Step uint32

// The steps of a spawn.
const (
	StepNone Step = iota
	StepPolicy
	StepMessage // malformed or impossible request
	StepThreads // both spawn threads are blocked
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
	StepPrivate  // a directory of Spawn.Private
	StepLandlock // restricting itself by a ruleset
	StepSeccomp
	StepCgroup // making its cgroup, or going there
)

// SpawnFailed tells that there is no process: why, and at which step. The entry
// stays until it is acknowledged.
type SpawnFailed struct {
	ID     uint64
	Step   Step
	Errno  int32
	Reason string // more words, of StepPolicy and StepMessage
}

// SpawnStuck tells that a spawn has not come to an end for 2 s: its working
// directory or program lies on a file system that does not answer.
type SpawnStuck struct {
	ID uint64
}

// Exit is how a process ended: waitid(2).
type Exit struct {
	Code      int32 // of _exit(2); -1 where a signal ended it
	Signal    int32 // 0 where it exited
	Core      bool
	Leftovers uint32 // orphans that bear its tag, as of its end
	At        int64  // CLOCK_BOOTTIME, ns
	TimedOut  bool   // its deadline had passed while it ran

	// OutOfMemory tells that the kernel has killed a process of its cgroup for
	// want of memory while it ran.
	OutOfMemory bool
}

// Exited tells of the end of a process, and is said again to each new tier 2
// until it is acknowledged.
type Exited struct {
	ID   uint64
	Exit Exit
}

// Signalled answers Signal: how many processes it went to (or were found, of
// signal 0). Errno is ESRCH where there is no such spawn or process.
type Signalled struct {
	ID    uint64
	Scope Scope
	Count uint32
	Errno int32
}

// Ping wants a Pong.
type Ping struct {
	Seq uint64
}

// Shutdown asks tier 2 to stop every service, in reverse order, before the
// deadline: StopBegun within 1 s, StopDone when it is done. A second one with
// an earlier deadline hurries.
type Shutdown struct {
	Deadline int64 // CLOCK_BOOTTIME, ns
	Main     int32 // the exit code of a main command that has ended; 0: there is none
}

// Reload asks tier 2 to read again what can be: SIGHUP.
type Reload struct{}

// Cleared tells of a spawn that was to end, by its deadline or by Deadline: the
// process was collected, and nothing that belongs to it is left.
type Cleared struct {
	ID uint64
}

// Kind of each message.
func (*Hello) Kind() Kind       { return KindHello }
func (*Spawn) Kind() Kind       { return KindSpawn }
func (*Signal) Kind() Kind      { return KindSignal }
func (*Acknowledge) Kind() Kind { return KindAcknowledge }
func (*Hold) Kind() Kind        { return KindHold }
func (*Release) Kind() Kind     { return KindRelease }
func (*Pong) Kind() Kind        { return KindPong }
func (*StopBegun) Kind() Kind   { return KindStopBegun }
func (*StopDone) Kind() Kind    { return KindStopDone }
func (*End) Kind() Kind         { return KindEnd }
func (*Deadline) Kind() Kind    { return KindDeadline }
func (*Welcome) Kind() Kind     { return KindWelcome }
func (*Child) Kind() Kind       { return KindChild }
func (*Held) Kind() Kind        { return KindHeld }
func (*SnapshotEnd) Kind() Kind { return KindSnapshotEnd }
func (*Spawned) Kind() Kind     { return KindSpawned }
func (*SpawnFailed) Kind() Kind { return KindSpawnFailed }
func (*SpawnStuck) Kind() Kind  { return KindSpawnStuck }
func (*Exited) Kind() Kind      { return KindExited }
func (*Signalled) Kind() Kind   { return KindSignalled }
func (*Ping) Kind() Kind        { return KindPing }
func (*Shutdown) Kind() Kind    { return KindShutdown }
func (*Reload) Kind() Kind      { return KindReload }
func (*Cleared) Kind() Kind     { return KindCleared }
func (*Many) Kind() Kind        { return KindMany }

// blanks make an empty message of each kind.
var blanks = [KindMany + 1]func() Message{
	KindHello:       empty[Hello],
	KindSpawn:       empty[Spawn],
	KindSignal:      empty[Signal],
	KindAcknowledge: empty[Acknowledge],
	KindHold:        empty[Hold],
	KindRelease:     empty[Release],
	KindPong:        empty[Pong],
	KindStopBegun:   empty[StopBegun],
	KindStopDone:    empty[StopDone],
	KindEnd:         empty[End],
	KindDeadline:    empty[Deadline],
	KindWelcome:     empty[Welcome],
	KindChild:       empty[Child],
	KindHeld:        empty[Held],
	KindSnapshotEnd: empty[SnapshotEnd],
	KindSpawned:     empty[Spawned],
	KindSpawnFailed: empty[SpawnFailed],
	KindSpawnStuck:  empty[SpawnStuck],
	KindExited:      empty[Exited],
	KindSignalled:   empty[Signalled],
	KindPing:        empty[Ping],
	KindShutdown:    empty[Shutdown],
	KindReload:      empty[Reload],
	KindCleared:     empty[Cleared],
}

func init() { blanks[KindMany] = empty[Many] } // which refers to blanks

func empty[T any, M interface {
	*T
	Message
}]() Message {
	return M(new(T))
}

// blank returns an empty message of a kind, or nil.
func blank(k Kind) Message {
	if int(k) >= len(blanks) || blanks[k] == nil {
		return nil
	}
	return blanks[k]()
}

func (m *Hello) fields(c *coder.Coder) { c.U32(&m.Version) }

func (m *Spawn) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.Str(&m.Name)
	c.U32(&m.UID)
	c.Bool(&m.Privileged)
	c.Str(&m.Path)
	c.Strings(&m.Argv)
	c.Strings(&m.Env)
	c.Str(&m.Dir)
	c.Str(&m.Home)
	c.U32(&m.Umask)
	coder.List(c, &m.Rlimits, func(l *Rlimit) { l.fields(c) })
	m.Bounds.fields(c)
	c.U32(&m.Tag)
	c.I32s(&m.Targets)
	c.Bool(&m.ListenPID)
	c.Bool(&m.NoNewPrivs)
	c.Bool(&m.Terminal)
	c.I64(&m.Deadline)
	c.Bool(&m.Credentials)
	c.Bool(&m.Notify)
	c.Bool(&m.Ruleset)
	c.Strings(&m.Private)
	c.U64(&m.Rights)
	c.Bytes(&m.Filter)
}

func (l *Rlimit) fields(c *coder.Coder) {
	c.I32(&l.Resource)
	c.U64(&l.Soft)
	c.U64(&l.Hard)
}

func (b *Bounds) fields(c *coder.Coder) {
	c.I64(&b.Memory)
	c.I64(&b.Pids)
	c.I64(&b.CPU)
}

func (m *Signal) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.I32(&m.Signal)
	m.Scope.fields(c)
}

func (p *Scope) fields(c *coder.Coder) {
	if c.U32((*uint32)(p)); *p > ScopeLeftover {
		c.Fail()
	}
}

func (m *Acknowledge) fields(c *coder.Coder) { c.U64(&m.ID) }
func (m *Hold) fields(c *coder.Coder)        { c.Str(&m.Key) }
func (m *Release) fields(c *coder.Coder)     { c.Str(&m.Key) }
func (m *Pong) fields(c *coder.Coder)        { c.U64(&m.Seq) }
func (m *StopBegun) fields(*coder.Coder)     {}
func (m *StopDone) fields(*coder.Coder)      {}
func (m *End) fields(c *coder.Coder)         { c.I32(&m.Code) }

func (m *Deadline) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.I64(&m.At)
}

func (m *Welcome) fields(c *coder.Coder) {
	c.U32(&m.Version)
	c.U32(&m.Generation)
	c.U64(&m.NextID)
	c.Bool(&m.Tags)
	c.Bool(&m.Stopping)
	c.Bool(&m.Terminal)
}

func (m *Child) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.Str(&m.Name)
	c.U32((*uint32)(&m.State))
	c.I32(&m.PID)
	c.U64(&m.StartTime)
	c.I64(&m.Deadline)
	m.Exit.fields(c)
	c.U32((*uint32)(&m.Step))
	c.I32(&m.Errno)
	c.Str(&m.Reason)
}

func (e *Exit) fields(c *coder.Coder) {
	c.I32(&e.Code)
	c.I32(&e.Signal)
	c.Bool(&e.Core)
	c.U32(&e.Leftovers)
	c.I64(&e.At)
	c.Bool(&e.TimedOut)
	c.Bool(&e.OutOfMemory)
}

func (m *Held) fields(c *coder.Coder)      { c.Str(&m.Key) }
func (m *SnapshotEnd) fields(*coder.Coder) {}

func (m *Spawned) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.I32(&m.PID)
	c.U64(&m.StartTime)
}

func (m *SpawnFailed) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.U32((*uint32)(&m.Step))
	c.I32(&m.Errno)
	c.Str(&m.Reason)
}

func (m *SpawnStuck) fields(c *coder.Coder) { c.U64(&m.ID) }

func (m *Exited) fields(c *coder.Coder) {
	c.U64(&m.ID)
	m.Exit.fields(c)
}

func (m *Signalled) fields(c *coder.Coder) {
	c.U64(&m.ID)
	m.Scope.fields(c)
	c.U32(&m.Count)
	c.I32(&m.Errno)
}

func (m *Ping) fields(c *coder.Coder) { c.U64(&m.Seq) }

func (m *Shutdown) fields(c *coder.Coder) {
	c.I64(&m.Deadline)
	c.I32(&m.Main)
}
func (m *Reload) fields(*coder.Coder)    {}
func (m *Cleared) fields(c *coder.Coder) { c.U64(&m.ID) }

func (m *Many) fields(c *coder.Coder) {
	coder.List(c, &m.Parts, func(p *Part) {
		var kind uint8
		if p.Message != nil {
			kind = uint8(p.Message.Kind())
		}
		c.U8(&kind)
		if p.Message == nil {
			p.Message = blank(Kind(kind))
		}
		if p.Message == nil || Kind(kind) == KindMany {
			c.Fail()
			return
		}
		c.U8(&p.Descriptors)
		p.Message.fields(c)
	})
}
