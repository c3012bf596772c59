package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command line is shown up to its bound.
func TestCommandLineIsCut(t *testing.T) {
	dir := t.TempDir()
	for past := range 2 {
		line := strings.Repeat("a", mostCommandLine+past)
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(line+"\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := commandOf(dir); strings.Contains(got, "…") != (past == 1) {
			t.Errorf("of %d bytes: %s", len(line), got)
		}
	}
}
