package s6

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// outcome is what a command prints, and its exit code.
type outcome struct {
	out, err string
	code     int
}

func (o outcome) String() string {
	return fmt.Sprintf("stdout %q, stderr %q, exit code %d", o.out, o.err, o.code)
}

// varying are the parts of the output that no two runs have in common.
var varying = []struct {
	is *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`pid \d+`), "pid N"},
	{regexp.MustCompile(`\d+ seconds`), "N seconds"},
	{regexp.MustCompile(`@4[0-9a-f]{23}`), "@LABEL"},
	{regexp.MustCompile(`^(\w+ )?(\w+ )?\d{2,}\b`), "${1}${2}PID"},
}

// plain is text without what varies.
func plain(text string) string {
	for _, v := range varying {
		text = v.is.ReplaceAllString(text, v.by)
	}
	return text
}

// step is a command that both are given.
type step struct {
	args  string // DIR is the scan directory
	until string // it is called again until stdout is this
	own   string // what we print in the place of s6's stderr, where that is not about s6 itself: a part
}

// steps go through the options and the exit codes. What comes first decides what comes next.
var steps = []step{
	// svstat: every field, of each kind of service.
	{args: "s6-svstat DIR/plain", until: "up (pid N) N seconds\n"},
	{args: "s6-svstat DIR/idle", until: "down (exitcode 0) N seconds, ready N seconds\n"},
	{args: "s6-svstat DIR/slow", until: "up (pid N) N seconds, ready N seconds\n"},
	{args: "s6-svstat -o up,wantedup,normallyup,ready,paused,exitcode,signal,signum DIR/plain"},
	{args: "s6-svstat -o up,wantedup,normallyup,ready,paused,exitcode,signal,signum DIR/idle"},
	{args: "s6-svstat -o up,wantedup,normallyup,ready,paused,exitcode,signal,signum DIR/slow"},
	{args: "s6-svstat -o pid,updownsince,readysince DIR/slow"},
	{args: "s6-svstat -o pid DIR/idle"},
	{args: "s6-svstat -uwNres DIR/plain"},
	{args: "s6-svstat -p DIR/plain"},
	{args: "s6-svstat -u -o exitcode -w DIR/idle"},
	{args: "s6-svstat -n DIR/plain"},
	{args: "s6-svstat -- DIR/plain"},
	{args: "s6-svstat DIR/plain -u"},
	{args: "s6-svstat DIR/plain/"},
	{args: "s6-svstat -o up,bad DIR/plain"},
	{args: "s6-svstat -o up,,pid DIR/plain"},
	{args: "s6-svstat -o"},
	{args: "s6-svstat -z DIR/plain"},
	{args: "s6-svstat"},
	{args: "s6-svstat DIR/none", own: "unable to read status for "},
	// svok.
	{args: "s6-svok DIR/plain"},
	{args: "s6-svok DIR/idle"},
	{args: "s6-svok DIR/none"},
	{args: "s6-svok DIR"},
	{args: "s6-svok"},
	// svwait.
	{args: "s6-svwait DIR/plain"},
	{args: "s6-svwait -t 300 -u DIR/plain"},
	{args: "s6-svwait -t 300 -d DIR/plain"},
	{args: "s6-svwait -t 300 -U DIR/slow"},
	{args: "s6-svwait -t 300 -d DIR/idle"},
	{args: "s6-svwait -D -t 300 DIR/idle"},
	{args: "s6-svwait -o -t 300 -d DIR/plain DIR/idle"},
	{args: "s6-svwait -a -t 300 -d DIR/plain DIR/idle"},
	{args: "s6-svwait -t 300 -r DIR/plain"},
	{args: "s6-svwait -u DIR/none", own: "unable to subscribe to events for "},
	{args: "s6-svwait -t soon DIR/plain"},
	{args: "s6-svwait -x DIR/plain"},
	{args: "s6-svwait"},
	// svc: signals, what brings up and down, waits.
	{args: "s6-svc DIR/plain"},
	{args: "s6-svc -p DIR/plain"},
	{args: "s6-svstat -o up,paused DIR/plain", until: "true true\n"},
	{args: "s6-svc -c DIR/plain"},
	{args: "s6-svstat -o up,paused DIR/plain", until: "true false\n"},
	{args: "s6-svc -wr -T 20000 -k DIR/plain"},
	{args: "s6-svstat DIR/plain", until: "up (pid N) N seconds\n"},
	{args: "s6-svc -wr -T 20000 -t DIR/plain"},
	{args: "s6-svc -wR -T 20000 -r DIR/slow"},
	{args: "s6-svstat DIR/slow", until: "up (pid N) N seconds, ready N seconds\n"},
	{args: "s6-svc -wd -T 20000 -d DIR/plain"},
	{args: "s6-svstat DIR/plain", until: "down (signal SIGTERM) N seconds, normally up, ready N seconds\n"},
	{args: "s6-svstat -n DIR/plain"},
	{args: "s6-svstat -o up,wantedup,normallyup,ready,pid,exitcode,signal,signum DIR/plain"},
	{args: "s6-svc -k DIR/plain"},
	{args: "s6-svc -r DIR/plain"},
	{args: "s6-svstat -u DIR/plain"},
	{args: "s6-svc -wu -T 300 DIR/plain"},
	{args: "s6-svc -uwu -T 20000 DIR/plain"},
	{args: "s6-svstat -uwN DIR/plain"},
	{args: "s6-svc -wD -T 20000 -D DIR/plain"},
	{args: "test -e DIR/plain/down", until: "yes\n"},
	{args: "s6-svstat DIR/plain", until: "down (signal SIGTERM) N seconds, ready N seconds\n"},
	{args: "s6-svc -wu -T 20000 -U DIR/plain"},
	{args: "test -e DIR/plain/down", until: "no\n"},
	{args: "s6-svstat DIR/plain", until: "up (pid N) N seconds\n"},
	{args: "s6-svc -wU -T 20000 -u DIR/slow"},
	{args: "test -e DIR/idle/down", until: "yes\n"},
	{args: "s6-svc -u DIR/none", own: "unable to control "},
	{args: "s6-svc -wu -u DIR/none", own: "unable to "},
	{args: "s6-svc -T soon -u DIR/plain"},
	{args: "s6-svc -wq DIR/plain"},
	{args: "s6-svc -z DIR/plain"},
	{args: "s6-svc -T"},
	{args: "s6-svc -u"},
	// svscanctl.
	{args: "s6-svscanctl DIR"},
	{args: "s6-svscanctl -a DIR"},
	{args: "s6-svscanctl -an DIR"},
	{args: "s6-svscanctl -h DIR"},
	{args: "s6-svscanctl -z DIR"},
	{args: "s6-svscanctl -y DIR"},
	{args: "s6-svscanctl"},
	{args: "s6-svscanctl -a DIR/none", own: "unable to control "},
}

