package reap

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

func inMilliseconds(n int64) func(*wire.Spawn) {
	return func(m *wire.Spawn) { m.Deadline = sinceBoot() + n*1e6 }
}

func (l *link) cleared(t *testing.T, id uint64) {
	t.Helper()
	want(t, l, func(m *wire.Cleared) bool { return m.ID == id })
}

// At its deadline all of a child ends: itself, deaf for TERM, what it has forked
// into other sessions and without its environment, orphaned or not.
func TestDeadlineEndsAllOfIt(t *testing.T) {
	b := startBox(t)
	l := b.link
	for _, part := range [][]string{
		{"deaf"},
		{"leak", "deaf"},
		{"leak", "leak", "sleep"},
	} {
		id, out := l.spawn(t, inMilliseconds(3600e3), part...)
		l.spawned(t, id)
		b.link.line(t, out) // from here on it is deaf; then its deadline comes nearer
		l.send(t, &wire.Deadline{ID: id, At: sinceBoot() + 100e6})
		if got := l.exited(t, id); !got.TimedOut {
			t.Errorf("%v: %+v", part, got)
		}
		l.cleared(t, id)
		if left := b.processes(); len(left) != 1 { // tier 2
			t.Errorf("%v: cleared, and there are %v", part, left)
		}
		l.send(t, &wire.Acknowledge{ID: id})
	}
	// A shell whose child has its own session and lives: no orphan until then.
	id, out := l.spawn(t, func(m *wire.Spawn) {
		inMilliseconds(3000)(m)
		m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", "setsid sh -c \"trap 'echo asked; exit' TERM; echo ready; while :; do sleep 0.1; done\" & trap '' TERM; while :; do sleep 0.1; done"}
	})
	for _, line := range []string{"ready", "asked"} {
		if got := b.link.line(t, out); got != line {
			t.Errorf("%q, want %q", got, line)
		}
	}
	if got := l.exited(t, id); !got.TimedOut || got.Signal != int32(unix.SIGKILL) {
		t.Errorf("%+v", got)
	}
	l.cleared(t, id)
}

// Nobody needs to be there for it: tier 2 is stopped, and then killed.
func TestDeadlineIsKeptWithoutTier2(t *testing.T) {
	b := startBox(t)
	id, out := b.link.spawn(t, inMilliseconds(5000), "leak", "deaf")
	b.link.spawned(t, id)
	b.link.line(t, out)
	pid := tier2PID(t, b)
	unix.Kill(pid, unix.SIGSTOP)
	eventually(t, "all of it is gone", func() bool { return len(b.processes()) == 1 })
	unix.Kill(pid, unix.SIGKILL)
	l := b.accept()
	l.hello(t)
	if len(l.snapshot) != 1 || l.snapshot[0].State != wire.ChildExited || !l.snapshot[0].Exit.TimedOut {
		t.Fatalf("%+v", l.snapshot)
	}
	l.send(t, &wire.Deadline{ID: id}) // as one who does not know how far it has come
	l.cleared(t, id)
}

// What ends by itself has not timed out; what it left is ended when tier 2 says
// so, which is no time-out either; and a deadline can be brought forward.
func TestEndAndNewDeadline(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, _ := l.spawn(t, inMilliseconds(3600e3), "leak", "exit", "3")
	if got := l.exited(t, id); got.TimedOut || got.Code != 3 || got.Leftovers != 1 {
		t.Errorf("%+v", got)
	}
	l.send(t, &wire.Deadline{ID: id})
	l.send(t, &wire.Deadline{ID: id})
	l.cleared(t, id)

	id, out := l.spawn(t, nil, "leak", "sleep")
	b.link.line(t, out)
	l.send(t, &wire.Deadline{ID: id})
	if got := l.exited(t, id); got.TimedOut || got.Signal != int32(unix.SIGTERM) {
		t.Errorf("%+v", got)
	}
	l.cleared(t, id)

	id, out = l.spawn(t, inMilliseconds(3600e3), "sleep")
	b.link.line(t, out)
	l.send(t, &wire.Deadline{ID: id, At: 1})
	if got := l.exited(t, id); !got.TimedOut {
		t.Errorf("%+v", got)
	}
	l.cleared(t, id)

	// Before the program runs, of what never ran, and of what is not there.
	id, _ = l.spawn(t, nil, "sleep")
	l.send(t, &wire.Deadline{ID: id})
	l.exited(t, id)
	l.cleared(t, id)
	id, _ = l.spawn(t, func(m *wire.Spawn) { inMilliseconds(1)(m); m.Path = "/nowhere" }, "x")
	want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
	l.send(t, &wire.Deadline{ID: id})
	l.send(t, &wire.Deadline{ID: 1 << 40})
	l.send(t, &wire.Acknowledge{ID: id})
	eventually(t, "nothing is left", func() bool { return len(b.processes()) == 1 })
}

