package cgroup

import "strings"

// Guards are the guards of jobs that look at the container, by their keys in jobs.guards.
var Guards = []string{"memory", "memory_pressure", "cpu_pressure", "pids"}

// Unguarded tells why a guard of jobs is not in force here; "" if it is.
func Unguarded(guard string, read func(path string) ([]byte, error)) string {
	there := func(path string) bool {
		_, err := read(path)
		return err == nil
	}
	pressure := func(path string) bool {
		text, err := read(path)
		_, _, ok := Pressures(string(text))
		return err == nil && ok
	}
	switch guard {
	case "memory_pressure":
		if !pressure("/sys/fs/cgroup/memory.pressure") && !pressure("/proc/pressure/memory") {
			return "the kernel tells no pressure of memory (it was built or started without PSI)"
		}
	case "cpu_pressure":
		// The root of all cgroups has no such file, and is the machine's.
		if !there("/sys/fs/cgroup/cgroup.events") || !pressure("/sys/fs/cgroup/cpu.pressure") {
			return "the container's cgroup tells no pressure of CPU (cgroup v1, or a kernel without PSI), and the machine's is not the container's alone"
		}
	case "pids":
		if _, most := PIDs(read); most < 0 {
			return "the container has no limit on processes"
		}
	}
	return ""
}

// PIDs are how many processes and threads the container has, and may have; -1: it has no
// limit, or none that can be seen.
func PIDs(read func(path string) ([]byte, error)) (count, most int64) {
	for _, dir := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/pids/"} { // version 2, version 1
		limit, err := read(dir + "pids.max")
		current, err2 := read(dir + "pids.current")
		if err == nil && err2 == nil && strings.TrimSpace(string(limit)) != "max" {
			return Number(current, ""), Number(limit, "")
		}
	}
	return -1, -1
}
