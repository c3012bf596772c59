package revision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/service"
)

// directories are which directory each profile has.
func (v *volume) directories() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := map[string]int{}
	for name := range v.profiles {
		d[name] = v.made[name]
	}
	return d
}

// lost says which of some directories is not in exactly one place.
func (v *volume) lost(directories map[string]int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, id := range directories {
		var at []string
		for where, is := range v.made {
			if is == id {
				at = append(at, where)
			}
		}
		if len(at) != 1 {
			return fmt.Errorf("what %s had is in %q", name, at)
		}
	}
	return nil
}

// rollBack rolls the last revision back, and all of it comes to its end.
func rollBack(t *testing.T, r *Revisions, request string) control.Revision {
	t.Helper()
	answer, err := askAgain(t, r, request)
	return finish(t, r, answer, err)
}

// askAgain asks for the last revision that was applied to be rolled back. Where one that
// was rolled back by itself came after it, that is only done to a revision that is named.
func askAgain(t *testing.T, r *Revisions, request string) (control.Revision, error) {
	t.Helper()
	ask := control.RollbackRequest{AllowDelete: true, Request: request, Gating: control.Gating{TimeoutMS: 60_000}}
	var applied []int
	all := r.List()
	for _, v := range all {
		if v.State == control.RevisionApplied || v.State == control.RevisionPartly {
			applied = append(applied, v.Revision)
		}
	}
	if last := all[len(all)-1]; last.State == control.RevisionRolledBack && len(applied) > 0 {
		_, err := r.Rollback(ask, 0)
		if problemCode(t, err) != control.ExitExists || !strings.Contains(err.Error(), "was rolled back already; write the revision to go back to: ") {
			t.Fatalf("a rollback after %d, which was rolled back: %v", last.Revision, err)
		}
		to := 0
		if len(applied) > 1 {
			to = applied[len(applied)-2]
		}
		ask.Revision = &to
	}
	return r.Rollback(ask, 0)
}

