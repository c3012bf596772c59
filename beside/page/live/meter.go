package live

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/metrics"
)

// samplesKept is how many samples are kept of each service: ten minutes of them.
const samplesKept = int(10 * time.Minute / every)

// meter knows what services used when it was looked last.
type meter struct {
	busy  bool
	seen  map[string]spent
	shown map[string][2]int64 // as tabs were told: memory in bytes, rounded, and CPU in per cent
}

// spent is the processor time that the processes of a service had used at a moment.
type spent struct {
	pid int
	cpu float64 // seconds
	at  time.Time
}

// rest forgets what is of no use after a pause.
func (m *meter) rest() { m.seen, m.shown = nil, nil }

// measure looks at memory and CPU, which reads /proc and asks the supervisor nothing.
func (h *Hub) measure(stream int) {
	if h.meter.busy || len(h.state.Services) == 0 {
		return
	}
	h.meter.busy = true
	services := slices.Clone(h.state.Services)
	go func() {
		measured, err := metrics.Measure(h.proc, services, false)
		at := time.Now()
		h.put(func() {
			h.meter.busy = false
			if stream == h.streams && err == nil {
				h.measured(measured, at)
			}
		})
	}()
}

// measured adds a sample to each service, and tells tabs what has changed.
func (h *Hub) measured(services []control.Service, at time.Time) {
	samples, seen := maps.Clone(h.state.samples), map[string]spent{}
	if samples == nil {
		samples = map[string][]Sample{}
	}
	told, shown := map[string][2]int64{}, map[string][2]int64{}
	for _, s := range services {
		if s.Usage == nil || s.PID == nil {
			continue
		}
		now := spent{pid: *s.PID, cpu: s.Usage.CPUS, at: at}
		sample := Sample{At: at, Memory: s.Usage.MemoryBytes, CPU: -1}
		if was, ok := h.meter.seen[s.Name]; ok && was.pid == now.pid && at.After(was.at) && now.cpu >= was.cpu {
			sample.CPU = 100 * (now.cpu - was.cpu) / at.Sub(was.at).Seconds()
		}
		seen[s.Name] = now
		all := append(samples[s.Name], sample)
		samples[s.Name] = all[max(0, len(all)-samplesKept):]
		figures := [2]int64{round(s.Usage.MemoryBytes), int64(math.Round(sample.CPU))}
		shown[s.Name] = figures
		if was, ok := h.meter.shown[s.Name]; !ok || was != figures {
			told[s.Name] = figures
		}
	}
	for name := range h.meter.shown {
		if _, runs := shown[name]; !runs {
			told[name] = [2]int64{-1, -1}
		}
	}
	for name := range samples {
		if _, is := h.state.byName[name]; !is {
			delete(samples, name)
		}
	}
	h.meter.seen, h.meter.shown = seen, shown
	next := *h.state
	next.samples = samples
	h.state = &next
	if len(told) > 0 {
		message := usageMessage(told)
		for _, r := range h.rooms {
			r.tell(message)
		}
	}
	h.show(Batch{Measured: true, Tick: true})
}

func usageMessage(figures map[string][2]int64) Message {
	text, _ := json.Marshal(figures) // of a map of numbers it cannot fail
	return Message{Event: Usage, Data: text}
}

// round takes away what nobody reads: three digits are left of a size.
func round(bytes int64) int64 {
	unit := int64(1)
	for bytes/unit >= 1000 {
		unit *= 10
	}
	return (bytes + unit/2) / unit * unit
}
