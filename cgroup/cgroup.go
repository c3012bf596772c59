// Package cgroup tells what the cgroups enforce and count that PID 1 keeps for
// services and jobs, cgroups(7): which of the limits are in force, and what each
// of them uses. CGROUPS.md has whose they are.
//
// It reads small files when it is asked, and owns and changes nothing.
package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/wire"
)

// Leaves is the directory that has a cgroup for each tag, the decimal number of
// which is its name. The zero value is a container without.
type Leaves struct {
	Dir         string   // "": PID 1 keeps none
	Controllers []string // those that are enabled in them
}

// Limits are the limits that a cgroup enforces, by the names that they have in a
// configuration, which are those of the controllers.
var Limits = []string{"memory", "pids", "cpu"}

// Find looks where PID 1 is, and whether the leaves lie beside it.
func Find() Leaves { return From(os.ReadFile) }

// From is Find for whoever reads files in another way.
func From(read func(path string) ([]byte, error)) Leaves {
	own, err := read("/proc/1/cgroup")
	base, beside := strings.CutSuffix(pathIn(own), "/"+wire.CgroupInit)
	if err != nil || !beside {
		return Leaves{}
	}
	dir := filepath.Join("/sys/fs/cgroup", base, wire.CgroupLeaves)
	enabled, err := read(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return Leaves{}
	}
	return Leaves{dir, strings.Fields(string(enabled))}
}

// Enforces tells whether a limit is in force.
func (l Leaves) Enforces(limit string) bool { return slices.Contains(l.Controllers, limit) }

// Missing are those of Limits that are not.
func (l Leaves) Missing() []string {
	return slices.DeleteFunc(slices.Clone(Limits), l.Enforces)
}

// Why tells why a limit is not in force; "" if it is.
func (l Leaves) Why(limit string) string {
	switch {
	case l.Enforces(limit):
		return ""
	case l.Dir == "":
		return "it takes a cgroup of its own, and PID 1 can make none here; see rlminit doctor"
	}
	return "the container's cgroup has no controller for it; see rlminit doctor"
}

// pathIn is where a process is, by its file in /proc, below the root that is seen
// from here; "" where that cannot be told.
func pathIn(content []byte) string {
	for line := range strings.Lines(string(content)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path
		}
	}
	return ""
}

// Use is what the processes of a leaf use together. What no controller counts is -1.
type Use struct {
	Memory    int64 // bytes, less the cache that the kernel can take back at once
	MemoryMax int64
	CPU       time.Duration
	Pressure  Pressure
}

// Pressure is the share of the last ten seconds in which a process waited for a
// resource, in per cent (Documentation/accounting/psi.rst); -1: not counted.
type Pressure struct{ CPU, Memory, IO float64 }

// Of reads the leaf that a process is in.
func (l Leaves) Of(proc string, pid int) (Use, bool) {
	if l.Dir == "" {
		return Use{}, false
	}
	content, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	_, name, ok := strings.Cut(pathIn(content), "/"+wire.CgroupLeaves+"/")
	if err != nil || !ok {
		return Use{}, false
	}
	return l.use(filepath.Join(l.Dir, name)), true
}

// Tagged reads the leaf of a tag. false: there is none.
func (l Leaves) Tagged(tag uint32) (Use, bool) {
	dir := filepath.Join(l.Dir, strconv.FormatUint(uint64(tag), 10))
	if _, err := os.Stat(dir); l.Dir == "" || tag == 0 || err != nil {
		return Use{}, false
	}
	return l.use(dir), true
}

func (l Leaves) use(dir string) Use {
	use := Use{
		Memory: number(dir, "memory.current", ""), MemoryMax: number(dir, "memory.max", ""),
		CPU:      time.Duration(max(number(dir, "cpu.stat", "usage_usec "), 0)) * time.Microsecond,
		Pressure: Pressure{pressure(dir, "cpu"), pressure(dir, "memory"), pressure(dir, "io")},
	}
	if use.Memory >= 0 {
		use.Memory = max(0, use.Memory-max(number(dir, "memory.stat", "inactive_file "), 0))
	}
	return use
}

// number is Number of a file; -1 where there is none.
func number(dir, file, key string) int64 {
	content, _ := os.ReadFile(filepath.Join(dir, file))
	return Number(content, key)
}

// Number is the number in a file's content, or, with a key, the one behind that at the
// beginning of a line; -1: there is none, as where it says "max".
func Number(content []byte, key string) int64 {
	for line := range strings.Lines(string(content)) {
		value, ok := strings.CutPrefix(line, key)
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); ok && err == nil {
			return n
		}
	}
	return -1
}

func pressure(dir, of string) float64 {
	content, err := os.ReadFile(filepath.Join(dir, of+".pressure"))
	if err != nil {
		return -1
	}
	value, _, ok := Pressures(string(content))
	if !ok {
		return -1
	}
	return value
}

// Pressures are the shares of the last ten seconds and of the last minute in which
// something waited for a resource, in per cent, by the content of its file.
func Pressures(content string) (short, long float64, ok bool) {
	_, rest, _ := strings.Cut(content, "some avg10=")
	n, _ := fmt.Sscanf(rest, "%f avg60=%f", &short, &long)
	return short, long, n == 2
}
