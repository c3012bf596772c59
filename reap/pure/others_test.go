package pure

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Each of these is run by the real program and by us, and must come out the
// same: output, messages, exit code.
var dumbInitRuns = [][]string{
	{},
	{"--"},
	{"-z"},
	{"-cz", "true"},
	{"--foo"},
	{"--ver"},
	{"--verb", "true"},
	{"--", "true"},
	{"-r"},
	{"--rewrite"},
	{"-r", "3"},
	{"-r", "3:99", "true"},
	{"-r", "0:3", "true"},
	{"-r", "3:-1", "true"},
	{"-r", "x:1", "true"},
	{"-r", "3: 4x", "true"},
	{"-r3:4", "true"},
	{"--rewrite=3:4", "true"},
	{"--rew", "32:4", "true"},
	{"--help=3"},
	{"-", "true"},
	{"nosuch"},
	{"/etc/passwd"},
	{"/etc"},
	{""},
	{"./nosuch"},
	{"sh", "-c", "echo out; echo err >&2; exit 42"},
	{"-c", "sh", "-c", "exit 7"},
	{"-v", "sh", "-c", "exit 3"},
	{"-vc", "sh", "-c", "kill -9 $$"},
	{"--verbose", "--single-child", "--", "sh", "-c", "kill -HUP $$"},
	{"-v", "-r", "15:3", "--", "sh", "-c", "kill -15 $PPID; sleep 0.5"},
	{"-v", "-r", "15:0", "-r", "10:2", "--", "sh", "-c", "kill -15 $PPID; sleep 0.1; kill -10 $PPID; sleep 0.5"},
	{"-v", "-r", "15:0", "--", "sh", "-c", "exit 9"},
	{"sh", "-c", `trap "echo int; exit 5" INT; kill -INT $PPID; sleep 0.5 & wait`},
	{"sh", "-c", `echo "$(ps -o sid= -p $$ | tr -d " ")" | grep -qx $$; echo $?`},
	{"-c", "sh", "-c", `[ "$(ps -o sid= -p $$)" = "$(ps -o sid= -p $PPID)" ]; echo $?`},
	{"-c", "sh", "-c", `[ "$(ps -o pgid= -p $$)" = "$(ps -o pgid= -p $PPID)" ]; echo $?`},
	{"sh", "-c", "pwd; sleep 0.1; readlink /proc/$PPID/cwd"},
	{"grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"},
}

