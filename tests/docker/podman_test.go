package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// What podman run --init gives a container is called podman-init, whatever it is:
// rlminit then is what tini would be.
func TestInitOfPodman(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"podman", "runc", "busybox"} {
		if _, err := exec.LookPath(tool); err != nil || os.Geteuid() != 0 {
			t.Skip("needs root, and podman, runc and busybox-static")
		}
	}
	repository, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "rootfs")
	for _, d := range []string{"bin", "proc", "sys", "dev", "run", "etc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-ldflags", "-E rlminit/reap/sys.entry", "-o", filepath.Join(dir, "rlminit"), "./cmd/rlminit")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", busybox, filepath.Join(root, "bin", "sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Limits of its own: the ones that it takes as a rule may be above ours.
	cmd := exec.Command("podman", "--root", dir+"/root", "--runroot", dir+"/runroot", "--cgroup-manager", "cgroupfs", "--runtime", "runc",
		"run", "--rm", "--init", "--init-path", dir+"/rlminit", "--network", "none", "--ulimit", "nofile=512:512", "--ulimit", "nproc=512:512",
		"--rootfs", root, "sh", "-c", `read name </proc/1/comm; echo "$name is $$ $PPID"; (sleep 0.01 &); exit 7`)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 || !strings.Contains(string(out), "podman-init is ") || !strings.Contains(string(out), " 1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
