package metrics

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"rlminit/cgroup"
	"rlminit/control"
	"rlminit/usage"
)

// Measure adds to services what their processes use, and appends the two tiers
// where those are wanted. It reads proc, where /proc is, once for all of them.
func Measure(proc string, services []control.Service, withTiers bool) ([]control.Service, error) {
	all, err := usage.Processes(proc)
	if err != nil {
		return services, err
	}
	return Attribute(proc, all, services, withTiers), nil
}

// Attribute is Measure where all processes were read already.
func Attribute(proc string, all []usage.Process, services []control.Service, withTiers bool) []control.Service {
	var roots []int
	for _, s := range services {
		if s.PID != nil {
			roots = append(roots, *s.PID)
		}
	}
	own, leaves := tiers(proc, all), cgroup.Find()
	tagged := usage.Tags(proc, roots)
	sums := usage.ByRoot(all, roots, func(pid int) int {
		if part(proc, pid) != "" {
			return 0 // or every service would be asked for its tag, to find that it is nobody's
		}
		return tagged(pid)
	})
	for i, s := range services {
		if s.PID != nil && len(sums[*s.PID].Processes) > 0 {
			services[i].Usage = UsageOf(proc, leaves, sums[*s.PID])
		}
	}
	if withTiers {
		services = append(services, own...)
	}
	return services
}

// UsageOf is a sum as it is told. What a cgroup counts of it is taken from that: it
// knows of processes that have ended, and counts what they share once.
func UsageOf(proc string, leaves cgroup.Leaves, s *usage.Sum) *control.Usage {
	u := &control.Usage{MemoryBytes: s.Memory, CPUS: s.CPU.Seconds(), Processes: len(s.Processes), Threads: s.Threads}
	leaf, ok := leaves.Of(proc, s.Processes[0].PID)
	if !ok {
		return u
	}
	u.CPUS = leaf.CPU.Seconds()
	if leaf.Memory >= 0 {
		u.MemoryBytes = leaf.Memory
	}
	u.Cgroup = &control.CgroupUsage{Pressure: control.Pressure(leaf.Pressure)}
	if leaf.MemoryMax >= 0 {
		u.Cgroup.MemoryMax = &leaf.MemoryMax
	}
	return u
}

// tiers are rlminit's own two processes, as far as they can be seen.
func tiers(proc string, all []usage.Process) []control.Service {
	var found []control.Service
	for _, p := range all {
		name := ""
		switch {
		case p.PID == 1 && p.Name == "rlminit":
			name = "rlminit-init"
		case p.Parent == 1 && p.Name == "rlminit" && part(proc, p.PID) == "supervise":
			name = "rlminit-supervise"
		default:
			continue
		}
		pid := p.PID
		found = append(found, control.Service{
			Name: name, Type: "tier", State: "running", Desired: "running", PID: &pid,
			Usage: &control.Usage{MemoryBytes: p.Memory, CPUS: p.CPU.Seconds(), Processes: 1, Threads: p.Threads},
		})
	}
	return found
}

// part is which part of rlminit a child of PID 1 is; "": none.
func part(proc string, pid int) string {
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	words := bytes.SplitN(line, []byte{0}, 3)
	if err != nil || len(words) < 3 || string(words[0]) != "rlminit" {
		return ""
	}
	if name := string(words[1]); name == "supervise" || name == "rights" {
		return name
	}
	return ""
}
