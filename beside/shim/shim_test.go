package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// program makes an executable file.
func program(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	target := program(t, filepath.Join(dir, "target"))
	link := filepath.Join(dir, "bin-agent")
	const self = "/usr/local/bin/rlminit-shim"
	for range 2 { // the second time it is right already
		if err := Install(self, link, target, false); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(link)
	info, _ := os.Stat(link)
	if want := "#!" + self + " --run=" + target + "\n"; err != nil || string(content) != want || info.Mode() != 0o755 {
		t.Fatalf("%q, %v, %v; want %q", content, info.Mode(), err, want)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	other := program(t, filepath.Join(dir, "other"))
	for _, c := range []struct{ self, link, target, says string }{
		{self, link, "agent", "agent is no absolute path; write NAME=/PATH"},
		{self, link, filepath.Join(dir, "nowhere"), "install the program first"},
		{self, link, plain, "is no program"},
		{self, link, dir, "is no program"},
		{self, target, target, "it is the program itself"},
		{self, filepath.Join(dir, "second"), link, "is a shim; name the program behind it"},
		{self, link, other, "something else has that name; use --force to replace it"},
		{"/opt/my programs/rlminit-shim", link, target, "the kernel cannot read such a name"},
		{self, link, target + " ", "the kernel cannot read such a name"},
		{"/" + strings.Repeat("d", 300), link, target, "use shorter paths"},
		{self, filepath.Join(dir, "nowhere", "agent"), target, "no such file or directory"},
	} {
		err := Install(c.self, c.link, c.target, false)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s = %s: %v; want %q in one line", c.link, c.target, err, c.says)
		}
	}
	if now, _ := os.ReadFile(link); string(now) != string(content) {
		t.Errorf("what was refused changed the shim: %q", now)
	}
	if err := Install(self, link, other, true); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(link); !strings.HasSuffix(string(now), "="+other+"\n") {
		t.Errorf("with force: %q", now)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".shim-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestNotRun: what cannot be executed has the exit code that a shell gives it.
func TestNotRun(t *testing.T) {
	there := program(t, filepath.Join(t.TempDir(), "agent"))
	for _, c := range []struct {
		path string
		err  error
		code int
		says string
	}{
		{"/nowhere/agent", unix.ENOENT, 127, "cannot run /nowhere/agent: no such file or directory"},
		{there, unix.ENOENT, 126, "its interpreter is not there; look at its first line"},
		{there, unix.EACCES, 126, "permission denied"},
		{there, unix.ENOEXEC, 126, "exec format error"},
	} {
		err := failed(c.path, c.err)
		var not *NotRun
		if !errors.As(err, &not) || not.Code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %v: %v", c.path, c.err, err)
		}
	}
}
