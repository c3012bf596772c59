package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/service"
)

// volume is what outlives a supervisor: profiles, the trash, records, files.
type volume struct {
	mu       sync.Mutex
	profiles map[string]Content
	trash    map[string]Content
	made     map[string]int // by profile, and by entry of the trash: which directory it is
	makes    int
	records  Records
	seq      uint64
	files    map[int][]byte
	plans    map[string][]byte
	boot     string
	refusals []apply.RecordedRefusal

	bad      map[string]error // of profiles whose gate is not passed, with their new text
	stuck    map[string]bool  // of profiles that cannot be written
	full     map[string]bool  // of profiles that have no room to be written
	strange  map[string]bool  // of profiles that do not run before
	taken    map[string]bool  // by name: a service has it
	portless bool             // there is no port left
	calls    int

	ran       map[string]string // by profile: what its process was started with
	restarted []string          // profiles, in the order in which that was asked for
}

// life is one supervisor on the volume. When it is dead, its calls never return.
type life struct {
	*volume
	dead  chan struct{}
	until int   // calls until it is killed; 0: never
	half  *bool // whether that call is still done; nil: by chance

	meddled int           // calls until a person comes; 0: nobody does
	meddle  func(*volume) // and what they do
}

func (v *volume) live(until int) *life {
	return &life{volume: v, dead: make(chan struct{}), until: until}
}

// enter is a call that may be the last.
func (l *life) enter() (leave func()) {
	l.mu.Lock()
	select {
	case <-l.dead:
		l.mu.Unlock()
		select {}
	default:
	}
	l.calls++
	if l.meddled > 0 {
		if l.meddled--; l.meddled == 0 {
			l.meddle(l.volume)
		}
	}
	if l.until > 0 {
		if l.until--; l.until == 0 {
			close(l.dead)
			half := rand.IntN(2) == 0
			if l.half != nil {
				half = *l.half
			}
			if !half {
				l.mu.Unlock()
				select {}
			}
		}
	}
	return l.mu.Unlock
}

func (l *life) Profiles() ([]Found, error) {
	defer l.enter()()
	var all []Found
	for name := range l.profiles {
		if !plan.IsConfiguration(name) {
			all = append(all, l.found(name))
		}
	}
	return all, nil
}

func (l *life) found(name string) Found {
	c, older := l.profiles[name], ""
	if ran, runs := l.ran[name]; runs && c.State == service.Running && ran != values(c) {
		older = "environment changed"
	}
	return Found{Name: name, Older: older, Content: c, Up: c.State == service.Running && !l.strange[name], Kept: plan.IsConfiguration(name)}
}

func (l *life) Profile(name string) (Found, error) {
	defer l.enter()()
	if _, ok := l.profiles[name]; !ok {
		return Found{}, ErrGone
	}
	return l.found(name), nil
}

func (l *life) Judge(w plan.Wanted) (bool, error) {
	if w.Name == "faulty" {
		w.Node.Fault("is faulty")
		return false, errors.New("agents.yaml:3: profiles.faulty: is faulty")
	}
	return true, nil
}

func (l *life) Taken(name string) bool {
	defer l.enter()()
	return l.taken[name]
}

func (l *life) Ports(kinds map[string]string) error {
	defer l.enter()()
	if l.portless && len(kinds) > 0 {
		return control.NewProblem(control.KindUnhealthy, "there is no port left")
	}
	return nil
}

func (l *life) Put(_ context.Context, name string, c Content, how Put) error {
	leave := l.enter()
	_, there := l.profiles[name]
	if l.stuck[name] || there == how.Create || how.Create && l.taken[name] {
		leave()
		return errors.New("disk")
	}
	if l.full[name] {
		leave()
		return unix.ENOSPC
	}
	// A kill may come between the definition and the intent.
	half := c
	if there {
		half.State = l.profiles[name].State
	} else {
		l.makes++
		l.made[name] = l.makes
	}
	if c.State == service.IntentNone {
		c.State = half.State
	}
	l.profiles[name] = half
	leave()
	defer l.enter()()
	if _, there := l.profiles[name]; !there {
		return errors.New("no profile " + name)
	}
	l.profiles[name] = c
	if !how.Quiet {
		l.ran[name] = values(c)
	}
	return nil
}

