package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"rlminit/control"
)

// What is exported is one profile: not the directory of one, and the log, the intent or
// the port of another that has got its name meanwhile.
func TestProfileExportIsOfOneProfile(t *testing.T) {
	home := t.TempDir()
	p := aliceProfile()
	p.Dir = filepath.Join(home, "profiles", p.Name)
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		then string
		code int
		says string
	}{
		"the same":     {"7-1.5", 0, ""},
		"another then": {"8-2.5", 17, "alice is another profile by now"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			b := newBox(t, map[string]any{
				"GET /v1/profiles/alice": p,
				"GET /v1/profiles/alice/text": func(w http.ResponseWriter, _ *http.Request) {
					text := control.ProfileText{ID: "7-1.5"}
					if asked.Add(1) > 1 {
						text.ID = c.then
					}
					json.NewEncoder(w).Encode(text)
				},
			})
			file := filepath.Join(t.TempDir(), "alice.tar")
			r := b.rlminit(t, "profile", "export", "alice", "-o", file)
			if _, err := os.Stat(file); r.code != c.code || !strings.Contains(r.err, c.says) || (err == nil) != (c.code == 0) {
				t.Errorf("%d %q, %v", r.code, r.err, err)
			}
		})
	}
}
