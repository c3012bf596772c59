package boxes

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"rlminit/control"
)

var many = flag.Int("profiles", 60, "how many profiles TestManyProfiles has")

// TestManyProfiles has three real boxes share many profiles, changes all of them, and loses a box.
func TestManyProfiles(t *testing.T) {
	f := begin(t, "m0", "m1", "m2")
	n := *many
	f.eventually("all members are there", func(map[string]string) bool {
		var all []struct{ State string }
		f.must(json.Unmarshal([]byte(f.does(control.ExitDone, "members", "--json")), &all))
		return len(all) == 3
	})
	for _, value := range []string{"1", "2"} {
		begun := time.Now()
		if code := f.apply(declared(n, value), "--rolling", fmt.Sprint(n)); code != control.ExitApplied {
			t.Fatalf("apply of %s: exit code %d", value, code)
		}
		t.Logf("apply %s of %d profiles: %s", value, n, time.Since(begun).Round(100*time.Millisecond))
	}
	count := map[string]int{}
	for _, at := range f.where() {
		count[at]++
	}
	t.Logf("they are at %v", count)
	for _, name := range []string{"m0", "m1", "m2"} {
		if count[name] == 0 {
			t.Errorf("%s has none of %d", name, n)
		}
	}
	lost := count["m0"]
	f.kill(f.boxes["m0"])
	took := f.eventually("those of m0 run elsewhere", func(w map[string]string) bool {
		for _, at := range w {
			if at == "m0" {
				return false
			}
		}
		return len(w) == n
	})
	t.Logf("the %d of m0 run elsewhere after %s", lost, took.Round(100*time.Millisecond))
	if found := f.overlaps(); len(found) > 0 {
		t.Errorf("at most one gateway of a profile: %v", found)
	}
}