// wait waits until a life has ended, or a revision.
func (l *life) wait(t *testing.T, number int) (over bool) {
	t.Helper()
	for range 20_000 {
		l.mu.Lock()
		k := l.records.fold.Find(number)
		over = k != nil && k.State.Over()
		l.mu.Unlock()
		select {
		case <-l.dead:
			return over
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

// A rollback is killed at every call, and who finishes it at another: whatever became
// of it, nothing is lost, and the next rollback has each profile in the directory that
// it had.
func TestRollbackOfARollbackKilledAnywhere(t *testing.T) {
	ends := map[string]int{}
	for variant := range 4 {
		// Killed after a call is killed before the next.
		k := killing{boot: variant&1 != 0, bad: variant&2 != 0}
		for died := true; died; {
			k.first++
			k.second = 0
			one := k.rollBack(t, ends)
			died = one.died
			stride := 41
			if one.amid {
				stride = 1
			}
			for k.second = 1 + k.first%stride; died && k.rollBack(t, ends).again; {
				k.second += stride
			}
		}
	}
	t.Logf("figure: rollbacks that were killed: %v", ends)
	for _, state := range []string{control.RevisionApplied, control.RevisionRolledBack} {
		if ends[state] == 0 {
			t.Errorf("none was %s", state)
		}
	}
}

// killing is when a rollback is killed, by its calls, and who finishes it (0: never),
// whether that call is still done, by whom it is finished, and whether a gate fails.
type killing struct {
	first, second   int
	half, boot, bad bool
}

// killed is which of the kills came before the end, and whether the first left in the
// trash what the rollback deletes, or out of it what it takes from there, and not done.
type killed struct{ died, amid, again bool }

// rollBack holds one of them against what must be.
func (k killing) rollBack(t *testing.T, ends map[string]int) (was killed) {
	t.Helper()
	v := newVolume()
	before, had := v.snapshot(), v.directories()
	r := v.live(0).revisions()
	_, ask := makePlan(t, r, declared)
	if done := finishAs(t, r, ask, 0); done.State != control.RevisionApplied {
		t.Fatalf("%+v", done)
	}
	after := v.snapshot()
	if k.bad {
		v.bad["zed, out of the trash"] = errors.New("exit 1")
	}
	first := v.live(k.first)
	first.half = &k.half
	go first.revisions().Rollback(control.RollbackRequest{AllowDelete: true, Request: "back", Gating: control.Gating{TimeoutMS: 60_000}}, 0) //nolint:errcheck // it may be killed
	first.wait(t, 2)
	was.died = first.died()
	first.kill()
	was.amid = v.amid()
	if v.open() {
		if err := v.purge(v.live(0).revisions(), true); problemCode(t, err) != control.ExitExists {
			t.Fatalf("%+v: what a revision was in the middle of can be purged: %v", k, err)
		}
	}
	for _, until := range []int{k.second, 0} {
		next := v.live(until)
		next.half = &k.half
		finish := next.revisions().Resume
		if k.boot {
			finish = next.revisions().Rewind
		}
		if !v.begun(2) {
			break
		}
		go finish()
		next.wait(t, 2)
		was.again = was.again || next.died()
		next.kill()
	}
	clear(v.bad)

	r = v.live(0).revisions()
	state := "never begun"
	if v.begun(2) {
		state = r.List()[1].State
	}
	ends[state]++
	if err := v.lost(had); err != nil {
		t.Fatalf("%+v: %s: %v", k, state, err)
	}
	switch {
	case state == control.RevisionApplied && equal(v.snapshot(), before):
		if done := rollBack(t, r, "forth"); done.State != control.RevisionApplied || !equal(v.snapshot(), after) {
			t.Fatalf("%+v: rolled forth: %+v", k, done)
		}
	case (state == control.RevisionRolledBack || state == "never begun") && equal(v.snapshot(), after):
	default:
		t.Fatalf("%+v: %+v\nis %v", k, r.List(), v.snapshot())
	}
	done := rollBack(t, r, "at last")
	if done.State != control.RevisionApplied || !equal(v.snapshot(), before) || !maps.Equal(v.directories(), had) {
		t.Fatalf("%+v: %s, and the next rollback: %+v\nis %v with %v\nwas %v with %v", k, state, done, v.snapshot(), v.directories(), before, had)
	}
	return was
}

// amid tells whether a directory was moved by a step that is only begun.
func (v *volume) amid() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.records.fold.Find(2)
	if known == nil {
		return false
	}
	for i, p := range known.Begun.Steps {
		_, there := v.profiles[p.Name]
		if known.State.Steps[i].Place == apply.Begun && (p.Action == plan.Create && there || p.Action == plan.Delete && !there) {
			return true
		}
	}
	return false
}

// Where a rollback cannot put back the directory that a profile had, it says so of each,
// and touches nothing.
func TestRollbackSaysWhatTheTrashLacks(t *testing.T) {
	for _, row := range []struct {
		name  string
		spoil func(*volume)
		why   []string // it is refused; nil: applied
		note  string
	}{
		{"emptied", func(v *volume) { clear(v.trash) }, []string{"zed, which revision 1 deleted, is no longer in the trash as zed-revision-1", "profile create"}, ""},
		{"deleted by hand", func(v *volume) { delete(v.profiles, "bob"); clear(v.trash) }, []string{"bob is gone", "zed-revision-1"}, ""},
		{"another one", func(v *volume) { v.profiles["zed"] = v.profiles["alice"] }, []string{"another zed", "zed-revision-1"}, ""},
		{"the same text", func(v *volume) {
			v.profiles["zed"] = Content{Text: v.trash["zed-revision-1"].Text, State: service.Running, Secrets: map[string]string{"KEY": "z3d"}}
		}, []string{"another zed"}, ""},
		{"a service has got the name", func(v *volume) { v.taken["zed"] = true }, []string{"no profile zed, for the configuration has a service zed"}, ""},
		{"restored by hand", func(v *volume) {
			v.profiles["zed"] = Content{State: service.Stopped}
			clear(v.trash)
		}, nil, "no longer in the trash as zed-revision-1"},
		{"as it was", func(*volume) {}, nil, "where it was zed-revision-1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := newVolume()
			before := v.snapshot()
			r := v.live(0).revisions()
			_, ask := makePlan(t, r, declared)
			if done := finishAs(t, r, ask, 0); done.State != control.RevisionApplied || done.Steps[4].Note != "in the trash as zed-revision-1" || !r.Needs("zed", 1) || r.Needs("dave", 1) {
				t.Fatalf("%+v", done)
			}
			row.spoil(v)
			is := v.snapshot()
			if row.why != nil {
				_, err := r.Rollback(control.RollbackRequest{AllowDelete: true, Request: "back"}, 0)
				if code := problemCode(t, err); code != control.ExitExists {
					t.Errorf("exit code %d", code)
				}
				for _, why := range append(row.why, "nothing was touched") {
					if !strings.Contains(err.Error(), why) {
						t.Errorf("%q is not in: %v", why, err)
					}
				}
				if !equal(v.snapshot(), is) || len(r.List()) != 1 || len(v.refusals) != 1 || v.refusals[0].Reason != err.Error() {
					t.Errorf("%+v %+v", r.List(), v.refusals)
				}
				return
			}
			done := rollBack(t, r, "back")
			i := slices.IndexFunc(done.Steps, func(s control.RevisionStep) bool { return s.Name == "zed" })
			if done.State != control.RevisionApplied || !equal(v.snapshot(), before) || !strings.Contains(done.Steps[i].Note, row.note) {
				t.Errorf("%+v", done)
			}
		})
	}
}

// A trash that is emptied after a rollback has begun: nothing empty is made of it.
func TestTheTrashIsEmptiedMeanwhile(t *testing.T) {
	v := newVolume()
	l := v.live(0)
	r := l.revisions()
	_, ask := makePlan(t, r, declared)
	finishAs(t, r, ask, 0)
	after := v.snapshot()
	r.box = emptier{l}
	done := rollBack(t, r, "back")
	i := slices.IndexFunc(done.Steps, func(s control.RevisionStep) bool { return s.State == "stuck" })
	if done.State != control.RevisionPartly || !equal(v.snapshot(), after) || i < 0 || !strings.Contains(done.Steps[i].Reason, "zed: it is neither there nor in the trash any more, where it was zed-revision-1") {
		t.Errorf("%+v\n%v", done, v.snapshot())
	}
}

// emptier empties the trash when a step begins.
type emptier struct{ *life }

func (e emptier) Begin(string, Kept, uint32, func(Halted)) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.trash)
	return 0
}

