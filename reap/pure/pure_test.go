package pure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is an init when it is called by the name of one, or with init
// as its first argument: this package's own init function sees to that, before
// the testing package is initialised. With play it is a command.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "play" {
		play(os.Args[2:])
	}
}

// play is a command that an init runs.
func play(args []string) {
	switch args[0] {
	case "signals": // prints the number of each signal; TERM ends it
		got := make(chan os.Signal, 100)
		signal.Notify(got)
		fmt.Println("ready")
		for s := range got {
			if s == unix.SIGURG || s == unix.SIGCHLD {
				continue
			}
			fmt.Println(int(s.(syscall.Signal)))
			if s == unix.SIGTERM {
				os.Exit(0)
			}
		}
	case "orphans": // leaves so many, and tells how many it could not start
		n, _ := strconv.Atoi(args[1])
		for range n {
			exec.Command("/bin/sh", "-c", "true & true & exit 0").Run()
		}
		fmt.Println("done")
		var b [1]byte
		os.Stdin.Read(b[:])
	case "shell":
		playShell()
	case "state": // its signal state, as it was given
		content, _ := os.ReadFile("/proc/self/status")
		os.Stdout.Write(content)
	}
	os.Exit(0)
}

// result is what became of a run.
type result struct {
	code           int
	stdout, stderr string
}

// command makes a run of the init: "init" for rlminit init, else the name of
// the program whose place it takes.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = name
	if name == "init" {
		cmd.Args = append([]string{"rlminit", "init"}, args...)
	}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TINI_") && !strings.HasPrefix(entry, "RLMINIT_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Each line is a behaviour that others rely on, with where it is written down.
