package oom

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStruck(t *testing.T) {
	for name, c := range map[string]struct {
		counts, before, after string
		limit, bytes          string
		want                  string
	}{
		"v2": {
			"memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n", "low 0\nhigh 0\nmax 90\noom 2\noom_kill 2\noom_group_kill 0\n",
			"memory.max", "41943040\n", "out of memory; the container's limit is 40 MiB",
		},
		"v2, no limit":               {"memory.events", "oom_kill 0\n", "oom_kill 7\n", "memory.max", "max\n", "out of memory"},
		"v2, reached but not struck": {"memory.events", "max 1\noom 1\noom_kill 3\n", "max 2\noom 2\noom_kill 3\n", "memory.max", "1\n", ""},
		"v1": {
			"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
			"memory/memory.limit_in_bytes", "1610612736\n", "probably out of memory; the container's limit is 1.5 GiB",
		},
		"v1, no limit":  {"memory/memory.oom_control", "oom_kill 0\n", "oom_kill 1\n", "memory/memory.limit_in_bytes", "9223372036854771712\n", "probably out of memory"},
		"neither":       {"other", "1\n", "2\n", "memory.max", "1\n", ""},
		"something odd": {"memory.events", "oom_kill many\n", "oom_kill 1\n", "memory.max", "1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(c.counts, c.before)
			write(c.limit, c.bytes)
			w := Open(dir)
			if got := w.Struck(); got != "" {
				t.Errorf("nothing has happened, and it says %q", got)
			}
			write(c.counts, c.after)
			if got := w.Struck(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := w.Struck(); got != "" {
				t.Errorf("it is said twice: %q", got)
			}
		})
	}
}
