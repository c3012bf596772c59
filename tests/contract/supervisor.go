package contract

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// several starts some profiles and returns their pids by service.
func several(b *box.Box, count int) map[string]int {
	b.Helper()
	pids := map[string]int{}
	for i := range count {
		name := fmt.Sprintf("p%d", i)
		b.Must("profile", "create", name)
		pids["gateway-"+name] = *b.Await("gateway-"+name, "running").PID
	}
	return pids
}

// replaced waits until there is another supervisor, which answers.
func replaced(b *box.Box, old int) {
	b.Helper()
	box.Eventually(b, long, "a new supervisor", func() (bool, any) {
		for _, p := range b.Processes() {
			if p.Parent == 1 && len(p.Args) > 1 && p.Args[1] == "supervise" && p.PID != old && p.State != "Z" {
				return true, p
			}
		}
		return false, "none"
	})
	b.AwaitReady()
}

// unharmed checks that every service kept its pid and never restarted.
func unharmed(b *box.Box, pids map[string]int) {
	b.Helper()
	status := b.Status()
	for name, pid := range pids {
		s := status[name]
		if s.State != "running" || s.PID == nil || *s.PID != pid || s.Restarts != 0 {
			b.Errorf("%s had pid %d, is %s; %s", name, pid, box.Describe(s), b.Run("events", name, "-n", "12").Out)
		}
	}
}

// kill sends a signal to a process, as root.
func kill(b *box.Box, signal string, pid int) {
	b.Helper()
	b.Shell(box.Root, fmt.Sprintf("kill -%s %d", signal, pid))
}

// SupervisorKilled: no service notices, no line is lost, and an exit that
// happens while nobody supervises is told and acted upon.
func SupervisorKilled(t *testing.T, start New) {
	const lines = 400
	b := start(t, box.Spec{Config: Services(
		`talker: {` + bash(fmt.Sprintf(`for i in $(seq %d); do echo "line $i"; sleep 0.005; done; exec sleep infinity`, lines)) + `, log: {max_size: 10MB}}`)})
	pids := several(b, 3)
	victim := b.Status()["gateway-p0"]
	old := b.Supervisor()
	b.Shell(box.Root, fmt.Sprintf("kill -9 %d %d", old.PID, *victim.PID))
	replaced(b, old.PID)

	s := restarted(b, "gateway-p0", *victim.PID)
	if s.Restarts != 1 || s.LastExit == nil || s.LastExit.Signal == nil || *s.LastExit.Signal != "KILL" {
		t.Errorf("killed with the supervisor: %s", box.Describe(s))
	}
	delete(pids, "gateway-p0")
	unharmed(b, pids)

	var out string
	box.Eventually(b, long, "the talker's last line", func() (bool, any) {
		out = b.Must("logs", "talker", "-n", "100000")
		return strings.Contains(out, fmt.Sprintf("line %d\n", lines)), out
	})
	for i := 1; i <= lines; i++ {
		if n := strings.Count(out, fmt.Sprintf("line %d\n", i)); n != 1 {
			t.Errorf("line %d is logged %d times", i, n)
		}
	}

	// The next one commands all as the first did.
	b.Must("stop", "p1")
	b.Must("profile", "delete", "p2")
	b.Must("profile", "create", "late")
	b.Await("gateway-late", "running")
}

// SupervisorKilledAgainAndAgain: tier 1 never gives up on it.
func SupervisorKilledAgainAndAgain(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	pids := several(b, 2)
	for range 6 {
		old := b.Supervisor()
		kill(b, "KILL", old.PID)
		replaced(b, old.PID)
	}
	unharmed(b, pids)
}

// SupervisorTellsWhere: it says where it is, for whoever is to find out why. How
// much a crash tells is the container's to say, and the services' to know.
func SupervisorTellsWhere(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(`web: {` + bash(`echo "level $GOTRACEBACK"; exec sleep infinity`) + `}`), Env: []string{"GOTRACEBACK=all"}})
	logged(b, "web", "level all")
	supervisor := b.Supervisor().PID
	kill(b, "USR1", supervisor)
	box.Eventually(b, long, "its goroutines", func() (bool, any) {
		out := b.Printed()
		return strings.Contains(out, "supervise/loop.(*Loop).Run("), out
	})
	if now := b.Supervisor().PID; now != supervisor {
		t.Errorf("it was pid %d, and is %d", supervisor, now)
	}
}