func TestTini(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	os.WriteFile(script, []byte("echo \"script $0 $1\"\n"), 0o755)
	plain := filepath.Join(dir, "plain")
	os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644)
	for _, c := range []struct {
		source string
		args   []string
		env    []string
		code   int
		stdout string // contained, "" for anything
		stderr string // contained; "-" for nothing at all
	}{
		{"src/tini.c parse_args: --version alone", []string{"--version"}, nil, 0, "tini version 0.19.0", "-"},
		{"moby daemon/info_unix.go parseInitVersion", []string{"--version"}, nil, 0, "tini version ", "-"},
		{"src/tini.c parse_args: --version and more is no option", []string{"--version", "x"}, nil, 1, "", "invalid option -- '-'"},
		{"src/tini.c parse_args: -h", []string{"-h"}, nil, 0, "Usage: tini [OPTIONS] PROGRAM -- [ARGS] | --version", "-"},
		{"src/tini.c parse_args: -l", []string{"-l"}, nil, 0, "icense", "-"},
		{"test/run_outer_tests.py: -z", []string{"-z"}, nil, 1, "", "invalid option -- 'z'"},
		{"src/tini.c parse_args: no program", nil, nil, 1, "", "Usage: tini"},
		{"src/tini.c parse_args: no program after --", []string{"--"}, nil, 1, "", "Usage: tini"},
		{"getopt(3): a value that is missing", []string{"-e"}, nil, 1, "", "option requires an argument -- 'e'"},
		{"src/tini.c add_expect_status", []string{"-e", "256", "true"}, nil, 1, "", "Not a valid option for -e: 256"},
		{"src/tini.c add_expect_status", []string{"-e", "x", "true"}, nil, 1, "", "Not a valid option for -e: x"},
		{"strtol(3) in add_expect_status", []string{"-s", "-e", "", "true"}, nil, 0, "", "-"},
		{"strtol(3) in add_expect_status", []string{"-s", "-e", " +3", "--", "sh", "-c", "exit 3"}, nil, 0, "", "-"},
		{"strtol(3) in add_expect_status", []string{"-e", " ", "true"}, nil, 1, "", "Not a valid option for -e:  "},
		{"strtol(3) in add_expect_status", []string{"-e", "+", "true"}, nil, 1, "", "Not a valid option for -e: +"},
		{"src/tini.c set_pdeathsig", []string{"-p", "FOO", "true"}, nil, 1, "", "Not a valid option for -p: FOO"},
		{"src/tini.c set_pdeathsig", []string{"-s", "-p", "SIGKILL", "true"}, nil, 0, "", "-"},
		{"src/tini.c main: exit code", []string{"-s", "--", "sh", "-c", "exit 42"}, nil, 42, "", "-"},
		{"src/tini.c reap_zombies: 128 and the signal", []string{"-s", "--", "sh", "-c", "kill -9 $$"}, nil, 137, "", "-"},
		{"src/tini.c reap_zombies: -e after that", []string{"-s", "-e", "143", "--", "sh", "-c", "kill $$"}, nil, 0, "", "-"},
		{"getopt(3): options in one word", []string{"-sge3", "sh", "-c", "exit 3"}, nil, 0, "", "-"},
		{"test/run_inner_tests.py: -e of another code", []string{"-s", "-e", "4", "--", "sh", "-c", "exit 3"}, nil, 3, "", "-"},
		{"musl and POSIX: options end at the program", []string{"-s", "sh", "-c", "echo $0 -e", "x"}, nil, 0, "x -e", "-"},
		{"src/tini.c spawn: ENOENT is 127", []string{"-s", "--", "zzzz"}, nil, 127, "", "exec zzzz failed: No such file or directory"},
		{"src/tini.c spawn: EACCES is 126", []string{"-s", "--", plain}, nil, 126, "", "failed: Permission denied"},
		{"src/tini.c spawn: all else is 1", []string{"-s", "--", "/etc/passwd/x"}, nil, 1, "", "exec /etc/passwd/x failed: Not a directory"},
		{"src/tini.c spawn: a directory", []string{"-s", "--", "/tmp"}, nil, 126, "", "exec /tmp failed: Permission denied"},
		{"execvp(3): ENOEXEC is for /bin/sh", []string{"-s", "--", script, "arg"}, nil, 0, "script " + script + " arg", "-"},
		{"src/tini.c reaper_check", []string{"true"}, nil, 0, "", "zombie reaping won't work"},
		{"src/tini.c parse_env: TINI_SUBREAPER, also empty", []string{"true"}, []string{"TINI_SUBREAPER="}, 0, "", "-"},
		{"src/tini.c parse_env: TINI_VERBOSITY", []string{"true"}, []string{"TINI_VERBOSITY=0"}, 0, "", "-"},
		{"src/tini.c parse_env: TINI_VERBOSITY, atoi(3)", []string{"true"}, []string{"TINI_VERBOSITY=x"}, 0, "", "-"},
		{"src/tini.c -v", []string{"-s", "-v", "true"}, nil, 0, "Spawned child process 'true' with pid", "-"},
		{"src/tini.c -v", []string{"-s", "-v", "--", "sh", "-c", "kill $$"}, nil, 143, "Main child exited with signal (with signal 'Terminated')", "-"},
		{"src/tini.c -vv", []string{"-s", "-vv", "true"}, nil, 0, "Received SIGCHLD", "-"},
		{"src/tini.c -vvv", []string{"-s", "-vvv", "true"}, nil, 0, "Registered as child subreaper", "-"},
		{"src/tini.c: without -w nothing is said", []string{"-s", "sh", "-c", "(sleep 0.05 &); sleep 0.2"}, nil, 0, "", "-"},
		{"test/run_inner_tests.py: reaping display", []string{"-s", "-w", "sh", "-c", "(sleep 0.05 &); sleep 0.2"}, nil, 0, "", "Reaped zombie process with pid="},
		{"stdin is passed through", []string{"-s", "cat", "/dev/null"}, nil, 0, "", "-"},
	} {
		t.Run(c.source, func(t *testing.T) {
			cmd := command("tini", c.args...)
			cmd.Env = append(cmd.Env, c.env...)
			got := run(t, cmd)
			if got.code != c.code {
				t.Errorf("%q: exit code %d, want %d", c.args, got.code, c.code)
			}
			if !strings.Contains(got.stdout, c.stdout) {
				t.Errorf("%q: stdout %q", c.args, got.stdout)
			}
			if c.stderr == "-" && got.stderr != "" || c.stderr != "-" && !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("%q: stderr %q", c.args, got.stderr)
			}
		})
	}
}

// test/run_inner_tests.py, exit code test: every code through, every code mapped.
func TestEveryExitCode(t *testing.T) {
	step := 17
	if os.Getenv("RLMINIT_TEST_LONG") != "" {
		step = 1
	}
	for code := 0; code < 256; code += step {
		script := fmt.Sprintf("exit %d", code)
		if got := run(t, command("tini", "-s", "-e", fmt.Sprint(code), "--", "sh", "-c", script)); got.code != 0 {
			t.Errorf("-e %d: exit code %d", code, got.code)
		}
		if got := run(t, command("init", "--", "sh", "-c", script)); got.code != code {
			t.Errorf("exit code %d came out as %d", code, got.code)
		}
	}
}

