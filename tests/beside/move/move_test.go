// Package move runs what people have under s6 and supervisord, and beside it what rlminit
// import makes of the same files under rlminit, and compares what the two do: which programs
// run, with which environment, user and directory, in which order, how often they are
// started again, which signal ends them, and what their log has. It also imports all units
// of twenty Debian packages, and types the recipes of docs/from.
package move

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

func TestMain(m *testing.M) { os.Exit(ns.Main(m)) }

// long is how long anything may take on a busy machine.
const long = 30 * time.Second

// need skips the test where a program is missing, and names the Debian package that has it.
func need(t *testing.T, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("there is no %s; install the Debian package %s", program, debian)
	}
}

// place is a new directory that the services of a box may write to.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "rlminit-move-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// write writes a file below dir; one without a suffix may be executed.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	for d := filepath.Dir(path); len(d) >= len(dir); d = filepath.Dir(d) {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// witness writes down in $RECORD how it was started and which signal it got.
const witness = `#!/bin/bash
# witness NAME stay | exit CODE AFTER
note() { echo "$*" >>"$RECORD"; }
note "start $1 pid=$$ uid=$(id -u) dir=$PWD greeting=$GREETING own=${OWN:-$SUPERVISOR_PROCESS_NAME}"
echo "$1 says hello"
if [ "$2" = exit ]; then sleep "$4"; exit "$3"; fi
for s in TERM INT HUP QUIT USR1; do trap "note signal $1 $s; exit 0" $s; done
while :; do sleep 0.05; done
`

// imported is what an import came to.
type imported struct {
	config string
	Left   []struct {
		File, What, Why, Reason string
		Line                    int
	} `json:"left"`
	Services []struct{ Name string }
	Counts   map[string]int
}

// convert imports paths by the real program, and has the real one check the result.
func convert(t *testing.T, dir string, args ...string) (m imported) {
	t.Helper()
	file := filepath.Join(dir, "rlminit.yaml")
	var out, complaint bytes.Buffer
	cmd := exec.Command(filepath.Join(ns.Programs(), "rlminit-import"), append([]string{"--json", "--force", "-o", file}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 14 {
		t.Fatalf("import %q: %v\n%s", args, err, complaint.String())
	}
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); (code == 14) != (len(m.Left) > 0) {
		t.Errorf("import %q: exit code %d, and %d things left out", args, code, len(m.Left))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m.config = string(text)
	if said, err := exec.Command(filepath.Join(ns.Programs(), "rlminit"), "check", file).CombinedOutput(); err != nil {
		t.Fatalf("check: %v\n%s\n%s", err, said, text)
	}
	return m
}

// left tells whether something was named.
func (m imported) left(what, reason string) bool {
	for _, l := range m.Left {
		if strings.HasPrefix(l.What, what) && l.Reason == reason && l.Why != "" && l.File != "" {
			return true
		}
	}
	return false
}

// original starts a supervisor as the services' user, in a session of its own.
func original(t *testing.T, dir, record string, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "RECORD=" + record}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if ns.Privileged() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", argv[0], out.String())
		}
	})
	return cmd
}

// lines are those of a record.
func lines(record string) (all []string) {
	data, err := os.ReadFile(record)
	if err != nil {
		return nil // nothing has been written yet
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// await waits until a record has what is wanted, each word at least so often.
func await(t *testing.T, record string, want map[string]int) {
	t.Helper()
	box.Eventually(t, long, fmt.Sprintf("%s has %v", filepath.Base(record), want), func() (bool, any) {
		all := lines(record)
		for prefix, n := range want {
			if count(all, prefix) < n {
				return false, all
			}
		}
		return true, nil
	})
}

func count(all []string, prefix string) (n int) {
	for _, l := range all {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// summary is what a record comes to: for each program how it was started, how often, of
// which more than the last of most count as that, and which signals it got.
func summary(all []string, most int) map[string]string {
	starts, how, signals := map[string]int{}, map[string]string{}, map[string][]string{}
	for _, l := range all {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "start":
			starts[f[1]] = min(starts[f[1]]+1, most)
			how[f[1]] = strings.Join(slices.DeleteFunc(f, func(w string) bool { return strings.HasPrefix(w, "pid=") }), " ")
		case "signal":
			signals[f[1]] = append(signals[f[1]], f[2])
		}
	}
	out := map[string]string{}
	for name, l := range how {
		out[name] = fmt.Sprintf("%s; %d starts; signals %v", l, starts[name], signals[name])
	}
	return out
}

// equal compares what two supervisors did, and returns how many programs did the same.
func equal(t *testing.T, theirs, ours map[string]string) (same int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if theirs[name] == ours[name] {
			same++
			continue
		}
		t.Errorf("%s\noriginal: %s\nimported: %s", name, theirs[name], ours[name])
	}
	for name := range ours {
		if theirs[name] == "" {
			t.Errorf("%s runs in the import alone: %s", name, ours[name])
		}
	}
	return same
}

// order are the programs in the order in which they were first begun: that of their pids. The
// order in which they come to write differs on a busy machine.
func order(all []string) (names []string) {
	pids := map[string]int{}
	for _, l := range all {
		var name string
		var pid int
		if n, err := fmt.Sscanf(l, "start %s pid=%d", &name, &pid); n == 2 && err == nil && pids[name] == 0 {
			pids[name] = pid
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return pids[a] - pids[b] })
	return names
}
