package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/plan"
)

// planning answers POST /v1/plan as a box with nothing in it would.
func planning(w http.ResponseWriter, _ *http.Request) {
	now := time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)
	p := &plan.Plan{
		Version: plan.Version, Created: now, Expires: now.Add(plan.GoodFor), Scope: plan.Profiles, Salt: "salt",
		Source: plan.Origin{File: "/agents.yaml", Revision: "v1"}, Unchanged: []string{},
		Changes: plan.Compare(nil, map[string]plan.Profile{"alice": plan.Shape("salt", "running", plan.Tree{"environment": plan.Tree{"A": "b", "TOKEN": "x"}}, nil)}, nil, func(string) bool { return false }),
	}
	p.Summary = plan.Sum(p.Changes, 1)
	text, err := p.Encode()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(control.Planned{Plan: string(text)})
}

const shownPlan = `+ alice: created, and started; it is declared, and there is none
    + state: running
    + environment.A: b
    + environment.TOKEN: ***

1 to create; restarts none
scope profiles, source /agents.yaml at v1, after revision 0, good until 2026-05-24T19:05:33Z
`

func TestPlan(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	set := write("agents.yaml", "version: 1\nprofiles: {alice: {environment: {A: b, TOKEN: x}}}\n")
	bad := write("bad.yaml", "version: 1\nprofiles: {alice: {state: up}}\n---\n")
	lost := write("lost.yaml", "version: 1\nprofiles: {alice: {secrets: {K: {file: nowhere}}}}\n")
	b := newBox(t, map[string]any{"POST /v1/plan": planning})
	out := filepath.Join(dir, "plan.json")
	r := b.rlminit(t, "plan", "-f", set, "--out", out, "--detailed-exitcode")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := shownPlan + "approve with: rlminit apply " + out + " --approve " + p.Hash + "\n"; r.code != 14 || r.out != want {
		t.Errorf("%d\n%s\nwant\n%s\n%s", r.code, r.out, want, r.err)
	}
	if r := b.rlminit(t, "plan", "-f", set, "--json"); r.code != 0 || r.out != string(text)+"\n" {
		t.Errorf("--json: %+v", r)
	}
	for _, row := range []struct {
		code int
		err  string
		args []string
	}{
		{2, "-f FILE is missing", nil},
		{2, "is no scope", []string{"-f", set, "--scope", "x"}},
		{2, "cannot read " + dir + "/none", []string{"-f", dir + "/none"}},
		{2, `profiles.alice.state: "up" is refused`, []string{"-f", bad}},
		{2, "a second document begins here", []string{"-f", bad}},
		{2, "profiles.alice.secrets.K: cannot read", []string{"-f", lost}},
		{15, "v1-dirty says so", []string{"-f", set, "--source", "v1-dirty", "--require-clean"}},
		{15, "nobody says which revision it is", []string{"-f", set, "--require-clean"}},
		{1, "cannot write " + dir + "/none/plan", []string{"-f", set, "--out", dir + "/none/plan"}},
	} {
		if r := b.rlminit(t, append([]string{"plan"}, row.args...)...); r.code != row.code || !strings.Contains(r.err, row.err) {
			t.Errorf("%v: %+v", row, r)
		}
	}
	nobody := newBox(t, map[string]any{})
	os.Remove(filepath.Join(nobody.dir, control.SocketName))
	if r := nobody.rlminit(t, "plan", "-f", set); r.code != 6 {
		t.Errorf("nobody answers: %+v", r)
	}
}

// A source in a git work tree is clean as long as git says so.
func TestPlanSource(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@x"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	set := filepath.Join(dir, "agents.yaml")
	write := func(text string) {
		if err := os.WriteFile(set, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\nprofiles: {}\n")
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "none")
	check := func(want int, said, why string) string {
		t.Helper()
		revision, clean, err := sourceOf(t.Context(), dir, set, said, true)
		if exitCodeOf(err) != want || want == 0 != clean || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v %v", said, clean, err)
		}
		return revision
	}
	check(15, "", "agents.yaml is not in git")
	git("add", "agents.yaml")
	git("commit", "-q", "-m", "one")
	if head := git("rev-parse", "HEAD"); check(0, "", "") != head {
		t.Error("it is not at HEAD")
	}
	git("tag", "v1")
	check(0, "v1", "")
	check(15, "HEAD~1", "is said to be HEAD~1")
	check(15, "nothing", "is said to be nothing")
	write("version: 1\nprofiles: {alice: {}}\n")
	check(15, "", "git status says")
}

