package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/journal/places"
	"rlminit/profiles"
)

// record is what the store writes down of what a person does. The caller holds mu.
func (v *volume) record(kind string, body map[string]string) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	v.seq++
	v.records.Apply(journal.Record{Seq: v.seq, At: time.Now(), Boot: v.boot, Type: kind, Line: b})
}

// rename and remove are by hand, and do nothing where there is no such profile. The
// caller holds mu.
func (v *volume) rename(from, to string) bool {
	c, there := v.profiles[from]
	if !there {
		return false
	}
	v.profiles[to], v.made[to] = c, v.made[from]
	delete(v.profiles, from)
	delete(v.made, from)
	v.record(profiles.TypeRenamed, map[string]string{"profile": from, "to": to})
	return true
}

func (v *volume) remove(name string) bool {
	c, there := v.profiles[name]
	if !there {
		return false
	}
	v.trash[name+"-2026"], v.made[name+"-2026"] = c, v.made[name]
	delete(v.profiles, name)
	delete(v.made, name)
	v.record(profiles.TypeDeleted, map[string]string{"profile": name, "trash": name + "-2026"})
	return true
}

// restore and empty are by hand too, of what remove has put into the trash.
func (v *volume) restore(entry, name string) {
	v.profiles[name], v.made[name] = v.trash[entry], v.made[entry]
	delete(v.trash, entry)
	delete(v.made, entry)
	v.record(profiles.TypeCreated, map[string]string{"profile": name, "restored": entry})
}

func (v *volume) empty(entry, profile string) {
	delete(v.trash, entry)
	delete(v.made, entry)
	v.record(profiles.TypePurged, map[string]string{"profile": profile, "trash": entry})
}

// meddling is what a person does between two calls of an apply, or of who finishes it.
type meddling struct {
	name   string
	rename bool // else it is deleted
	taken  bool // neither: a service gets its name, which a reload allows if there is none
	bad    bool // and a gate is not passed
	boot   bool // it is killed at that call too, and finished by another start of the container
	at     int
}

// A person renames or deletes a profile, or gives a service the name of one, between any
// two calls of an apply: nothing is lost, nothing is claimed that is not so, and who put
// it where is named.
func TestMeddledWithAnywhere(t *testing.T) {
	_, ask := makePlan(t, newVolume().live(0).revisions(), declared)
	var mu sync.Mutex
	ends := map[string]int{}
	t.Run("each", func(t *testing.T) {
		for _, name := range []string{"zed", "dave", "alice"} {
			for variant := range 9 {
				m := meddling{name: name, rename: variant%3 == 0, taken: variant%3 == 1, bad: variant/3 == 1, boot: variant/3 == 2}
				t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
					t.Parallel()
					for m.at = 1; ; m.at++ {
						state, came := m.apply(t, ask)
						if !came {
							return
						}
						mu.Lock()
						ends[state]++
						mu.Unlock()
					}
				})
			}
		}
	})
	t.Logf("figure: applies that were meddled with: %v", ends)
	for _, state := range []string{control.RevisionApplied, control.RevisionRolledBack, control.RevisionPartly} {
		if ends[state] == 0 {
			t.Errorf("none was %s", state)
		}
	}
}

// apply holds one of them against what must be, and returns how it ended. came: the
// person did.
func (m meddling) apply(t *testing.T, ask control.ApplyRequest) (state string, came bool) {
	t.Helper()
	v := newVolume()
	if m.bad {
		v.bad["bob"] = errors.New("exit 1")
	}
	before, had := v.snapshot(), v.directories()
	l := v.live(0)
	if m.boot {
		l.until = m.at
	}
	did := false
	l.meddled, l.meddle = m.at, func(v *volume) {
		came = true
		switch _, there := v.profiles[m.name]; {
		case m.taken:
			did = !there
			v.taken[m.name] = did
		case m.rename:
			did = v.rename(m.name, "yak")
		default:
			did = v.remove(m.name)
		}
	}
	refused := make(chan error, 1)
	go func() {
		if _, err := l.revisions().Apply(ask, 0); err != nil {
			refused <- err
		}
	}()
	if !l.ended(t, refused) && m.boot {
		next := v.live(0)
		next.revisions().Rewind()
	}
	l.mu.Lock()
	l.meddled = 0 // it comes no more
	l.mu.Unlock()
	if !came {
		return "", false
	}
	r := v.live(0).revisions()
	if err := v.lost(had); err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	if !v.begun(1) { // refused, or killed before
		return "never begun", true
	}
	done := r.List()[0]
	m.check(t, v, did, before, done)
	return done.State, true
}

// ended waits until an apply is over, or refused, or who carries it out is killed.
func (l *life) ended(t *testing.T, refused <-chan error) (over bool) {
	t.Helper()
	for range 20_000 {
		l.mu.Lock()
		k := l.records.fold.Find(1)
		over = k != nil && k.State.Over()
		l.mu.Unlock()
		select {
		case <-l.dead:
			return over
		case <-refused:
			return true
		default:
		}
		if over {
			return true
		}
		time.Sleep(50 * time.Microsecond)
	}
	t.Fatal("neither is it killed, nor over")
	return false
}