// TestBesideS6 gives s6's commands and ours the same command lines, and wants the same exit
// codes and the same output, once as root and once as the service user.
func TestBesideS6(t *testing.T) {
	need(t)
	for _, who := range []box.User{box.Root, box.Service} {
		if who == box.Root && !ns.Privileged() {
			continue
		}
		t.Run(fmt.Sprint("as ", who), func(t *testing.T) {
			t.Parallel()
			dir := scan(t)
			b := ns.Start(t, box.Spec{Config: config})
			b.Shell(box.Root, "ln -s /run/rlminit/services /run/service")
			b.Await("plain", "running")
			equal := 0
			for _, s := range steps {
				theirs := call(t, s, dir, func(argv []string) outcome {
					cmd := exec.Command(argv[0], argv[1:]...)
					var out, complaint strings.Builder
					cmd.Stdout, cmd.Stderr = &out, &complaint
					_ = cmd.Run() // its code is compared
					return outcome{out.String(), complaint.String(), cmd.ProcessState.ExitCode()}
				})
				ours := call(t, s, "/run/service", func(argv []string) outcome {
					if argv[0] != "sh" {
						argv = append([]string{"rlminit-s6"}, argv...)
					}
					r := b.As(who, argv...)
					return outcome{r.Out, r.Err, r.Code}
				})
				if !same(s, theirs, ours, dir) {
					t.Errorf("%s:\n s6   %v\n ours %v", s.args, theirs, ours)
					continue
				}
				equal++
			}
			t.Logf("figure: %d of %d command lines do the same as s6's", equal, len(steps))
		})
	}
}

// call runs a step until it prints what is waited for.
func call(t *testing.T, s step, dir string, run func([]string) outcome) (o outcome) {
	t.Helper()
	argv := strings.Fields(strings.ReplaceAll(s.args, "DIR", dir))
	if argv[0] == "test" {
		argv = []string{"sh", "-c", strings.Join(argv, " ") + " && echo yes || echo no"}
	}
	if s.until == "" {
		return run(argv)
	}
	box.Eventually(t, long, s.args+" prints "+s.until, func() (bool, any) {
		o = run(argv)
		return plain(o.out) == s.until, o
	})
	return o
}

// same tells whether both did the same. Stderr is compared where it is about the command
// line, and else by its first words.
func same(s step, theirs, ours outcome, dir string) bool {
	if theirs.code != ours.code || plain(theirs.out) != plain(ours.out) {
		return false
	}
	if s.own != "" {
		return strings.Contains(theirs.err, s.own) && strings.Contains(ours.err, s.own) && strings.Count(ours.err, "\n") == 1
	}
	// s6 waits by other programs, and says so.
	said := strings.ReplaceAll(theirs.err, dir, "/run/service")
	if strings.HasPrefix(s.args, "s6-svc ") {
		said = strings.NewReplacer("s6-svlisten1: ", "s6-svc: ", "s6-svwait: ", "s6-svc: ").Replace(said)
	}
	return said == ours.err
}

// need fails where s6 is not there to compare with.
func need(t *testing.T) {
	t.Helper()
	for _, name := range []string{"s6-svscan", "s6-svc", "s6-setuidgid"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s here to compare with: apt-get install s6", filepath.Base(name))
		}
	}
}
