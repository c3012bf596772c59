package main

import (
	"os"
	"strings"
	"testing"

	"rlminit/control"
)

func TestProfileEdit(t *testing.T) {
	answers := map[string]any{
		"GET /v1/profiles/alice/text":     control.ProfileText{Text: "restart: {limit: 3}\n", ID: "7-1.5"},
		"POST /v1/profiles/alice/replace": aliceProfile(),
		"GET /v1/profiles/carol/text":     control.ProfileText{Text: "a: 3\n", Kind: "web", Says: "command: [\"x\"]\nstop:\n  timeout: 3s\n"},
		"POST /v1/profiles/carol/replace": aliceProfile(),
		"GET /v1/profiles/bob/text":       control.ProfileText{Text: "x\n"},
		"POST /v1/profiles/bob/replace":   control.BadRequest("profile.yaml:1: restart.limit: x is refused; write a whole number from 0 to 100000"),
	}
	for name, c := range map[string]struct {
		profile, editor, out, err string
		code                      int
		asks                      int
	}{
		"changed":       {"alice", `sed -i s/3/4/`, "alice: changed\n", "", 0, 2},
		"as it was":     {"alice", "true", "alice: nothing was changed\n", "", 0, 1},
		"it fails":      {"alice", "sed -i s/3/4/ ./nosuch", "", "the editor failed (exit status", 1, 1},
		"no such":       {"alice", "/nonexistent", "", "the editor failed (exit status 127); alice is as it was", 1, 1},
		"faulty":        {"bob", `sed -i s/x/y/`, "", "restart.limit: x is refused", 2, 2},
		"says its kind": {"carol", "grep -q '^# *timeout: 3s' $1 && grep -q 'What the kind web says' $1 && sed -i 's/a: 3/a: 4/'", "carol: changed\n", "", 0, 2},
		"kind kept out": {"carol", "sed -i 's/timeout: 3s/timeout: 4s/'", "carol: nothing was changed\n", "", 0, 1},
		"took it away":  {"alice", "rm", "", "cannot read what the editor wrote", 1, 1},
		"flags of a sh": {"alice", `sed -i -e 's/3/4/' -e 's/4/5/'`, "alice: changed\n", "", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, answers)
			temporary := t.TempDir()
			cmd := b.command("profile", "edit", c.profile)
			cmd.Env = append(cmd.Env, "EDITOR="+c.editor, "TMPDIR="+temporary)
			r := outcomeOf(t, cmd)
			if r.code != c.code || r.out != c.out || !strings.Contains(r.err, c.err) || len(b.requests()) != c.asks {
				t.Errorf("%d %q %q, asked %q", r.code, r.out, r.err, b.requests())
			}
			left, _ := os.ReadDir(temporary)
			if kept := name == "faulty"; (len(left) > 0) != kept || kept && !strings.Contains(r.err, "to 100000\nrlminit: your text is kept in "+temporary) {
				t.Errorf("left are %v; %q", left, r.err)
			}
			if name == "says its kind" && !strings.Contains(b.requests()[1], `{"text":"a: 4\n",`) {
				t.Errorf("%q", b.requests())
			}
			if name == "changed" && b.requests()[1] != `POST /v1/profiles/alice/replace {"text":"restart: {limit: 4}\n","base":"restart: {limit: 3}\n","id":"7-1.5"}` {
				t.Errorf("%q", b.requests())
			}
		})
	}
}