// check holds what is said of an end against what there is. did: the person had
// something to change.
func (m meddling) check(t *testing.T, v *volume, did bool, before map[string]Content, done control.Revision) {
	t.Helper()
	now, theirs := v.snapshot(), maps.Clone(before)
	byHand := did && !m.taken
	if byHand {
		if m.rename && m.name != "dave" {
			theirs["yak"] = theirs[m.name]
		}
		delete(theirs, m.name)
	}
	i := slices.IndexFunc(done.Steps, func(s control.RevisionStep) bool { return s.Name == m.name })
	step := done.Steps[i]
	bad := func(why string) {
		t.Helper()
		t.Fatalf("%+v: %s: %s: %+v\nis %v", m, done.State, why, done.Steps, now)
	}
	switch done.State {
	case control.RevisionApplied:
		if byHand && m.name == "zed" {
			bad("it claims to have deleted what it has not")
		}
		if _, there := v.trash["zed-revision-1"]; !there {
			bad("zed is not in the trash as it says")
		}
		return
	case control.RevisionRolledBack:
		if !equal(now, theirs) {
			bad("not all is as before")
		}
	case control.RevisionPartly:
		if step.State != "stuck" || byHand && m.rename && !strings.Contains(step.Reason, "renamed to yak") {
			bad("it is not said what became of " + m.name)
		}
		for _, all := range []map[string]Content{now, theirs} {
			delete(all, "yak")
			delete(all, m.name)
		}
		if !equal(now, theirs) {
			bad("not all else is as before")
		}
	}
	if byHand && m.rename && m.name == "dave" && done.State != control.RevisionPartly {
		bad("what it has made is still there")
	}
	if byHand && m.name == "zed" && step.State != "stuck" && step.State != "waiting" {
		bad("of its deletion is said " + step.State)
	}
}

// A rollback of a profile that was renamed or deleted by hand leaves it as it is, says so,
// and nobody wants it back after that.
func TestRollbackOfWhatIsGone(t *testing.T) {
	for _, row := range []struct {
		name  string
		goes  func(*volume)
		left  string
		forth string // why it cannot be had back
	}{
		{"renamed", func(v *volume) { v.rename("dave", "yak"); v.rename("yak", "zebra") }, "dave: renamed to zebra by hand, which is left as it is", "rlminit profile rename zebra dave"},
		{"deleted", func(v *volume) { v.remove("dave") }, "dave: deleted by hand, in the trash as dave-2026", "dave is gone"},
		{"restored", func(v *volume) { v.remove("dave"); v.restore("dave-2026", "zebra") }, "dave: renamed to zebra by hand, which is left as it is", "rlminit profile rename zebra dave"},
		{"purged", func(v *volume) { v.remove("dave"); v.empty("dave-2026", "dave") }, "dave: deleted by hand", "dave is gone"},
		{"moved", func(v *volume) { delete(v.profiles, "dave") }, "dave: gone, and not by rlminit", "dave is gone"},
	} {
		for _, text := range []string{declared, alone} {
			t.Run(row.name, func(t *testing.T) {
				v := newVolume()
				before := v.snapshot()
				r := v.live(0).revisions()
				_, ask := makePlan(t, r, text)
				finishAs(t, r, ask, 0)
				row.goes(v)
				if c, there := v.profiles["zebra"]; there {
					before["zebra"] = c
				}
				done := rollBack(t, r, "back")
				if done.State != control.RevisionApplied || len(done.Left) != 1 || done.Left[0] != row.left || !equal(v.snapshot(), before) {
					t.Fatalf("%+v\n%v", done, v.snapshot())
				}
				if d, err := r.Drift(); err != nil || len(d.Changes) != 0 || d.Revision != 2 {
					t.Errorf("drift: %v %+v", err, d)
				}
				none := 0
				if again, err := r.Rollback(control.RollbackRequest{AllowDelete: true, Revision: &none, Request: "again"}, 0); err != nil || again.State != control.RevisionUnchanged {
					t.Errorf("again: %v %+v", err, again)
				}
				one := 1
				_, err := r.Rollback(control.RollbackRequest{AllowDelete: true, Revision: &one, Request: "forth"}, 0)
				if problemCode(t, err) != 17 || !strings.Contains(err.Error(), row.forth) {
					t.Errorf("forth: %v", err)
				}
			})
		}
	}
}

// alone creates dave, and does nothing else.
const alone = `version: 1
profiles:
  alice: {environment: {V: before}}
  bob: {environment: {V: before}}
  carol: {state: stopped, environment: {V: before}}
  dave: {environment: {V: after}, secrets: {KEY: d4ve}}
  zed: {environment: {V: before}, secrets: {KEY: z3d}}
`

// What a snapshot from before says of profiles that have gone is taken over.
func TestGoneInASnapshotFromBefore(t *testing.T) {
	r := new(Records)
	section := `{"revisions":[],"gone":{"a":{"to":"b"},"c":{"trash":"c-2026"},"d":{}}}`
	for range 2 { // and then as it is written now
		if err := r.Restore(json.RawMessage(section)); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]places.Place{"a": "profiles/b", "c": "trash/c-2026", "d": places.Gone} {
			if at := r.fold.Gone[name]; at != want {
				t.Errorf("%s is in %q", name, at)
			}
		}
		now, err := json.Marshal(r.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		section = string(now)
	}
}
