package revision

import (
	"strings"
	"testing"

	"rlminit/internal/durable"
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

// With one revision more than are kept the oldest one's file goes, and nobody is shown a way
// to it.
func TestOneRevisionIsLetGo(t *testing.T) {
	home, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	f := Files{home}
	for n := 1; n <= kept+1; n++ {
		if err := f.Save(n, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := home.Lstat(archived(1)); err == nil || f.Path(1, kept+1) != "" {
		t.Errorf("the first of %d is kept: %v, %q", kept+1, err, f.Path(1, kept+1))
	}
	if _, err := home.Lstat(archived(2)); err != nil || f.Path(2, kept+1) == "" {
		t.Errorf("the second of %d is gone: %v", kept+1, err)
	}
}
