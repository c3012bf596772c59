// Package hooks tells hooks what happens: to services, to jobs, and of thresholds.
//
// What happens is a record, of the journal where there is one; job/table keeps those that
// hooks were not told of. One goroutine, Run, goes through them in their order, and has the
// command of each hook that is on one run as a job. The record of that job names the record
// that it tells of, and comes before the job begins: so a supervisor that is killed between
// any two steps has a successor that tells the rest, and nothing twice.
//
// It owns the states of thresholds. What measures them is a goroutine of its own, since a
// file system may not answer, and does nothing as long as there are none.
package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job/table"
	"rlminit/service"
)

// Records is where jobs are recorded, and with them what hooks are told.
type Records interface {
	Append(kind string, body any) error
	Note(kind string, body any)
	View(f func(*table.Table))
	Boot() string
}

// Runner runs the commands of hooks as jobs.
type Runner interface {
	// Records is where jobs are recorded now, and whether that outlives the supervisor.
	Records() (r Records, durable bool)
	// Told are the hooks that are told of a record by jobs which are not over.
	Told(event uint64) []string
	// Tell runs a hook's command with a line on its stdin. It returns when the job is
	// recorded, with the number of the record that it tells of. Turns go round by about, the
	// service or profile that the record is of.
	Tell(hook *config.Hook, event uint64, about, line string) error
}

// Memory is what a successor finds where there is no journal: a row of tier 1's table.
type Memory interface {
	Get(key string) []byte
	Put(key string, value []byte) error
}

// MemoryKey is that row's.
const MemoryKey = "hooks"

// Given is what hooks are given of what is beside them.
type Given struct {
	List     func() []config.Hook              // those in force
	Services func(names []string) []Service    // those of the names, which a person may have written, or all
	Volume   func() string                     // where it lies
	Publish  func(control.Event) control.Event // shows readers of events what no journal has
	Memory   Memory                            // nil: there is none
}

// Service is one whose use is measured.
type Service struct {
	Name   string
	PID    int // 0: it does not run
	Limits service.Limits
}

// Hooks is what the configuration wants run. Anybody may call it.
type Hooks struct {
	given  Given
	runner Runner

	wake     chan struct{} // has a token when something has happened, or changed
	lost     atomic.Uint64 // events that could not be recorded
	plans    chan plan     // has the newest for who measures
	readings chan readings
	shown    atomic.Pointer[[]watched] // as measured last
	crossed  atomic.Pointer[[]table.Threshold]
}

// New are the hooks that a configuration has. Nothing is told before Run.
func New(runner Runner, given Given) *Hooks {
	h := &Hooks{
		given: given, runner: runner,
		wake: make(chan struct{}, 1), plans: make(chan plan, 1), readings: make(chan readings),
	}
	records, _ := runner.Records()
	h.Begin(records)
	return h
}

// Begin has what happens from now on kept for hooks in records that are about to be used,
// unless they have of this start of the container already.
func (h *Hooks) Begin(records Records) {
	known := false
	records.View(func(t *table.Table) { known = t.Hooks.KnownIn(records.Boot()) })
	if known {
		return // by a predecessor: Run goes on with that
	}
	set := table.HooksSet{Hooks: digests(h.given.List()), Crossed: []table.Threshold{}}
	if crossed := h.crossed.Load(); crossed != nil {
		set.Crossed = *crossed // it was told where nothing is any more
	} else if was, ok := h.recalled(); ok {
		set = was
	}
	if len(set.Hooks) == 0 {
		return // nothing is kept for nobody
	}
	records.Note(table.TypeHooksSet, set)
}

// Wake tells that something was recorded, or that the configuration has changed. It never
// waits.
func (h *Hooks) Wake() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Happened takes a transition where there is no journal. It never waits.
func (h *Hooks) Happened(e control.Event) {
	records, durable := h.runner.Records()
	if durable || len(h.given.List()) == 0 {
		return // there is one by now; or there is nobody to be told
	}
	e.Type = table.TypeTransition
	line, _ := json.Marshal(e) // of strings and numbers
	records.Note(table.TypeTransition, json.RawMessage(line))
	h.Wake()
}

// Recorded tells that an event was recorded; nil: it could not be, and nobody is told of it.
func (h *Hooks) Recorded(line []byte) {
	if len(h.given.List()) == 0 {
		return // nobody is woken for nothing
	}
	if line == nil {
		h.lost.Add(1)
	}
	h.Wake()
}

// digests tells the hooks of a list from others, by name.
func digests(list []config.Hook) map[string]string {
	all := make(map[string]string, len(list))
	for _, hook := range list {
		text, _ := json.Marshal(hook) // of strings and numbers
		sum := sha256.Sum256(text)
		all[hook.Name] = hex.EncodeToString(sum[:8])
	}
	return all
}

