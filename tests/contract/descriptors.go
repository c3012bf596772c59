package contract

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// openFiles counts the pipes, sockets and logs that PID 1 and the supervisor have
// open for services.
func openFiles(b *box.Box) (tier1, tier2 int) {
	b.Helper()
	count := func(pid int) int {
		out := b.Shell(box.Root, fmt.Sprintf("ls -l /proc/%d/fd | grep -cE 'pipe:|socket:|/logs/' || true", pid))
		n, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return count(1), count(b.Supervisor().PID)
}

// RestHoldsNothing: a service that is stopped or has failed keeps no pipe, socket or
// log open, in either tier, and writes to the same log when it runs again.
func RestHoldsNothing(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {command: [gateway, --profile, web], ready: {notify: true}, sockets: [{listen: "tcp:127.0.0.1:18113", name: http}], enabled: false}`,
		`talk: {enabled: false, `+bash(`echo talks; sleep infinity`)+`}`,
		`fails: {enabled: false, restart: {limit: 1, delay: 10ms}, `+bash(`echo fails; exit 3`)+`}`,
	)})
	one, two := openFiles(b)
	if one == 0 || two == 0 {
		t.Fatalf("PID 1 has %d open, the supervisor %d: they cannot be looked at here", one, two)
	}
	for round := range 3 {
		b.Must("start", "talk", "web")
		b.Run("start", "fails")
		b.Await("fails", "failed")
		b.Must("stop", "talk", "web")
		box.Eventually(b, long, "nothing more is open than before", func() (bool, any) {
			nowOne, nowTwo := openFiles(b)
			// The three services had 12 pipes, 3 logs and 2 sockets. PID 1 opens one or two
			// things of its own when it first needs them.
			return nowOne <= one+3 && nowTwo <= two+3, fmt.Sprintf("round %d: PID 1 %d → %d, supervisor %d → %d", round, one, nowOne, two, nowTwo)
		})
	}
	if out := b.Must("logs", "--no-prefix", "talk"); strings.Count(out, "talks") != 3 {
		t.Errorf("the log has\n%s", out)
	}
	if out := b.Must("logs", "--no-prefix", "fails"); strings.Count(out, "fails") < 3 || !strings.Contains(out, "failed: ") {
		t.Errorf("the log has\n%s", out)
	}
}
