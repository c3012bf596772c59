package core

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A reason that becomes a part of another one is cut at its bound, between characters.
func TestReasonWithinAReason(t *testing.T) {
	for n, want := range map[int]bool{reasonMax: false, reasonMax + 1: true} {
		if got := brief(strings.Repeat("x", n)); strings.HasSuffix(got, "…") != want {
			t.Errorf("of %d bytes: %d, %q", n, len(got), got[len(got)-3:])
		}
	}
	if got := brief("x" + strings.Repeat("ü", reasonMax)); !utf8.ValidString(got) || len(got) > reasonMax+len("…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
