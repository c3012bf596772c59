package ns

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// TestUselessSupervisor: one that lives and can take nobody in any more, for its
// descriptors were taken away, is noticed and replaced; no service notices.
func TestUselessSupervisor(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it limits another process")
	}
	t.Parallel()
	b := Start(t, box.Spec{Config: contract.Config()})
	b.Must("profile", "create", "alice")
	alice := *b.Await("gateway-alice", "running").PID
	for _, limit := range []string{"3:3", "0:0"} {
		old := b.Supervisor().PID
		var itself box.User // only who has the same ids may
		ids := b.Shell(box.Root, fmt.Sprintf("awk '/^[UG]id:/ {print $2}' /proc/%d/status", old))
		if _, err := fmt.Sscan(ids, &itself.UID, &itself.GID); err != nil {
			t.Fatal(ids, err)
		}
		b.Shell(itself, fmt.Sprintf("prlimit --pid %d --nofile=%s", old, limit))
		box.Eventually(b, answerTimeout, "a supervisor that answers", func() (bool, any) {
			r := b.As(box.Root, "rlminit", "stop", "--timeout", "5s", "nobody")
			return r.Code == 4 && b.Supervisor().PID != old, r // there is no such name: it was asked
		})
	}
	if now := b.Status()["gateway-alice"]; now.PID == nil || *now.PID != alice || now.Restarts != 0 {
		t.Errorf("alice: %s", box.Describe(now))
	}
	if out := b.Printed(); !strings.Contains(out, "of no use") || !strings.Contains(out, "does not answer; replaced") {
		t.Errorf("nobody said so: %s", box.Tail(out))
	}
}
