package docker

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// engine is a Docker engine of a test's own, with rlminit as the init that
// `docker run --init` gives to any image.
type engine struct {
	t       *testing.T
	address string
	log     string
}

// startEngine starts dockerd, with a containerd of its own. Its network namespace
// keeps it from the bridge of the engine that runs already, which it would remove
// as one that it does not use; its mounts end with it.
func startEngine(t *testing.T, initPath string) *engine {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and dockerd, to start an engine with another --init-path")
	}
	dir, err := os.MkdirTemp("", "engine") // a socket's path is at most 107 bytes long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e := &engine{t: t, address: "unix://" + dir + "/socket", log: dir + "/log"}
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/daemon.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dockerd", "--config-file", dir+"/daemon.json", "--data-root", dir+"/data", "--exec-root", dir+"/exec",
		"--pidfile", dir+"/pid", "--host", e.address, "--storage-driver", "vfs", "--bridge", "none",
		"--iptables=false", "--ip6tables=false", "--ip-masq=false", "--init-path", initPath)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: unix.SIGTERM, Unshareflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.end(cmd, log) })
	box.Eventually(t, answerTimeout, "the second engine answers", func() (bool, any) {
		r, err := e.docker("version")
		return err == nil && r.Code == 0, fmt.Sprint(r, err)
	})
	return e
}

// end ends the engine and what it runs.
func (e *engine) end(cmd *exec.Cmd, log *os.File) {
	if left, err := e.docker("ps", "-aq"); err == nil && left.Out != "" {
		_, _ = e.docker(append([]string{"rm", "-f"}, strings.Fields(left.Out)...)...)
	}
	_ = cmd.Process.Signal(unix.SIGTERM) // it may have ended: Wait tells
	late := time.AfterFunc(20*time.Second, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	err := cmd.Wait()
	late.Stop()
	_ = log.Close()
	if err != nil || e.t.Failed() {
		content, _ := os.ReadFile(e.log)
		e.t.Logf("the second engine ended: %v\n%s", err, box.Tail(string(content)))
	}
}

// docker is docker against this engine.
func (e *engine) docker(args ...string) (box.Result, error) {
	return docker(nil, append([]string{"--host", e.address}, args...)...)
}

// must is docker where a failure ends the test.
func (e *engine) must(args ...string) string {
	e.t.Helper()
	r, err := e.docker(args...)
	if err != nil || r.Code != 0 {
		e.t.Fatalf("docker %q: %v, %s", args, err, r)
	}
	return strings.TrimSpace(r.Out)
}

// image imports a program alone, as /NAME.
func (e *engine) image(program string) string {
	e.t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		e.t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(program), Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		e.t.Fatal(err)
	}
	const name = "any"
	if _, err := must(&archive, "--host", e.address, "import", "-", name); err != nil {
		e.t.Fatal(err)
	}
	return name
}

// TestInitPath: dockerd --init-path takes rlminit as it is, and `docker run
// --init` works for an image that knows nothing of it.
func TestInitPath(t *testing.T) {
	t.Parallel()
	programs, err := box.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(programs) })
	e := startEngine(t, programs+"/rlminit")
	image := e.image(programs + "/nasty")

	info := strings.Fields(e.must("info", "--format", "{{.InitBinary}} {{.InitCommit.ID}}"))
	if len(info) != 2 || info[0] != programs+"/rlminit" || info[1] == "N/A" {
		t.Errorf("docker info shows %q", info)
	}
	if log, err := os.ReadFile(e.log); err != nil || strings.Contains(string(log), "failed to parse") {
		t.Errorf("%v, dockerd says:\n%s", err, log)
	}
	run := func(more ...string) []string {
		return append([]string{"run", "--init", "--network", "none"}, more...)
	}
	for _, c := range []struct {
		command []string
		code    int
		says    string
	}{
		{[]string{"/nasty", "exit", "42"}, 42, ""},
		{[]string{"/nasty", "exit", "0"}, 0, ""},
		{[]string{"/nasty", "die", "9"}, 137, ""},
		{[]string{"/nowhere"}, 127, "No such file or directory"},
		{[]string{"/etc"}, 126, "Permission denied"},
	} {
		r, err := e.docker(run(append([]string{"--rm", image}, c.command...)...)...)
		if err != nil || r.Code != c.code || !strings.Contains(r.Err, c.says) {
			t.Errorf("%q: %v, %s", c.command, err, r)
		}
	}

	name := e.must(run("-d", image, "/nasty", "sleep")...)
	if out := e.must("exec", name, "/nasty", "orphans", "200", "1"); out != "orphans 200" {
		t.Errorf("orphans: %q", out)
	}
	box.Eventually(t, 10*time.Second, "no zombies", func() (bool, any) {
		all := e.must("exec", name, "/nasty", "ps")
		return !strings.Contains(all, `"state":"Z"`) && strings.Contains(all, `"name":"docker-init"`), all
	})
	e.must("kill", "--signal", "HUP", name)
	if code := e.must("wait", name); code != "129" {
		t.Errorf("HUP: exit code %s", code)
	}
	name = e.must(run("-d", image, "/nasty", "sleep")...)
	began := time.Now()
	e.must("stop", name)
	if code, took := e.must("wait", name), time.Since(began); code != "143" || took > 5*time.Second {
		t.Errorf("docker stop: exit code %s after %s", code, took)
	}
}