// SupervisorFrozen: one that is silent is replaced, and no service notices.
func SupervisorFrozen(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	pids := several(b, 2)
	old := b.Supervisor()
	kill(b, "STOP", old.PID)
	replaced(b, old.PID)
	unharmed(b, pids)
}

// stopsWithin stops the box, and fails the test if that took longer than the
// budget, or was not of rlminit's own doing.
func stopsWithin(b *box.Box, budget time.Duration) {
	b.Helper()
	began := time.Now()
	if err := b.Stop(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	code := exitCode(b)
	if took > budget || code == 137 {
		b.Errorf("stopping took %s, exit code %d; the budget is %s", took, code, budget)
	}
	b.Logf("stopped in %s", took)
}

// StopWithinBudget: services that ignore TERM do not make the box outlive its
// budget, whatever their own timeouts add up to.
func StopWithinBudget(t *testing.T, start New) {
	deaf := `command: [nasty, deaf], stop: {timeout: 5s}`
	b := start(t, box.Spec{Config: strings.Replace(Services(
		`a: {`+deaf+`, requires: [b]}`, `b: {`+deaf+`, requires: [c]}`, `c: {`+deaf+`}`,
	), "stop_timeout: 8s", "stop_timeout: 4s", 1)})
	b.Await("a", "running")
	stopsWithin(b, 5*time.Second)
}

// StopWithFrozenSupervisor: tier 1 stops all by itself, politely first.
func StopWithFrozenSupervisor(t *testing.T, start New) {
	b := start(t, box.Spec{
		Config: Services(
			`polite: {` + bash(`trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.02; done`) + `, log: {tee: on}}`),
		Main: []string{"bash", "-c", `trap 'echo main got TERM; exit 6' TERM; while :; do sleep 0.02; done`},
	})
	b.Await("polite", "running")
	kill(b, "STOP", b.Supervisor().PID)
	stopsWithin(b, 9*time.Second)
	if code := exitCode(b); code != 6 {
		t.Errorf("exit code %d, want the main command's 6", code)
	}
	if !strings.Contains(b.Printed(), "main got TERM") {
		t.Errorf("printed %q", b.Printed())
	}
}

// StopWithKilledSupervisor: it is killed in the middle of a stop. Nobody succeeds it; tier 1
// goes on by itself, and what ran before the stop runs after it.
func StopWithKilledSupervisor(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`slow: {` + bash(`trap 'echo got TERM; sleep 2; exit 0' TERM; echo ready; while :; do sleep 0.02; done`) + `, log: {tee: on}}`)})
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	logged(b, "slow", "ready")
	supervisor := b.Supervisor().PID
	if err := b.Signal(int(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	box.Eventually(b, long, "it is being stopped", func() (bool, any) {
		out := b.Printed()
		return strings.Contains(out, "got TERM"), out
	})
	kill(b, "KILL", supervisor)
	if _, err := b.Ended(9 * time.Second); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.Printed(), "started again") {
		t.Errorf("a successor was started: %s", b.Printed())
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	b.Await("gateway-alice", "running")
	b.Await("slow", "running")
}

// StopLeavesNothing: no process of a stopped service is left, not in another
// session, not double-forked, not with an empty environment.
func StopLeavesNothing(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`leaky: {` + bash(`(setsid env -i /bin/sleep 4242 &); (sleep 4243 &); trap '' TERM; echo ready; while :; do sleep 0.02; done`) + `, stop: {timeout: 300ms}}`)})
	b.Must("profile", "create", "alice")
	s := b.Await("gateway-alice", "running")
	b.Call(*s.Port, "/fault/leak", "")
	b.Await("leaky", "running")
	logged(b, "leaky", "ready")
	b.Must("stop", "leaky", "alice")
	for _, p := range b.Processes() {
		if line := strings.Join(p.Args, " "); strings.Contains(line, "sleep 424") || strings.HasSuffix(line, "exe sleep") {
			t.Errorf("%s is left, pid %d", line, p.PID)
		}
	}
	b.AwaitThat("leaky", "is stopped", func(s control.Service) bool { return s.State == "stopped" && s.PID == nil })
	b.NoZombies()
}

// ShutdownKeepsIntent: `rlminit shutdown` ends the box and no intent.
func ShutdownKeepsIntent(t *testing.T, start New) {
	b := threeIntents(t, start)
	// Whoever asks from inside ends with the box, or has its answer before.
	if r := b.Run("shutdown"); r.Code != 0 && r.Code != 137 {
		t.Errorf("shutdown: %s", r)
	}
	if code := exitCode(b); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.Again()
	asIntended(t, b)
}
