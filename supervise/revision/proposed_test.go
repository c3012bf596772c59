package revision

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/plan"
	"rlminit/service"
)

// proposed makes a plan wait.
func proposed(t *testing.T, r *Revisions, text string) (*plan.Plan, control.ProposedPlan) {
	t.Helper()
	p, ask := makePlan(t, r, text)
	answer, err := Proposals{r}.Propose(control.ProposeRequest{Plan: ask.Plan, By: "bob", Secrets: ask.Secrets}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return p, answer
}

// A plan that waits is there after a restart, and is applied by its hash alone, with the
// secrets that were proposed.
func TestProposedPlanIsApplied(t *testing.T) {
	v := newVolume()
	p, answer := proposed(t, v.live(0).revisions(), declared)
	if !answer.Current || answer.UID != 1000 || answer.By != "bob" || answer.Summary.Update != 2 || !slices.Equal(answer.Deletes, []string{"zed"}) || answer.Plan != "" {
		t.Errorf("%+v", answer)
	}
	if _, again := proposed(t, v.live(0).revisions(), declared); again.Hash != p.Hash {
		t.Errorf("the same plan waits twice: %s, %s", p.Hash, again.Hash)
	}
	r := v.live(0).revisions()
	all, err := Proposals{r}.List()
	if err != nil || len(all) != 1 || !all[0].Current || all[0].Hash != p.Hash || all[0].By != "bob" {
		t.Fatalf("%+v, %v", all, err)
	}
	one, err := Proposals{r}.Get(strings.TrimPrefix(p.Hash, "sha256:"))
	if read, _ := plan.Read([]byte(one.Plan)); err != nil || read == nil || read.Hash != p.Hash || strings.Contains(one.Plan, "hunter2") {
		t.Fatalf("%+v, %v", one, err)
	}
	answer2, err := r.Apply(control.ApplyRequest{Approve: p.Hash, AllowDelete: true, Request: "r", By: "page: alice"}, 0)
	if done := finish(t, r, answer2, err); done.State != control.RevisionApplied || done.By != "page: alice" || done.Hash != p.Hash {
		t.Fatalf("%+v", done)
	}
	if now := v.snapshot(); now["bob"].Secrets["CERT"] != "s3cret" {
		t.Errorf("%v", now)
	}
	if all, err := (Proposals{r}).List(); err != nil || len(all) != 0 || len(v.plans) != 0 {
		t.Errorf("what was applied still waits: %+v, %v", all, err)
	}
	_, err = r.Apply(control.ApplyRequest{Approve: p.Hash, Request: "r2"}, 0)
	if problemCode(t, err) != control.ExitNoSuchName || !strings.Contains(err.Error(), "rlminit plan proposed") {
		t.Error(err)
	}
}

// A plan that does not fit any more says why, and is not applied.
func TestProposedPlanThatIsOld(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	p, _ := proposed(t, r, declared)
	carol := v.profiles["carol"]
	v.profiles["carol"] = Content{Text: []byte("environment: {V: other}\n"), State: service.Stopped}
	old := func(want string) {
		t.Helper()
		if all, err := (Proposals{r}).List(); err != nil || len(all) != 1 || all[0].Current || !strings.Contains(all[0].Why, want) {
			t.Errorf("%+v, %v", all, err)
		}
	}
	old("profiles were changed since")
	if _, err := r.Apply(control.ApplyRequest{Approve: p.Hash, AllowDelete: true, Request: "r"}, 0); problemCode(t, err) != 17 {
		t.Error(err)
	}
	v.profiles["carol"] = carol
	now := time.Now().Add(time.Hour + time.Minute)
	r.now = func() time.Time { return now }
	old("the plan is too old: it was good until")
}

// What cannot be approved as it is does not wait.
func TestProposalsThatAreRefused(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	_, ask := makePlan(t, r, declared)
	wrong := map[string]map[string]string{"alice": {"environment.API_TOKEN": "hunter3"}}
	for name, c := range map[string]struct {
		ask  control.ProposeRequest
		code int
	}{
		"altered":         {control.ProposeRequest{Plan: strings.Replace(ask.Plan, "alice", "malice", 1), Secrets: ask.Secrets}, 11},
		"without secrets": {control.ProposeRequest{Plan: ask.Plan}, 11},
		"other secrets":   {control.ProposeRequest{Plan: ask.Plan, Secrets: wrong}, 11},
	} {
		if _, err := (Proposals{r}).Propose(c.ask, 0); problemCode(t, err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(v.plans) != 0 {
		t.Error("it waits all the same")
	}
}

// So many plans wait and no more; those that are of no use go first.
func TestProposalsAreBounded(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	propose := func(i int) (string, error) {
		q := control.PlanRequest{File: "/agents.yaml", Dir: "/", Text: "version: 1\nprofiles: {alice: {environment: {V: x}}}\n", Scope: "profile/alice", Salt: fmt.Sprintf("%016d", i), Propose: true}
		planned, err := r.Plan(q, 0)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := plan.Read([]byte(planned.Plan)); err != nil || p.Expires.Sub(p.Created) != proposedFor {
			t.Fatalf("%v, %v", p, err)
		}
		answer, err := Proposals{r}.Propose(control.ProposeRequest{Plan: planned.Plan}, 0)
		return answer.Hash, err
	}
	var first string
	for i := range proposedMost {
		hash, err := propose(i)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = hash
		}
	}
	if _, err := propose(proposedMost); problemCode(t, err) != 17 || !strings.Contains(err.Error(), "rlminit plan withdraw HASH") {
		t.Fatal(err)
	}
	if err := (Proposals{r}).Withdraw(first, 0, "alice"); err != nil {
		t.Fatal(err)
	}
	if err := (Proposals{r}).Withdraw(first, 0, "alice"); problemCode(t, err) != control.ExitNoSuchName {
		t.Errorf("withdrawn twice: %v", err)
	}
	if _, err := propose(proposedMost); err != nil {
		t.Fatal(err)
	}
	v.profiles["alice"] = Content{Text: []byte("environment: {V: y}\n"), State: service.Running}
	if _, err := propose(proposedMost + 1); err != nil {
		t.Fatalf("though those that wait are old: %v", err)
	}
}

// On the volume a plan is whole or not there, and the supervisor's alone.
func TestFilesOfProposals(t *testing.T) {
	home, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	f := Files{Home: home}
	hash := "sha256:" + strings.Repeat("ab", 32)
	read := func() (all map[string]string) {
		t.Helper()
		all = map[string]string{}
		if err := f.LoadPlans(func(hash string, data []byte) { all[hash] = string(data) }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if len(read()) != 0 {
		t.Error("a new volume has plans")
	}
	if err := f.SavePlan(hash, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home.Path("."), proposedFile(hash))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if all := read(); len(all) != 1 || all[hash] != "{}" {
		t.Errorf("%v", all)
	}
	if err := f.RemovePlan(hash); err != nil || len(read()) != 0 {
		t.Errorf("%v", err)
	}
	if err := f.RemovePlan(hash); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

// What cannot be read is left out, and said; the others wait.
func TestProposalsThatCannotBeRead(t *testing.T) {
	v := newVolume()
	p, _ := proposed(t, v.live(0).revisions(), declared)
	v.plans["sha256:00"] = []byte("{")
	v.plans["sha256:01"] = v.plans[p.Hash]
	if all, err := (Proposals{v.live(0).revisions()}).List(); err != nil || len(all) != 1 || all[0].Hash != p.Hash {
		t.Errorf("%+v, %v", all, err)
	}
}

// Root's plan of the configuration does not wait: nobody else could apply it.
func TestProposalOfAConfiguration(t *testing.T) {
	if err := proposable(&plan.Plan{Changes: []plan.Change{{Kind: plan.KindConfiguration}}}, nil); problemCode(t, err) != 10 {
		t.Error(err)
	}
	if err := proposable(&plan.Plan{}, nil); problemCode(t, err) != 2 {
		t.Error(err)
	}
}

// The page approves as its own uid where root's configuration says so, with rules and
// without; the configuration is root's all the same.
func TestPageMayApply(t *testing.T) {
	for _, rules := range [][]plan.Rule{nil, {{UID: 49998, Scope: "all"}}} {
		for page, may := range map[uint32]bool{49998: true, 0: false} {
			v := newVolume()
			l := v.live(0)
			settings := Settings{User: 1000, Page: page, Allow: rules}
			if page == 0 {
				settings.Allow = nil
			}
			r := New(l, l, l, func() Settings { return settings })
			_, ask := makePlan(t, r, declared)
			p, err := plan.Read([]byte(ask.Plan))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.allowed(p, ask, 49998); (err == nil) != may {
				t.Errorf("rules %v, page %d: %v", rules, page, err)
			}
			if err := r.allowed(&plan.Plan{Changes: []plan.Change{{Kind: plan.KindConfiguration}}}, ask, 49998); problemCode(t, err) != 10 {
				t.Errorf("the configuration: %v", err)
			}
		}
	}
}
