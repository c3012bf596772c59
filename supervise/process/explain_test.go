package process

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// What a person can do is in the reason, and only what may pass is tried again.
func TestExplainSpawn(t *testing.T) {
	for _, c := range []struct {
		step  wire.Step
		errno unix.Errno
		want  string
		retry bool
	}{
		{wire.StepRlimit, unix.EPERM, "lower it, or use docker run --ulimit", false},
		{wire.StepRlimit, unix.EINVAL, "cannot set its limits: invalid argument", false},
		{wire.StepFork, unix.EAGAIN, "--pids-limit", true},
		{wire.StepGroups, unix.EPERM, "cannot set its groups: operation not permitted", false},
	} {
		reason, retry := ExplainSpawn(nil, []string{"web"}, "/bin/web", "/", &wire.SpawnFailed{Step: c.step, Errno: int32(c.errno)})
		if !strings.Contains(reason, c.want) || retry != c.retry {
			t.Errorf("step %d, %v: %q, retry %v", c.step, c.errno, reason, retry)
		}
	}
}