// values are what a process is started with.
func values(c Content) string { return fmt.Sprint(string(c.Text), c.Secrets) }

// Discard keeps of a profile what lies in its directory: its secrets do not.
func (l *life) Discard(_ context.Context, name, trash string, _ Put) error {
	defer l.enter()()
	c, there := l.profiles[name]
	_, taken := l.trash[trash]
	if !there || taken {
		return fs.ErrExist
	}
	c.Secrets = nil
	l.trash[trash], l.made[trash] = c, l.made[name]
	delete(l.profiles, name)
	delete(l.made, name)
	return nil
}

func (l *life) Restore(name, trash string, secrets map[string]string, actor uint32) error {
	defer l.enter()()
	c, ok := l.trash[trash]
	if !ok {
		return fs.ErrNotExist
	}
	if _, there := l.profiles[name]; there || l.taken[name] {
		return fs.ErrExist
	}
	c.Secrets = secrets
	l.profiles[name], l.made[name] = c, l.made[trash]
	delete(l.trash, trash)
	delete(l.made, trash)
	return nil
}

func (l *life) Trashed(_, trash string) (Content, error) {
	defer l.enter()()
	c, ok := l.trash[trash]
	if !ok {
		return c, ErrGone
	}
	return c, nil
}

func (l *life) Begin(string, Kept, uint32, func(Halted)) uint64 { return 0 }

func (l *life) End(uint64, Kept, string) {}

// rootsFile is the configuration, which is among the profiles here.
const rootsFile = "/etc/rlminit/rlminit.yaml"

func (l *life) Configuration() (Found, error) {
	defer l.enter()()
	return l.found(rootsFile), nil
}

func (l *life) Replaceable() error { return nil }

func (l *life) Preview(file string, text []byte) (Effects, error) {
	defer l.enter()()
	e := Effects{Judge: func(plan.Wanted) (bool, error) { return true, nil }, Taken: l.Taken, Ports: l.Ports}
	switch {
	case strings.Contains(string(text), "fault"):
		return e, errors.New(file + ":1: fault")
	case strings.Contains(string(text), "user:"):
		e.Container = []string{"user changed"}
	case string(text) != string(l.profiles[rootsFile].Text):
		e.Services = []plan.Affected{{Service: "web", Effect: plan.Restarts, Reason: "command changed"}}
	}
	return e, nil
}

func (l *life) Running([]plan.Affected) []Touched {
	return []Touched{{Service: "web", Effect: plan.Restarts, Up: true}}
}

