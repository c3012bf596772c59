package revision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/profiles/overrides"
	"rlminit/service"
)

func (l *life) Meant(names []string, _ string) (meant []string, err error) {
	defer l.enter()()
	for _, name := range slices.Sorted(maps.Keys(l.profiles)) {
		if len(names) == 0 || slices.ContainsFunc(names, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			meant = append(meant, name)
		}
	}
	if len(meant) == 0 {
		err = errors.New("nobody")
	}
	return meant, err
}

func (l *life) Other(f Found, environment map[string]*string) ([]byte, error) {
	defer l.enter()()
	if l.strange[f.Name] {
		return nil, errors.New("profile.yaml:1: is faulty")
	}
	return overrides.Set("profile.yaml", f.Content.Text, overrides.Changes{Environment: environment})
}

func (l *life) Restart(_ context.Context, names []string, _ Restart) (uint64, error) {
	defer l.enter()()
	for _, name := range names {
		l.ran[name] = values(l.profiles[name])
	}
	l.restarted = append(l.restarted, names...)
	return uint64(len(l.restarted)), nil
}

func (l *life) Announce([]string) {}
func (l *life) Withdraw([]string) {}

// runAll has every profile run with what it has.
func (v *volume) runAll() {
	for name, c := range v.profiles {
		v.ran[name] = values(c)
	}
}

func setV(names ...string) control.SetProfiles {
	return control.SetProfiles{Names: names, Environment: map[string]*string{"V": new("new")}, Secrets: map[string]string{"TOKEN": "t0p"}}
}

func names(list []control.OutdatedProfile) (all []string) {
	for _, o := range list {
		all = append(all, o.Name)
	}
	return all
}

func TestSet(t *testing.T) {
	v := newVolume()
	v.runAll()
	r, before := v.live(0).revisions(), v.snapshot()
	ask := setV("*")
	ask.DryRun = true
	dry, err := Values{r}.Set(t.Context(), ask, control.Actor{})
	if err != nil || !strings.Contains(dry.Plan, `"environment.V"`) || strings.Contains(dry.Plan, "t0p") || !equal(v.snapshot(), before) || len(r.List()) != 0 {
		t.Fatalf("%v %+v", err, dry)
	}
	ask.DryRun = false
	done, err := Values{r}.Set(t.Context(), ask, control.Actor{UID: 7})
	if err != nil || done.Revision != 1 || done.Operation != 0 || len(done.Changed) != 4 || fmt.Sprint(names(done.Outdated)) != "[alice bob zed]" && len(done.Outdated) != 3 {
		t.Fatalf("%v %+v", err, done)
	}
	for name, c := range v.snapshot() {
		if !strings.Contains(string(c.Text), "V: new") || c.Secrets["TOKEN"] != "t0p" || c.State != before[name].State {
			t.Errorf("%s: %s %v", name, c.Text, c.Secrets)
		}
	}
	if v.snapshot()["zed"].Secrets["KEY"] != "z3d" {
		t.Error("a secret of before is gone")
	}
	if len(v.restarted) > 0 || r.List()[0].UID != 7 || r.List()[0].Source != "profile set V TOKEN" {
		t.Errorf("%v %+v", v.restarted, r.List())
	}
	ask.Restart = true
	again, err := Values{r}.Set(t.Context(), ask, control.Actor{})
	if err != nil || again.Revision != 0 || len(again.Changed) != 0 || again.Operation == 0 || len(v.restarted) != 3 {
		t.Errorf("again, with a restart: %v %+v", err, again)
	}
	if d, err := r.Drift(); err != nil || len(d.Changes) != 0 {
		t.Errorf("profiles in nobody's scope drift: %v %+v", err, d)
	}
	v.mu.Lock()
	zed := v.profiles["zed"]
	zed.State = service.Stopped // by a person, whom no rollback of values overrules
	v.profiles["zed"] = zed
	v.mu.Unlock()
	stopped := before["zed"]
	stopped.State = service.Stopped
	before["zed"] = stopped
	back, err := r.Rollback(control.RollbackRequest{Request: "back"}, 0)
	if end := finish(t, r, back, err); end.State != control.RevisionApplied || !equal(v.snapshot(), before) {
		t.Errorf("%+v %v", end, v.snapshot())
	}
}

