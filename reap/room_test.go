package reap

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFullest(t *testing.T) {
	r := newReaper()
	r.place.tags = true
	for i, c := range []child{
		{name: "small", tag: 1, state: alive},
		{name: "old run", tag: 2, state: exited},
		{name: "large", tag: 2, state: alive},
		{name: "later run, over", tag: 2, state: exited},
		{name: "never ran", tag: 3, state: failed},
		{name: "untagged", state: alive},
	} {
		c.id = uint64(firstID + i)
		r.children.add(&c)
	}
	for what, c := range map[string]struct {
		taken map[uint32]int
		want  string
	}{
		"nobody has many":       {map[uint32]int{1: fewestTaken - 1, 2: 1}, ""},
		"one does":              {map[uint32]int{1: 1, 2: fewestTaken}, "large"},
		"two do":                {map[uint32]int{1: 2 * fewestTaken, 2: fewestTaken}, "small"},
		"what is no service's":  {map[uint32]int{9: 1000, 2: fewestTaken}, "large"},
		"of one that never ran": {map[uint32]int{3: 1000}, ""},
		"nothing":               {nil, ""},
	} {
		got := ""
		if most := r.tier2.room.fullest(c.taken); most != nil {
			got = most.name
		}
		if got != c.want {
			t.Errorf("%s: %q is ended, want %q", what, got, c.want)
		}
	}
}

func TestCramped(t *testing.T) {
	dir := t.TempDir()
	files := []string{dir + "/max", dir + "/old.max"}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want bool) {
		t.Helper()
		if got := crampedIn(files, 12); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	check("no files", false)
	write("old.max", "60\n")
	write("old.current", "60\n")
	check("an old cgroup that is full", true)
	write("max", "max\n")
	write("current", "100\n")
	check("no limit, and an old cgroup that is full", true)
	write("max", "100\n")
	check("full", true)
	write("current", "20\n")
	check("room", false)
}

func TestThreadsIn(t *testing.T) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if got := threadsIn(status); got < 1 || got > 2*len(tasks) {
		t.Errorf("%d threads, and %d tasks", got, len(tasks))
	}
	if got := threadsIn([]byte("Name:\tThreads:\n")); got != 0 {
		t.Errorf("a name has %d threads", got)
	}
}
