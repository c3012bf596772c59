package journal

import (
	"slices"
	"testing"
)

// Of segments that were kept aside the oldest one past the bound goes.
func TestOneKeptAsideTooMany(t *testing.T) {
	names := []string{"6", "2", "5", "1", "4", "3"}
	if got := oldest(slices.Clone(names), asideKept); !slices.Equal(got, []string{"1"}) {
		t.Errorf("of %d go %v", len(names), got)
	}
	if got := oldest(names[:asideKept], asideKept); len(got) != 0 {
		t.Errorf("of %d go %v", asideKept, got)
	}
}
