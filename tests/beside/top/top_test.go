package top

import (
	"strings"
	"testing"

	"rlminit/tests/box"
)

// usualServices are some of each state: said says what is appended to /tmp/said, and
// slow takes its time to end.
var usualServices = []string{
	`said: {command: [bash, -c, "touch /tmp/said; exec tail -n +1 -f /tmp/said"]}`,
	`db: {command: [sleep, inf]}`,
	`api: {command: [sleep, inf], requires: [db]}`,
	`gone: {command: [/no/such/program]}`,
	`sick: {command: [sleep, inf], health: {exec: ["false"], interval: 1s, retries: 1, action: none}}`,
	`slow: {command: [bash, -c, "trap 'until [ -e /tmp/end ]; do sleep 0.1; done; exit 0' TERM; touch /tmp/slow; while :; do sleep 0.1; done"], stop: {timeout: 60s}}`,
}

func TestListFiltersSortsAndResizes(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	s := begin(t, b)
	s.reads("6 services: 1 failed, 1 unhealthy, 4 running", "> gone", "failed", "sick  unhealthy", "NAME", "WHY", "/ filter", "gone: cannot run")
	s.keys("Down")
	s.reads("> sick", "  gone")

	s.resize(size{40, 10})
	s.shows("10 lines of 40 columns", func(screen string) bool {
		return strings.Contains(screen, "> sick") && !strings.Contains(screen, "SINCE") && strings.Contains(screen, "? help   q quit")
	})
	s.resize(size{132, 43})
	s.reads("SINCE", "gone  failed", `cannot run "/no/such/program": no such file or directory`)
	s.resize(usual)
	s.reads("> sick", "SINCE")

	s.keys("/")
	s.reads("filter by name, state or kind: █")
	s.types("run")
	s.reads("kind: run█", `[filter "run" shows 4]`, "> api")
	s.misses("  gone")
	s.keys("Enter", "s")
	s.reads("NAME↓", `[filter "run" shows 4]`, "? help")
	s.keys("S")
	s.shows("the last name first", func(screen string) bool {
		return strings.Contains(strings.Split(screen, "\n")[3], "slow") && strings.Contains(screen, "NAME↑")
	})
	s.keys("Escape")
	s.reads("  gone")
	s.misses("shows 4")

	s.keys("?")
	s.reads("what the keys do", "any key goes back")
	s.keys("x")
	s.reads("> api")
	s.keys("q")
	s.ends(0)
}

func TestLogComesLive(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	s := begin(t, b)
	say := func(what string) { b.Shell(box.Root, "printf '%b' '"+what+"\\n' >>/tmp/said") }
	b.Shell(box.Root, "for i in $(seq 200); do echo line $i; done >>/tmp/said")
	s.keys("/")
	s.types("said")
	s.keys("Enter", "Enter")
	s.reads("said  running for", "pid", "restarts since rlminit started", "log, as it comes", "line 200")
	say("it comes live")
	s.reads("it comes live")
	s.keys("PPage")
	s.reads("below; G goes to the end")
	s.misses("it comes live")
	s.keys("/")
	s.types("Line 19")
	s.keys("Enter")
	s.reads(`"line 19": 11 of 11`, "line 199")
	s.keys("n", "n")
	s.reads(`"line 19": 9 of 11`)
	s.keys("Escape")
	s.misses(`"line 19"`)
	s.keys("G")
	s.reads("it comes live")

	// What a terminal would obey is shown, and not obeyed.
	say(`\x1b]2;owned\x07\x1b[2J\x1b[31mred \xe2\x80\xae bidi \x9b5n`)
	s.reads(`^[]2;owned^G^[[2J^[[31mred \u202e bidi \x9b5n`)
	if title := s.tmux("display-message", "-p", "#{pane_title}"); strings.Contains(title, "owned") {
		t.Errorf("a log has set the title of the terminal: %q", title)
	}

	// The log goes on when the supervisor is replaced, and has no line twice.
	signals(b, "KILL")
	b.AwaitReady()
	say("after the supervisor")
	s.shows("a line once", func(screen string) bool {
		return strings.Count(screen, "after the supervisor") == 1 && strings.Count(screen, "it comes live") == 1
	})
	s.keys("Escape")
	s.reads(`> said`, `[filter "said" shows 1]`)
}

