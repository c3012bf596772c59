package explorelife

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
)

// Walk takes steps at random, from a seed: policies with any value, time that
// jumps, commands at the worst moments, answers late, twice or to nothing, and
// supervisors killed and replaced. It fails at the first broken invariant; the
// same seed takes the same way. It returns the number of spawns, so that a test
// can tell that something went on.
func Walk(seed uint64, steps int) (spawns int, err error) {
	r := walker{rand: rand.New(rand.NewPCG(seed, 1))}
	r.world.Now = int64(time.Hour)
	r.policy = r.anyPolicy()
	var trail []string
	for range steps {
		line, err := r.step()
		trail = append(trail[max(0, len(trail)-11):], line)
		if err != nil {
			return r.spawns, fmt.Errorf("%w\npolicy %+v\nlast steps:\n%s", err, r.policy, strings.Join(trail, "\n"))
		}
	}
	return r.spawns, nil
}

type walker struct {
	rand   *rand.Rand
	world  World
	policy machine.Policy
	spawns int
}

func (r *walker) step() (string, error) {
	if r.rand.IntN(50) == 0 && r.world.State.Timer.At != 0 {
		r.world.Now += r.rand.Int64N(int64(time.Minute)) // a late timer
	}
	if r.rand.IntN(100) == 0 {
		return r.replace()
	}
	e, happens := r.event()
	if e.Kind == machine.Update {
		r.policy = r.anyPolicy()
	}
	before := r.world.State
	starts, exit := slices.Clone(before.Starts), before.LastExit
	var was machine.Exit
	if exit != nil {
		was = *exit
	}
	e.Now, e.Wall, e.NextID, e.Rand = r.world.Now, r.world.Now, r.world.Child.ID+1, r.rand.Uint64()
	after, actions := machine.Step(before, r.policy, e)
	line := fmt.Sprintf("%s id %d: %s -> %s %v", e.Kind, e.ID, name(before.Phase), name(after.Phase), actions)
	if !slices.Equal(before.Starts, starts) || exit != nil && *exit != was {
		return line, fmt.Errorf("the State given was written to: %+v", before)
	}
	if err := Check(before, limitless(r.policy), e, after, actions); err != nil {
		return line, err
	}
	if !happens {
		s := search{policy: r.policy}
		return line, s.ignored(r.world, e, after, actions)
	}
	r.world.State = after
	return line, r.apply(actions)
}

// limitless is p for Check: after a change of limit, more starts may be kept.
func limitless(p machine.Policy) machine.Policy {
	p.Limit = 0
	return p
}

func (r *walker) apply(actions []machine.Action) error {
	for _, a := range actions {
		if a.Kind == machine.Spawn {
			r.spawns++
		}
	}
	if err := r.world.Apply(actions); err != nil {
		return err
	}
	return Consistent(r.world)
}

// replace kills the supervisor before it carries out the actions of one more
// step, and lets another read the State from its file.
func (r *walker) replace() (string, error) {
	text, err := json.Marshal(r.world.State)
	if err != nil {
		return "", err
	}
	var saved machine.State
	if err := json.Unmarshal(text, &saved); err != nil {
		return "", err
	}
	if r.rand.IntN(3) == 0 { // the file was of long ago, or of nobody
		saved = machine.State{Want: saved.Want, Removed: saved.Removed, LastID: saved.LastID}
	}
	e := r.world.Adoption()
	e.Now, e.Wall, e.NextID, e.Rand = r.world.Now, r.world.Now, r.world.Child.ID+1, r.rand.Uint64()
	if !saved.Removed && r.rand.IntN(4) == 0 {
		e.SetWant, e.Want = true, []machine.Want{machine.WantDown, machine.WantUp}[r.rand.IntN(2)]
	}
	after, actions := machine.Step(saved, r.policy, e)
	line := fmt.Sprintf("adopt %q id %d: %s -> %s %v", e.Child, e.ID, name(saved.Phase), name(after.Phase), actions)
	if err := Check(saved, limitless(r.policy), e, after, actions); err != nil {
		return line, err
	}
	r.world.State = after
	return line, r.apply(actions)
}

// event draws an event, and tells whether it can really happen.
func (r *walker) event() (machine.Event, bool) {
	w := &r.world
	switch n := r.rand.IntN(100); {
	case n < 35:
		if e, ok := r.kernelEvent(); ok {
			return e, w.Happen(e)
		}
	case n < 55 && w.State.Timer.At != 0:
		w.Now = max(w.Now, w.State.Timer.At)
		return machine.Event{Kind: machine.TimerFired, Generation: w.State.Timer.Generation}, true
	case n < 60:
		return r.lie(), false
	case n < 85 && w.State.ID != 0:
		w.Now += r.rand.Int64N(int64(2 * time.Second))
		return r.report(w.State.ID), true
	}
	if r.rand.IntN(20) == 0 {
		lost := r.rand.Int64N(int64(time.Minute))
		w.Now += lost
		return machine.Event{Kind: machine.Stalled, Within: lost}, true
	}
	return r.command(), true
}

