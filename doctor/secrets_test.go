package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Secrets without a profile are one finding, however many there are, and none while a profile
// may be on its way to its name.
func TestSecrets(t *testing.T) {
	home := t.TempDir()
	dirs := map[string]string{"secrets": filepath.Join(home, ".rlminit", "secrets"), "profiles": filepath.Join(home, "profiles")}
	lay := func(at string, names ...string) {
		for _, name := range names {
			if err := os.MkdirAll(filepath.Join(at, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := healthy()
	p.now = time.Now().Add(time.Hour)
	look := func() []Finding {
		e := &examination{Place: Place{Home: home, kernel: p}}
		e.secrets()
		return e.findings
	}
	expect := func(state, what string) {
		t.Helper()
		if found := look(); len(found) != 1 || found[0].State != state || !strings.Contains(found[0].What, what) {
			t.Errorf("%+v, want %s: %s", found, state, what)
		}
	}

	if found := look(); len(found) != 0 {
		t.Errorf("without secrets: %+v", found)
	}
	lay(dirs["secrets"], "alice", "default", ".trash")
	lay(dirs["profiles"], "alice")
	expect(OK, "every secret")
	lay(dirs["secrets"], "bob/1/TOKEN")
	expect(Warn, "secrets of bob are kept, and there is no such profile, in the trash neither")
	lay(dirs["secrets"], "carol/2/TOKEN", "dave/1/TOKEN", "forgotten/3")
	expect(Warn, "secrets of bob are kept, and there is no such profile, in the trash neither, and of 2 other names")
	if found := look(); found[0].Remedy != "rlminit profile secret forget bob TOKEN removes one" {
		t.Errorf("remedy: %q", found[0].Remedy)
	}
	for _, dir := range dirs {
		if err := os.Chtimes(dir, p.now, p.now.Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		expect(Unknown, "a profile has just been made")
		if err := os.Chtimes(dir, p.now, p.now.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		expect(Warn, "secrets of bob")
	}
}
