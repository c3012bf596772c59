package revision

import (
	"testing"
	"testing/synctest"
	"time"

	"rlminit/control"
)

// after has something happen to a volume once so much time has passed.
func (v *volume) after(d time.Duration, what func()) {
	time.AfterFunc(d, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		what()
	})
}

// full is a volume on which two profiles have no room to be written, bob from the
// beginning, and alice, which is changed before, from then on.
func full(t *testing.T) (v *volume, r *Revisions, ask control.ApplyRequest) {
	v = newVolume()
	r = v.live(0).revisions()
	t.Cleanup(r.Stop)
	_, ask = makePlan(t, r, declared)
	ask.Gating.TimeoutMS = (2 * time.Minute).Milliseconds()
	v.full = map[string]bool{"bob": true}
	v.after(time.Second, func() { v.full["alice"] = true })
	return v, r, ask
}

// over waits for the end of a revision, as a command does, and longer.
func over(t *testing.T, r *Revisions, number int, state string) {
	t.Helper()
	for range 10_000 {
		v, err := r.Get(t.Context(), number, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v.State == state {
			return
		}
		time.Sleep(time.Second)
	}
	v, _ := r.Get(t.Context(), number, 0)
	t.Fatalf("revision %d: %+v; want %s", number, v, state)
}

// What has no room is tried again within its time, and says so meanwhile.
func TestARevisionOutlastsAFullVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, r, ask := full(t)
		v.after(30*time.Second, func() { clear(v.full) })
		answer, err := r.Apply(ask, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if held, err := r.Get(t.Context(), answer.Revision, 0); err != nil || held.Held == "" || held.Over() {
			t.Errorf("while there is no room: %v, %+v", err, held)
		}
		over(t, r, answer.Revision, control.RevisionApplied)
	})
}

// What could not be put back is put back when there is room: by itself, at the next
// start of the container, and by a rollback.
func TestWhatWasNotPutBackIsTriedAgain(t *testing.T) {
	for _, row := range []string{"by itself", "boot", "rollback"} {
		t.Run(row, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, r, ask := full(t)
				before := v.snapshot()
				answer, err := r.Apply(ask, 0)
				if err != nil {
					t.Fatal(err)
				}
				over(t, r, answer.Revision, control.RevisionPartly)
				if now := v.snapshot(); equal(now, before) {
					t.Fatal("nothing was left to put back")
				}
				want := control.RevisionRolledBack
				switch row {
				case "boot":
					r.Stop()
					v.boot = "b1"
					r = v.live(0).revisions()
					t.Cleanup(r.Stop)
					r.Rewind()
					if state := r.List()[0].State; state != control.RevisionPartly {
						t.Errorf("a boot while there is no room: %s", state)
					}
					clear(v.full)
					r.Rewind()
					if state := r.List()[0].State; state != want {
						t.Errorf("a boot: %s", state)
					}
				case "rollback":
					clear(v.full)
					back, err := r.Rollback(control.RollbackRequest{AllowDelete: true, Request: "back", Gating: ask.Gating}, 0)
					if err != nil {
						t.Fatal(err)
					}
					over(t, r, back.Revision, control.RevisionApplied)
					want = control.RevisionPartly
				default:
					time.Sleep(time.Hour)
					v.after(0, func() { clear(v.full) })
					over(t, r, answer.Revision, want)
				}
				if !equal(v.snapshot(), before) {
					t.Errorf("%v\nbefore\n%v", v.snapshot(), before)
				}
				if state := r.List()[0].State; state != want {
					t.Errorf("the revision is %s", state)
				}
			})
		})
	}
}
