package logs

import (
	"strings"
	"testing"
)

// A log whose directory is one past the bound is refused.
func TestOnePastADirectory(t *testing.T) {
	for past := range 2 {
		cfg := Config{File: true, Dir: strings.Repeat("d", maxDir+past)}
		if err := cfg.validate(); (err != nil) != (past == 1) {
			t.Errorf("%d bytes: %v", len(cfg.Dir), err)
		}
	}
}
