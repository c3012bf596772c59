package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// This program is the first process of its boxes too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if act, found := acts[os.Args[1]]; found {
			exit(act(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// What is counted of a start: calls that do not depend on who is faster. Waking and
// waiting do, and so does how often a status or the journal is written.
var (
	filesOf = []string{"open", "openat", "openat2", "mkdirat", "unlinkat", "renameat", "renameat2", "rename", "newfstatat", "lstat", "inotify_add_watch", "fchmod", "fchmodat"}
	usersOf = []string{"setfsuid", "setfsgid", "capset", "setgroups", "faccessat2", "openat2"}
	waiting = []string{"futex", "nanosleep", "sched_yield", "epoll_pwait", "clock_gettime", "rt_sigreturn", "tgkill", "madvise", "mmap"}
)

// What a start costs cannot grow unseen. The bounds are what was counted, and a little
// for what comes only now and then; docs/performance.md says what each call is for.
func TestCallsOfAStart(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and strace")
	}
	dir := t.TempDir()
	*arguments = true
	*binary = filepath.Join(dir, "rlminit")
	build := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-ldflags", "-s -w -E rlminit/reap/sys.entry", "-o", *binary, "rlminit/cmd/rlminit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var err error
	if programs, err = compile(); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(programs)
	const n = 40
	boot, restart, err := bootCalls(n)
	if err != nil {
		t.Fatal(err)
	}
	empty, _, err := bootCalls(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, role string
		calls      []string
		most       float64
	}{
		{"boot", "supervisor", filesOf, 19},
		{"boot", "file helper", usersOf, 1},
		{"boot", "child", nil, 26},
		{"restart", "supervisor", filesOf, 7},
		{"restart", "file helper", usersOf, 1},
		{"restart", "child", nil, 26},
	} {
		of := restart
		took := float64(sum(restart[c.role], c.calls)) / restarts
		if c.what == "boot" { // for each service: what none needs is not in it
			of = boot
			took = float64(sum(boot[c.role], c.calls)-sum(empty[c.role], c.calls)) / (n - 1)
		}
		t.Logf("figure: a %s takes %.1f calls of the %s that are counted", c.what, took, c.role)
		if took > c.most {
			t.Errorf("a %s takes %.1f calls of the %s; the bound is %.0f: %v", c.what, took, c.role, c.most, of[c.role])
		}
	}
}

// sum is how many calls are among those named, or where none is, all but those that wait.
func sum(all map[string]int, named []string) (n int) {
	for call, count := range all {
		name, with, _ := strings.Cut(call, "\n")
		counts := slices.Contains(named, name)
		if named == nil {
			counts = !slices.Contains(waiting, name)
		}
		if counts && !strings.Contains(with, ".status.json") && !strings.Contains(with, `"/tmp/`) { // left by others
			n += count
		}
	}
	return n
}