var catatonitRuns = [][]string{
	{},
	{"--"},
	{"-z"},
	{"--foo"},
	{"--version=3"},
	{"--", "true"},
	{"nosuch"},
	{"/etc/passwd"},
	{"/etc"},
	{""},
	{"--", "sh", "-c", "echo out; echo err >&2; exit 42"},
	{"sh", "-c", "exit 4"}, // -c is taken for an option of its own
	{"true", "-g"},
	{"sh", "--", "-c", "exit 5"},
	{"-", "true"},
	{"--", "sh", "-c", "kill -9 $$"},
	{"-g", "--", "sh", "-c", "exit 3"},
	{"--", "sh", "-c", `trap "exit 9" TERM; kill $PPID; sleep 0.5 & wait`},
	{"-g", "--", "sh", "-c", `trap "exit 9" USR1; kill -USR1 $PPID; sleep 0.5 & wait`},
	{"--", "sh", "-c", "(sleep 0.1 & exit 0); sleep 0.3; exit 6"},
	{"--", "sh", "-c", `[ "$(ps -o pgid= -p $$ | tr -d " ")" = $$ ]; echo $?`},
	{"--", "sh", "-c", `[ "$LISTEN_PID" = $$ ]; echo $?`},
	{"--", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"},
}

var tiniRuns = [][]string{
	{},
	{"--"},
	{"-z"},
	{"-gz", "true"},
	{"--foo", "true"},
	{"--version", "true"},
	{"-s", "--", "true"},
	{"true"},
	{"-"},
	{"-e"},
	{"-p"},
	{"-e", "256", "true"},
	{"-e", "-1", "true"},
	{"-e", "x", "true"},
	{"-e", "", "-s", "true"},
	{"-p", "FOO", "true"},
	{"-p", "15", "true"},
	{"-s", "-p", "SIGKILL", "true"},
	{"-s", "nosuch"},
	{"-s", "/etc/passwd"},
	{"-s", "/etc/passwd/x"},
	{"-s", "/etc"},
	{"-s", ""},
	{"-s", "./nosuch"},
	{"-s", "sh", "-c", "echo out; echo err >&2; exit 42"},
	{"-s", "-e", "7", "-e143", "sh", "-c", "exit 7"},
	{"-s", "-e143", "--", "sh", "-c", "kill $$"},
	{"-s", "-v", "--", "sh", "-c", "kill -9 $$"},
	{"-sgv", "--", "sh", "-c", "exit 3"},
	{"-svv", "true"},
	{"-sw", "sh", "-c", "(true &); sleep 0.1; exit 4"},
	{"-svv", "sh", "-c", `trap "exit 9" USR1; kill -USR1 $PPID; sleep 0.5 & wait`},
	{"-sg", "sh", "-c", `trap "exit 9" TERM; kill $PPID; sleep 0.5 & wait`},
	{"-s", "sh", "-c", `[ "$(ps -o pgid= -p $$ | tr -d " ")" = $$ ]; echo $?`},
	{"-s", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"},
}

// posix makes glibc's getopt end options at the first word that is none, which tini
// leaves to the C library.
var posix = []string{"POSIXLY_CORRECT=1"}

// environments are those in which each command line is run.
var environments = map[string][][]string{
	"tini":      {posix, {posix[0], "TINI_VERBOSITY=3"}, {posix[0], "TINI_VERBOSITY=0", "TINI_SUBREAPER="}, {posix[0], "TINI_KILL_PROCESS_GROUP="}},
	"dumb-init": {nil, {"DUMB_INIT_DEBUG=1"}, {"DUMB_INIT_SETSID=0", "DUMB_INIT_DEBUG=1"}, {"DUMB_INIT_SETSID=", "DUMB_INIT_DEBUG=yes"}},
	"catatonit": {nil, {"CATATONIT_DEBUG="}, {"CATATONIT_LOG=", "CATATONIT_DEBUG=1"}, {"POSIXLY_CORRECT=1", "LISTEN_PID=1"}},
}

// TestLikeTheOthers holds tini, dumb-init and catatonit to the programs themselves.
func TestLikeTheOthers(t *testing.T) {
	for name, runs := range map[string][][]string{"tini": tiniRuns, "dumb-init": dumbInitRuns, "catatonit": catatonitRuns} {
		for _, env := range environments[name] {
			t.Run(strings.Join(append([]string{name}, env...), " "), func(t *testing.T) {
				t.Parallel()
				real := theReal(t, name)
				for _, args := range runs {
					compare(t, real, name, args, env)
				}
			})
		}
	}
}

// theReal is the path of the other program.
func theReal(t *testing.T, name string) string {
	real, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s to compare with", name)
	}
	return real
}

// compare runs both until they say the same, five times at the most: where two
// processes of theirs write at once, even inside a word, what they say differs from
// run to run, and ours has to be one of those.
func compare(t *testing.T, real, name string, args, env []string) {
	var got, want result
	for range 5 {
		if got, want = answers(t, real, name, args, env); got == want {
			return
		}
	}
	t.Errorf("%q:\ngot  %d %q\n%s\nwant %d %q\n%s", args,
		got.code, got.stdout, got.stderr, want.code, want.stdout, want.stderr)
}

// answers are those of ours and theirs, without what is left to chance.
func answers(t *testing.T, real, name string, args, env []string) (got, want result) {
	theirs := exec.Command(real, args...)
	theirs.Args[0] = name
	ours := command(name, args...)
	theirs.Env = append(slices.Clone(ours.Env), env...)
	ours.Env = theirs.Env
	theirs.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without the terminal of whoever runs the tests
	ours.SysProcAttr = theirs.SysProcAttr
	theirs.Dir, ours.Dir = "/usr", "/usr"
	want, got = run(t, theirs), run(t, ours)
	// Signal 32 is the C library's own: a program that is linked with one may reset
	// it when it begins, and ours is only with the race detector.
	for _, out := range []*result{&want, &got} {
		out.stdout = strings.ReplaceAll(out.stdout, "SigIgn:\t0000000080000000", "SigIgn:\t0000000000000000")
	}
	if len(env) > 0 && unable.MatchString(want.stderr) {
		// What they say of the child that could not become the command is left
		// out: we have no such child.
		got.stderr, want.stderr = "", ""
		if name == "tini" {
			got.stdout, want.stdout = "", ""
		}
	}
	if name == "tini" { // says there what it does
		got.stdout, want.stdout = messages(name, got.stdout), messages(name, want.stdout)
	}
	got.stderr, want.stderr = messages(name, got.stderr), messages(name, want.stderr)
	return got, want
}

var unable = regexp.MustCompile(`(?m)(No such file or directory|Not a directory|Permission denied)$`)

var pids = regexp.MustCompile(`\b[0-9]{3,}\b`)

// messages are the lines of stderr without process ids, sorted, each once: parent
// and child write at the same time, and how often the kernel tells of children
// that end together is chance. catatonit's parent and child write into each
// other's lines, so it is words there.
func messages(name, stderr string) string {
	stderr = pids.ReplaceAllStringFunc(stderr, func(number string) string {
		if len(number) == 3 && number >= "128" && number < "160" {
			return number // an exit code
		}
		return "PID"
	})
	parts := strings.Split(stderr, "\n")
	if name == "catatonit" {
		// Whether it says this depends on what errno was before.
		stderr = strings.ReplaceAll(stderr, "got ECHILD: no children left to monitor", "")
		parts = strings.Fields(stderr)
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), "\n")
}

