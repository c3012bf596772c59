package natural

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The order is the same by Compare and by Key, whatever the order before.
func TestOrder(t *testing.T) {
	want := []string{"", "0", "00", "01", "1", "2", "10", "a", "a-1", "a-1-b", "a-2", "a-2b", "a-10", "a-010b", "b", "chat-2", "chat-10", "chat-99999999999999999999", "chat-100000000000000000000", "chatter"}
	for range 200 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		by := slices.Clone(got)
		if slices.SortFunc(got, Compare); !slices.Equal(got, want) {
			t.Fatalf("by Compare %q", got)
		}
		if slices.SortFunc(by, func(a, b string) int { return strings.Compare(Key(a), Key(b)) }); !slices.Equal(by, want) {
			t.Fatalf("by Key %q", by)
		}
	}
}
