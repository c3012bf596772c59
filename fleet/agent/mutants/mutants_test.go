// Package mutants breaks the agent in one place after the other, and holds that its
// exploration finds each fault.
package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutants are the faults: what SAFETY.md calls the rule, and a text in a file that is
// replaced.
var mutants = []struct{ rule, file, from, to string }{
	{"R1: the deadline is before the end of the lease", "session.go", "return s.end() - a.config.Stop - a.config.Margin", "return s.end()"},
	{"R2: a clock may be 1 % slow", "session.go", "return s.sent + s.ttl - s.ttl/100", "return s.sent + s.ttl"},
	{"R2: sent is when the keep-alive was sent", "session.go", "s.sent = max(s.sent, in.Sent)", "s.sent = a.now"},
	{"R2: the deadline is that of the lease", "held.go", "e.Kind, e.At = Start, a.session.deadline(a)", "e.Kind, e.At = Start, a.now+a.session.ttl"},
	{"R3: what a session has left waits for its last beat", "claim.go", "from = max(from, a.floor, a.until[name])", "from = max(from, a.floor)"},
	{"R3: by the time at which the beat came", "beat.go", "a.until[name], b.at+b.ttl)", "a.until[name], b.at)"},
	{"R3: and for as long where the beats were not heard", "claim.go", "from = max(from, a.floor, a.until[name])", "from = max(from, a.until[name])"},
	{"R3: also if changes were missed", "agent.go", "	if in.Whole {\n		a.missed()\n", "	if in.Whole {\n"},
	{"R4: a session begins when the box is clear", "session.go", "if !a.surveyed || len(a.held) > 0 {", "if !a.surveyed {"},
	{"R5: what was let go is never started again", "agent.go", "|| o.Fence <= a.over[name] {", "{"},
	{"R5: nothing is released that was not stopped", "held.go", "	h.Why, h.release, h.restart = why, true, false\n	h.to(a, Stopping)", "	h.Why, h.release, h.restart = why, true, false\n	h.to(a, Releasing)"},
	{"R5: a stop that nobody has answered stops nothing", "held.go", "		if in.Failed {\n			h.later(a, retry)\n			return\n		}\n		h.stopped(a)", "		h.stopped(a)"},
	{"R6: a start may come late", "held.go", "case a.now <= h.gone:", "case false:"},
	{"R6: and take effect until PID 1 has ended it", "held.go", "h.gone = max(h.gone, e.At+a.config.Stop)", "h.gone = max(h.gone, e.At)"},
	{"R6: also one of the agent before", "agent.go", "h.gone, h.starts, h.left = a.quiet, 1, true", "h.starts, h.left = 1, true"},
	{"R6: whose claims are not used again", "agent.go", "			h.give(a, \"it was not running when the agent began\")", "			h.look(a)"},
	{"R8: nothing that has a mark is claimed while etcd has no space", "beat.go", "a.floor = never", "a.floor = 0"},
	{"R8: nor for a lease after it has some", "agent.go", "is && !in.Whole {\n			a.missed()", "is && !in.Whole {\n			a.floor = 0"},
	{"a claim of the agent before is given back with its data", "agent.go", "h.gone, h.starts, h.left = a.quiet, 1, true", "h.gone, h.left = a.quiet, true"},
	{"and one whose start nobody has answered", "held.go", "		h.starts++\n	case Stopping:", "	case Stopping:"},
	{"but not with data that was not put in place under it", "held.go", "e.Kind, e.Unsure = Save, !h.ran", "e.Kind = Save"},
	{"R7: what runs is held only under a claim of the session", "held.go", "if a.session.lease == 0 || o.Lease != a.session.lease || o.Fence != h.Fence {", "if a.session.lease == 0 || o.Fence < 0 {"},
}

// TestMutants runs the exploration against each fault.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("..", m.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), m.from); n != 1 {
				t.Fatalf("%s has the text %d times: %s", m.file, n, m.from)
			}
			dir := t.TempDir()
			broken := filepath.Join(dir, m.file)
			if err := os.WriteFile(broken, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "test", "-vet=off", "-overlay", file, "-run", "RandomLives|Clear|Small", "..", "-walks", "20000").CombinedOutput()
			switch {
			case err == nil:
				t.Error("nothing finds it")
			case !strings.Contains(string(out), "--- FAIL"):
				t.Errorf("the tests do not run:\n%s", out)
			default:
				lines := strings.SplitN(string(out), "\n", 3)
				t.Log(strings.TrimSpace(lines[min(1, len(lines)-1)]))
			}
		})
	}
}
