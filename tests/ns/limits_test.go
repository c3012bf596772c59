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
		"--data=40000000": "cannot start: RLIMIT_DATA is below", "--as=60000000": "cannot start: RLIMIT_AS is below", "--stack=16384": "cannot start: RLIMIT_STACK is below",
		"--data=80000000": "cannot start: a process may have 80000000 bytes of data (RLIMIT_DATA)", "--as=1200000000": "cannot start: a process may have 1200000000 bytes of addresses (RLIMIT_AS)",
		"--data=96000000": "", "--as=2000000000": "", "--stack=32768": "",
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

// TestWithoutDevices: in a place whose /dev is empty, pure init works, also where standard
// descriptors are closed, in whose place Go's runtime would have /dev/null; with a
// configuration the container ends and says why.
func TestWithoutDevices(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it mounts")
	}
	for closed, want := range map[string]string{"": "out\nerr\n", "<&-": "out\nerr\n", "<&- 2>&-": "out\n", "<&- >&- 2>&-": ""} {
		t.Run("pure "+closed, func(t *testing.T) {
			t.Parallel()
			b := Start(t, box.Spec{Main: []string{"bash", "-c", "echo out; echo err >&2; exit 7"}, Under: []string{"bash", "-c", `mount -t tmpfs none /dev; exec "$@" ` + closed, "bash"}})
			if code, err := b.Ended(time.Minute); code != 7 || err != nil {
				t.Errorf("it ended with %d, %v: %s", code, err, b.Printed())
			}
			if said := b.Printed(); !strings.Contains(said, want) || strings.Contains(said, "goroutine") || strings.Contains(said, "fatal error") {
				t.Errorf("it says %q, want %q", said, want)
			}
		})
	}
	t.Run("supervised", func(t *testing.T) {
		t.Parallel()
		b := Start(t, box.Spec{Config: contract.Config(), Under: []string{"bash", "-c", `mount -t tmpfs none /dev; exec "$@" <&-`, "bash"}})
		code, err := b.Ended(time.Minute)
		if said := b.Printed(); code == 0 || err != nil || !strings.Contains(said, "cannot open /dev/null: no such file or directory") || strings.Contains(said, "fatal error") {
			t.Errorf("it ended with %d, %v: %s", code, err, said)
		}
	})
}