func TestApply(t *testing.T) {
	dir := t.TempDir()
	set, path := filepath.Join(dir, "agents.yaml"), filepath.Join(dir, "plan.json")
	shape := plan.Shape("salt", "running", plan.Tree{"environment": plan.Tree{"TOKEN": "x"}}, nil)
	p := &plan.Plan{
		Version: plan.Version, Scope: plan.Profiles, Salt: "salt", Source: plan.Origin{File: set}, Unchanged: []string{},
		Changes: plan.Compare(nil, map[string]plan.Profile{"alice": shape}, nil, func(string) bool { return false }),
	}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{path: text, set: []byte("version: 1\nprofiles: {alice: {environment: {TOKEN: x}}}\n")} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	revision := func(state string, exit int, steps ...control.RevisionStep) control.Revision {
		return control.Revision{Revision: 3, State: state, ExitCode: exit, Reason: "alice: exit 1\nthe log's end", Steps: steps}
	}
	step := func(state string) control.RevisionStep {
		return control.RevisionStep{Name: "alice", Action: plan.Create, State: state, Reason: "alice: no space"}
	}
	begun := revision(control.RevisionRunning, 0, step("begun"))
	for _, row := range []struct {
		name     string
		end      control.Revision
		args     []string
		code     int
		out, err string
	}{
		{"applied", revision(control.RevisionApplied, 9, step("passed")), nil, 9, "revision 3: 1 change\nalice: is created\nalice: created\nrevision 3: applied (0.0s)\n", ""},
		{"exit zero", revision(control.RevisionApplied, 9, step("passed")), []string{"--exit-zero"}, 0, "revision 3: 1 change\nalice: is created\nalice: created\nrevision 3: applied (0.0s)\n", ""},
		{
			"rolled back", revision(control.RevisionRolledBack, 8, step("undone")), nil, 8, "revision 3: 1 change\nalice: is created\nalice: put back\n",
			"rlminit: revision 3 was rolled back, and all is as it was before: alice: exit 1\nrlminit: the log's end\n",
		},
		{
			"in part", revision(control.RevisionPartly, 12, step("stuck")),
			[]string{"--exit-zero"},
			12, "revision 3: 1 change\nalice: is created\nalice: stuck\n",
			"rlminit: REVISION 3 WAS ROLLED BACK ONLY IN PART: A PERSON IS NEEDED\nrlminit: not put back: alice: no space\nrlminit: it was rolled back because of alice: exit 1\nrlminit: the log's end\n",
		},
		{"nothing", revision(control.RevisionUnchanged, 0), nil, 0, "nothing to change\n", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			first := begun
			if row.end.State == control.RevisionUnchanged {
				first = row.end
			}
			b := newBox(t, map[string]any{"POST /v1/apply": first, "GET /v1/revisions/3": row.end})
			r := b.rlminit(t, append([]string{"apply", path, "--approve", p.Hash, "--by", "me"}, row.args...)...)
			if r.code != row.code || anyTime.ReplaceAllString(r.out, "0.0s") != row.out || r.err != row.err {
				t.Errorf("%+v", r)
			}
			if asked := strings.Join(b.requests(), "\n"); !strings.Contains(asked, `"secrets":{"alice":{"environment.TOKEN":"x"}}`) || !strings.Contains(asked, `"by":"me"`) || !strings.Contains(asked, `"steady_ms":30000,"timeout_ms":120000`) {
				t.Errorf("asked %s", asked)
			}
		})
	}
	b := newBox(t, map[string]any{"POST /v1/apply": control.NewProblem(control.KindDeletion, "the plan deletes zed")})
	if r := b.rlminit(t, "apply", path); r.code != 13 || r.err != "rlminit: the plan deletes zed\n" {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(set); err != nil {
		t.Fatal(err)
	}
	if r := b.rlminit(t, "apply", path); r.code != 11 || !strings.Contains(r.err, "cannot read environment.TOKEN of alice again") {
		t.Errorf("%+v", r)
	}
}

func TestRevisionsAndDrift(t *testing.T) {
	at := time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)
	is, was := "stopped", "running"
	tell(t, map[string]any{
		"GET /v1/revisions": []control.Revision{{Revision: 1, State: "applied", At: at, UID: 7, By: "me", Source: "v1", Steps: []control.RevisionStep{{}}}},
		"GET /v1/drift":     control.Drift{Revision: 1, Changes: []control.Drifts{{Revision: 1, Name: "alice", Action: "start", Reason: "it is declared running", Fields: []control.DriftField{{Field: "state", Is: &is, Was: &was}}}}},
		"POST /v1/rollback": control.Revision{State: control.RevisionUnchanged},
	}, []story{
		{args: []string{"revisions"}, out: "REVISION  STATE    BEGUN                 BY          CHANGES  SOURCE  REASON\n1         applied  2026-05-24T18:05:33Z  me (uid 7)  1        v1\n"},
		{args: []string{"drift"}, code: 14, out: "~ alice: differs from revision 1 and would be started; it is declared running\n    ~ state: stopped -> running\n"},
		{args: []string{"rollback", "3"}, out: "nothing to change\n"},
		{args: []string{"rollback", "x"}, code: 2, err: "rlminit: \"x\" is no revision; write its number; see rlminit help rollback\n"},
	})
	tell(t, map[string]any{"GET /v1/revisions": []control.Revision(nil), "GET /v1/drift": control.Drift{}}, []story{
		{args: []string{"revisions"}, out: "nothing was applied yet; rlminit plan -f FILE is the beginning\n"},
		{args: []string{"revisions", "--json"}, out: "[]\n"},
		{args: []string{"drift"}, out: "nothing was applied yet\n"},
	})
}