// textRuns print a text: help, a version, or what is wrong with the command line.
var textRuns = map[string][][]string{
	"tini": {
		{},
		{"--"},
		{"-h"},
		{"-vh"},
		{"--help"},
		{"-V"},
		{"--version"},
		{"--version", "x"},
		{"-z"},
		{"-e"},
		{"-e", "x"},
		{"-p"},
		{"-p", "x"},
		{"true"},
		{"-s", "nosuch"},
	},
	"dumb-init": {
		{},
		{"--"},
		{"-h"},
		{"-vh"},
		{"--help"},
		{"--he"},
		{"--help=x"},
		{"-V"},
		{"--version"},
		{"--ver"},
		{"-hV"},
		{"-z"},
		{"--yolo"},
		{"-r"},
		{"-r", "x"},
		{"-r", "1:32"},
		{"nosuch"},
	},
	"catatonit": {{}, {"--"}, {"--help"}, {"-V"}, {"-VL"}, {"--version"}, {"--vers"}, {"--version=x"}, {"--v"}, {"-z"}, {"--yolo"}},
}

// TestTexts: what scripts compare is the other's to the byte, on the same stream and with
// the same exit code, whatever the path by which it is called.
func TestTexts(t *testing.T) {
	for name, runs := range textRuns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real := theReal(t, name)
			if ours, theirs := text(t, ourselves, name, "--version"), text(t, real, name, "--version"); ours != theirs {
				t.Skipf("compares with %q, and %s is %q", ours.stdout+ours.stderr, real, theirs.stdout+theirs.stderr)
			}
			for _, called := range []string{name, "/sbin/" + name} {
				for _, args := range runs {
					if got, want := text(t, ourselves, called, args...), text(t, real, called, args...); got != want {
						t.Errorf("%s %q:\ngot  %d %q %q\nwant %d %q %q", called, args,
							got.code, got.stdout, got.stderr, want.code, want.stdout, want.stderr)
					}
				}
			}
			got, want := text(t, ourselves, name, "-h"), text(t, real, name, "-h")
			if name == "catatonit" { // the rest of it is in words of ours
				got.stderr, want.stderr = synopsis(got.stderr), synopsis(want.stderr)
			}
			if got != want || !strings.Contains(got.stdout+got.stderr, " [") {
				t.Errorf("%s -h:\ngot  %d %q %q\nwant %d %q %q", name,
					got.code, got.stdout, got.stderr, want.code, want.stdout, want.stderr)
			}
		})
	}
}

