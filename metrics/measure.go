package metrics

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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
	var roots []int
	for _, s := range services {
		if s.PID != nil {
			roots = append(roots, *s.PID)
		}
	}
	own := tiers(proc, all)
	tagged := usage.Tags(proc, roots)
	sums := usage.ByRoot(all, roots, func(pid int) int {
		if slices.ContainsFunc(own, func(tier control.Service) bool { return *tier.PID == pid }) {
			return 0 // or every service would be asked for its tag, to find that it is nobody's
		}
		return tagged(pid)
	})
	for i, s := range services {
		if s.PID != nil && len(sums[*s.PID].Processes) > 0 {
			services[i].Usage = UsageOf(sums[*s.PID])
		}
	}
	if withTiers {
		services = append(services, own...)
	}
	return services, nil
}

// UsageOf is a sum as it is told.
func UsageOf(s *usage.Sum) *control.Usage {
	return &control.Usage{MemoryBytes: s.Memory, CPUS: s.CPU.Seconds(), Processes: len(s.Processes), Threads: s.Threads}
}

// tiers are rlminit's own two processes, as far as they can be seen.
func tiers(proc string, all []usage.Process) []control.Service {
	var found []control.Service
	for _, p := range all {
		name := ""
		switch {
		case p.PID == 1 && p.Name == "rlminit":
			name = "rlminit-init"
		case p.Parent == 1 && p.Name == "rlminit" && firstArgument(proc, p.PID) == "supervise":
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

// firstArgument is the second word of a process's command line.
func firstArgument(proc string, pid int) string {
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if words := bytes.Split(line, []byte{0}); err == nil && len(words) > 1 {
		return string(words[1])
	}
	return ""
}