func (l *life) Gate(ctx context.Context, name string, _ Gating) error {
	leave := l.enter()
	err := l.bad[name]
	if strings.Contains(string(l.profiles[name].Text), "before") {
		err = l.bad[name+", out of the trash"]
	}
	leave()
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (l *life) Record(kind string, body any) error {
	defer l.enter()()
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	l.seq++
	if kind == apply.TypeRefused {
		l.refusals = append(l.refusals, body.(apply.RecordedRefusal))
	}
	l.records.Apply(journal.Record{Seq: l.seq, At: time.Now(), Boot: l.boot, Type: kind, Line: b})
	return nil
}

func (l *life) View(f func(*apply.Fold)) {
	defer l.enter()()
	f(&l.records.fold)
}
func (l *life) Boot() string   { return l.boot }
func (l *life) Volume() string { return "volume" }

func (l *life) Save(number int, data []byte) error {
	defer l.enter()()
	l.files[number] = data
	return nil
}

func (l *life) Room() error {
	defer l.enter()()
	if len(l.full) > 0 {
		return unix.ENOSPC
	}
	return nil
}

func (l *life) Load(number int) ([]byte, error) {
	defer l.enter()()
	data, kept := l.files[number]
	if !kept {
		return nil, fmt.Errorf("its contents are kept no longer: %w", fs.ErrNotExist)
	}
	return data, nil
}

func (l *life) Path(number int) string { return archived(number) }

func (l *life) Keep(those map[int]bool) {
	defer l.enter()()
	maps.DeleteFunc(l.files, func(number int, _ []byte) bool { return !those[number] })
}

func (l *life) SavePlan(hash string, data []byte) error {
	defer l.enter()()
	l.plans[hash] = data
	return nil
}

func (l *life) LoadPlans(each func(string, []byte), only ...string) error {
	defer l.enter()()
	for hash, data := range l.plans {
		if len(only) == 0 || slices.Contains(only, hash) {
			each(hash, data)
		}
	}
	return nil
}

func (l *life) RemovePlan(hash string) error {
	defer l.enter()()
	delete(l.plans, hash)
	return nil
}

func newVolume() *volume {
	text := []byte("environment: {V: before}\n")
	return &volume{
		ran: map[string]string{}, boot: "b0", files: map[int][]byte{}, plans: map[string][]byte{}, trash: map[string]Content{},
		made: map[string]int{"alice": 1, "bob": 2, "carol": 3, "zed": 4}, makes: 4,
		bad: map[string]error{}, taken: map[string]bool{}, stuck: map[string]bool{}, strange: map[string]bool{},
		profiles: map[string]Content{
			"alice": {Text: text, State: service.Running},
			"bob":   {Text: text, State: service.Running},
			"carol": {Text: text, State: service.Stopped},
			"zed":   {Text: text, State: service.Running, Secrets: map[string]string{"KEY": "z3d"}},
		},
	}
}

func (l *life) revisions() *Revisions {
	return New(l, l, l, func() Settings { return Settings{User: 1000} })
}

// declared changes alice and bob, starts carol, creates dave, and deletes zed.
const declared = `version: 1
profiles:
  alice: {environment: {V: after, API_TOKEN: hunter2}}
  bob: {environment: {V: after}, secrets: {CERT: s3cret}}
  carol: {environment: {V: before}}
  dave: {environment: {V: after}, secrets: {KEY: d4ve}}
`

// configured declares the configuration, which is to have the text rootsNew.
const (
	configured = "configuration: /srv/rlminit.yaml\n"
	rootsNew   = "version: 1\nservices: {web: {command: [a]}}\n"
)

func makePlan(t *testing.T, r *Revisions, text string) (*plan.Plan, control.ApplyRequest) {
	t.Helper()
	q := control.PlanRequest{File: "/agents.yaml", Dir: "/", Text: text, Salt: "0123456789abcdef"}
	if strings.Contains(text, configured) {
		root := rootsNew
		q.Configuration = &root
	}
	planned, err := r.Plan(q, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Read([]byte(planned.Plan))
	if err != nil {
		t.Fatal(err)
	}
	return p, control.ApplyRequest{
		Plan: planned.Plan, Approve: p.Hash, AllowDelete: true, Request: "r" + p.Hash, By: "a reviewer",
		Secrets: map[string]map[string]string{"alice": {"environment.API_TOKEN": "hunter2"}, "bob": {"secrets.CERT": "s3cret"}, "dave": {"secrets.KEY": "d4ve"}, rootsFile: {plan.ConfigurationText: rootsNew}},
		Gating:  control.Gating{TimeoutMS: 60_000},
	}
}

func finish(t *testing.T, r *Revisions, answer control.Revision, err error) control.Revision {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !answer.Over() {
		if answer, err = r.Get(ctx, answer.Revision, answer.Version); err != nil || ctx.Err() != nil {
			t.Fatalf("%v %v: %+v", err, ctx.Err(), answer)
		}
	}
	return answer
}

func problemCode(t *testing.T, err error) int {
	t.Helper()
	var problem *control.Problem
	if !errors.As(err, &problem) {
		t.Fatalf("no problem: %v", err)
	}
	return problem.ExitCode
}

func (v *volume) snapshot() map[string]Content {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.profiles)
}

func equal(a, b map[string]Content) bool {
	return maps.EqualFunc(a, b, func(a, b Content) bool { return sameContent(&a, &b) })
}

func TestApplyAndRollback(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	before := v.snapshot()
	p, ask := makePlan(t, r, declared)
	if s := p.Summary; s.Create != 1 || s.Update != 2 || s.Start != 1 || s.Delete != 1 || s.Restarts != 2 {
		t.Fatalf("%+v", s)
	}
	answer, err := r.Apply(ask, 0)
	done := finish(t, r, answer, err)
	if done.State != control.RevisionApplied || done.ExitCode != 9 || done.By != "a reviewer" || done.Revision != 1 {
		t.Fatalf("%+v", done)
	}
	now := v.snapshot()
	if len(now) != 4 || !strings.Contains(string(now["alice"].Text), "API_TOKEN: hunter2") || now["bob"].Secrets["CERT"] != "s3cret" || now["carol"].State != service.Running {
		t.Fatalf("%v", now)
	}
	if again, err := r.Apply(ask, 0); err != nil || again.Revision != 1 {
		t.Errorf("the same request again: %v %+v", err, again)
	}
	ask.Request = "another"
	if _, err := r.Apply(ask, 0); problemCode(t, err) != 17 {
		t.Errorf("applied twice: %v", err)
	}
	second, ask2 := makePlan(t, r, declared)
	if !second.Empty() {
		t.Fatalf("the second plan: %+v", second.Changes)
	}
	if answer, err := r.Apply(ask2, 0); err != nil || answer.State != control.RevisionUnchanged || answer.ExitCode != 0 {
		t.Errorf("nothing to do: %v %+v", err, answer)
	}
	ask2.Approve, ask2.Request = "", "unapproved"
	if _, err := r.Apply(ask2, 0); problemCode(t, err) != 11 {
		t.Errorf("nothing to do, and nobody has approved it: %v", err)
	}
	if d, err := r.Drift(); err != nil || d.Revision != 1 || len(d.Changes) != 0 {
		t.Errorf("drift: %v %+v", err, d)
	}
	v.mu.Lock()
	v.profiles["bob"] = Content{Text: now["bob"].Text, State: service.Stopped, Secrets: now["bob"].Secrets}
	v.profiles["erin"] = Content{State: service.Stopped}
	v.mu.Unlock()
	d, err := r.Drift()
	if err != nil || len(d.Changes) != 2 || d.Changes[0].Name != "bob" || d.Changes[0].Action != plan.Start || d.Changes[1].Action != plan.Delete {
		t.Errorf("drift: %v %+v", err, d)
	}
	v.mu.Lock()
	delete(v.profiles, "erin")
	v.mu.Unlock()

	answer, err = r.Rollback(control.RollbackRequest{AllowDelete: true, Request: "back", Gating: ask.Gating}, 0)
	back := finish(t, r, answer, err)
	if back.State != control.RevisionApplied || back.Rollback == nil || *back.Rollback != 0 || !equal(v.snapshot(), before) {
		t.Fatalf("%+v\n%v\nbefore\n%v", back, v.snapshot(), before)
	}
	if d, err := r.Drift(); err != nil || len(d.Changes) != 0 || d.Revision != 2 {
		t.Errorf("drift after the rollback: %v %+v", err, d)
	}
	to := 1
	answer, err = r.Rollback(control.RollbackRequest{AllowDelete: true, Revision: &to, Request: "forth", Gating: ask.Gating}, 0)
	if forth := finish(t, r, answer, err); forth.State != control.RevisionApplied || !equal(v.snapshot(), now) {
		t.Errorf("%+v", forth)
	}
}

// A gate that is not passed puts everything back; what cannot be put back is
// said.
func TestGates(t *testing.T) {
	for _, row := range []struct {
		name   string
		spoil  func(*volume)
		state  string
		exit   int
		reason string
	}{
		{"dies", func(v *volume) { v.bad["bob"] = errors.New("failed: exit 1") }, control.RevisionRolledBack, 8, "bob: failed: exit 1"},
		{"a new one dies", func(v *volume) { v.bad["dave"] = errors.New("exit 2") }, control.RevisionRolledBack, 8, "dave: exit 2"},
		{"late", func(v *volume) { v.bad["alice"] = context.DeadlineExceeded }, control.RevisionRolledBack, 7, "alice: not ready"},
		{"an action fails", func(v *volume) { v.stuck["dave"] = true }, control.RevisionRolledBack, 8, "dave: cannot create it: disk"},
		{"cannot be put back", func(v *volume) { v.bad["bob"] = errors.New("exit 1") }, control.RevisionPartly, 12, "bob: exit 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := newVolume()
			row.spoil(v)
			l := v.live(0)
			r := l.revisions()
			before := v.snapshot()
			_, ask := makePlan(t, r, declared)
			ask.TimeoutMS = 300
			if row.exit == 12 {
				// Somebody changes alice by hand while bob is being looked at.
				r.box = meddler{l}
			}
			answer, err := r.Apply(ask, 0)
			done := finish(t, r, answer, err)
			if done.State != row.state || done.ExitCode != row.exit || !strings.Contains(done.Reason, row.reason) {
				t.Fatalf("%+v", done)
			}
			now := v.snapshot()
			if row.exit == 12 {
				i := slices.IndexFunc(done.Steps, func(s control.RevisionStep) bool { return s.State == "stuck" })
				if i < 0 || done.Steps[i].Name != "alice" || !strings.Contains(done.Steps[i].Reason, "somebody has changed it") {
					t.Errorf("%+v", done.Steps)
				}
				if string(now["alice"].Text) != "environment: {V: by hand}\n" {
					t.Errorf("%s", now["alice"].Text)
				}
				now["alice"] = before["alice"]
			}
			if !equal(now, before) {
				t.Errorf("%v\nbefore\n%v", now, before)
			}
			if list := r.List(); len(list) != 1 || list[0].State != row.state {
				t.Errorf("%+v", list)
			}
		})
	}
}

