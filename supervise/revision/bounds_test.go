package revision

import (
	"strings"
	"testing"

	"rlminit/internal/durable"
	"rlminit/plan/apply"
)

// A line names so many revisions, the newest, and says that there are older ones.
func TestOneRevisionTooMany(t *testing.T) {
	var all []int
	for n := range mostNumbered + 1 {
		all = append(all, n+1)
	}
	if got := numbered(all[1:]); strings.Contains(got, "older") || strings.Count(got, ",") != mostNumbered {
		t.Errorf("%d: %s", mostNumbered, got)
	}
	if got := numbered(all); !strings.HasSuffix(got, " and older ones") || strings.Contains(got, " 1 ") {
		t.Errorf("%d: %s", len(all), got)
	}
}

// With one revision more than are kept the oldest one's file goes. Single ones are counted
// apart, and take no room of the others.
func TestOneRevisionIsLetGo(t *testing.T) {
	home, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	f, fold := Files{home}, apply.Fold{}
	for n := 1; n <= kept+2; n++ {
		if err := f.Save(n, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		fold.Revisions = append(fold.Revisions, apply.Known{Begun: apply.RecordedBegun{Revision: n, Single: n == 2}})
	}
	f.Keep(fold.Newest(kept))
	for n, want := range map[int]bool{1: false, 2: true, 3: true, kept + 2: true} {
		if _, err := home.Lstat(archived(n)); (err == nil) != want {
			t.Errorf("of %d, revision %d: %v, want it kept: %t", kept+2, n, err, want)
		}
	}
}