// Without tags the session and its group are ended.
func TestDeadlineWithoutTags(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, out := l.spawn(t, func(m *wire.Spawn) {
		inMilliseconds(3000)(m)
		m.Tag = 0
		m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", "trap '' TERM; (trap '' TERM; sleep 1000; sleep 1000) & (sleep 1000 &) ; echo ready; while :; do sleep 0.1; done"}
	})
	if got := b.link.line(t, out); got != "ready" {
		t.Fatal(got)
	}
	if got := l.exited(t, id); !got.TimedOut {
		t.Errorf("%+v", got)
	}
	l.cleared(t, id)
	eventually(t, "nothing is left", func() bool { return len(b.processes()) == 1 })
}

// A program is not executed after its deadline, and what has passed is moved on no more.
func TestPassedDeadline(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, _ := l.spawn(t, inMilliseconds(-1), "sleep")
	want(t, l, func(m *wire.SpawnFailed) bool {
		return m.ID == id && m.Step == wire.StepExec && m.Errno == int32(unix.ETIME)
	})
	if left := b.processes(); len(left) != 1 { // tier 2
		t.Errorf("there are %v", left)
	}

	r, c := reaperOf(alive)
	c.expiry.deadline = sinceBoot() - 1
	passed := c.expiry.deadline
	r.deadlines.set(&wire.Deadline{ID: c.id, At: sinceBoot() + 1e12})
	if c.expiry.deadline != passed || c.dueAt(r.now, sinceBoot()) > r.now {
		t.Errorf("a deadline that has passed was moved on: %+v", c.expiry)
	}
}

// A deadline that passes anywhere between a spawn's request and its program ends it with
// one answer: it has never run, for its deadline has passed, or it has run and timed out.
func TestDeadlinePassesDuringSpawn(t *testing.T) {
	b := startBox(t)
	l := b.link
	for i := range int64(200) {
		id, _ := l.spawn(t, func(m *wire.Spawn) { m.Deadline = sinceBoot() + i*10_000 }, "sleep")
		answer := want(t, l, func(m wire.Message) bool {
			switch m := m.(type) {
			case *wire.SpawnFailed:
				return m.ID == id
			case *wire.Spawned:
				return m.ID == id
			}
			return false
		})
		if m, failed := answer.(*wire.SpawnFailed); failed {
			if m.Step != wire.StepExec || m.Errno != int32(unix.ETIME) {
				t.Errorf("%d µs ahead it failed at step %d with %v", i*10, m.Step, unix.Errno(m.Errno))
			}
			continue
		}
		if e := l.exited(t, id); !e.TimedOut {
			t.Errorf("%d µs ahead it ended with %+v", i*10, e)
		}
	}
}

