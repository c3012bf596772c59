package sys_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "rlminit/reap/pure" // this binary is an init when it is called as one
	"rlminit/reap/sys"
)

// What orphans cost an init, beside tini where that is installed: figures for
// `make bench`, and not assertions, for the machine decides. What must hold
// whatever the machine is in TestFloodOfOrphans. Everything else that is measured
// is in tests/bench.

func init() {
	if len(os.Args) > 2 && os.Args[1] == "orphans" {
		n, _ := strconv.Atoi(os.Args[2])
		for range n {
			sys.DoubleFork()
		}
		fmt.Println("done")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
}

// inits are the command lines before the command.
func inits(t testing.TB) map[string][]string {
	// The real thing, linked as it is released: size and start count.
	binary := os.Getenv("RLMINIT_BINARY")
	if binary == "" {
		binary = build(t)
	}
	all := map[string][]string{"rlminit": {binary, "init", "--"}}
	if path, err := exec.LookPath("tini"); err == nil {
		all["tini"] = []string{path, "-s", "--"}
	}
	return all
}

func build(t testing.TB) string {
	binary := filepath.Join(t.TempDir(), "rlminit")
	build := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-ldflags", "-s -w -E rlminit/reap/sys.entry", "-o", binary, "rlminit/cmd/rlminit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the binary to be measured: %v\n%s", err, out)
	}
	return binary
}

func BenchmarkOrphans(b *testing.B) {
	for name, argv := range inits(b) {
		b.Run(name, func(b *testing.B) {
			if b.N > 1 {
				b.Skip("one run is all there is: -benchtime 1x")
			}
			cpu, most := flood(b, argv, 100_000)
			b.ReportMetric(float64(cpu.Milliseconds()), "ms-cpu")
			b.ReportMetric(float64(most), "most-zombies")
		})
	}
}

// However fast orphans come, they do not pile up.
func TestFloodOfOrphans(t *testing.T) {
	n := 20_000
	if os.Getenv("RLMINIT_TEST_LONG") != "" {
		n = 100_000
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A machine that has something else to do lets them pile up by itself, but
	// not every time.
	for tries := 5; ; tries-- {
		cpu, most := flood(t, []string{self, "init", "--"}, n)
		t.Logf("%d orphans: %v of CPU time, at most %d zombies at a time", n, cpu, most)
		if most <= 1000 {
			return
		}
		if tries == 1 {
			t.Fatalf("%d zombies at a time", most)
		}
	}
}

// flood runs a command below an init that leaves n orphans as fast as it can,
// and returns the init's own CPU time and the most children seen at a time.
func flood(t testing.TB, argv []string, n int) (cpu time.Duration, most int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], append(argv[1:], self, "orphans", strconv.Itoa(n))...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		stdout.Read(make([]byte, 8))
		close(done)
	}()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(2 * time.Millisecond):
			most = max(most, children(cmd.Process.Pid)-1)
		}
	}
	for children(cmd.Process.Pid) > 1 {
	}
	cpu = cpuTime(cmd.Process.Pid)
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return cpu, most
}

// children counts the children of a process, zombies among them.
func children(pid int) int {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return len(strings.Fields(string(content)))
}

// tasks sums what a file of each thread says.
func tasks(pid int, file string, value func(content []byte) int64) (sum int64) {
	entries, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, file))
	for _, entry := range entries {
		content, _ := os.ReadFile(entry)
		sum += value(content)
	}
	return sum
}

func cpuTime(pid int) time.Duration {
	return time.Duration(tasks(pid, "schedstat", func(content []byte) int64 {
		ns, _ := strconv.ParseInt(string(bytes.Fields(content)[0]), 10, 64)
		return ns
	}))
}