// telling is how far hooks have come. It is Run's goroutine's alone.
type telling struct {
	*Hooks
	records   Records
	list      []config.Hook
	set       map[string]string // digests of those in force, as recorded
	position  uint64            // the last record that was dealt with
	passed    int               // how many of those are kept all the same
	missed    int               // as it was said
	following bool              // list is all there are, and that is recorded
	failing   bool              // something could not be recorded, which was said
	bounds    bounds
	watches   watches
	plan      plan // of what is measured
	measuring bool // somebody measures
}

// again is how long a hook waits that could not be recorded.
const again = 5 * time.Second

// Run tells hooks what happens, for as long as we live.
func (h *Hooks) Run() {
	t := &telling{Hooks: h, watches: newWatches()}
	t.takeOver()
	t.tell() // what a predecessor did not come to, by the hooks of then
	for {
		var later <-chan time.Time
		if followed := t.follow(); !t.tell() || !followed {
			later = time.After(again)
		}
		select {
		case <-h.wake:
		case <-later:
		case r := <-h.readings:
			t.judge(r)
		}
	}
}

// takeOver goes on where a predecessor was: with those of its hooks that are in force still.
func (t *telling) takeOver() {
	t.records, _ = t.runner.Records()
	t.records.View(func(all *table.Table) {
		if h := &all.Hooks; h.KnownIn(t.records.Boot()) {
			t.set, t.position, t.missed = maps.Clone(h.Set), h.Through, h.Missed
			t.watches.recall(slices.Collect(maps.Values(h.Crossed)))
		}
	})
	now := digests(t.given.List())
	for _, hook := range t.given.List() {
		if t.set[hook.Name] == now[hook.Name] {
			t.list = append(t.list, hook)
		}
	}
}

// recalled is what a predecessor remembered where it had no journal.
func (h *Hooks) recalled() (was table.HooksSet, ok bool) {
	if h.given.Memory == nil {
		return was, false
	}
	text := h.given.Memory.Get(MemoryKey)
	return was, len(text) > 0 && json.Unmarshal(text, &was) == nil
}

// follow takes up what has changed: the hooks, or where they are recorded. False: that could
// not be recorded, which may pass.
func (t *telling) follow() bool {
	records, _ := t.runner.Records()
	list := t.given.List()
	if records == t.records && t.following && len(list) == len(t.list) && (len(list) == 0 || &list[0] == &t.list[0]) {
		return true // as a rule
	}
	set, moved := digests(list), records != t.records
	if moved {
		t.records, t.passed = records, 0
		records.View(func(all *table.Table) { t.position, t.missed = all.Hooks.Through, all.Hooks.Missed })
	}
	t.watches.keep(func(hook string) bool { return set[hook] != "" && set[hook] == t.set[hook] })
	t.list, t.set, t.following = list, set, t.recorded(set) && (!moved || len(set) == 0)
	if !t.following {
		err := t.records.Append(table.TypeHooksSet, t.mark())
		if t.following = err == nil; err != nil && !t.failing {
			slog.Warn("cannot record which hooks there are, and so they are told nothing yet", "err", err)
		}
		t.failing = err != nil
	}
	t.remember()
	t.measure()
	return t.following
}

// recorded tells whether hooks are those that are recorded.
func (t *telling) recorded(set map[string]string) (is bool) {
	t.records.View(func(all *table.Table) {
		is = maps.Equal(all.Hooks.Set, set) && (len(set) == 0 || all.Hooks.KnownIn(t.records.Boot()))
	})
	return is
}

// mark is how far hooks have come, and which there are.
func (t *telling) mark() table.HooksSet {
	t.passed = 0
	return table.HooksSet{Hooks: t.set, Through: t.position, Crossed: t.watches.crossed()}
}

// remember keeps what was told of thresholds, for a successor without a journal.
func (t *telling) remember() {
	crossed := t.watches.crossed()
	t.crossed.Store(&crossed)
	if t.given.Memory == nil {
		return
	}
	var text []byte
	if slices.ContainsFunc(t.list, func(h config.Hook) bool { return len(h.Thresholds()) > 0 }) {
		text, _ = json.Marshal(table.HooksSet{Hooks: t.set, Crossed: crossed}) // of strings and numbers
	}
	if err := t.given.Memory.Put(MemoryKey, text); err != nil {
		slog.Warn("cannot remember which thresholds are crossed: a supervisor that replaces this one may tell it again", "err", err)
	}
}

// mostPassed is how many records that hooks have passed are kept before that is recorded.
const mostPassed = 256

// tell has hooks told what they were not. False: that is to be tried again.
func (t *telling) tell() bool {
	var waiting []table.Happened
	missed := 0
	t.records.View(func(all *table.Table) { waiting, missed = all.Hooks.Next(t.position), all.Hooks.Missed })
	if n := uint64(max(missed-t.missed, 0)) + t.lost.Swap(0); n > 0 {
		slog.Warn("hooks could not follow what happens, and are not told of some events", "count", n)
	}
	t.missed = missed
	for _, e := range waiting {
		if !t.tellOf(e) {
			return false
		}
		t.position = e.Seq
		t.passed++
	}
	if t.passed > mostPassed {
		t.records.Note(table.TypeHooksSet, t.mark())
	}
	return true
}