func TestCommandsAreAsked(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	s := begin(t, b)
	s.keys("/")
	s.types("db")
	s.keys("Enter", "d")
	s.reads("stop db? y/n", "What requires it is stopped first: api.", "y yes   n no")
	s.keys("n")
	s.reads("nothing was done")
	if is := b.Status()["db"]; is.State != "running" || is.Desired != "running" {
		t.Errorf("after a no db is %s", box.Describe(is))
	}
	s.keys("d")
	s.reads("What requires it is stopped first: api.")
	s.keys("y")
	s.reads("stop of db (operation 1): done", "> db", "stopped")
	b.Await("db", "stopped")
	s.keys("u")
	s.reads("start db? y/n", "It is meant to run from then on")
	s.keys("y")
	s.reads("start of db (operation 2): done")
	old := b.Await("db", "running").PID
	s.keys("r")
	s.reads("restart db? y/n", "started again: api")
	s.keys("y")
	s.reads("restart of db (operation 3): done")
	if now := b.Await("db", "running").PID; now == nil || old == nil || *now == *old {
		t.Errorf("restarted, db has pid %v as before", now)
	}

	s.keys("/", "C-u")
	s.types("gone")
	s.keys("Enter", "r")
	s.reads("restart gone? y/n", "out of service")
	s.keys("y")
	s.reads(`cannot restart gone: cannot run "/no/such/program"`)
	s.keys("Escape")
	s.misses("cannot restart")

	s.keys("o")
	s.reads("WHAT BECOMES OF IT", "> 4     restart  failed", "1     stop     done")
	s.keys("Escape")
	s.reads("> gone")
	s.keys("q")
	s.ends(0)
}

func TestOperationIsCancelled(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	there(b, "/tmp/slow")
	s := begin(t, b)
	s.keys("/")
	s.types("slow")
	s.keys("Enter", "Space", "/", "C-u")
	s.types("db")
	s.keys("Enter", "Space", "/", "C-u", "Enter", "r")
	s.reads("[2 marked]", "restart 2 services? y/n", "db, slow. What requires them is stopped too, and started again: api.", "o one after the other")
	s.keys("y")
	s.reads("restart of 2 services: 1 of 2 done, 1 running (c cancels)")
	s.keys("c")
	s.reads("cancel restart of 2 services (operation 1)? y/n", "What has begun goes on to its end")
	s.keys("y")
	s.reads("restart of 2 services (operation 1) is cancelled")
	b.Shell(box.Root, "touch /tmp/end")

	b.Must("stop", "slow")
	b.Shell(box.Root, "rm /tmp/end /tmp/slow")
	b.Must("start", "slow")
	there(b, "/tmp/slow")
	s.keys("Escape")
	s.misses("is cancelled")
	s.keys("/")
	s.types("slow")
	s.keys("Enter", "d")
	s.reads("stop slow? y/n", "It stays stopped")
	s.keys("y")
	s.reads("stop of slow: 0 of 1 done")
	s.keys("q")
	s.ends(0)
	s.reads("goes on; rlminit operations ")
	b.Shell(box.Root, "touch /tmp/end")
	b.Await("slow", "stopped")
}

func TestSupervisorGoesAndComes(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	s := begin(t, b)
	s.keys("/")
	s.types("run")
	s.keys("Enter", "Down")
	s.reads("> db", `[filter "run" shows 4]`)
	signals(b, "STOP")
	s.reads("the supervisor does not answer; trying again (as of ", "> db")
	s.keys("?")
	s.reads("what the keys do") // it is still there for a person
	s.keys("x")
	signals(b, "KILL")
	s.misses("does not answer")
	s.reads("> db", `[filter "run" shows 4]`)
	b.Must("stop", "said")
	s.reads("1 stopped", `[filter "run" shows 3]`, "> db")

	signals(b, "KILL")
	b.AwaitReady()
	b.Must("start", "said")
	s.reads(`[filter "run" shows 4]`, "> db")
	s.misses("does not answer")
	s.keys("C-c")
	s.ends(0)
}
