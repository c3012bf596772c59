package data

import (
	"strings"
	"testing"
)

// A save's number one past the bound is refused, and so are a manifest's names; a text is cut.
func TestOnePastAManifest(t *testing.T) {
	for past := range 2 {
		m := aManifest()
		if m.Seq = maxSeq; past == 1 {
			m.Seq++
		}
		if err := m.Ref().check(); (err != nil) != (past == 1) {
			t.Errorf("the number %d: %v", m.Seq, err)
		}
	}
	if got := clip(strings.Repeat("x", maxText)); len(got) != maxText {
		t.Errorf("%d bytes are %d", maxText, len(got))
	}
	if got := clip(strings.Repeat("x", maxText+1)); got != strings.Repeat("x", maxText)+"…" {
		t.Errorf("%d bytes are %d", maxText+1, len(got))
	}
	names := make([]string, maxNames)
	if got := appendClipped(names, "another"); len(got) != maxNames {
		t.Errorf("a manifest names %d files", len(got))
	}
}