// The same abilities under readable flags.
func TestOwnFlags(t *testing.T) {
	if _, err := os.Stat(DefaultConfig); err == nil {
		t.Skip("this machine has an rlminit.yaml")
	}
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"true"}, 0, "", "-"},
		{[]string{"--", "sh", "-c", "exit 42"}, 42, "", "-"},
		{[]string{"--success", "42", "--success=43", "--", "sh", "-c", "exit 42"}, 0, "", "-"},
		{[]string{"--success", "256", "--", "true"}, 2, "", "rlminit: --success: 256 is no exit code"},
		{[]string{"--success"}, 2, "", "rlminit: --success needs a value"},
		{[]string{"--parent-death=NOSUCH", "true"}, 2, "", "NOSUCH is no signal"},
		{[]string{"--parent-death", "TERM", "true"}, 0, "", "-"},
		{[]string{"--warn-on-reap", "sh", "-c", "(sleep 0.05 &); sleep 0.2"}, 0, "", "rlminit: Reaped zombie process with pid="},
		{[]string{"--verbose", "true"}, 0, "rlminit: Spawned child process", "-"},
		{[]string{"--verbose=0", "--warn-on-reap=off", "--signal-group=NO", "true"}, 0, "", "-"},
		{[]string{"--signal-group=maybe", "true"}, 2, "", "rlminit: --signal-group: maybe is refused; write on or off"},
		{[]string{"--verbose=4", "true"}, 2, "", "rlminit: --verbose: 4 is refused; write a whole number from 0 to 3"},
		{[]string{"--", "/nowhere"}, 127, "", "rlminit: cannot run \"/nowhere\": no such file or directory\n"},
		{[]string{"--", "/tmp"}, 126, "", "rlminit: cannot run \"/tmp\": permission denied\n"},
		{[]string{"--", ""}, 127, "", "rlminit: cannot run \"\""},
		{nil, 2, "", "rlminit: no command and no configuration"},
		{[]string{"--"}, 2, "", "rlminit: no command and no configuration"},
	} {
		got := run(t, command("init", c.args...))
		if got.code != c.code || !strings.Contains(got.stdout, c.stdout) ||
			c.stderr == "-" && got.stderr != "" || c.stderr != "-" && !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", c.args, got.code, got.stdout, got.stderr)
		}
		// The usage is for whoever wrote no command; what is wrong with a flag is one line.
		noCommand := len(c.args) == 0 || len(c.args) == 1 && c.args[0] == "--"
		if c.code == exitUsage && strings.Contains(got.stderr, "usage:") != noCommand {
			t.Errorf("%q: stderr %q", c.args, got.stderr)
		}
	}
}

// Variables set what flags set, and count for less.
func TestVariables(t *testing.T) {
	if _, err := os.Stat(DefaultConfig); err == nil {
		t.Skip("this machine has an rlminit.yaml")
	}
	for _, c := range []struct {
		env    string
		args   []string
		code   int
		output string
	}{
		{"RLMINIT_SUCCESS=3,42", []string{"sh", "-c", "exit 42"}, 0, ""},
		{"RLMINIT_SUCCESS=3,42", []string{"--success", "4", "sh", "-c", "exit 42"}, 42, ""},
		{"RLMINIT_SUCCESS=3,", []string{"true"}, 2, "rlminit: RLMINIT_SUCCESS:  is no exit code"},
		{"RLMINIT_SUCCESS=", []string{"sh", "-c", "exit 42"}, 42, ""},
		{"RLMINIT_VERBOSE=1", []string{"true"}, 0, "Spawned child process"},
		{"RLMINIT_VERBOSE=1", []string{"--verbose=0", "true"}, 0, ""},
		{"RLMINIT_WARN_ON_REAP=True", []string{"sh", "-c", "(sleep 0.05 &); sleep 0.2"}, 0, "Reaped zombie process with pid="},
		{"RLMINIT_PARENT_DEATH=NOSUCH", []string{"true"}, 2, "rlminit: RLMINIT_PARENT_DEATH: NOSUCH is no signal"},
	} {
		cmd := command("init", c.args...)
		cmd.Env = append(cmd.Env, c.env)
		got := run(t, cmd)
		output := got.stdout + got.stderr
		if got.code != c.code || !strings.Contains(output, c.output) || c.output == "" && output != "" {
			t.Errorf("%s %q: exit code %d, printed %q", c.env, c.args, got.code, output)
		}
	}
}

