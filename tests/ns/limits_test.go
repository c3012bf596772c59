package ns

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// TestSmallLimits: PID 1 is started under a small limit of each kind. It works, or is refused
// with a line that names the limit.
func TestSmallLimits(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("prlimit is missing")
	}
	for limit, want := range map[string]string{
		"--fsize=1000000": "cannot start: no file may be larger than 1000000 bytes (RLIMIT_FSIZE)", "--fsize=1073741824": "no file may be larger than 1073741824 bytes", "--fsize=40000000": "no file may be larger than 40000000 bytes (RLIMIT_FSIZE)",
		"--sigpending=0": "cannot start: 1 signals may wait (RLIMIT_SIGPENDING)", "--cpu=100000": "each process may use 100000 s of CPU (RLIMIT_CPU)",
		"--data=200000000": "", "--locks=0": "", "--msgqueue=0": "", "--rttime=1000": "", "--stack=131072": "", "--memlock=0": "",
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			b := Start(t, box.Spec{Config: contract.Config(), Under: []string{"prlimit", limit}})
			if strings.HasPrefix(want, "cannot start") {
				if code, err := b.Ended(time.Minute); code == 0 || err != nil {
					t.Errorf("it ended with %d, %v", code, err)
				}
			} else {
				for _, err := range tryAll(b) {
					t.Error(err)
				}
				if out := b.Must("run", "--", "sh", "-c", "head -c 50000000 /dev/zero | wc -c"); out != "50000000\n" {
					t.Errorf("a job prints %q", out)
				}
			}
			if said := b.Printed(); !strings.Contains(said, want) || want == "" && strings.Contains(said, "RLIMIT") {
				t.Errorf("it says %q, want %q", said, want)
			}
			if strings.HasPrefix(limit, "--fsize=4") { // more than may be written ends, too
				if r := b.Run("run", "--timeout", "1m", "--", "sh", "-c", "head -c 50000000 /dev/zero"); r.Code != 0 {
					t.Errorf("a job that writes more than one file may hold: exit code %d, %q", r.Code, r.Err)
				}
			}
		})
	}
}
