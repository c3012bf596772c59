package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/control"
)

// Bash completes verbs, flags and names, with nothing but itself.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	b := newBox(t, map[string]any{
		"GET /v1/services": []control.Service{alice(), bob()},
		"GET /v1/profiles": []control.Profile{{Name: "alice"}, {Name: "bob"}},
	})
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "rlminit")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, ".completion")
	if r := b.rlminit(t, "completion", "bash"); r.code != 0 || os.WriteFile(script, []byte(r.out), 0o644) != nil {
		t.Fatalf("%+v", r)
	}
	for line, want := range map[string]string{
		"rlminit sta":            "status|start",
		"rlminit profile cr":     "create",
		"rlminit logs --no-p":    "--no-prefix",
		"rlminit status a":       "alice",
		"rlminit status alice ":  "bob",
		"rlminit completion b":   "bash",
		"rlminit check a":        "a file",
		"rlminit logs --since=1": "",

		// What takes one of a few words is offered them, and files are offered only to
		// what takes some.
		"rlminit logs --level ":      "trace|debug|info|warn|error|fatal",
		"rlminit health --level ":    "alive|well|ready",
		"rlminit events --type sess": "session_created|session_ended|session_extended",
		"rlminit stop --state f":     "failed",
		"rlminit run --profile b":    "bob",
		"rlminit run --timeout ":     "",
		"rlminit operations ":        "",
		"rlminit version ":           "",
		"rlminit init --config a":    "a file",
		"rlminit profile import a":   "a file",
		"rlminit exec -- a":          "a file",
	} {
		cmd := exec.Command(bash, "--norc", "--noprofile", "-c", `
			source .completion
			COMP_LINE=$1 COMP_POINT=${#1}
			_rlminit
			IFS='|'; printf '%s' "${COMPREPLY[*]}"`, "bash", line)
		cmd.Env = append(b.command().Env, "PATH="+dir+":/usr/bin:/bin")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%q: %q, want %q (%v)", line, out, want, err)
		}
	}
	if strings.Contains(bashCompletion, "_get_comp_words") {
		t.Error("the script needs bash-completion")
	}
}
