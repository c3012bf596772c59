package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerbsBesideTheBinary runs the binary in a directory with programs beside it.
func TestVerbsBesideTheBinary(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: programs that root owns cannot be made")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("rlminit", string(self), 0o755)
	tells := "#!/bin/sh\necho \"$0|$*\"\nexit 14\n"
	for _, name := range []string{"rlminit-top", "rlminit-mine", "rlminit-stop", "rlminit-1.2", "rlminit-mine~"} {
		put(name, tells, 0o755)
	}
	put("rlminit-text", "no program", 0o644)
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "rlminit"), args...)
		cmd.Env = (*box)(nil).command().Env
		out, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, try := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"top", "-x", "--json", "a b"}, at("rlminit-top") + "|-x --json a b", 14},
		{[]string{"mine", "--help"}, at("rlminit-mine") + "|--help", 14},
		{[]string{"help", "mine"}, at("rlminit-mine") + "|--help", 14},
		{[]string{"mine~"}, `rlminit: no verb "mine~"; did you mean "mine"?`, 2},
		{[]string{"text"}, `rlminit: no verb "text"`, 2},
		{[]string{"page"}, `rlminit: no verb "page" here: it is a program of its own, rlminit-page, which belongs into ` + dir + `; see rlminit help`, 2},
		{[]string{"page", "--help"}, `rlminit: no verb "page" here: it is a program of its own, rlminit-page`, 2},
		{[]string{"fleet", "status", "-x"}, `rlminit: no verb "fleet" here: it is a program of its own, rlminit-fleet`, 2},
		{[]string{"pgae", "--help"}, `rlminit: no verb "pgae"`, 2},
		{[]string{"stop"}, `rlminit: NAME`, 2}, // its own
	} {
		out, code := run(try.args...)
		if !strings.HasPrefix(out, try.says) || code != try.code {
			t.Errorf("%q: %q, exit code %d", try.args, out, code)
		}
	}
	help, _ := run("help")
	for _, line := range []string{"\n  top  ", "\n  mine  "} {
		if !strings.Contains(strings.ReplaceAll(help, "             ", "  "), strings.TrimRight(line, " ")) {
			t.Errorf("help does not list %q:\n%s", line, help)
		}
	}
	if strings.Contains(help, "1.2") || strings.Contains(help, "rlminit-stop") {
		t.Errorf("help lists what is no verb:\n%s", help)
	}
	for _, other := range []func(string) error{
		func(path string) error { return os.Chmod(path, 0o775) },
		func(path string) error { return os.Chown(path, 1000, 0) },
	} {
		for _, path := range []string{at("rlminit-mine"), dir} {
			if err := other(path); err != nil {
				t.Fatal(err)
			}
			if out, code := run("mine"); code != 1 || !strings.HasPrefix(out, "rlminit: cannot run "+at("rlminit-mine")+": cannot trust "+path+": ") {
				t.Errorf("what others can change was run: %q, exit code %d", out, code)
			}
			_, _ = os.Chmod(path, 0o755), os.Chown(path, 0, 0)
		}
	}
}
