package remember

import (
	"encoding/json"
	"fmt"
	"testing"
)

// aged is a run, the definition in force and what is known of the two. The first
// letter of a definition takes a restart, the second does not.
type aged struct {
	run   uint64
	begun string // what the run was begun with
	force string
	known Outdated
}

// Every sequence of reloads, restarts and supervisors that are replaced: a run that
// is older than it may be is known to be, one that was begun with what is in force
// is not called older, nor one whose definition was put back.
func TestOutdatedIsKnown(t *testing.T) {
	definitions := []string{"aa", "ab", "ba", "bb"}
	seen := map[string]bool{}
	var explore func(a aged, path string)
	explore = func(a aged, path string) {
		older := a.known.Run == a.run && a.known.Why != ""
		switch {
		case a.begun[0] != a.force[0] && !older:
			t.Fatalf("%s: nobody knows that the run is older: %+v", path, a)
		case a.begun == a.force && older && string(a.known.From) == a.force:
			t.Fatalf("%s: the run has what is in force: %+v", path, a)
		}
		key := fmt.Sprintf("%s %s %v %s %s", a.begun, a.force, older, a.known.From, a.known.Why)
		if seen[key] {
			return
		}
		seen[key] = true
		for _, to := range definitions {
			why := ""
			if to[0] != a.force[0] {
				why = "command changed"
			}
			next := a
			next.known, next.force = a.known.Redefined(a.run, a.force, to, why), to
			explore(next, path+" →"+to)
		}
		again := a
		again.run, again.begun = a.run+1, a.force
		explore(again, path+" restart")

		successor := a
		text, err := json.Marshal(a.known)
		if err != nil {
			t.Fatal(err)
		}
		successor.known = Outdated{}
		if err := json.Unmarshal(text, &successor.known); err != nil {
			t.Fatal(err)
		}
		explore(successor, path+" successor")
	}
	explore(aged{run: 1, begun: "aa", force: "aa"}, "aa")
	if len(seen) < 12 {
		t.Errorf("only %d states were reached", len(seen))
	}
	back := Outdated{}.Redefined(1, "aa", "ba", "command changed").Redefined(1, "ba", "aa", "command changed")
	if back.Why != "" {
		t.Errorf("put back: %+v", back)
	}
}