const ourselves = "/proc/self/exe"

// text is what the program at path says when it is called by that name, without its
// process id.
func text(t *testing.T, path, called string, args ...string) result {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Args[0] = called
	cmd.Env = command(called).Env
	got := run(t, cmd)
	got.stderr = regexp.MustCompile(`([(:])[0-9]+\)`).ReplaceAllString(got.stderr, "${1}PID)")
	return got
}

// synopsis is the usage line of a help text, and the flags that it names, in their order.
func synopsis(help string) string {
	return strings.Join(regexp.MustCompile(`(?m)^usage: .*|^options:|^  -\w(, --\w+)?  `).FindAllString(help, -1), "\n")
}

// TestOthersTexts: the same where the others are not installed, and the texts that are
// ours. One that ends with its line is the whole of what is said.
func TestOthersTexts(t *testing.T) {
	for _, c := range []struct {
		name, flag, stdout, stderr string
	}{
		{"tini", "--version", "tini version 0.19.0\n", ""},
		{"docker-init", "--version", "tini version 0.19.0\n", ""},
		{"docker-init", "-h", "docker-init (tini version 0.19.0)\nUsage: docker-init [OPTIONS]", ""},
		{"dumb-init", "-V", "", "dumb-init v1.2.5\n"},
		{"dumb-init", "--version", "", "dumb-init v1.2.5\n"},
		{"dumb-init", "-h", "", "--single-child"},
		{"catatonit", "-V", "tini version 0.1.7_catatonit\n", ""},
		{"catatonit", "--vers", "tini version 0.1.7_catatonit\n", ""},
		{"catatonit", "-L", "rlminit, in place of catatonit.\n\nLicensed", ""},
		{"tini", "-l", "rlminit, in place of tini.\n\nLicensed", ""},
		{"catatonit", "-h", "", "usage: catatonit [-ghLPV] [--] <progname> [<arguments>...]\n\noptions:"},
	} {
		got := run(t, command(c.name, c.flag))
		if got.code != 0 || !says(got.stdout, c.stdout) || !says(got.stderr, c.stderr) {
			t.Errorf("%s %s: %d %q %q", c.name, c.flag, got.code, got.stdout, got.stderr)
		}
	}
}

// says tells whether a stream has what it is to have: a part, a whole that ends with its
// line, or nothing.
func says(stream, want string) bool {
	if want == "" || strings.HasSuffix(want, "\n") {
		return stream == want
	}
	return strings.Contains(stream, want)
}

// TestPause: catatonit -P runs nothing and ends at INT or TERM, and at nothing else.
func TestPause(t *testing.T) {
	for _, last := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		cmd := command("catatonit", "-P")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		caught := func() bool { // it has set its signals
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			_, rest, _ := strings.Cut(string(status), "SigCgt:\t")
			set, _ := strconv.ParseUint(rest[:min(len(rest), 16)], 16, 64)
			return set&(1<<(unix.SIGUSR1-1)) != 0 && set&(1<<(unix.SIGSEGV-1)) == 0
		}
		for deadline := time.Now().Add(10 * time.Second); !caught(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("catches no signals")
			}
		}
		cmd.Process.Signal(unix.SIGUSR1)
		cmd.Process.Signal(unix.SIGHUP)
		cmd.Process.Signal(last)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", last, err)
		}
	}
}