// A profile that was deleted, put back and deleted again is taken from where it is now,
// and not from where it was first; another one of its name that came between does not
// hide it.
func TestRollbackOverSeveralDeletions(t *testing.T) {
	v := newVolume()
	before, had := v.snapshot(), v.directories()
	r := v.live(0).revisions()
	to := func(number int) {
		t.Helper()
		answer, err := r.Rollback(control.RollbackRequest{AllowDelete: true, Revision: &number, Request: fmt.Sprint(len(r.List())), Gating: control.Gating{TimeoutMS: 60_000}}, 0)
		if done := finish(t, r, answer, err); done.State != control.RevisionApplied {
			t.Fatalf("%+v", done)
		}
	}
	_, ask := makePlan(t, r, declared)
	finishAs(t, r, ask, 0)
	to(0)
	to(1)
	if len(v.trash) != 1 {
		t.Errorf("%v", v.trash)
	}
	to(0)
	if !equal(v.snapshot(), before) || !maps.Equal(v.directories(), had) {
		t.Fatalf("%v %v", v.snapshot(), v.directories())
	}
	_, ask = makePlan(t, r, declared)
	finishAs(t, r, ask, 0) // 5 deletes zed
	_, ask = makePlan(t, r, declared+"  zed: {}\n")
	finishAs(t, r, ask, 0) // 6 makes another
	to(5)
	to(0)
	if !equal(v.snapshot(), before) || !maps.Equal(v.directories(), had) {
		t.Fatalf("%v %v", v.snapshot(), v.directories())
	}
	if err := v.lost(had); err != nil {
		t.Error(err)
	}
}

func (l *life) died() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (v *volume) begun(number int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.records.fold.Find(number) != nil
}

// open tells whether a revision is under way, or was when a kill came.
func (v *volume) open() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.records.fold.Open() != nil
}

// purge removes from the trash what revision 1 has deleted.
func (v *volume) purge(r *Revisions, needed bool) error {
	const entry = "zed-revision-1"
	return r.Release(control.Trashed{Entry: entry, Profile: "zed", Revision: 1}, needed, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if _, there := v.trash[entry]; !there {
			return ErrGone
		}
		delete(v.trash, entry)
		delete(v.made, entry)
		return nil
	})
}

// purger has somebody purge what a rollback takes before one of its calls. One who comes
// while it is about to begin waits for that.
type purger struct {
	*life
	r      *Revisions
	needed bool
	before int // which call

	mu    sync.Mutex
	calls int
	said  chan error // what the purge is to come to; nil: none is under way
	err   error      // what it came to
}

func (p *purger) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls++; p.calls == p.before {
		said := make(chan error)
		p.said = said
		go func() { said <- p.purge(p.r, p.needed) }()
	}
	if p.said != nil && p.open() {
		p.err, p.said = <-p.said, nil
	}
}

func (p *purger) Profiles() ([]Found, error) {
	p.step()
	return p.life.Profiles()
}

