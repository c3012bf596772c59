package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// files are what there is to read.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	text, ok := f[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func TestFrom(t *testing.T) {
	for what, c := range map[string]struct {
		files files
		want  Leaves
	}{
		"of a namespace of its own": {
			files{"/proc/1/cgroup": "0::/rlminit\n", "/sys/fs/cgroup/services/cgroup.subtree_control": "cpu memory\n"},
			Leaves{"/sys/fs/cgroup/services", []string{"cpu", "memory"}},
		},
		"of the host's": {
			files{"/proc/1/cgroup": "0::/docker/1/rlminit\n", "/sys/fs/cgroup/docker/1/services/cgroup.subtree_control": "\n"},
			Leaves{"/sys/fs/cgroup/docker/1/services", []string{}},
		},
		"PID 1 has not gone aside": {files{"/proc/1/cgroup": "0::/\n", "/sys/fs/cgroup/services/cgroup.subtree_control": "memory\n"}, Leaves{}},
		"version 1":                {files{"/proc/1/cgroup": "4:memory:/rlminit\n"}, Leaves{}},
		"nothing":                  {files{}, Leaves{}},
	} {
		if got := From(c.files.read); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
	some := Leaves{"/x", []string{"cpu", "memory"}}
	if got := some.Missing(); !reflect.DeepEqual(got, []string{"pids"}) || some.Why("memory") != "" || some.Why("pids") == (Leaves{}).Why("pids") {
		t.Errorf("missing: %q", got)
	}
}

func TestUseOfALeaf(t *testing.T) {
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
	write("proc/7/cgroup", "0::/services/50001\n")
	write("proc/8/cgroup", "0::/rlminit\n")
	write("50001/memory.current", "5000\n")
	write("50001/memory.max", "max\n")
	write("50001/memory.stat", "anon 10\ninactive_file 1000\n")
	write("50001/cpu.stat", "usage_usec 1500000\nuser_usec 1\n")
	write("50001/cpu.pressure", "some avg10=12.50 avg60=1.00 avg300=0.00 total=7\n")
	l := Leaves{Dir: dir}
	want := Use{Memory: 4000, MemoryMax: -1, CPU: 1500 * time.Millisecond, Pressure: Pressure{12.5, -1, -1}}
	if got, ok := l.Of(filepath.Join(dir, "proc"), 7); !ok || got != want {
		t.Errorf("%+v, %t; want %+v", got, ok, want)
	}
	if got, ok := l.Of(filepath.Join(dir, "proc"), 8); ok {
		t.Errorf("PID 1 has %+v", got)
	}
}
