package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rlminit/config"
	"rlminit/control"
)

// What try writes is valid, wherever the temporary directory is.
func TestTryConfiguration(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), `$HOME: "odd" #`))
	if err := os.MkdirAll(os.Getenv("TMPDIR"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := newStage(`/opt/${x}/rlminit`, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := checkConfig(filepath.Join(s.dir, "etc/rlminit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Home != filepath.Join(s.dir, "data") {
		t.Errorf("home = %q", c.Home)
	}
	d, faults := c.GatewayDefinition(config.Profile{Name: "alice", Dir: "/x", Port: 1})
	if len(faults) > 0 || d.Command[0] != `/opt/${x}/rlminit` || !d.Ready.Notify {
		t.Errorf("gateway = %q, faults %v", d.Command, faults)
	}
	for _, name := range []string{"alice", "heidi", "agent-010"} {
		if _, err := os.Stat(filepath.Join(s.dir, "data/profiles", name, "profile.yaml")); err != nil {
			t.Error(err)
		}
	}
	if err := s.clear(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); err == nil {
		t.Errorf("%s is still there", s.dir)
	}
}

// The whole thing: profiles run, and an interrupt leaves nothing behind.
func TestTry(t *testing.T) {
	tmp, err := os.MkdirTemp("", "cli-try")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	cmd := (*box)(nil).command("try", "--profiles", "2")
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(60*time.Second, func() { cmd.Process.Kill() })
	defer stuck.Stop()

	dir := ""
	lines := bufio.NewScanner(out)
	for dir == "" && lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "RLMINIT_RUNTIME_DIR="); ok {
			dir, _, _ = strings.Cut(after, " ")
		}
	}
	if dir == "" {
		cmd.Wait()
		if strings.Contains(stderr.String(), "this machine refuses") {
			t.Skip("user namespaces are refused here")
		}
		t.Fatalf("it did not say where to ask; stderr %q", stderr.String())
	}
	go func() {
		for lines.Scan() {
		}
	}()
	client := control.At(dir)
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := client.Services(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody answers: %v; stderr %q", err, stderr.String())
		}
		time.Sleep(10 * time.Millisecond) // there is no event before there is a socket
	}
	for _, name := range []string{"alice", "bob"} {
		s, err := client.Wait(t.Context(), name, control.WaitFor{For: "running", TimeoutMS: 30_000})
		if err != nil || s.State != "running" {
			t.Errorf("%s is %q, %v", name, s.State, err)
		}
	}
	if r := (&box{dir: dir}).rlminit(t, "profile", "create", "zoe"); r.code != 0 || !strings.HasPrefix(r.out, "zoe: running (pid ") {
		t.Errorf("create: exit %d, %q, %q", r.code, r.out, r.err)
	}
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, stderr %q", err, stderr.String())
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