func (p *purger) Profile(name string) (Found, error) {
	p.step()
	return p.life.Profile(name)
}

func (p *purger) Put(ctx context.Context, name string, c Content, how Put) error {
	p.step()
	return p.life.Put(ctx, name, c, how)
}

func (p *purger) Discard(ctx context.Context, name, trash string, how Put) error {
	p.step()
	return p.life.Discard(ctx, name, trash, how)
}

func (p *purger) Restore(name, trash string, secrets map[string]string, actor uint32) error {
	p.step()
	return p.life.Restore(name, trash, secrets, actor)
}

func (p *purger) Trashed(name, trash string) (Content, error) {
	p.step()
	return p.life.Trashed(name, trash)
}

func (p *purger) Gate(ctx context.Context, name string, how Gating) error {
	p.step()
	return p.life.Gate(ctx, name, how)
}

// A purge beside a rollback that takes the same entry, before each of its calls: from the
// beginning of the rollback to its end the entry is the rollback's, whatever the purge was
// asked with. Before and after, the purge needs to be asked with needed, and the rollback
// that comes then is refused.
func TestPurgeBesideARollback(t *testing.T) {
	calls := 0
	for variant := range 4 {
		needed, bad := variant&1 != 0, variant&2 != 0
		for before, more := 1, true; more; before++ {
			v := newVolume()
			had, was := v.directories(), v.snapshot()
			l := v.live(0)
			r := l.revisions()
			_, ask := makePlan(t, r, declared)
			finishAs(t, r, ask, 0)
			after := v.snapshot()
			if bad {
				v.bad["zed, out of the trash"] = errors.New("exit 1")
			}
			p := &purger{life: l, r: r, needed: needed, before: before}
			r.box = p
			done := rollBack(t, r, "back")
			want, end := was, control.RevisionApplied
			if bad {
				want, end = after, control.RevisionRolledBack
			}
			if done.State != end || !equal(v.snapshot(), want) {
				t.Fatalf("%+v", done)
			}
			more = p.calls >= before
			if err := v.lost(had); err != nil {
				t.Fatalf("before call %d: %v", before, err)
			}
			if more {
				calls++
				if problemCode(t, p.err) != control.ExitExists || !strings.Contains(p.err.Error(), "revision 2, which changes zed, is being applied") {
					t.Fatalf("before call %d: %v", before, p.err)
				}
				continue
			}
			r.box, v.bad = l, map[string]error{}
			switch err := v.purge(r, needed); {
			case !needed && (problemCode(t, err) != control.ExitExists || err.Error() != "zed-revision-1 is left for a rollback of revision 1; --needed removes it all the same"):
				t.Errorf("after a rollback: %v", err)
			case needed && !bad && !errors.Is(err, ErrGone), needed && bad && err != nil:
				t.Errorf("after a rollback: %v", err)
			}
			if !bad {
				continue
			}
			answer, err := askAgain(t, r, "again")
			if needed {
				if problemCode(t, err) != control.ExitExists || !strings.Contains(err.Error(), "no longer in the trash as zed-revision-1") || !equal(v.snapshot(), after) {
					t.Errorf("a rollback of what was purged: %v", err)
				}
			} else if done := finish(t, r, answer, err); done.State != control.RevisionApplied || !equal(v.snapshot(), was) {
				t.Errorf("%+v", done)
			}
		}
	}
	t.Logf("figure: purges beside a rollback: %d", calls)
	if calls < 40 {
		t.Error("too few")
	}
}

// What no rollback takes goes, and where nobody knows it stays.
func TestClaims(t *testing.T) {
	v := newVolume()
	r := v.live(0).revisions()
	_, ask := makePlan(t, r, declared)
	v.bad["dave"] = errors.New("exit 1")
	finishAs(t, r, ask, 0)
	gone := 0
	takeOut := func() error { gone++; return nil }
	dave := control.Trashed{Entry: "dave-revision-1", Profile: "dave", Revision: 1}
	if err := r.Release(dave, false, takeOut); err != nil || gone != 1 || r.Needs("dave", 1) {
		t.Errorf("a creation that was put back: %v", err)
	}
	r = nil
	if err := r.Release(dave, false, takeOut); problemCode(t, err) != control.ExitExists || gone != 1 || r.Needs("dave", 1) {
		t.Errorf("without a journal: %v", err)
	}
	if err := r.Release(dave, true, takeOut); err != nil || gone != 2 {
		t.Errorf("without a journal: %v", err)
	}
}