// event is what of a record decides which hooks are told.
type event struct {
	Type    string
	Service string
	Profile string
	To      string
	Hook    string
}

// about is the service that a record is of, or the profile or service of its job; "": none.
func (e event) about() string {
	if e.Profile != "" {
		return service.GatewayPrefix + e.Profile
	}
	return e.Service
}

// tellOf has those hooks told of a record that are on it and were not yet.
func (t *telling) tellOf(h table.Happened) bool {
	var e event
	if json.Unmarshal(h.Line, &e) != nil {
		return true
	}
	if _, durable := t.runner.Records(); !durable && e.Type != table.TypeTransition && t.given.Publish != nil {
		t.given.Publish(control.Event{Type: e.Type, Service: e.Service, At: time.Now(), Raw: h.Line})
	}
	var told []string
	for i := range t.list {
		hook := &t.list[i]
		if !on(hook, e) {
			continue
		}
		if told == nil {
			over := false
			t.records.View(func(all *table.Table) { told, over = all.Hooks.ToldOf(h.Seq) })
			if over {
				return true
			}
			told = append(told, t.runner.Told(h.Seq)...)
		}
		if slices.Contains(told, hook.Name) || !t.bounds.allow(hook.Name, e.about(), time.Now()) {
			continue
		}
		if !t.run(hook, h, e.about()) {
			return false
		}
	}
	return true
}

// run has a hook told of a record. False: it could not be recorded, which may pass.
func (t *telling) run(hook *config.Hook, h table.Happened, about string) bool {
	err := t.runner.Tell(hook, h.Seq, about, string(h.Line)+"\n")
	if err == nil {
		t.passed, t.failing = 0, false // the job's record says how far we are
		return true
	}
	var problem *control.Problem
	refused := errors.As(err, &problem) && problem.ExitCode == control.ExitRefused
	if refused || !t.failing {
		slog.Warn("a hook cannot be run", "hook", hook.Name, "command", strings.Join(redact.Command(hook.Command), " "), "err", err)
	}
	t.failing = !refused
	return refused
}

// on tells whether a hook is on what has happened.
func on(hook *config.Hook, e event) bool {
	word := e.To
	switch e.Type {
	case table.TypeThreshold:
		return hook.Name == e.Hook
	case table.TypeFailed:
		word = config.OnJobFailed
	}
	return slices.ContainsFunc(hook.On, func(o config.Occasion) bool { return o.Word != "" && o.Word == word }) && concerns(hook, e)
}

// concerns tells whether a hook is about a service, or the profile or service of a job. A
// gateway may be named by its profile, and each by a pattern, as in commands.
func concerns(hook *config.Hook, e event) bool {
	names := []string{e.Service}
	if profile, ofProfile := strings.CutPrefix(e.Service, service.GatewayPrefix); ofProfile {
		names = append(names, profile)
	}
	if e.Profile != "" {
		names = append(names, e.Profile, service.GatewayPrefix+e.Profile)
	}
	return len(hook.Services) == 0 || slices.ContainsFunc(hook.Services, func(of string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			fits, err := path.Match(of, name)
			return name != "" && fits && err == nil
		})
	})
}

// perMinute is how often one hook is run for one service: one that brings about what triggers
// it must not be the end of it, and a service that fails again and again must not silence
// others.
const perMinute = 60

// perMinuteInAll is how often one hook is run for all services: each that it makes itself has a
// count of its own.
const perMinuteInAll = 600

// bounds counts, by hook and service, and by hook alone, what was run in the minute that runs.
type bounds struct {
	minute  time.Time
	count   map[told]int
	inAll   map[string]int
	dropped int
}

type told struct{ hook, about string }

// allow tells whether a hook may be run once more for a service, and says once a minute that
// one may not.
func (b *bounds) allow(hook, about string, now time.Time) bool {
	if m := now.Truncate(time.Minute); !m.Equal(b.minute) {
		if b.dropped > 0 {
			slog.Warn("hooks were left out: one is run at most 60 times a minute for each service, and 600 times for all", "count", b.dropped)
		}
		*b = bounds{minute: m, count: map[told]int{}, inAll: map[string]int{}}
	}
	of := told{hook, about}
	if b.count[of] >= perMinute || b.inAll[hook] >= perMinuteInAll {
		if b.dropped++; b.dropped == 1 {
			slog.Warn("a hook is run at most 60 times a minute for each service, and 600 times for all; what is more is left out", "hook", hook, "service", about)
		}
		return false
	}
	b.count[of]++
	b.inAll[hook]++
	return true
}
