package jobs

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"rlminit/config"
	"rlminit/control"
)

// kindHook is the kind of a hook's job.
const kindHook = "hook"

// Bounds of hooks: a hook that starts what triggers it must not be the end of it.
const (
	hooksAtOnce    = 8
	hooksPerMinute = 60 // of one hook
)

// Hooks runs what the configuration wants run when services change. It holds
// nothing up: events that it cannot follow are left out, and said.
func (r *Runner) Hooks(next <-chan control.Event, hooks func() []config.Hook) {
	var b hookBounds
	for e := range next {
		for i, h := range hooks() {
			if !slices.Contains(h.On, e.To) || len(h.Services) > 0 && !slices.Contains(h.Services, e.Service) {
				continue
			}
			if !b.allow(i, time.Now()) {
				continue
			}
			line, err := json.Marshal(e)
			if err != nil {
				continue // of strings and numbers
			}
			r.hook(h, string(line)+"\n")
		}
	}
}

// hookBounds counts, hook by hook, what was run in the minute that runs.
type hookBounds struct {
	minute  time.Time
	count   map[int]int
	dropped int
}

// allow tells whether hook i may run once more, and says once a minute that one
// may not.
func (b *hookBounds) allow(i int, now time.Time) bool {
	if m := now.Truncate(time.Minute); !m.Equal(b.minute) {
		if b.dropped > 0 {
			slog.Warn("hooks were left out: one is run at most 60 times a minute", "count", b.dropped)
		}
		*b = hookBounds{minute: m, count: map[int]int{}}
	}
	if b.count[i]++; b.count[i] > hooksPerMinute {
		if b.dropped++; b.dropped == 1 {
			slog.Warn("a hook is run at most 60 times a minute; what is more is left out", "hook", i)
		}
		return false
	}
	return true
}

// hook has one run, as a job that nobody waits for.
func (r *Runner) hook(h config.Hook, event string) {
	t := newTask("", kindHook, nil, control.RunJob{
		Command: slices.Clone(h.Command), TimeoutMS: max(1, h.Timeout.Milliseconds()), MaxOutput: control.DefaultJobOutput,
		Stdin: event, Detach: true,
	})
	full := false
	r.ask(func() {
		running := 0
		for _, other := range r.tasks {
			if other.kind == kindHook {
				running++
			}
		}
		full = running >= hooksAtOnce || r.stopping
	})
	if full {
		slog.Warn("a hook is left out: 8 of them run or wait already", "command", h.Command[0])
		return
	}
	if _, err := r.submit(t); err != nil {
		slog.Warn("a hook cannot be run", "command", h.Command[0], "err", err)
	}
}
