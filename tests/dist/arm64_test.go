package dist

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// arm64 is how a program for arm64 is run here: as it is, or by the emulator.
func arm64(t *testing.T, argv ...string) []string {
	t.Helper()
	if runtime.GOARCH == "arm64" {
		return argv
	}
	const emulator = "qemu-aarch64-static"
	if _, err := exec.LookPath(emulator); err != nil {
		t.Fatalf("cannot run arm64 here: install qemu-user-static: %v", err)
	}
	return append([]string{emulator}, argv...)
}

func TestArm64(t *testing.T) {
	rlminit := built(t, "arm64", "rlminit")
	if line := output(t, arm64(t, rlminit, "version")...); !strings.Contains(line, "linux/arm64") {
		t.Errorf("version says %q", line)
	}
	configuration := filepath.Join(made(t), "linux-arm64/rootfs/etc/rlminit/rlminit.yaml")
	if line := output(t, arm64(t, rlminit, "check", configuration)...); !strings.Contains(line, "valid") {
		t.Errorf("check says %q", line)
	}
	for _, name := range programs(t) {
		if help := output(t, arm64(t, built(t, "arm64", name), "--help")...); !strings.Contains(help, "Usage") && !strings.Contains(help, "usage") {
			t.Errorf("%s --help says %q", name, help)
		}
	}
	for _, file := range []string{"rlminit", "rlminit.yaml"} {
		if names := output(t, "tar", "-tzf", only(t, "rlminit-linux-arm64.tar.gz")); !strings.Contains(names, "rlminit-linux-arm64/"+file+"\n") {
			t.Errorf("the archive has no %s", file)
		}
	}
}

// Under qemu-user the init starts its command, and may crash after that: qemu has no vfork,
// but forks. Whether that is all of the cause has not been seen on arm64 itself. So the
// command's output is looked at, and the exit code only on arm64.
func TestArm64Init(t *testing.T) {
	argv := arm64(t, built(t, "arm64", "rlminit"), "init", "--", "/bin/echo", "it runs")
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = &out
	err := cmd.Run()
	if out.String() != "it runs\n" {
		t.Errorf("the command printed %q: %v", out.String(), err)
	}
	if len(argv) == 5 && err != nil {
		t.Errorf("the init failed: %v", err)
	}
}