// meddler changes alice by hand when bob is gated.
type meddler struct{ *life }

func (m meddler) Gate(ctx context.Context, name string, how Gating) error {
	if name == "bob" && !strings.Contains(string(m.snapshot()["bob"].Text), "before") {
		m.mu.Lock()
		m.profiles["alice"] = Content{Text: []byte("environment: {V: by hand}\n"), State: service.Running}
		m.mu.Unlock()
	}
	return m.life.Gate(ctx, name, how)
}

// Each refusal has its own exit code, touches nothing, and is recorded.
func TestRefusals(t *testing.T) {
	for _, row := range []struct {
		name  string
		code  int
		actor uint32
		spoil func(v *volume, r *Revisions, ask *control.ApplyRequest)
	}{
		{"no hash", 11, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) { ask.Approve = "" }},
		{"another hash", 11, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) { ask.Approve = strings.Repeat("0", 64) }},
		{"edited", 11, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) {
			ask.Plan = strings.Replace(ask.Plan, "after", "later", 1)
		}},
		{"cut", 11, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) { ask.Plan = ask.Plan[:len(ask.Plan)/2] }},
		{"a secret is missing", 11, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) { delete(ask.Secrets, "bob") }},
		{"another secret", 11, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) { ask.Secrets["bob"]["secrets.CERT"] = "x" }},
		{"deletes", 13, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) { ask.AllowDelete = false }},
		{"old", 16, 0, func(_ *volume, r *Revisions, _ *control.ApplyRequest) {
			r.now = func() time.Time { return time.Now().Add(61 * time.Minute) }
		}},
		{"changed by hand", 17, 0, func(v *volume, _ *Revisions, _ *control.ApplyRequest) {
			v.profiles["carol"] = Content{State: service.Stopped, Text: []byte("environment: {V: c}\n")}
		}},
		{"stopped by hand", 17, 0, func(v *volume, _ *Revisions, _ *control.ApplyRequest) {
			v.profiles["zed"] = Content{State: service.Stopped, Text: v.profiles["zed"].Text}
		}},
		{"there is no port left", 8, 0, func(v *volume, _ *Revisions, _ *control.ApplyRequest) { v.portless = true }},
		{"a service has got the name of one to create", 17, 0, func(v *volume, _ *Revisions, _ *control.ApplyRequest) { v.taken["dave"] = true }},
		{"of another volume", 17, 0, func(_ *volume, _ *Revisions, ask *control.ApplyRequest) {
			p, err := plan.Read([]byte(ask.Plan))
			if err != nil {
				t.Fatal(err)
			}
			p.Base.Volume = "another"
			text, err := p.Encode()
			if err != nil {
				t.Fatal(err)
			}
			ask.Plan, ask.Approve = string(text), p.Hash
		}},
		{"a stranger", 10, 1001, func(*volume, *Revisions, *control.ApplyRequest) {}},
		{"not covered", 10, 1000, func(_ *volume, r *Revisions, _ *control.ApplyRequest) {
			r.settings = func() Settings {
				return Settings{User: 1000, Allow: []plan.Rule{{UID: 1000, Scope: "profile/a*"}}}
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := newVolume()
			r := v.live(0).revisions()
			_, ask := makePlan(t, r, declared)
			row.spoil(v, r, &ask)
			before := v.snapshot()
			_, err := r.Apply(ask, row.actor)
			if code := problemCode(t, err); code != row.code {
				t.Fatalf("exit code %d: %v", code, err)
			}
			if !equal(v.snapshot(), before) || len(r.List()) != 0 {
				t.Error("something was touched")
			}
			if len(v.refusals) != 1 || v.refusals[0].ExitCode != row.code || v.refusals[0].UID != row.actor {
				t.Errorf("recorded: %+v", v.refusals)
			}
		})
	}
	v := newVolume()
	r := v.live(0).revisions()
	_, ask := makePlan(t, r, declared)
	r.settings = func() Settings { return Settings{Allow: []plan.Rule{{UID: 1000, Scope: "profile/*"}}} }
	if done := finishAs(t, r, ask, 1000); done.State != control.RevisionApplied || done.UID != 1000 {
		t.Errorf("%+v", done)
	}
}

