package usage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// fake makes a /proc of PID NAME STATE PPID SESSION and groups.
func fake(t *testing.T, lines ...string) string {
	t.Helper()
	proc := t.TempDir()
	for _, line := range lines {
		var pid, parent, session, group int
		var name, state string
		if _, err := fmt.Sscan(line, &pid, &name, &state, &parent, &session, &group); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(proc, fmt.Sprint(pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		stat := fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 0 0 0 0 0 10 20 1 2 20 0 3 0 999 0 5 0 0\n", pid, name, state, parent, pid, session)
		status := fmt.Sprintf("Name:\t%s\nGroups:\t4 %d \nX:\t1\n", name, group)
		for file, content := range map[string]string{"stat": stat, "status": status} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(proc, "sys"), 0o755); err != nil {
		t.Fatal(err)
	}
	return proc
}

func pids(s *Sum) []int {
	var all []int
	for _, p := range s.Processes {
		all = append(all, p.PID)
	}
	if len(all) > 1 {
		slices.Sort(all[1:])
	}
	return all
}

func TestByRoot(t *testing.T) {
	proc := fake(t,
		"1 rlminit S 0 1 4",
		"2 rlminit S 1 2 4",
		"14 worker S 20 20 50001", // read before its parent
		"20 al)ice( S 1 20 50001",
		"21 child S 20 20 50001",
		"22 grandchild S 21 22 50001",   // a session of its own
		"23 orphan S 1 20 50001",        // still in the session
		"24 daemon S 1 24 50001",        // known by its tag alone
		"25 ofdaemon S 24 25 50001",     // by its parent's
		"26 dead Z 20 20 50001",         // counts nowhere
		"30 bob S 1 30 50002",           //
		"40 shell S 0 40 4",             // docker exec
		"41 circle S 42 41 4",           // parents that changed while they were read
		"42 circle S 41 42 4",           //
		"43 stranger S 1 43 50009",      // nobody's
		"44 looking S 99999 44 50002 #", // its parent is not there
	)
	all, err := Processes(proc)
	if err != nil {
		t.Fatal(err)
	}
	roots := []int{20, 30, 77}
	sums := ByRoot(all, roots, Tags(proc, roots))
	if got := pids(sums[20]); !slices.Equal(got, []int{20, 14, 21, 22, 23, 24, 25}) {
		t.Errorf("alice has %v", got)
	}
	if got := pids(sums[30]); !slices.Equal(got, []int{30}) {
		t.Errorf("bob has %v", got)
	}
	if got := pids(sums[77]); len(got) != 0 {
		t.Errorf("one that is not there has %v", got)
	}
	if s := sums[20]; s.CPU != 7*330*time.Millisecond || s.Memory != 7*5*int64(os.Getpagesize()) || s.Threads != 21 || s.Processes[0].Name != "al)ice(" {
		t.Errorf("%+v", s)
	}
	alone := ByRoot(all, []int{20}, nil)
	if got := pids(alone[20]); !slices.Equal(got, []int{20, 14, 21, 22, 23}) {
		t.Errorf("without tags alice has %v", got)
	}
}

// The real /proc, of this test and a child.
func TestReal(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	all, err := Processes("/proc")
	if err != nil {
		t.Fatal(err)
	}
	me := os.Getpid()
	sum := ByRoot(all, []int{me}, nil)[me]
	if !slices.Contains(pids(sum), child.Process.Pid) || sum.Memory < 1<<20 || sum.Threads < 2 {
		t.Errorf("%+v", sum)
	}
	if n := Descriptors("/proc", me); n < 3 {
		t.Errorf("%d descriptors", n)
	}
	if n := Descriptors("/proc", 1<<30); n != -1 {
		t.Errorf("%d descriptors of none", n)
	}
}

// Of a root only what may belong to it is read, whoever else there is.
func TestRelated(t *testing.T) {
	proc := fake(t,
		"1 rlminit S 0 1 4", "2 rlminit S 1 2 4", "20 alice S 1 20 50001", "21 child S 20 20 50001", "22 grandchild S 21 22 50001",
		"23 daemon S 1 23 50001", "24 ofdaemon S 23 24 50001", "30 bob S 1 30 50002", "31 ofbob S 30 30 50002", "60 shell S 0 60 4")
	of := map[string]string{"1": "23 ", "20": "21 ", "21": "22 ", "23": "24 ", "22": "", "24": "", "30": "31 ", "31": ""}
	for pid, below := range of {
		dir := filepath.Join(proc, pid, "task", pid)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "children"), []byte(below), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Related(proc, 20)
	if err != nil || len(all) != 5 {
		t.Errorf("%d processes were read, %v", len(all), err)
	}
	if got := pids(ByRoot(all, []int{20}, Tags(proc, []int{20}))[20]); !slices.Equal(got, []int{20, 21, 22, 23, 24}) {
		t.Errorf("alice has %v", got)
	}
	if all, err := Related(proc, 60); err != nil || len(all) != 10 {
		t.Errorf("of what docker exec began, all are read: %d, %v", len(all), err)
	}
	if err := os.Remove(filepath.Join(proc, "1/task/1/children")); err != nil {
		t.Fatal(err)
	}
	if all, err := Related(proc, 20); err != nil || len(all) != 10 {
		t.Errorf("without the kernel's word, all are read: %d, %v", len(all), err)
	}
}

func BenchmarkProcesses(b *testing.B) {
	n := 0
	for b.Loop() {
		all, err := Processes("/proc")
		if err != nil {
			b.Fatal(err)
		}
		n = len(all)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/process")
}
