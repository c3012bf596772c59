package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// Sets: a pattern, --all, --kind and --state mean the same services for the same verb,
// whichever says it; services that are left as they are, are named.
func Sets(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		"run-1: {command: [sleep, infinity]}", "run-2: {command: [sleep, infinity]}",
		"halted: {command: [sleep, infinity]}", "paused: {command: [sleep, infinity]}",
		"off: {command: [sleep, infinity], enabled: false}",
		"nightly: {type: oneshot, command: ['true'], schedule: {cron: '0 0 1 1 *'}}",
	)})
	b.Must("stop", "halted")
	b.Must("stop", "--runtime", "paused")
	pids := func() map[string]int {
		all := map[string]int{}
		for name, s := range b.Status() {
			if s.PID != nil {
				all[name] = *s.PID
			}
		}
		return all
	}
	expect := func(what string, before map[string]int, running, restarted string) {
		t.Helper()
		now := pids()
		var names, changed []string
		for _, name := range []string{"halted", "nightly", "off", "paused", "run-1", "run-2"} {
			if now[name] != 0 {
				names = append(names, name)
			}
			if now[name] != 0 && now[name] != before[name] {
				changed = append(changed, name)
			}
		}
		if got := strings.Join(names, " "); got != running {
			t.Errorf("%s: running are %q, want %q", what, got, running)
		}
		if got := strings.Join(changed, " "); got != restarted {
			t.Errorf("%s: new are %q, want %q", what, got, restarted)
		}
	}
	const stay = "2 are stopped and stay so: halted, paused; 1 is disabled and stays so: off; 1 is scheduled and stays so: nightly\n"
	for _, args := range [][]string{{"--all"}, {"*"}, {"--all", "--rolling"}, {"*", "--rolling", "--steady", "0s"}, {"[a-z]*"}} {
		before := pids()
		out := b.Must(append([]string{"restart"}, args...)...)
		if !strings.HasSuffix(out, stay) {
			t.Errorf("restart %s says\n%s", strings.Join(args, " "), out)
		}
		expect("restart "+strings.Join(args, " "), before, "run-1 run-2", "run-1 run-2")
	}
	before := pids()
	if out := b.Must("restart", "h*", "p*"); out != "2 are stopped and stay so: halted, paused\n" {
		t.Errorf("restart of those that are left says %q", out)
	}
	expect("restart h* p*", before, "run-1 run-2", "")
	b.Fails(control.ExitNoSuchName, "no ", "restart", "nobody-*")
	b.Must("restart", "halted", "run-*") // a full name means its service
	expect("restart halted run-*", before, "halted run-1 run-2", "halted run-1 run-2")
	b.Must("stop", "halted")

	before = pids()
	if out := b.Must("start", "*"); !strings.HasSuffix(out, "1 is disabled and stays so: off; 1 is scheduled and stays so: nightly\n") {
		t.Errorf("start says\n%s", out)
	}
	expect("start *", before, "halted paused run-1 run-2", "halted paused")
	if out := b.Must("start", "--all"); !strings.Contains(out, "run-1: already running") {
		t.Errorf("start --all, once more, says\n%s", out)
	}
	expect("start --all", pids(), "halted paused run-1 run-2", "")

	b.Must("start", "off")
	b.Must("stop", "halted", "paused")
	if out := b.Must("stop", "*"); !strings.HasSuffix(out, "2 are stopped and stay so: halted, paused\n") {
		t.Errorf("stop says\n%s", out)
	}
	expect("stop *", pids(), "", "")
	b.Must("restart", "--state", "stopped", "--all") // taken at its word
	if now := pids(); now["run-1"] == 0 || now["halted"] == 0 {
		t.Errorf("restart --state stopped: %v", now)
	}

	// A set that changes some of its members only changes those.
	b.Must("profile", "create", "bare", "last")
	b.Must("profile", "create", "given", "--env", "A=1")
	b.Must("profile", "set", "*", "--unset", "A", "--restart")
	for _, name := range []string{"bare", "given", "last"} {
		if s := b.Status()["gateway-"+name]; s.Outdated {
			t.Errorf("%s is outdated: %s", name, s.OutdatedWhy)
		}
		pid := *b.Status()["gateway-"+name].PID
		if env := b.Shell(box.Root, fmt.Sprintf("tr '\\0' '\\n' </proc/%d/environ", pid)); strings.Contains(env, "\nA=") {
			t.Errorf("%s runs with A, which was unset: %s", name, env)
		}
	}
}
