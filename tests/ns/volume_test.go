package ns

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// The volume goes from one container to another while jobs run: what was begun in
// memory is interrupted, what the other left is told, and what is begun then is recorded.
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
	if r := second.Run("job", "wait", memory); r.Code != 143 || !strings.Contains(r.Err, "the volume was taken over") {
		t.Errorf("what was begun in memory has ended so: %s", r)
	}
	if out := second.Must("job", "show", memory); !strings.Contains(out, "interrupted") {
		t.Errorf("what was begun in memory: %s", out)
	}
}

// A volume on which not even a lock can be made at boot may be mended while the
// container runs: its profiles are started then, without a restart.
func TestVolumeMended(t *testing.T) {
	home := t.TempDir()
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, "nr_inodes=200,mode=755,uid=1000,gid=1000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(home, unix.MNT_DETACH) })
	if err := os.Chmod(filepath.Dir(home), 0o755); err != nil { // a way there for everybody
		t.Fatal(err)
	}
	alice := filepath.Join(home, "profiles", "alice")
	if err := os.MkdirAll(alice, 0o755); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(alice, "profile.yaml")
	if err := os.WriteFile(marker, []byte("environment: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(alice), alice, marker} {
		if err := os.Chown(path, box.Service.UID, box.Service.GID); err != nil {
			t.Fatal(err)
		}
	}
	full := filepath.Join(home, "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, err := 0, error(nil); err == nil; i++ {
		err = os.WriteFile(filepath.Join(full, strconv.Itoa(i)), nil, 0o600)
	}

	b := Start(t, box.Spec{Config: contract.Config(), Env: []string{"RLMINIT_HOME=" + home}})
	if r := b.Run("health", "--level", "ready"); r.Code != 1 || !strings.Contains(r.Err+r.Out, "no space left") {
		t.Errorf("ready is %s", r)
	}
	if r := b.Run("doctor"); r.Code != 1 || !strings.Contains(r.Out, "no profile is here: cannot write") {
		t.Errorf("doctor says %s", r)
	}
	if err := os.RemoveAll(full); err != nil {
		t.Fatal(err)
	}
	box.Eventually(b, 30*time.Second, "it has the volume", func() (bool, any) {
		r := b.Run("start", "alice")
		return r.Code == 0, r
	})
	b.Await("gateway-alice", "running")
	b.Must("health", "--level", "ready")
}

// TestLogsAreGone: who removes the directory of logs below the supervisor is told by doctor.
func TestLogsAreGone(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: a supervisor with a uid of its own")
	}
	t.Parallel()
	b := Start(t, box.Spec{Config: contract.Config()})
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	b.Shell(box.Root, "rm -rf "+b.Home()+"/logs")
	box.Eventually(b, answerTimeout, "doctor says it", func() (bool, any) {
		r := b.As(box.Root, "rlminit", "doctor")
		return strings.Contains(r.Out, b.Home()+"/logs is missing"), r
	})
}
