package ns

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// The volume goes from one container to another while jobs run: what was begun in
// memory goes on, what the other left is told, and what is begun then is recorded.
func TestJobsWhenTheVolumeIsTaken(t *testing.T) {
	first := Start(t, box.Spec{Config: contract.Config()})
	first.Must("profile", "create", "alice")
	first.Must("run", "--profile", "alice", "--", "true")
	lost := strings.TrimSpace(first.Must("run", "--profile", "alice", "--detach", "--timeout", "1h", "--", "sleep", "1000"))
	second := Start(t, box.Spec{Config: contract.Config(), Env: []string{"RLMINIT_HOME=" + first.Home()}})
	memory := strings.TrimSpace(second.Must("run", "--detach", "--timeout", "1h", "--", "sleep", "1000"))
	if memory != "m1" || lost != "2" {
		t.Errorf("the jobs are %s and %s", lost, memory)
	}
	if err := first.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	box.Eventually(second, 30*time.Second, "the other's job is interrupted", func() (bool, any) {
		r := second.Run("job", "wait", lost)
		return r.Code == 125 && strings.Contains(r.Err, "the container ended before it did"), r
	})
	second.Await("gateway-alice", "running")
	if id := strings.TrimSpace(second.Must("run", "--profile", "alice", "--detach", "--", "true")); id != "3" {
		t.Errorf("the next job is %s", id)
	}
	if out := second.Must("job", "show", memory); !strings.Contains(out, "running") {
		t.Errorf("what was begun in memory: %s", out)
	}
	second.Must("job", "cancel", memory)
	if r := second.Run("job", "wait", memory); r.Code != 143 {
		t.Errorf("what was begun in memory has ended so: %s", r)
	}
}