func finishAs(t *testing.T, r *Revisions, ask control.ApplyRequest, actor uint32) control.Revision {
	t.Helper()
	answer, err := r.Apply(ask, actor)
	return finish(t, r, answer, err)
}

// Of two at the same time one is carried out, and the other is refused.
func TestTwoAtOnce(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	_, ask := makePlan(t, r, declared)
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() {
			mine := ask
			mine.Request = fmt.Sprint(i)
			if _, err := r.Apply(mine, 0); err != nil {
				codes[i] = problemCode(t, err)
			}
		})
	}
	wg.Wait()
	slices.Sort(codes)
	if codes[0] != 0 || codes[1] != 17 || codes[7] != 17 {
		t.Errorf("exit codes %v", codes)
	}
	if done := finish(t, r, r.List()[0], nil); done.State != control.RevisionApplied || len(r.List()) != 1 {
		t.Errorf("%+v", r.List())
	}
}

// The supervisor, or the container, is killed at any call, and again: in the end
// all is new, or all is old, and revisions says which.
func TestKilledAnywhere(t *testing.T) {
	rounds := 200
	ends := map[string]int{}
	for i := range rounds {
		v := newVolume()
		if i%3 == 1 {
			v.bad["bob"] = errors.New("exit 1")
		}
		set, configures := declared, i%2 == 1
		if configures { // and the configuration, whose gate is not passed now and then
			set = declared + configured
			v.profiles[rootsFile] = Content{Text: []byte("version: 1 # before\n")}
			if i%5 == 0 {
				v.bad[rootsFile] = errors.New("web: exit 1")
			}
		}
		before := v.snapshot()
		maker := v.live(0).revisions()
		_, ask := makePlan(t, maker, set)
		first := v.live(1 + rand.IntN(60))
		go first.revisions().Apply(ask, 0)
		for kills := rand.IntN(3); ; kills-- {
			select {
			case <-first.dead:
			case <-time.After(10 * time.Millisecond): // it came to its end
			}
			first.kill()
			until := 0
			if kills > 0 {
				until = 1 + rand.IntN(40)
			}
			first = v.live(until)
			next := first.revisions()
			again := rand.IntN(2) == 0
			done := make(chan struct{})
			go func() {
				if again {
					next.Rewind()
				} else {
					next.Resume()
				}
				close(done)
			}()
			if until > 0 {
				continue
			}
			<-done
			list := next.List()
			if len(list) == 0 {
				ends["never begun"]++
				if !equal(v.snapshot(), before) {
					t.Fatalf("round %d: never begun, and changed: %v", i, v.snapshot())
				}
				break
			}
			end := finish(t, next, list[0], nil)
			ends[end.State]++
			now := v.snapshot()
			_, zed := now["zed"]
			_, dave := now["dave"]
			applied := !zed && dave && strings.Contains(string(now["alice"].Text), "after") && strings.Contains(string(now["bob"].Text), "after") && now["carol"].State == service.Running &&
				(!configures || string(now[rootsFile].Text) == rootsNew)
			switch {
			case end.State == control.RevisionApplied && applied:
			case end.State == control.RevisionRolledBack && equal(now, before):
			default:
				t.Fatalf("round %d: %+v\nis %v", i, end, now)
			}
			break
		}
	}
	t.Logf("figure: %d rounds of kills: %v", rounds, ends)
}

