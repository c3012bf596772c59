package hooks

import (
	"cmp"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job/table"
	"rlminit/job/threshold"
)

// watches are the thresholds that are measured, by table.Threshold.Key. Invariant: one that
// is crossed is there, whatever has become of its service, until it is taken back or its
// hook is no more.
type watches map[string]*watch

// watch is a threshold of one thing: of a service, or of the container.
type watch struct {
	of      table.Threshold
	rule    threshold.Rule
	state   threshold.State
	percent *float64 // as measured last; nil: it was not
	lacks   string   // why not
	failing bool     // it cannot be recorded, which was said
}

// watched is a watch as others see it.
type watched struct {
	of      table.Threshold
	crossed bool
	percent *float64
	lacks   string
}

func newWatches() watches { return watches{} }

// recall takes over what a predecessor has told.
func (ws watches) recall(crossed []table.Threshold) {
	for _, t := range crossed {
		ws[t.Key()] = &watch{of: t, state: threshold.State{Crossed: true}}
	}
}

// keep lets go of those of hooks that are no more, or are others now.
func (ws watches) keep(is func(hook string) bool) {
	maps.DeleteFunc(ws, func(_ string, w *watch) bool { return !is(w.of.Hook) })
}

// crossed are those that are, in the order of their keys.
func (ws watches) crossed() []table.Threshold {
	all := []table.Threshold{}
	for _, key := range slices.Sorted(maps.Keys(ws)) {
		if w := ws[key]; w.state.Crossed {
			all = append(all, w.of)
		}
	}
	return all
}

// of is the watch of what was measured.
func (ws watches) of(what table.Threshold, every time.Duration) *watch {
	key := what.Key()
	if ws[key] == nil {
		ws[key] = &watch{of: what}
	}
	w := ws[key]
	of, _ := time.ParseDuration(what.For) // we have written it
	w.rule = threshold.Rule{Most: float64(what.Limit), For: of, Every: every}
	return w
}

// plan is what is to be measured.
type plan struct {
	number uint64
	hooks  []config.Hook // those with thresholds
	every  time.Duration
}

// readings are what was measured by a plan.
type readings struct {
	plan uint64
	at   time.Duration // on the clock of the kernel's that never goes back
	all  []reading
}

// reading is one of them.
type reading struct {
	of      table.Threshold
	percent float64
	lacks   string // why there is none; "": there is
}

// measure has measured what the hooks in force are about. Without a threshold nothing is,
// and nobody wakes for it.
func (t *telling) measure() {
	p := plan{number: t.plan.number + 1}
	for _, hook := range t.list {
		for i, of := range hook.Thresholds() {
			if i == 0 {
				p.hooks = append(p.hooks, hook)
			}
			every := threshold.Interval(of.For)
			p.every = min(cmp.Or(p.every, every), every)
		}
	}
	t.plan = p
	t.show()
	if len(p.hooks) == 0 && !t.measuring {
		return
	}
	if !t.measuring {
		t.measuring = true
		go t.Hooks.measureBy()
	}
	select {
	case <-t.plans: // which nobody has taken up
	default:
	}
	t.plans <- p
}

// judge takes what was measured, and has told what follows.
func (t *telling) judge(r readings) {
	if r.plan != t.plan.number {
		return
	}
	seen := map[string]bool{}
	for _, one := range r.all {
		seen[one.of.Key()] = true
		t.take(t.watches.of(one.of, t.plan.every), one, r.at)
	}
	for key, w := range t.watches {
		if !seen[key] { // the service has gone, and uses nothing
			t.take(t.watches.of(w.of, t.plan.every), reading{of: w.of}, r.at)
			if !w.state.Crossed {
				delete(t.watches, key)
			}
		}
	}
	t.show()
}

// take judges one reading.
func (t *telling) take(w *watch, r reading, at time.Duration) {
	if r.lacks != "" {
		if r.lacks != w.lacks && r.lacks != notYet && r.lacks != noService {
			slog.Warn("a threshold cannot be measured", "hook", w.of.Hook, "what", strings.TrimSpace(w.of.Service+" "+w.of.What), "why", r.lacks)
		}
		w.percent, w.lacks = nil, r.lacks
		return
	}
	percent := math.Round(r.percent*10) / 10
	w.percent, w.lacks = &percent, ""
	next, tell := w.rule.Step(w.state, at, percent)
	if w.state = next; tell && t.record(w, percent) {
		w.state = w.state.Told()
		t.remember()
	}
}

// record records that a threshold was crossed, or taken back, which hooks are then told.
// False: it cannot be, and is tried again with the next reading.
func (t *telling) record(w *watch, percent float64) bool {
	told := w.of
	told.Percent, told.State = percent, table.Crossed
	if w.state.Crossed {
		told.State = table.Back
	}
	err := t.records.Append(table.TypeThreshold, told)
	if err != nil && !w.failing {
		slog.Warn("cannot record that a threshold is "+told.State+", and so its hook is not told yet", "hook", told.Hook, "err", err)
	}
	w.failing = err != nil
	return err == nil
}

// show lets others see what was measured.
func (t *telling) show() {
	all := []watched{}
	for _, key := range slices.Sorted(maps.Keys(t.watches)) {
		w := t.watches[key]
		all = append(all, watched{w.of, w.state.Crossed, w.percent, w.lacks})
	}
	t.shown.Store(&all)
}

// List is every hook in force, with its thresholds as measured last.
func (h *Hooks) List() []control.Hook {
	all := []control.Hook{}
	for _, hook := range h.given.List() {
		told := control.Hook{
			Name: hook.Name, On: []string{}, Services: append([]string{}, hook.Services...), Command: redact.Command(hook.Command),
			TimeoutMS: hook.Timeout.Milliseconds(), Thresholds: []control.HookThreshold{},
		}
		for _, o := range hook.On {
			told.On = append(told.On, o.String())
		}
		for _, of := range hook.Thresholds() {
			told.Thresholds = append(told.Thresholds, h.measured(hook.Name, of)...)
		}
		all = append(all, told)
	}
	return all
}

// measured is a hook's threshold, for each thing that it is of.
func (h *Hooks) measured(hook string, of config.Threshold) (all []control.HookThreshold) {
	var shown []watched
	if now := h.shown.Load(); now != nil {
		shown = *now
	}
	for _, b := range of.Bounds() {
		what := control.HookThreshold{What: b.What, Limit: b.Most, For: of.For.String()}
		found := false
		for _, w := range shown {
			if w.of.Hook == hook && w.of.What == b.What && w.of.Limit == b.Most && w.of.For == what.For {
				one := what
				one.Service, one.Percent, one.Crossed, one.Lacks = w.of.Service, w.percent, w.crossed, w.lacks
				all, found = append(all, one), true
			}
		}
		if !found {
			what.Lacks = notYet
			all = append(all, what)
		}
	}
	return all
}