func (r *walker) kernelEvent() (machine.Event, bool) {
	c := r.world.Child
	e := machine.Event{ID: c.ID, Reason: "why", PID: 100 + int(c.ID)}
	switch c.State {
	case machine.ChildPending:
		switch r.rand.IntN(8) {
		case 0:
			e.Kind, e.Temporary = machine.SpawnFailed, r.rand.IntN(3) > 0
		case 1:
			e.Kind = machine.SpawnStuck
			return e, !c.Stuck
		default:
			e.Kind = machine.Spawned
		}
	case machine.ChildAlive:
		r.world.Now += r.rand.Int64N(int64(20 * time.Second))
		e.Kind = machine.ExitedEvent
		e.Code = []int{0, 0, 1, 1, 75, 78, 255}[r.rand.IntN(7)]
		if r.rand.IntN(3) == 0 {
			e.Code, e.Signal = 0, syscall.Signal(1+r.rand.IntN(64))
		}
		e.Leftovers = max(0, r.rand.IntN(6)-3)
	case machine.ChildExited:
		e.Kind = machine.Swept
		e.Remaining = r.rand.IntN(c.Leftovers + 1)
	default:
		return e, false
	}
	return e, true
}

func (r *walker) command() machine.Event {
	kinds := []machine.EventKind{
		machine.Start, machine.Start, machine.Start, machine.Stop, machine.Restart,
		machine.Remove, machine.Update, machine.Update, machine.DependenciesMet,
		machine.DependenciesMet, machine.DependenciesUnmet,
	}
	uid := uint32(r.rand.IntN(2000))
	return machine.Event{
		Kind: kinds[r.rand.IntN(len(kinds))], Actor: &uid, Cause: "somebody", Reason: "db",
		NeedsRestart: r.rand.IntN(2) == 0, Hurry: r.rand.IntN(8) == 0,
		Within: max(0, r.rand.Int64N(int64(10*time.Second))-int64(5*time.Second)),
	}
}

func (r *walker) report(id uint64) machine.Event {
	var kinds []machine.EventKind
	for _, k := range machine.EventKinds {
		if isReport(k) {
			kinds = append(kinds, k)
		}
	}
	within := []int64{-1, 0, 1, int64(time.Second), math.MaxInt64}
	return machine.Event{
		Kind: kinds[r.rand.IntN(len(kinds))], ID: id, PID: r.rand.IntN(1000) - 1,
		Reason: "text", Within: within[r.rand.IntN(len(within))],
	}
}

// lie is an event of a run or timer that is not the current one.
func (r *walker) lie() machine.Event {
	w := r.world
	if r.rand.IntN(2) == 0 {
		return machine.Event{Kind: machine.TimerFired, Generation: w.State.Timer.Generation - 1 - uint64(r.rand.IntN(3))}
	}
	kinds := []machine.EventKind{machine.Spawned, machine.SpawnFailed, machine.SpawnStuck, machine.ExitedEvent, machine.Swept}
	e := r.report(0)
	if r.rand.IntN(2) == 0 {
		e.Kind = kinds[r.rand.IntN(len(kinds))]
	}
	e.ID = w.Child.ID - min(w.Child.ID, uint64(1+r.rand.IntN(3))) // an older one, or none
	return e
}

func (r *walker) anyPolicy() machine.Policy {
	d := func(max time.Duration) time.Duration {
		switch r.rand.IntN(8) {
		case 0:
			return 0
		case 1:
			return math.MaxInt64
		}
		return time.Duration(r.rand.Int64N(int64(max)))
	}
	yes := func() bool { return r.rand.IntN(2) == 0 }
	return machine.Policy{
		Oneshot: r.rand.IntN(5) == 0,
		Restart: []service.RestartPolicy{service.RestartAlways, service.RestartOnFailure, service.RestartNo}[r.rand.IntN(3)],
		Delay:   d(time.Second), Factor: []float64{0, 1, 2, 1e300, math.Inf(1), math.NaN()}[r.rand.IntN(6)],
		MaxDelay: d(time.Minute), Jitter: []float64{0, 0.1, 1, 7, math.NaN()}[r.rand.IntN(5)],
		ResetAfter: d(20 * time.Second), Limit: r.rand.IntN(9), Window: d(2 * time.Minute), RetryFailed: d(time.Hour),
		ExitSuccess: []int{0}, ExitFatal: []int{78}, ExitRestart: []int{75},
		Ready:        []machine.ReadyBy{machine.ReadyAtOnce, machine.ReadyNotify, machine.ReadyProbe}[r.rand.IntN(3)],
		ReadyTimeout: d(time.Minute), Health: yes(), HealthRetries: r.rand.IntN(4), HealthStartPeriod: d(time.Minute),
		HealthRestart: yes(), Watchdog: d(time.Minute),
		StopSignal: syscall.SIGTERM, StopTimeout: d(10 * time.Second), StopScope: machine.ScopeGroup,
	}
}

func name(ph machine.Phase) string {
	if ph == machine.Stopped {
		return "stopped"
	}
	return string(ph)
}