// The configuration is a part of a revision like any other: applied, found out by
// drift, put back by rollback, refused to who is not root, and where it has a fault
// or needs a new container.
func TestConfiguration(t *testing.T) {
	v := newVolume()
	v.profiles[rootsFile] = Content{Text: []byte("version: 1 # before\n")}
	before := v.snapshot()
	r := v.live(0).revisions()
	p, ask := makePlan(t, r, configured+"version: 1\n")
	if c := p.Changes; len(c) != 1 || c[0].Name != rootsFile || c[0].Effect != plan.Restarts || len(c[0].Services) != 1 || p.Scope != plan.Configuration || p.Summary.Restarts != 1 {
		t.Fatalf("%+v", p)
	}
	if _, err := r.Apply(ask, 1000); problemCode(t, err) != 10 {
		t.Errorf("by who is not root: %v", err)
	}
	other := ask
	other.Secrets = map[string]map[string]string{rootsFile: {plan.ConfigurationText: rootsNew + "# and more\n"}}
	if _, err := r.Apply(other, 0); problemCode(t, err) != 11 {
		t.Errorf("another text: %v", err)
	}
	answer, err := r.Apply(ask, 0)
	if done := finish(t, r, answer, err); done.State != control.RevisionApplied || string(v.snapshot()[rootsFile].Text) != rootsNew {
		t.Fatalf("%+v", done)
	}
	if second, _ := makePlan(t, r, configured+"version: 1\n"); !second.Empty() || len(second.Unchanged) != 1 {
		t.Errorf("the second plan: %+v", second)
	}
	if d, err := r.Drift(); err != nil || len(d.Changes) != 0 {
		t.Errorf("drift: %v %+v", err, d)
	}
	v.mu.Lock()
	v.profiles[rootsFile] = Content{Text: []byte("version: 1\n")}
	v.mu.Unlock()
	if d, err := r.Drift(); err != nil || len(d.Changes) != 1 || d.Changes[0].Name != rootsFile || d.Changes[0].Fields[0].Field != "services.web.command" {
		t.Errorf("drift: %v %+v", err, d)
	}
	if _, err := r.Rollback(control.RollbackRequest{AllowDelete: true, Request: "b"}, 1000); problemCode(t, err) != 10 {
		t.Errorf("rolled back by who is not root: %v", err)
	}
	answer, err = r.Rollback(control.RollbackRequest{AllowDelete: true, Request: "back", Gating: ask.Gating}, 0)
	if done := finish(t, r, answer, err); done.State != control.RevisionApplied || !equal(v.snapshot(), before) {
		t.Fatalf("%+v %v", done, v.snapshot())
	}
	v.bad[rootsFile] = errors.New("web: exit 1")
	_, ask = makePlan(t, r, configured+declared)
	answer, err = r.Apply(ask, 0)
	if done := finish(t, r, answer, err); done.ExitCode != 8 || !strings.Contains(done.Reason, "web: exit 1") || !equal(v.snapshot(), before) {
		t.Fatalf("%+v %v", done, v.snapshot())
	}
	for text, want := range map[string]int{"fault": 2, "user: x": 10} {
		_, err := r.Plan(control.PlanRequest{File: "a", Dir: "/", Text: configured + "version: 1\n", Configuration: &text, Salt: "0123456789abcdef"}, 0)
		if problemCode(t, err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	text := rootsNew
	for scope, want := range map[string]int{"service/web": 0, "service/db": 10, "profiles": 10, "all": 10} {
		_, err := r.Plan(control.PlanRequest{File: "a", Dir: "/", Text: configured + "version: 1\n", Scope: scope, Configuration: &text, Salt: "0123456789abcdef"}, 0)
		if want == 0 && err != nil || want != 0 && problemCode(t, err) != want {
			t.Errorf("scope %s: %v", scope, err)
		}
	}
	if _, err := r.Plan(control.PlanRequest{File: "a", Dir: "/", Text: configured + "version: 1\n", Configuration: &text, Salt: "0123456789abcdef"}, 1000); problemCode(t, err) != 10 {
		t.Errorf("planned by who is not root: %v", err)
	}
}

func (l *life) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.dead:
	default:
		close(l.dead)
	}
}

