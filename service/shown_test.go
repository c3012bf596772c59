package service

import (
	"slices"
	"testing"

	"rlminit/internal/redact"
)

// Patterns are shown but for those that are a secret, or have one in them, and the definition
// stays as it is.
func TestPatternsAreShownWithoutSecrets(t *testing.T) {
	d := &Definition{Log: Log{Redact: []string{"secrets", "hunter2hunter2", "card ([0-9]+)", "x-abcdef12-([0-9]+)"}}}
	before := slices.Clone(d.Log.Redact)
	got := d.Shown(redact.NewSet("abcdef12")).Log.Redact
	if want := []string{"secrets", redact.Sign, "card ([0-9]+)", "x-***-([0-9]+)"}; !slices.Equal(got, want) || !slices.Equal(d.Log.Redact, before) {
		t.Errorf("shown are %q, of %q", got, d.Log.Redact)
	}
}