// What is wrong with one keeps all from being touched.
func TestSetRefuses(t *testing.T) {
	v := newVolume()
	v.strange["bob"] = true
	r, before := v.live(0).revisions(), v.snapshot()
	long := setV("*")
	long.Secrets["TOKEN"] = strings.Repeat("x", service.MaxSecret+1)
	for _, x := range []struct {
		ask  control.SetProfiles
		want string
	}{
		{setV("*"), "nothing was touched: bob: profile.yaml:1: is faulty"},
		{setV("nobody"), "nobody"},
		{control.SetProfiles{Names: []string{"alice"}}, "nothing is to be set; write KEY=VALUE or --secret NAME=FILE, or --restart for what is outdated"},
		{long, fmt.Sprintf(`the secret "TOKEN" is longer than %d bytes`, service.MaxSecret)},
		{control.SetProfiles{Secrets: map[string]string{"../x": "y"}}, `the secret "../x" `},
	} {
		if _, err := (Values{r}).Set(t.Context(), x.ask, control.Actor{}); err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
	v.mu.Lock()
	delete(v.strange, "bob")
	v.stuck["bob"] = true
	v.mu.Unlock()
	if _, err := (Values{r}).Set(t.Context(), setV("*"), control.Actor{}); err == nil || !strings.Contains(err.Error(), "nothing was changed: bob") {
		t.Errorf("a disk that fails: %v", err)
	}
	if !equal(v.snapshot(), before) || len(v.restarted) > 0 {
		t.Errorf("%v", v.snapshot())
	}
}

// The supervisor, or the container, is killed at any call of a set, and again: all have
// the new values or all the old ones, nobody was restarted who was not asked for, and the
// same command goes on from there.
func TestSetKilledAnywhere(t *testing.T) {
	ends := map[string]int{}
	for i := range 200 {
		v := newVolume()
		v.runAll()
		if i%4 == 1 {
			v.full = map[string]bool{"bob": true}
		}
		before := v.snapshot()
		first := v.live(1 + rand.IntN(40))
		ask := setV("*")
		ask.Restart = i%2 == 0
		go Values{first.revisions()}.Set(context.Background(), ask, control.Actor{})
		var last *Revisions
		for kills := rand.IntN(3); last == nil; kills-- {
			select {
			case <-first.dead:
			case <-time.After(10 * time.Millisecond):
			}
			first.kill()
			until := 0
			if kills > 0 {
				until = 1 + rand.IntN(30)
			}
			v.mu.Lock()
			v.full = nil // somebody has made room
			v.mu.Unlock()
			first = v.live(until)
			next := first.revisions()
			boots := rand.IntN(2) == 0
			if boots {
				v.mu.Lock()
				v.runAll() // processes of another start have what there is
				v.mu.Unlock()
			}
			over := make(chan struct{})
			go func() {
				if boots {
					next.Rewind()
				} else {
					next.Resume()
				}
				close(over)
			}()
			if until == 0 {
				<-over
				last = next
			}
		}
		if list := last.List(); len(list) > 0 {
			ends[finish(t, last, list[0], nil).State]++
		} else {
			ends["never begun"]++
		}
		now := v.snapshot()
		fresh := 0
		for _, c := range now {
			if strings.Contains(string(c.Text), "V: new") && c.Secrets["TOKEN"] == "t0p" {
				fresh++
			}
		}
		if fresh != len(now) && !equal(now, before) {
			t.Fatalf("round %d: %d of %d have the new values: %v", i, fresh, len(now), now)
		}
		ask.Restart = true
		done, err := Values{last}.Set(t.Context(), ask, control.Actor{})
		if err != nil {
			t.Fatalf("round %d: the same again: %v", i, err)
		}
		left, _, err := Values{last}.outdated(done.Profiles)
		if err != nil || len(left) > 0 {
			t.Fatalf("round %d: still outdated: %v %v", i, left, err)
		}
	}
	t.Logf("figure: 200 rounds of kills: %v", ends)
}

// Revisions of which the contents are kept no longer keep nobody from setting, nor drift
// from being told.
func TestSetAfterMany(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	for i := range 5 {
		ask := control.SetProfiles{Environment: map[string]*string{"V": new(fmt.Sprint(i))}}
		if _, err := (Values{r}).Set(t.Context(), ask, control.Actor{}); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			v.mu.Lock()
			delete(v.files, 1)
			delete(v.files, 2)
			v.mu.Unlock()
		}
	}
	if d, err := r.Drift(); err != nil || d.Revision != 5 {
		t.Errorf("%v %+v", err, d)
	}
	back, err := r.Rollback(control.RollbackRequest{Request: "back"}, 0)
	if end := finish(t, r, back, err); end.State != control.RevisionApplied || !strings.Contains(string(v.snapshot()["bob"].Text), `V: "3"`) {
		t.Errorf("%+v %s", end, v.snapshot()["bob"].Text)
	}
}

