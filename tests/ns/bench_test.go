package ns

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/load"
)

// BenchmarkBoot measures from the start of PID 1 until the gateways of 100
// profiles are ready. Each is a Go program of its own: half the time is theirs.
func BenchmarkBoot(b *testing.B) {
	var total time.Duration
	for b.Loop() {
		total += load.Boot(b, Start, 100)
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/boot")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRecovery measures from SIGKILL of a service until its successor
// runs, as seen in /proc.
func BenchmarkRecovery(b *testing.B) {
	bx := Start(b, box.Spec{Config: contract.Services(
		`victim: {command: [sleep, infinity], restart: {delay: 1ms, max_delay: 1ms, limit: 0, reset_after: 1ms}, log: {tee: off}}`)})
	bx.Await("victim", "running")
	init := bx.Place.(*Place).PID()
	pid := childNamed(b, init, "sleep", 0)
	var total time.Duration
	for b.Loop() {
		process, err := os.FindProcess(pid)
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := process.Kill(); err != nil {
			b.Fatal(err)
		}
		pid = childNamed(b, init, "sleep", pid)
		total += time.Since(began)
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/recovery")
	b.ReportMetric(0, "ns/op")
}

// childNamed waits for a child of a process that runs a program, other than
// one of this pid, and returns its pid.
func childNamed(b *testing.B, parent int, program string, not int) int {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		for _, child := range children(b, parent) {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); err == nil && strings.TrimSpace(string(name)) == program && child != not {
				return child
			}
		}
	}
	b.Fatalf("%s does not run", program)
	return 0
}

// children are the pids of a process's children, whichever thread forked them.
func children(t testing.TB, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(b)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

// BenchmarkIdle measures what both tiers cost with 100 services that do
// nothing: memory, and how often they wake up.
func BenchmarkIdle(b *testing.B) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf(`s%d: {command: [sleep, infinity]}`, i))
	}
	bx := Start(b, box.Spec{Config: contract.Services(lines...)})
	bx.Must("start", "--all", "--timeout", "30s")
	init := bx.Place.(*Place).PID()
	supervisor := 0
	for _, child := range children(b, init) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); err == nil && strings.Contains(string(line), "\x00supervise") {
			supervisor = child
		}
	}
	const watched = 5 * time.Second
	for b.Loop() {
		before := wakeups(b, init) + wakeups(b, supervisor)
		time.Sleep(watched)
		woken := wakeups(b, init) + wakeups(b, supervisor) - before
		b.ReportMetric(float64(woken)/watched.Seconds(), "wakeups/s")
		b.ReportMetric(float64(pss(b, init)+pss(b, supervisor))/1024, "MB-PSS")
	}
	b.ReportMetric(0, "ns/op")
}

// wakeups is how often the threads of a process went to sleep by themselves so
// far.
func wakeups(b *testing.B, pid int) int {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	sum := 0
	for _, file := range files {
		sum += field(b, file, "voluntary_ctxt_switches:")
	}
	return sum
}

// pss is a process's share of memory, in kB.
func pss(b *testing.B, pid int) int {
	b.Helper()
	return field(b, fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
}

// field is the first number after a key of a file in /proc.
func field(b *testing.B, file, key string) int {
	b.Helper()
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), key); found {
			var n int
			if _, err := fmt.Sscan(rest, &n); err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("no %s in %s", key, file)
	return 0
}