// A spawn that PID 1 has killed on its way is answered with the reason for that, whether its
// process was there yet, has seen the clock first, or has reached its program.
func TestKilledSpawnsHaveOneCause(t *testing.T) {
	for _, c := range []struct {
		killed, errno, want unix.Errno
		at, step            sys.Step
	}{
		{0, 0, unix.EINTR, sys.StepUID, sys.StepUID}, // by somebody else
		{0, unix.ENOENT, unix.ENOENT, sys.StepExec, sys.StepExec},
		{unix.ETIME, 0, unix.ETIME, sys.StepUID, sys.StepExec},
		{unix.ETIME, unix.ETIME, unix.ETIME, sys.StepExec, sys.StepExec},
		{unix.ETIME, unix.EAGAIN, unix.ETIME, sys.StepNone, sys.StepExec},
		{unix.ETIME, unix.ENOENT, unix.ENOENT, sys.StepExec, sys.StepExec},
		{unix.ETIMEDOUT, 0, unix.ETIMEDOUT, sys.StepDir, sys.StepDir},
		{unix.ETIMEDOUT, unix.ETIME, unix.ETIME, sys.StepExec, sys.StepExec},
		{unix.ETIMEDOUT, unix.EACCES, unix.EACCES, sys.StepDir, sys.StepDir},
		{0, unix.EAGAIN, unix.EAGAIN, sys.StepNone, sys.Step(wire.StepThreads)},
	} {
		r, entry := reaperOf(pending)
		entry.spawn = &threads.Job{Command: &sys.Command{}}
		if c.killed != 0 {
			r.signaller.killPending(entry, c.killed)
			r.signaller.killPending(entry, unix.EPERM) // the first reason stays
		}
		command := &sys.Command{}
		command.Step, command.Errno = c.at, sys.Errno(c.errno)
		if c.errno == 0 {
			command.Errno = sys.EINTR
		}
		if entry.blame(command); entry.errno != int32(c.want) || int(entry.step) != int(c.step) {
			t.Errorf("killed for %v at step %d with %v: step %d, %v", c.killed, c.at, c.errno, entry.step, unix.Errno(entry.errno))
		}
	}
}

// Whatever happens to a child that is due, in whatever order: TERM goes out
// once, KILL only after it, a time-out is one only of what still ran, and all
// are told once that nothing is left.
func TestExpiryExplored(t *testing.T) {
	type world struct {
		state    state
		phase    expiryPhase
		wanted   bool
		timedOut bool
		told     int
	}
	seen := map[world]bool{}
	var explore func(w world)
	explore = func(w world) {
		if seen[w] {
			return
		}
		seen[w] = true
		for step := range 4 {
			r, _ := reaperOf(w.state)
			c := r.children.byID[16]
			c.expiry = expiry{phase: w.phase, wanted: w.wanted, timedOut: w.timedOut, next: 1, watched: false}
			r.deadlines.watch(c)
			next := w
			switch step {
			case 0: // the deadline passes
				if c.expiry.deadline = 1; c.dueAt(r.now, 1) <= r.now && c.expiry.phase == notDue {
					r.step(c, due)
				}
			case 1: // tier 2 wants the end
				r.deadlines.set(&wire.Deadline{ID: 16})
				if c.dueAt(r.now, 1) <= r.now && c.expiry.phase == notDue {
					r.step(c, due)
				}
			case 2: // a second passes
				if c.expiry.phase == asked || c.expiry.phase == slain {
					r.deadlines.slay(c, r.now)
				}
			case 3: // the process is collected, and nothing is left
				if c.state != alive {
					continue
				}
				c.exit.TimedOut = c.expiry.timedOut
				r.step(c, ended)
				r.deadlines.again()
			}
			next.state, next.phase, next.wanted, next.timedOut = c.state, c.expiry.phase, c.expiry.wanted, c.expiry.timedOut
			if c.owed&owedCleared != 0 {
				next.told = 1
			}
			if next.phase == slain && w.phase == notDue {
				t.Fatalf("%+v: KILL without TERM: %+v", w, next)
			}
			if next.timedOut && !w.timedOut && (w.state != alive || next.wanted) {
				t.Fatalf("%+v: no time-out: %+v", w, next)
			}
			if next.phase == cleared && (next.told == 0 || next.state != exited) {
				t.Fatalf("%+v: cleared and not said: %+v", w, next)
			}
			if w.phase == cleared && next.phase != cleared {
				t.Fatalf("%+v: not cleared any more: %+v", w, next)
			}
			explore(next)
		}
	}
	explore(world{state: pending})
	explore(world{state: alive})
	explore(world{state: exited})
	if len(seen) < 10 {
		t.Errorf("only %d situations were reached", len(seen))
	}
}

// reaperOf is a reaper with one child in a state, which has no process.
func reaperOf(s state) (*reaper, *child) {
	r := newReaper()
	r.now = int64(time.Hour)
	c := &child{id: 16, pidfd: -1, state: s, pid: int32(os.Getpid()) + 1<<22}
	r.children.add(c)
	return r, c
}
