package threads

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "rlminit/reap/pure" // this binary is an init when it is called as one
	"rlminit/reap/sys"
	"rlminit/wire"
)

// spawning is threads at work, with a clock of their own.
type spawning struct {
	*testing.T
	Threads
	now     int64
	done    []string
	stuck   int
	stopped []*sys.Command
}

func begin(t *testing.T) *spawning {
	s := &spawning{T: t}
	if err := s.Start(wire.PlentyPIDs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.until("all threads are free", func() bool {
			for _, c := range s.stopped {
				if pid, _ := (&Job{Command: c}).InFlight(); pid > 0 {
					unix.Kill(int(pid), unix.SIGKILL)
				}
			}
			return s.Idle()
		})
	})
	return s
}

// job is one whose process sends itself a signal and ends; 0: it only ends.
func (s *spawning) job(name string, signal int32) *Job {
	c := &sys.Command{Session: sys.OwnSession, Kill: &sys.Victim{Signal: signal}, SetBounds: s.Bounded}
	if signal != 0 {
		s.stopped = append(s.stopped, c)
	}
	return &Job{
		Command: c, FDs: []int{0, 1, 2}, Size: 100, Stuck: func(*Job) { s.stuck++ },
		Done: func(j *Job) {
			s.done = append(s.done, name)
			if j.Command.PID != 0 {
				sys.Collect(j.Command.PID)
				sys.Close(j.Command.PIDFD)
			}
		},
	}
}

func (s *spawning) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		s.Harvest(s.now)
		if time.Now().After(deadline) {
			s.Fatalf("it does not come about that %s; done: %q, %d stuck, %d wait", what, s.done, s.stuck, s.Waiting())
		}
	}
}

// begun waits until so many processes are on their way.
func (s *spawning) begun(n int) {
	s.until("threads have begun", func() bool {
		is := 0
		for _, c := range s.stopped {
			if pid, _ := (&Job{Command: c}).InFlight(); pid != 0 {
				is++
			}
		}
		return is == n
	})
}

func (s *spawning) has(names ...string) func() bool {
	return func() bool {
		for _, name := range names {
			if !strings.Contains(strings.Join(s.done, " ")+" ", name+" ") {
				return false
			}
		}
		return true
	}
}

// A spawn that hangs keeps nobody waiting who is behind it in its thread's list, and what
// came before it is told meanwhile.
func TestNobodyWaitsBehindASlowSpawn(t *testing.T) {
	s := begin(t)
	s.Bounded = true                                     // so that none goes to the thread for what is not
	s.Submit(s.job("stop1", int32(unix.SIGSTOP)), s.now) // each takes a thread
	s.Submit(s.job("stop2", int32(unix.SIGSTOP)), s.now)
	for _, name := range []string{"a", "stop3", "b", "c", "d", "e"} {
		signal := int32(0)
		if strings.HasPrefix(name, "stop") {
			signal = int32(unix.SIGSTOP)
		}
		s.Submit(s.job(name, signal), s.now)
	}
	if s.Waiting() != 6 || s.queuedFDs != 18 || s.queuedSize != 600 {
		t.Fatalf("%d wait, with %d descriptors and %d bytes", s.Waiting(), s.queuedFDs, s.queuedSize)
	}
	s.begun(2)
	s.now += slowAfter
	s.Look(s.now) // two are slow: two other threads take three each
	s.until("who is before the third is done", s.has("a", "c", "d", "e"))
	if s.has("b")() {
		t.Fatal("b was behind one that has stopped")
	}
	s.begun(3)
	s.now = s.Next()
	s.Look(s.now)
	s.until("who was behind it is done", s.has("b"))
	if s.queuedFDs != 0 || s.queuedSize != 0 || s.Waiting() != 0 {
		t.Errorf("%d wait, with %d descriptors and %d bytes", s.Waiting(), s.queuedFDs, s.queuedSize)
	}
	for range mostLooks {
		s.now += lookEvery
		s.Look(s.now)
	}
	if s.stuck != 3 || s.Soon() {
		t.Errorf("%d are stuck, of 3; something comes soon: %t", s.stuck, s.Soon())
	}
}

