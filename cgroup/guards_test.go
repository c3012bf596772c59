package cgroup

import (
	"io/fs"
	"strings"
	"testing"
)

// Which guards of jobs a place allows, and why not.
func TestUnguarded(t *testing.T) {
	const psi = "some avg10=1.00 avg60=2.00 avg300=0.00 total=5\n"
	v2 := map[string]string{
		"/sys/fs/cgroup/cgroup.events": "populated 1\n", "/sys/fs/cgroup/cpu.pressure": psi, "/sys/fs/cgroup/memory.pressure": psi,
		"/sys/fs/cgroup/pids.max": "100\n", "/sys/fs/cgroup/pids.current": "7\n",
	}
	for name, c := range map[string]struct {
		files map[string]string
		lacks string // those that are not in force
	}{
		"version 2":                  {v2, ""},
		"version 1":                  {map[string]string{"/sys/fs/cgroup/pids/pids.max": "50", "/sys/fs/cgroup/pids/pids.current": "7", "/proc/pressure/memory": psi, "/proc/pressure/cpu": psi}, "cpu_pressure"},
		"version 1, without PSI":     {map[string]string{"/sys/fs/cgroup/pids/pids.max": "max\n", "/sys/fs/cgroup/pids/pids.current": "7"}, "memory_pressure cpu_pressure pids"},
		"the root of all cgroups":    {map[string]string{"/sys/fs/cgroup/cpu.pressure": psi, "/sys/fs/cgroup/memory.pressure": psi}, "cpu_pressure pids"},
		"PSI is there, and disabled": {map[string]string{"/sys/fs/cgroup/cgroup.events": "", "/sys/fs/cgroup/cpu.pressure": "", "/sys/fs/cgroup/memory.pressure": ""}, "memory_pressure cpu_pressure pids"},
	} {
		read := func(path string) ([]byte, error) {
			if text, there := c.files[path]; there {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
		var lacks []string
		for _, guard := range Guards {
			if Unguarded(guard, read) != "" {
				lacks = append(lacks, guard)
			}
		}
		if got := strings.Join(lacks, " "); got != c.lacks {
			t.Errorf("%s lacks %q, not %q", name, got, c.lacks)
		}
	}
}