// one is a set of one profile by its name.
func one(name, value string) control.SetProfiles {
	return control.SetProfiles{Names: []string{name}, Environment: map[string]*string{"V": &value}}
}

// A set of one is a revision that is taken back by its number alone, pushes no other out,
// and of which the newest are kept.
func TestSetOfOne(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	set := func(ask control.SetProfiles) control.SetAnswer {
		t.Helper()
		done, err := Values{r}.Set(t.Context(), ask, control.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	value := func(name string) string { return values(v.snapshot()[name]) }
	many, before := set(one("*", "many")), 0
	for i := range kept + 2 {
		if before = set(one("alice", fmt.Sprint(i))).Revision; before == 0 {
			t.Fatal("it is no revision")
		}
	}
	if again := set(one("gateway-alice", fmt.Sprint(kept+1))); again.Revision != 0 || len(again.Changed) != 0 {
		t.Errorf("the same again: %+v", again)
	}
	if _, there := v.files[many.Revision]; !there || len(v.files) != 1+kept {
		t.Errorf("%d revisions are kept, and the first: %v", len(v.files), there)
	}
	if list := r.List(); !list[len(list)-1].Single || list[0].Single || list[1].StatePath != "" || list[len(list)-1].StatePath == "" {
		t.Errorf("it lists %+v", list[len(list)-1])
	}
	to := before - 1
	back, err := r.Rollback(control.RollbackRequest{Revision: &to, Request: "one"}, 0)
	if end := finish(t, r, back, err); end.State != control.RevisionApplied || !end.Single || !strings.Contains(value("alice"), fmt.Sprint("V: \"", kept)) {
		t.Errorf("%+v %s", end, value("alice"))
	}
	back, err = r.Rollback(control.RollbackRequest{Request: "plain"}, 0)
	if end := finish(t, r, back, err); end.State != control.RevisionApplied || end.Single || len(end.Steps) != 4 || !strings.Contains(value("bob"), "V: before") {
		t.Errorf("a rollback without a number: %+v %s", end, value("bob"))
	}
	to = many.Revision
	back, err = r.Rollback(control.RollbackRequest{Revision: &to, Request: "first"}, 0)
	end := finish(t, r, back, err)
	if end.State != control.RevisionApplied || !slices.ContainsFunc(end.Left, func(s string) bool { return strings.HasPrefix(s, "alice keeps the values that revision") }) {
		t.Errorf("%+v", end)
	}
}

// Alone with sets of one, a rollback without a number has nothing to take back.
func TestRollbackPassesOverSetsOfOne(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	if _, err := (Values{r}).Set(t.Context(), one("alice", "x"), control.Actor{}); err != nil {
		t.Fatal(err)
	}
	now := v.snapshot()
	if _, err := r.Rollback(control.RollbackRequest{Request: "a"}, 0); err == nil || !strings.Contains(err.Error(), "write the revision to go back to: 1, and 0 for before the first") || !equal(v.snapshot(), now) {
		t.Errorf("%v", err)
	}
	zero := 0
	back, err := r.Rollback(control.RollbackRequest{Revision: &zero, Request: "b"}, 0)
	if end := finish(t, r, back, err); end.State != control.RevisionApplied || !strings.Contains(values(v.snapshot()["alice"]), "V: before") {
		t.Errorf("%+v %v", end, v.snapshot())
	}
}

// Many at once: each of them is carried out, one after the other.
func TestSetsOfOneAtOnce(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	var all sync.WaitGroup
	var revisions atomic.Int64
	for i := range 40 {
		all.Go(func() {
			name := []string{"alice", "bob"}[i%2]
			ask := control.SetProfiles{Names: []string{name}, Environment: map[string]*string{fmt.Sprint("V", i): new("x")}}
			done, err := Values{r}.Set(t.Context(), ask, control.Actor{})
			if err != nil {
				t.Error(err)
			} else if done.Revision != 0 {
				revisions.Add(1)
			}
		})
	}
	all.Wait()
	for i := range 40 {
		if text := values(v.snapshot()[[]string{"alice", "bob"}[i%2]]); !strings.Contains(text, fmt.Sprint("V", i, ": x")) {
			t.Errorf("%d is lost: %s", i, text)
		}
	}
	if revisions.Load() != 40 || len(r.List()) != 40 {
		t.Errorf("%d are revisions", revisions.Load())
	}
}
