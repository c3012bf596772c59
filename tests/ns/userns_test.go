package ns

import (
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// TestUserNamespace: in a container whose ids are another range of the machine's, as
// with userns-remap, all is as elsewhere.
func TestUserNamespace(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it maps a range of ids")
	}
	t.Parallel()
	b := startIn(t, box.Spec{Config: contract.Config()}, programs, 1<<16)
	b.Must("profile", "create", "alice")
	alice := b.Await("gateway-alice", "running")
	b.Must("restart", "alice")
	b.AwaitThat("gateway-alice", "runs anew", func(s control.Service) bool { return s.State == "running" && *s.PID != *alice.PID })
	if uid := b.Supervisor().UID[0]; uid != box.Supervisor.UID {
		t.Errorf("the supervisor is uid %d", uid)
	}
}

// In one that has too few ids for the supervisor's and for tags, what each is for is
// done without, and that is said.
func TestSmallUserNamespace(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it maps a range of ids")
	}
	t.Parallel()
	b := startIn(t, box.Spec{Config: contract.Config()}, programs, 10_000)
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	for _, line := range []string{"uid 49999 or gid 49999 is not among those", "does not have the groups 50000-59999"} {
		if printed := b.Printed(); !strings.Contains(printed, line) {
			t.Errorf("nothing is said of %q: %s", line, printed)
		}
	}
}

// In one that has no ids but root's no service can run: that is said, and it ends.
func TestUserNamespaceOfRootAlone(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it maps a range of ids")
	}
	t.Parallel()
	b := startIn(t, box.Spec{Config: contract.Config()}, programs, 1)
	code, err := b.Ended(answerTimeout)
	const want = "uid 1000 is not among those that the container's user namespace has; it has none but root's"
	if printed := b.Printed(); code == 0 || err != nil || !strings.Contains(printed, want) {
		t.Errorf("it ended with %d, %v: %s", code, err, printed)
	}
}
