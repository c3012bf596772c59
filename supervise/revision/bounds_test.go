package revision

import (
	"strings"
	"testing"
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