func TestPlanRefuses(t *testing.T) {
	r := newVolume().live(0).revisions()
	for _, row := range []struct {
		scope, text string
		code        int
		why         string
	}{
		{"profile/alice", declared, 10, "bob, carol, dave, which the set declares, is not within the scope profile/alice"},
		{"service/web", declared, 10, "is not within the scope"},
		{"profile/nobody", "version: 1\nprofiles: {}\n", 10, "fits nothing"},
		{"service/web", "version: 1\nprofiles: {}\n", 10, "fits nothing"},
		{"everything", declared, 2, "is no scope"},
		{"", "version: 1\nprofiles: {a: {stat: x}}\nb: c\n", 2, "unknown key"},
		{"", "version: 1\nprofiles:\n  faulty: {}\n", 2, "is faulty"},
	} {
		_, err := r.Plan(control.PlanRequest{File: "agents.yaml", Dir: "/", Text: row.text, Scope: row.scope, Salt: "0123456789abcdef"}, 0)
		if err == nil || problemCode(t, err) != row.code || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	planned, err := r.Plan(control.PlanRequest{File: "a", Dir: "/", Text: "version: 1\nprofiles: {}\n", Scope: "profile/zed", Salt: "0123456789abcdef"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := plan.Read([]byte(planned.Plan)); err != nil || len(p.Changes) != 1 || p.Changes[0].Action != plan.Delete || p.Changes[0].Name != "zed" {
		t.Errorf("%v %+v", err, p)
	}
}