// started is an init whose command has said that it is ready.
type started struct {
	*exec.Cmd
	t      *testing.T
	stdout *os.File
}

func start(t *testing.T, cmd *exec.Cmd) *started {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		r.Close()
	})
	return &started{cmd, t, r}
}

func (s *started) line() string {
	s.t.Helper()
	s.stdout.SetReadDeadline(time.Now().Add(10 * time.Second))
	var got []byte
	var one [1]byte
	for {
		if _, err := s.stdout.Read(one[:]); err != nil {
			s.t.Fatalf("after %q: %v", got, err)
		}
		if one[0] == '\n' {
			return string(got)
		}
		got = append(got, one[0])
	}
}

func (s *started) wait() int {
	s.t.Helper()
	var exit *exec.ExitError
	late := time.AfterFunc(20*time.Second, func() { s.Process.Kill() })
	defer late.Stop()
	if err := s.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.ProcessState.ExitCode()
}

// test/run_inner_tests.py, signals test: what we get the command gets, in order.
func TestSignalsAreForwarded(t *testing.T) {
	for _, name := range []string{"tini", "init"} {
		args := []string{"--", "/proc/self/exe", "play", "signals"}
		if name == "tini" {
			args = append([]string{"-s"}, args...)
		}
		s := start(t, command(name, args...))
		if got := s.line(); got != "ready" {
			t.Fatal(got)
		}
		for _, signal := range []unix.Signal{
			unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH,
			unix.SIGPIPE, unix.SIGCONT, unix.SIGABRT, unix.SIGSEGV, unix.SIGIO, unix.Signal(35), unix.Signal(64),
		} {
			s.Process.Signal(signal)
			if got := s.line(); got != fmt.Sprint(int(signal)) {
				t.Errorf("%s: %v arrived as %s", name, signal, got)
			}
		}
		s.Process.Signal(unix.SIGTERM)
		if got := s.line(); got != "15" {
			t.Error(got)
		}
		if code := s.wait(); code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
}

// test/run_inner_tests.py, process group test: with -g a signal that the command
// ignores still reaches its child.
func TestGroup(t *testing.T) {
	for name, cmd := range map[string]*exec.Cmd{
		"-g":                      command("tini", "-s", "-g", "--", "/bin/bash", "-c", groupScript),
		"TINI_KILL_PROCESS_GROUP": command("tini", "-s", "--", "/bin/bash", "-c", groupScript),
		"RLMINIT_SIGNAL_GROUP":    command("init", "--", "/bin/bash", "-c", groupScript),
		"--signal-group":          command("init", "--signal-group", "--", "/bin/bash", "-c", groupScript),
	} {
		if _, err := os.Stat("/bin/bash"); err != nil {
			t.Skip("needs /bin/bash")
		}
		switch name {
		case "TINI_KILL_PROCESS_GROUP":
			cmd.Env = append(cmd.Env, name+"=")
		case "RLMINIT_SIGNAL_GROUP":
			cmd.Env = append(cmd.Env, name+"=1")
		}
		s := start(t, cmd)
		if got := s.line(); got != "ready" {
			t.Fatal(got)
		}
		s.Process.Signal(unix.SIGUSR1)
		if code := s.wait(); code != 7 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
}

// groupScript survives USR1 by a handler, which its child does not inherit.
const groupScript = `trap : USR1; (echo ready; exec sleep 1000) & wait $!; wait $!; exit 7`

// test/sigconf: mask and dispositions reach the command as we were given them.
// Those that Go's runtime replaces need a binary that begins at sys.entry.
func TestSignalStateIsPassedOn(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "rlminit")
	build := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-ldflags", "-E rlminit/reap/sys.entry", "-o", binary, "./testdata/init") // as make build, whose cache it takes
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ignored := []unix.Signal{unix.SIGTTOU, unix.SIGSEGV, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE, unix.SIGUSR2}
	blocked := []unix.Signal{unix.SIGTTIN, unix.SIGILL, unix.SIGTERM, unix.SIGCHLD, unix.SIGPROF}
	want := map[string]uint64{}
	for _, s := range ignored {
		want["SigIgn"] |= 1 << (s - 1)
	}
	for _, s := range blocked {
		want["SigBlk"] |= 1 << (s - 1)
	}
	for _, name := range []string{"tini", "rlminit"} {
		link := filepath.Join(filepath.Dir(binary), "link", name)
		os.MkdirAll(filepath.Dir(link), 0o755)
		os.Symlink(binary, link)
		argv := []string{name, "-s", "--", "cat", "/proc/self/status"}
		if name == "rlminit" {
			argv = []string{name, "init", "--", "cat", "/proc/self/status"}
		}
		out := runWithSignals(t, link, argv, ignored, blocked)
		for key, mask := range want {
			_, rest, _ := strings.Cut(out, key+":\t")
			got, _ := strconv.ParseUint(strings.SplitN(rest, "\n", 2)[0], 16, 64)
			if got&mask != mask {
				t.Errorf("%s: %s is %016x, without some of %016x", name, key, got, mask)
			}
			if key == "SigBlk" && got != mask {
				t.Errorf("%s: %s is %016x, want %016x", name, key, got, mask)
			}
		}
	}
}

// runWithSignals runs a program that is started with signals ignored and blocked.
func runWithSignals(t *testing.T, path string, argv []string, ignored, blocked []unix.Signal) string {
	t.Helper()
	script := "import os,signal,sys\n"
	for _, s := range ignored {
		script += fmt.Sprintf("signal.signal(%d, signal.SIG_IGN)\n", s)
	}
	script += "signal.pthread_sigmask(signal.SIG_BLOCK, ["
	for _, s := range blocked {
		script += fmt.Sprintf("%d,", s)
	}
	script += "])\nos.execv(sys.argv[1], sys.argv[2:])\n"
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 to start a program with signals blocked")
	}
	out, err := exec.Command(python, append([]string{"-c", script, path}, argv...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// test/pdeathsignal: -p sends us a signal, which is forwarded, when our parent ends.
func TestParentDeath(t *testing.T) {
	for _, args := range [][]string{{"tini", "-s", "-p", "SIGTERM"}, {"init", "--parent-death", "TERM"}} {
		name, flags := args[0], args[1:]
		inner := command(name, append(flags, "--", "/proc/self/exe", "play", "signals")...)
		// A shell starts it and ends as soon as its stdin does.
		quoted := ""
		for _, arg := range inner.Args[1:] {
			quoted += " '" + arg + "'"
		}
		outer := exec.Command("/bin/bash", "-c", "(exec -a '"+inner.Args[0]+"' "+self(t)+quoted+") & read x")
		outer.Env = inner.Env
		stdin, err := outer.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, outer)
		if got := s.line(); got != "ready" {
			t.Fatal(got)
		}
		stdin.Close()
		if got := s.line(); got != "15" { // and the command ends
			t.Errorf("%s: got %s", name, got)
		}
		outer.Wait()
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("needs /bin/bash to set argv[0]")
	}
	return path
}

// Orphans are reaped as they come, and PID 1 is not needed for it.
func TestOrphansAreReaped(t *testing.T) {
	cmd := command("init", "--", "/proc/self/exe", "play", "orphans", "200")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, cmd)
	if got := s.line(); got != "done" {
		t.Fatal(got)
	}
	deadline := time.Now().Add(10 * time.Second)
	for zombies(s.Process.Pid) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d zombies", zombies(s.Process.Pid))
		}
		time.Sleep(5 * time.Millisecond)
	}
	stdin.Close()
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func zombies(parent int) int {
	entries, _ := os.ReadDir("/proc")
	n := 0
	for _, entry := range entries {
		content, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == fmt.Sprint(parent) {
			n++
		}
	}
	return n
}

// The command keeps arguments, environment, directory and stdin, byte for byte.
func TestBytesAreKept(t *testing.T) {
	arg := "a \x01\xff\n'\"$x\t"
	cmd := command("init", "--", "/bin/sh", "-c", `printf '%s|%s|%s|' "$1" "$ODD" "$PWD"; cat`, "sh", arg)
	cmd.Env = append(cmd.Env, "ODD="+arg, "novalue", "=x", "ODD2=")
	cmd.Dir = "/usr"
	cmd.Stdin = strings.NewReader("in\x00put")
	got := run(t, cmd)
	if want := arg + "|" + arg + "|/usr|in\x00put"; got.stdout != want || got.code != 0 {
		t.Errorf("%q, want %q", got.stdout, want)
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		name, path, want string
	}{
		{"prog", "/a:/b", "/a/prog /b/prog"},
		{"prog", ":/b", "prog /b/prog"},
		{"prog", "/a:", "/a/prog prog"},
		{"./prog", "/a", "./prog"},
		{"/x/prog", "/a", "/x/prog"},
		{"", "/a", ""},
	} {
		if got := strings.Join(Candidates(c.name, c.path), " "); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.name, c.path, got, c.want)
		}
	}
}
