package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// levels are the closest first, for which something is promised.
var levels = []string{"strict", "profile", "none"}

// batch is how many services of a level are started at a time.
const batch = 100

// spawnFigures is what the act walls prints of each level: ms a service.
type spawnFigures map[string]*spawnCost

type spawnCost struct {
	Start []float64 `json:"start"` // the time that passes
	CPU   []float64 `json:"cpu"`   // of all processes
}

// isolationMeasures are those of services with walls around them, beside others
// without.
func isolationMeasures() []measure {
	plain := sync.OnceValues(func() (spawnFigures, error) { return measureSpawns("") })
	leaves := sync.OnceValues(measureLeaves)
	memory := sync.OnceValues(measureMemory)
	// Of each figure there are two tables: where services have no cgroups, and where each
	// has one, beside one that has neither that nor walls.
	both := func(name, promise, unit string, values func(level string) (without, with []float64, err error)) []measure {
		table := func(leaf bool) (rows []row, err error) {
			for _, level := range levels {
				without, with, err := values(level)
				if err != nil {
					return nil, err
				}
				if !leaf {
					rows = append(rows, row{level, without, unit})
					continue
				}
				rows = append(rows, row{level, with, unit})
				if level == "none" && len(with) > 0 {
					rows = append(rows, row{"no cgroup", without, unit})
				}
			}
			return rows, nil
		}
		name, promise = "isolation: "+name, "strict at most "+promise+" more than none"
		return []measure{
			{name: name, promise: promise, differences: true, run: func() ([]row, error) { return table(false) }},
			{name: name + ", each in a cgroup", promise: promise, differences: true, run: func() ([]row, error) { return table(true) }},
		}
	}
	spawns := func(figure func(*spawnCost) []float64) func(string) ([]float64, []float64, error) {
		return func(level string) ([]float64, []float64, error) {
			without, err := plain()
			if err != nil {
				return nil, nil, err
			}
			with, err := leaves()
			if err != nil || with == nil {
				return figure(without[level]), nil, err
			}
			return figure(without[level]), figure(with[level]), nil
		}
	}
	return slices.Concat(
		both("start of a service, of a hundred", "0.15 ms", "ms", spawns(func(c *spawnCost) []float64 { return c.Start })),
		both("CPU time of that, of all processes", "0.15 ms", "ms", spawns(func(c *spawnCost) []float64 { return c.CPU })),
		both(fmt.Sprintf("memory of both tiers for each of %d services", *services), "2 KB", "KB", func(level string) ([]float64, []float64, error) {
			m, err := memory()
			return m[level], m[level+", leaf"], err
		}),
	)
}

// measureSpawns measures in a container, which has a cgroup that it may write if it
// is given the name of one.
func measureSpawns(cgroup string) (f spawnFigures, err error) {
	var b strings.Builder
	b.WriteString("services:\n")
	for _, level := range levels {
		for i := range batch {
			fmt.Fprintf(&b, "  %s%02d: {command: [sleep, \"1000000\"], enabled: false, isolation: %s, stop: {signal: KILL}}\n", level, i, level)
		}
	}
	err = container{more: b.String(), env: []string{ownCgroup + "=" + cgroup}}.play("walls", &f)
	return f, err
}

// measureLeaves does so where each service has a leaf, or not at all.
func measureLeaves() (spawnFigures, error) {
	cgroup := makeCgroup()
	if cgroup == "" {
		return nil, nil
	}
	defer removeCgroup(cgroup)
	return measureSpawns(cgroup)
}

// playWalls is the main command of that container. The levels take turns, so that
// what else the machine does hits all alike.
func playWalls(args []string) error {
	figures := spawnFigures{}
	for _, level := range levels {
		figures[level] = &spawnCost{}
	}
	rlminit := func(verb ...string) error {
		if out, err := exec.Command(args[0], verb...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(verb, " "), err, out)
		}
		return nil
	}
	for round := range 1 + 15 {
		for _, level := range levels {
			all, f := level+"*", figures[level]
			before, began := cpuTime(), time.Now()
			if err := rlminit("start", all); err != nil {
				return err
			}
			took := time.Since(began)
			if err := stands(level); err != nil {
				return err
			}
			if round > 0 { // the first finds nothing in memory
				f.Start = append(f.Start, ms(took)/batch)
				f.CPU = append(f.CPU, (cpuTime()-before)/batch)
			}
			if err := rlminit("stop", all); err != nil {
				return err
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

// cpuTime is what all processes of a container but this one have run so far, in ms.
func cpuTime() (sum float64) {
	tasks, _ := filepath.Glob("/proc/[0-9]*/task/*/schedstat")
	own := fmt.Sprintf("/proc/%d/", os.Getpid())
	for _, task := range tasks {
		if !strings.HasPrefix(task, own) {
			sum += field(task, "") / 1e6 // of ns
		}
	}
	return sum
}

// stands tells whether what is measured is there: what is not costs nothing.
func stands(level string) error {
	want, have := map[string]int{"strict": batch}[level], 0
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		programs, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		running, filtered := 0, 0
		for _, path := range programs {
			if line, _ := os.ReadFile(path); bytes.Equal(line, []byte("sleep\x001000000\x00")) {
				running++
				if field(filepath.Dir(path)+"/status", "Seccomp:") == 2 {
					filtered++
				}
			}
		}
		if have = filtered; running == batch && filtered == want {
			return nil
		}
	}
	return fmt.Errorf("at the level %s %d services have a filter, not %d", level, have, want)
}

// measureMemory measures what both tiers have for each of many services, by level.
func measureMemory() (map[string][]float64, error) {
	all := map[string][]float64{}
	for range *rounds {
		for _, level := range levels {
			for _, leaf := range []bool{false, true} {
				s, name := supervisor{prepare: prepareWalled(level)}, level
				if leaf {
					if s.cgroup = makeCgroup(); s.cgroup == "" {
						continue
					}
					name += ", leaf"
				}
				s.name = name
				value, err := s.memory()
				removeCgroup(s.cgroup)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				all[name] = append(all[name], value)
			}
		}
	}
	return all, nil
}

// memory is that of both tiers, in KB a service.
func (s *supervisor) memory() (sum float64, err error) {
	sc, err := s.stage(*services)
	if err != nil {
		return 0, err
	}
	defer sc.end()
	time.Sleep(5 * time.Second) // until what the start had to write is written
	own, err := sc.overhead()
	for _, p := range own {
		sum += rollup(p.pid, "Pss")
	}
	return sum / float64(*services), err
}

// prepareWalled is prepareRlminit with a level of isolation for each service.
func prepareWalled(level string) func(dir string, names []string) ([]string, error) {
	return func(dir string, names []string) ([]string, error) {
		argv, err := prepareRlminit(dir, names)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "rlminit.yaml")
		config, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		isolated := fmt.Sprintf(", isolation: {level: %s, read: [%s], exec: [%s]}}\n", level, fifo(dir, ""), programs)
		if level == "none" {
			isolated = ", isolation: none}\n"
		}
		return argv, os.WriteFile(file, bytes.ReplaceAll(config, []byte("}}\n"), []byte("}"+isolated)), 0o644)
	}
}