// What a thread had not begun is taken back once: a spawn of its list that had begun by then
// may be slow too.
func TestTheSecondOfAListIsSlowToo(t *testing.T) {
	s := begin(t)
	s.Bounded = true
	s.Submit(s.job("stop1", int32(unix.SIGSTOP)), s.now) // each takes a thread
	s.Submit(s.job("stop2", int32(unix.SIGSTOP)), s.now)
	for _, name := range []string{"a", "stop3", "b", "c", "d", "e"} {
		signal := int32(0)
		if name == "stop3" {
			signal = int32(unix.SIGSTOP)
		}
		s.Submit(s.job(name, signal), s.now)
	}
	s.begun(2)
	s.now += slowAfter
	s.Look(s.now)
	third := s.stopped[2]
	for pid := int32(0); pid == 0; pid, _ = (&Job{Command: third}).InFlight() {
		time.Sleep(time.Millisecond)
	}
	for _, of := range s.spawners {
		if slices.ContainsFunc(of.jobs, func(j *Job) bool { return j.Command == third }) {
			s.recall(of) // it looks late, and has not heard of the first
		}
	}
	s.until("who was behind it is done", s.has("a", "b", "c", "d", "e"))
	s.now = s.Next()
	s.Look(s.now)
	if s.Waiting() != 0 || s.queuedSize != 0 {
		t.Errorf("%d wait, with %d bytes", s.Waiting(), s.queuedSize)
	}
}

// Whatever comes when, and however slow it is: each job is done once, and nothing is left.
func TestEveryJobIsDoneOnce(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	s := begin(t)
	s.Bounded = r.IntN(2) == 0
	resume := func() {
		for _, c := range s.stopped {
			if pid, _ := (&Job{Command: c}).InFlight(); pid > 0 && r.IntN(3) == 0 {
				unix.Kill(int(pid), unix.SIGCONT)
			}
		}
	}
	counts := map[string]int{}
	for n := 0; n < 600; {
		switch r.IntN(8) {
		case 0, 1, 2, 3:
			for range 1 + r.IntN(20) {
				signal := int32(0)
				if r.IntN(12) == 0 {
					signal = int32(unix.SIGSTOP)
				}
				s.Submit(s.job(fmt.Sprint(n), signal), s.now)
				n++
			}
		case 4:
			s.Harvest(s.now)
		case 5:
			s.now += r.Int64N(2 * slowAfter)
			s.Look(s.now)
		case 6:
			if next := s.Next(); next != never {
				s.now = max(s.now, next)
				s.Look(s.now)
			}
		default:
			s.recall(s.spawners[r.IntN(len(s.spawners))]) // it has not heard yet of what is done
			resume()
		}
	}
	s.until("all are done", func() bool {
		resume()
		s.now += slowAfter
		s.Look(s.now)
		return len(s.done) >= 600 && s.Idle()
	})
	for _, name := range s.done {
		if counts[name]++; counts[name] > 1 {
			t.Errorf("seed %d: %s is done twice", seed, name)
		}
	}
	if s.Waiting() != 0 || s.queuedFDs != 0 || s.queuedSize != 0 {
		t.Errorf("seed %d: %d wait, with %d descriptors and %d bytes", seed, s.Waiting(), s.queuedFDs, s.queuedSize)
	}
}

// With every thread stuck a job is refused.
func TestNothingWaitsForThreadsThatAreStuck(t *testing.T) {
	s := begin(t)
	for i := range Most + 1 {
		s.Submit(s.job(fmt.Sprint("stop", i), int32(unix.SIGSTOP)), s.now)
	}
	s.until("all threads are stuck", func() bool {
		s.now += lookEvery
		s.Look(s.now)
		return s.stuck == Most
	})
	s.until("one is refused", func() bool { return len(s.done) == 1 })
	s.Submit(s.job("late", 0), s.now)
	s.Look(s.now)
	if !s.has("late")() {
		t.Error("a job waits for threads that are all stuck")
	}
}

// When a process was started is what /proc has, whichever way it was found out.
func TestStartTime(t *testing.T) {
	s := begin(t)
	for range 40 {
		var is, want string
		c := &sys.Command{Session: sys.OwnSession}
		c.Program([]string{"/bin/sleep"}, []string{"sleep", "100"}, nil)
		done := false
		s.Submit(&Job{Command: c, Stuck: func(*Job) {}, Done: func(j *Job) {
			done = true
			is = fmt.Sprint(j.Command.StartTime)
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", j.Command.PID))
			if err != nil {
				t.Fatal(err)
			}
			want = strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[22-3]
			unix.Kill(int(j.Command.PID), unix.SIGKILL)
			sys.Collect(j.Command.PID)
			sys.Close(j.Command.PIDFD)
		}}, s.now)
		s.until("it runs", func() bool { return done })
		if is != want {
			t.Fatalf("it was started at %s; /proc has %s", is, want)
		}
	}
}

// A process that is on a processor, or waits for one, is not stuck; one that sleeps may be.
func TestRuns(t *testing.T) {
	for script, want := range map[string]bool{"while :; do :; done": true, "exec sleep infinity": false} {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		j := &Job{Command: &sys.Command{}}
		j.Command.PID = int32(cmd.Process.Pid)
		for deadline := time.Now().Add(time.Minute); j.runs() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%q runs: %t", script, !want)
				break
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	if (&Job{Command: &sys.Command{}}).runs() {
		t.Error("a process that is not there runs")
	}
}
