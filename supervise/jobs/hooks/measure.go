package hooks

import (
	"fmt"
	"slices"
	"time"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/control"
	"rlminit/job/table"
	"rlminit/metrics"
	"rlminit/supervise/telemetry"
	"rlminit/wire"
)

// notYet is why a share of CPU time is not known at first: it is of the time between two
// measurements.
const notYet = "not measured yet"

// noService is why there is nothing to measure: nobody has made it yet, or its name is
// another.
const noService = "there is no such service"

// measureBy measures what the newest plan says, as often as it says.
func (h *Hooks) measureBy() {
	m := meter{given: h.given, leaves: cgroup.Find()}
	var p plan
	var next <-chan time.Time
	for {
		select {
		case p = <-h.plans:
			m.before = map[string]spent{}
		case <-next:
		}
		next = nil
		if len(p.hooks) > 0 {
			h.readings <- readings{p.number, wire.SinceBoot(), m.read(p.hooks)}
			next = time.After(p.every)
		}
	}
}

// noPID is that of a service which is not there.
const noPID = -1

// meter measures. It is measureBy's goroutine's alone.
type meter struct {
	given  Given
	leaves cgroup.Leaves
	before map[string]spent // CPU time of the container, under "", and of services
	now    round
}

// spent is CPU time at a time; of another process it is counted anew.
type spent struct {
	pid int
	cpu time.Duration
	at  time.Duration
}

// round is what was read for all hooks together.
type round struct {
	services map[string][]Service // by what hooks name
	used     map[string]use       // by service
}

// use is what a service uses.
type use struct {
	memory int64
	cores  float64 // since the measurement before; below 0: not known
	lacks  string
}

// read measures once what hooks are about.
func (m *meter) read(hooks []config.Hook) (all []reading) {
	m.now = round{services: map[string][]Service{}, used: map[string]use{}}
	var wanted []Service
	known := map[string]bool{}
	for _, hook := range hooks {
		var found []Service
		for _, name := range hook.Services {
			named := m.given.Services([]string{name})
			if len(named) == 0 {
				m.now.used[name] = use{lacks: noService}
				named = []Service{{Name: name, PID: noPID}}
			}
			for _, s := range named {
				if !slices.ContainsFunc(found, func(other Service) bool { return other.Name == s.Name }) {
					found = append(found, s)
				}
			}
		}
		m.now.services[hook.Name] = found
		for _, s := range found {
			if !known[s.Name] && s.PID != noPID {
				known[s.Name] = true
				wanted = append(wanted, s)
			}
		}
	}
	m.useOf(wanted)
	box := m.container()
	for _, hook := range hooks {
		for _, of := range hook.Thresholds() {
			for _, b := range of.Bounds() {
				what := table.Threshold{Hook: hook.Name, What: b.What, Limit: b.Most, For: of.For.String()}
				if len(hook.Services) == 0 {
					all = append(all, box.reading(what))
				}
				for _, s := range m.now.services[hook.Name] {
					what.Service = s.Name
					all = append(all, m.now.used[s.Name].reading(what, s, box))
				}
			}
		}
	}
	return all
}

// box is how the container is doing, or the machine where that bounds it.
type box struct {
	used, limit int64 // memory
	cores       float64
	spent       float64 // of cores; below 0: not known yet
	lacksCPU    string
	disk        float64
	lacksDisk   string
}

// container measures all of the container.
func (m *meter) container() (b box) {
	b.used, b.limit = telemetry.Memory()
	cpu, cores, ok := telemetry.CPU()
	if b.cores, b.lacksCPU = cores, notYet; !ok {
		b.lacksCPU = "neither a cgroup nor /proc/stat tells the CPU time"
	} else if b.spent = m.spent("", 1, cpu); b.spent >= 0 {
		b.lacksCPU = ""
	}
	var err error
	if b.disk, err = telemetry.Disk(m.given.Volume()); err != nil {
		b.lacksDisk = err.Error()
	}
	return b
}

// reading is what a threshold of the container is about.
func (b *box) reading(of table.Threshold) reading {
	switch {
	case of.What == "memory" && b.limit > 0:
		return reading{of: of, percent: 100 * float64(b.used) / float64(b.limit)}
	case of.What == "cpu" && b.lacksCPU == "":
		return reading{of: of, percent: 100 * b.spent / b.cores}
	case of.What == "disk" && b.lacksDisk == "":
		return reading{of: of, percent: b.disk}
	}
	lacks := map[string]string{"memory": "neither a cgroup nor /proc/meminfo tells the memory", "cpu": b.lacksCPU, "disk": b.lacksDisk}
	return reading{of: of, lacks: lacks[of.What]}
}

// reading is what a threshold of a service is about: against its own limit, or else that
// of the container.
func (u use) reading(of table.Threshold, s Service, b box) reading {
	if s.PID == 0 {
		return reading{of: of} // it uses nothing
	}
	memory, cores := b.limit, b.cores
	if s.Limits.Memory > 0 {
		memory = s.Limits.Memory
	}
	if s.Limits.CPU > 0 {
		cores = s.Limits.CPU
	}
	switch {
	case u.lacks != "":
		return reading{of: of, lacks: u.lacks}
	case of.What == "memory" && memory > 0:
		return reading{of: of, percent: 100 * float64(u.memory) / float64(memory)}
	case of.What == "cpu" && u.cores >= 0 && cores > 0:
		return reading{of: of, percent: 100 * u.cores / cores}
	}
	return reading{of: of, lacks: notYet}
}

// spent is how many processors something has used since it was measured last; below 0: it
// was not.
func (m *meter) spent(name string, pid int, cpu time.Duration) float64 {
	was, known := m.before[name]
	now := spent{pid: pid, cpu: cpu, at: wire.SinceBoot()}
	m.before[name] = now
	if !known || was.pid != pid || cpu < was.cpu || now.at <= was.at {
		return -1
	}
	return float64(cpu-was.cpu) / float64(now.at-was.at)
}

// useOf measures services: by their cgroups, or where those have none by what is in /proc of
// all their processes.
func (m *meter) useOf(services []Service) {
	var rest []control.Service
	add := func(name string, pid int, memory int64, cpu time.Duration) {
		m.now.used[name] = use{memory: memory, cores: m.spent(name, pid, cpu)}
	}
	for _, s := range services {
		if s.PID == 0 {
			delete(m.before, s.Name)
		} else if leaf, ok := m.leaves.Of("/proc", s.PID); ok && leaf.Memory >= 0 {
			add(s.Name, s.PID, leaf.Memory, leaf.CPU)
		} else {
			pid := s.PID
			rest = append(rest, control.Service{Name: s.Name, PID: &pid})
		}
	}
	if len(rest) == 0 {
		return
	}
	measured, err := metrics.Measure("/proc", rest, false)
	for _, s := range measured {
		switch {
		case s.Usage != nil:
			add(s.Name, *s.PID, s.Usage.MemoryBytes, time.Duration(s.Usage.CPUS*float64(time.Second)))
		case err != nil:
			m.now.used[s.Name] = use{lacks: fmt.Sprintf("its processes cannot be seen: %v", err)}
		default:
			m.now.used[s.Name] = use{lacks: "its processes cannot be seen in /proc"}
		}
	}
}
