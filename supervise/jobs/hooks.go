package jobs

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/journal"
	"rlminit/service"
)

// kindHook is the kind of a hook's job.
const kindHook = "hook"

// Bounds of hooks: a hook that starts what triggers it must not be the end of it.
const (
	hooksAtOnce    = 4
	hooksWaiting   = 256
	hooksPerMinute = 60 // of one hook
)

// Hooks is what the configuration wants run when services change. It holds nothing
// up: events that it cannot follow are left out, and said.
type Hooks struct {
	list   func() []config.Hook
	next   chan *happened
	missed atomic.Uint64
}

// happened is an event as a hook is told of it.
type happened struct {
	control.Event
	line []byte // as the journal has it; nil: there is none, or it cannot be written
}

// NewHooks are those that list has.
func NewHooks(list func() []config.Hook) *Hooks {
	return &Hooks{list: list, next: make(chan *happened, 4096)}
}

// Tell takes an event, with its line in the journal. It never waits.
func (h *Hooks) Tell(e control.Event, line []byte) {
	select {
	case h.next <- &happened{e, line}:
	default:
		h.missed.Add(1)
	}
}

// Run runs them as jobs, for as long as we live.
func (h *Hooks) Run(r *Runner) {
	var b hookBounds
	for e := range h.next {
		if n := h.missed.Swap(0); n > 0 {
			slog.Warn("hooks could not follow what happens, and some events are without", "count", n)
		}
		for i, hook := range h.list() {
			if !slices.Contains(hook.On, e.To) || !concerns(hook, e.Service) || !b.allow(i, time.Now()) {
				continue
			}
			line := e.line
			if line == nil {
				e.Type = journal.TypeTransition
				line, _ = json.Marshal(e.Event) // of strings and numbers
			}
			h.run(r, hook, string(line)+"\n")
		}
	}
}

// concerns tells whether a hook is about a service, which may be named by its profile, as
// in commands.
func concerns(hook config.Hook, name string) bool {
	profile, ofProfile := strings.CutPrefix(name, service.GatewayPrefix)
	return len(hook.Services) == 0 || slices.Contains(hook.Services, name) || ofProfile && slices.Contains(hook.Services, profile)
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

// run has one run, as a job that nobody waits for.
func (h *Hooks) run(r *Runner, hook config.Hook, event string) {
	t := newTask("", kindHook, nil, control.RunJob{
		Command: slices.Clone(hook.Command), TimeoutMS: max(1, hook.Timeout.Milliseconds()), MaxOutput: control.DefaultJobOutput,
		Stdin: event, Detach: true,
	})
	if _, err := r.submit(t); err != nil && !errors.Is(err, errStopping) {
		slog.Warn("a hook cannot be run", "hook", strings.Join(redact.Command(hook.Command), " "), "err", err)
	}
}
