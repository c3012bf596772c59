package reap

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// connected is a reaper without a loop, and the other end of its pair.
func connected(t *testing.T) (*reaper, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	events, errno := sys.NewEvents()
	if errno != 0 {
		t.Fatal(errno)
	}
	r := newReaper()
	r.events, r.pair.events = events, events
	r.pair.socket, r.pair.greeted = pair[0], true
	if errno := events.Add(int32(pair[0]), sys.Readable, keySocket); errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { wire.CloseAll(pair[:]) })
	return r, pair[1]
}

// A socket that is found full when a send is tried again by time is waited for,
// and one that only has to be tried again is not.
func TestFullSocketIsWaitedFor(t *testing.T) {
	r, other := connected(t)
	r.pair.full, r.pair.retryAt = true, 1
	r.pair.flush(0, false, false)
	if ready := r.events.Wait(0); len(ready) != 0 {
		t.Fatalf("%d events while only time helps", len(ready))
	}
	r.pair.retry(1)
	for r.pair.send(1, &wire.Ping{}) {
	}
	r.pair.flush(1, false, false)
	var in wire.Receiver
	for {
		if _, _, err := in.Receive(other); err == wire.ErrEmpty {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if ready := r.events.Wait(0); len(ready) != 1 || ready[0].Events&sys.Writable == 0 {
		t.Errorf("%d events after the other tier has read", len(ready))
	}
}

// A process that ended on its way to its program is not signalled by its
// number, which another may have by then.
func TestKillJobSparesARecycledPid(t *testing.T) {
	gone, other := exec.Command("/bin/true"), exec.Command("/bin/sleep", "1000")
	pidfd := -1
	gone.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if pidfd < 0 {
		t.Skip("needs pidfds")
	}
	defer unix.Close(pidfd)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	r, _ := connected(t)
	r.signaller.killJob(&threads.Job{Command: &sys.Command{Outcome: sys.Outcome{PID: int32(other.Process.Pid), PIDFD: int32(pidfd)}}})
	other.Process.Signal(unix.SIGTERM)
	other.Wait()
	if got := other.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != unix.SIGTERM {
		t.Errorf("another process got %v", got)
	}
}

// The word of a spawn may wait for others, and nothing else waits with it.
func TestOnlySpawnsWaitForEachOther(t *testing.T) {
	r, other := connected(t)
	r.pair.greeted = true
	var in wire.Receiver
	now := int64(longestWait)
	told := func(want string) {
		t.Helper()
		r.pair.flush(now, false, true)
		got := ""
		for {
			m, fds, err := in.Receive(other)
			if err != nil {
				break
			}
			wire.Each(m, fds, func(m wire.Message, _ []int) { got += fmt.Sprintf("%T ", m)[len("*wire."):] })
		}
		if got != want {
			t.Errorf("told: %q, want %q", got, want)
		}
	}
	started := func(id uint64) *child {
		c := &child{id: id, state: alive}
		r.children.add(c)
		r.children.owe(c, owedSpawned)
		return c
	}
	told("")
	started(16)
	told("")
	r.pair.owed |= owedPing
	told("Ping Spawned ")
	r.pair.owed |= owedPing
	told("Ping ")
	r.children.owe(started(17), owedExited)
	told("Spawned Exited ")
	started(18)
	now += longestWait - 1
	told("")
	now++
	told("Spawned ")
	told("")
	for id := range uint64(fewSpawned) {
		started(20 + id)
	}
	told(strings.Repeat("Spawned ", fewSpawned))
}

// A spawn that was stuck already is told as such to the next tier 2 too.
func TestNextTier2IsToldOfStuckSpawns(t *testing.T) {
	r, other := connected(t)
	r.children.add(&child{id: 16, state: pending, stuck: true})
	r.children.add(&child{id: 17, state: pending})
	r.pair.greet(wire.Welcome{})
	r.pair.flush(0, false, false)
	var in wire.Receiver
	for _, want := range []wire.Kind{wire.KindWelcome, wire.KindChild, wire.KindChild, wire.KindSnapshotEnd, wire.KindSpawnStuck} {
		m, _, err := in.Receive(other)
		if err != nil || m.Kind() != want {
			t.Fatalf("%+v, %v; want kind %d", m, err, want)
		}
	}
	if m, _, err := in.Receive(other); err != wire.ErrEmpty {
		t.Errorf("%+v, %v", m, err)
	}
}

// With every thread stuck, a tier 2 that is due is not queued for good: that it
// cannot be started is known before the loop waits.
func TestNothingWaitsForStuckThreads(t *testing.T) {
	r, _ := connected(t)
	if err := r.threads.Start(wire.PlentyPIDs); err != nil {
		t.Fatal(err)
	}
	stuck, through := 0, 0
	var children []*sys.Command
	for range threads.Most {
		c := &sys.Command{Session: sys.OwnSession, Kill: &sys.Victim{Signal: sys.SIGSTOP}} // it stops in the middle of its way
		children = append(children, c)
		r.threads.Submit(&threads.Job{Command: c, Done: func(*threads.Job) { through++ }, Stuck: func(*threads.Job) { stuck++ }}, 0)
	}
	defer func() {
		for _, c := range children {
			pid, _ := (&threads.Job{Command: c}).InFlight()
			unix.Kill(int(pid), unix.SIGKILL)
		}
		eventually(t, "the threads are free", func() bool {
			r.threads.Harvest(0)
			return through == threads.Most
		})
	}()
	now := int64(0)
	eventually(t, "all are stuck", func() bool {
		now += int64(time.Second)
		r.threads.Look(now)
		return stuck == threads.Most
	})
	r.pair.disconnect()
	r.now = now
	r.tier2.restartAt = r.now
	r.timers()
	if r.threads.Waiting() != 0 || r.tier2.spawning || r.timeout() < 0 {
		t.Errorf("%d jobs wait, spawning is %t, the loop would wait for %d ms", r.threads.Waiting(), r.tier2.spawning, r.timeout())
	}
}

// What is known of an orphan is forgotten with it, for its number may be the
// next one's.
func TestOrphanIsForgotten(t *testing.T) {
	o := orphans{tags: map[int32]uint32{}}
	for pid := int32(100); pid < 100+2*fewOrphans; pid++ {
		o.add(pid)
		o.tags[pid] = lowTag
	}
	o.offset = 1000
	o.collected(7) // never seen
	if len(o.pids) != 2*fewOrphans || o.offset != 1000 {
		t.Errorf("%d pids, read up to %d", len(o.pids), o.offset)
	}
	o.collected(100)
	o.add(100)
	if o.tags[100] != unread || len(o.pids) != 1 || o.offset != 0 {
		t.Errorf("tag %d, pids %v, read up to %d", o.tags[100], o.pids, o.offset)
	}
}

// A turn in which nothing happens but that it was woken leaves no garbage: what runs
// for months shall not need a collector.
func TestTurnAllocatesNothing(t *testing.T) {
	r, _ := connected(t)
	woken, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(woken)
	if errno := r.events.Add(int32(woken), sys.Readable, keyControl); errno != 0 {
		t.Fatal(errno)
	}
	r.deadlines.watch(&child{id: firstID, state: alive, expiry: expiry{deadline: never}})
	r.turn()
	if n := testing.AllocsPerRun(1000, r.turn); n != 0 || !r.tier2.pulse.events {
		t.Errorf("%v allocations in a turn; it was woken: %t", n, r.tier2.pulse.events)
	}
}

// A step has one number in both packages.
func TestStepsHaveOneNumber(t *testing.T) {
	for step, same := range map[sys.Step]wire.Step{
		sys.StepNone: wire.StepNone, sys.StepFork: wire.StepFork, sys.StepSession: wire.StepSession, sys.StepTerminal: wire.StepTerminal,
		sys.StepOOMScore: wire.StepOOMScore, sys.StepRlimit: wire.StepRlimit, sys.StepBounding: wire.StepBounding,
		sys.StepGroups: wire.StepGroups, sys.StepGID: wire.StepGID, sys.StepUID: wire.StepUID, sys.StepCapabilities: wire.StepCapabilities,
		sys.StepNoNewPrivs: wire.StepNoNewPrivs, sys.StepDir: wire.StepDir, sys.StepDescriptors: wire.StepDescriptors,
		sys.StepSignals: wire.StepSignals, sys.StepExec: wire.StepExec, sys.StepPrivate: wire.StepPrivate,
		sys.StepLandlock: wire.StepLandlock, sys.StepSeccomp: wire.StepSeccomp, sys.StepCgroup: wire.StepCgroup,
	} {
		if wire.Step(step) != same {
			t.Errorf("step %d is %d in package wire", step, same)
		}
	}
}

// A fault in one part of a turn keeps no other part from being done, and is said once.
func TestAFaultIsSurvived(t *testing.T) {
	r := newReaper()
	done, first := 0, 0
	fault := func() {
		var none []int
		_ = none[first]
	}
	for range 3 {
		for _, part := range []func(){fault, func() { done++ }, func() { panic("odd") }, func() { done++ }} {
			survive(&r.voice, &r.sweep, part)
		}
	}
	if done != 6 || !r.sweep {
		t.Errorf("%d parts were done, and what may have ended is looked at: %t", done, r.sweep)
	}
}

// A fault where a request is looked at refuses that request, with its descriptors closed,
// and the rest of its bundle is done.
func TestAFaultRefusesItsRequest(t *testing.T) {
	r, other := connected(t)
	r.commands.children = nil // which of looks at
	ends := make([]int, 2)
	if err := unix.Pipe2(ends, unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	bundle := &wire.Many{}
	for id := uint64(firstID); id < firstID+2; id++ {
		m := &wire.Spawn{ID: id, Name: "web", Privileged: true, Targets: []int32{1}, Tag: 1}
		bundle.Parts = append(bundle.Parts, wire.Part{Message: m, Descriptors: 1})
	}
	r.policy.TagHigh = 1
	if err := wire.Send(other, bundle, ends[1], ends[1]); err != nil {
		t.Fatal(err)
	}
	unix.Close(ends[1])
	r.receive()
	for id := uint64(firstID); id < firstID+2; id++ {
		if c := r.children.byID[id]; c == nil || c.errno != int32(unix.EINVAL) {
			t.Errorf("%d: %+v", id, c)
		}
	}
	if n, err := unix.Read(ends[0], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the descriptors are not closed: %d, %v", n, err)
	}
}

// A supervisor that answers nothing is replaced, and the next one has twice as long, for it
// may only be slow; until one has been at rest.
func TestPatienceGrows(t *testing.T) {
	r, _ := connected(t)
	pings := func() (n int) {
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r.tier2.pid, r.tier2.pulse = int32(cmd.Process.Pid), pulse{}
		for before := uint64(0); r.pair.pings != before; n++ {
			before = r.pair.pings
			r.tier2.look(r.tier2.pulse.at)
		}
		if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Errorf("it ended with %v", err)
		}
		return n - 1
	}
	r.pair.pings = 1
	for _, want := range []int{2, 4, 8, 16, 16} {
		if got := pings(); got != want {
			t.Errorf("it was asked %d times, want %d", got, want)
		}
	}
	r.tier2.pulse = pulse{unanswered: 1}
	if !r.tier2.heard(0) || pings() != 2 {
		t.Error("one has been at rest, and the next has as long as before that")
	}
}

// A supervisor that ends early, always in the same way, and has never been through with a
// boot, ends the container in the end; anything else begins the count anew.
func TestSupervisorInVain(t *testing.T) {
	code := func(n int32) wire.Exit { return wire.Exit{Code: n} }
	killed := wire.Exit{Code: -1, Signal: int32(syscall.SIGKILL)}
	fault := wire.Exit{Code: -1, Signal: int32(syscall.SIGSYS)}
	for name, c := range map[string]struct {
		booted, cramped bool
		since           int64 // before the end
		exits           []wire.Exit
		want            bool
	}{
		"always the same code":   {exits: []wire.Exit{code(2)}, want: true},
		"always the same signal": {exits: []wire.Exit{fault}, want: true},
		"two in turn":            {exits: []wire.Exit{code(2), code(1)}},
		"killed by somebody":     {exits: []wire.Exit{killed}},
		"no room for it":         {exits: []wire.Exit{code(2)}, cramped: true},
		"after some time":        {exits: []wire.Exit{code(2)}, since: earlyEnd},
		"after a boot":           {exits: []wire.Exit{code(2)}, booted: true},
	} {
		tier2 := tier2{booted: c.booted}
		got := false
		for i := range int64(2 * mostInVain) {
			now := (i + 1) * 2 * earlyEnd
			tier2.since = now - c.since
			got = tier2.useless(c.exits[int(i)%len(c.exits)], now, c.cramped) || got
		}
		if got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
