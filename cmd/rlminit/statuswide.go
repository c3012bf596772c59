package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/metrics"
)

const procDir = "/proc"

// measure adds to services what their processes use, and the two tiers where those
// are wanted.
func measure(services []control.Service, withTiers bool) ([]control.Service, error) {
	services, err := metrics.Measure(procDir, services, withTiers)
	if err != nil {
		return services, control.Failed("cannot tell memory and CPU: %v", err)
	}
	return services, nil
}

// memoryText and cpuText write usage for people.
func memoryText(u *control.Usage) string {
	if u == nil {
		return "-"
	}
	return sizeText(u.MemoryBytes)
}

// pressureText is the resource that a service waits for, and how much of the time.
func pressureText(u *control.Usage) string {
	if u == nil || u.Cgroup == nil {
		return "-"
	}
	var words []string
	p := u.Cgroup.Pressure
	for _, of := range []struct {
		name  string
		share float64
	}{{"cpu", p.CPU}, {"memory", p.Memory}, {"io", p.IO}} {
		if of.share >= 1 {
			words = append(words, fmt.Sprintf("%s %.0f%%", of.name, of.share))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "-")
}

func sizeText(n int64) string {
	const units = "KMGT"
	size, unit := float64(n)/1024, 0
	for size >= 999.5 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if size < 9.95 {
		return fmt.Sprintf("%.1f%c", size, units[unit])
	}
	return fmt.Sprintf("%.0f%c", size, units[unit])
}

func cpuText(u *control.Usage) string {
	switch {
	case u == nil:
		return "-"
	case u.CPUS < 60:
		return fmt.Sprintf("%.2fs", u.CPUS)
	}
	d := time.Duration(u.CPUS * float64(time.Second))
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func processesText(u *control.Usage) string {
	if u == nil {
		return "-"
	}
	return strconv.Itoa(u.Processes)
}
