package s6

import (
	"context"
	"errors"
	"strconv"
	"time"

	"rlminit/control"
)

// goal is what is waited for.
type goal byte

// The goals, by the letters of s6.
const (
	goalUp             goal = 'u'
	goalReady          goal = 'U'
	goalDown           goal = 'd'
	goalOver           goal = 'D' // down, and what is to be done after it is done
	goalRestarted      goal = 'r'
	goalRestartedReady goal = 'R'
)

func isGoal(letter byte) bool {
	switch goal(letter) {
	case goalUp, goalReady, goalDown, goalOver, goalRestarted, goalRestartedReady:
		return true
	}
	return false
}

// phase is how far a service is on the way to a goal.
type phase struct {
	up, ready, over bool
	failed          bool // it is not tried again
	wasDown         bool // since the wait began
}

// see takes the state of a service in, as status and events have it. Alive tells whether it
// has a process.
func (p *phase) see(state string, alive bool) {
	p.up = alive || state == "running"
	p.ready = state == "running"
	p.over = !p.up && state != "stopping"
	p.failed = state == "failed"
	p.wasDown = p.wasDown || !p.up
}

// reached tells whether a goal is.
func (p *phase) reached(g goal) bool {
	switch g {
	case goalUp:
		return p.up
	case goalReady:
		return p.ready
	case goalDown:
		return !p.up
	case goalOver:
		return p.over
	case goalRestarted:
		return p.wasDown && p.up
	default:
		return p.wasDown && p.ready
	}
}

// hopeless tells whether a goal is not reached without somebody's help.
func (p *phase) hopeless(g goal) bool { return p.failed && g != goalDown && g != goalOver }

// await is a wait for services.
type await struct {
	client *control.Client
	names  []string
	goal   goal
	any    bool // one of them is enough
	after  uint64
	phases map[string]*phase
}

// errReached ends the stream of events.
var errReached = errors.New("reached")

// reconnectPause is how long a wait is silent after a supervisor went away. The client has
// waited for the next one by itself before it says that there is none.
const reconnectPause = 50 * time.Millisecond

// begin notes what was last recorded, so that nothing that comes is missed.
func (a *await) begin(ctx context.Context) error {
	return a.client.Events(ctx, control.EventQuery{Last: new(1)}, func(e control.Event) error {
		a.after = e.Seq
		return nil
	})
}

// end returns when the goal is reached, and how many services have failed for good.
func (a *await) end(ctx context.Context) (failed int, err error) {
	a.phases = make(map[string]*phase, len(a.names))
	for {
		if err := a.look(ctx); err != nil {
			return 0, err
		}
		if failed, done := a.over(); done {
			return failed, nil
		}
		err := a.client.Events(ctx, control.EventQuery{After: a.after, Names: a.names, Follow: true}, func(e control.Event) error {
			a.after = e.Seq
			if p := a.phases[e.Service]; p != nil && e.To != "" {
				p.see(e.To, e.PID != nil)
			}
			if _, done := a.over(); done {
				return errReached
			}
			return nil
		})
		switch {
		case errors.Is(err, errReached):
			failed, _ := a.over()
			return failed, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil && !errors.Is(err, control.ErrCut):
			return 0, err
		}
		select { // another supervisor answers, whose numbers may begin anew
		case <-time.After(reconnectPause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if err := a.begin(ctx); err != nil {
			return 0, err
		}
	}
}

// look takes in how each service is.
func (a *await) look(ctx context.Context) error {
	for i, name := range a.names {
		is, err := a.client.Service(ctx, name)
		if err != nil {
			return err
		}
		a.names[i] = is.Name // a profile's name stands for its gateway
		p := a.phases[is.Name]
		if p == nil {
			p = &phase{}
			a.phases[is.Name] = p
		}
		p.see(is.State, is.PID != nil)
	}
	return nil
}

// over tells whether there is nothing more to wait for, and how many services have failed.
func (a *await) over() (failed int, done bool) {
	reached := 0
	for _, p := range a.phases {
		switch {
		case p.reached(a.goal):
			reached++
		case p.hopeless(a.goal):
			failed++
		}
	}
	if a.any && reached > 0 {
		return 0, true
	}
	return failed, reached+failed == len(a.phases)
}

// limit is a time of so many milliseconds; 0 is none. Ok is false for what is no number.
func limit(text string) (d time.Duration, ok bool) {
	ms, err := strconv.ParseUint(text, 10, 31)
	return time.Duration(ms) * time.Millisecond, err == nil
}

// within is a context that ends after a time; 0: with its parent.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// svwait waits until services are as is asked for.
func svwait(c *call) int {
	given, words, ok := c.options("UudDrRao", "t")
	if !ok || len(words) == 0 {
		return c.misused()
	}
	a := await{client: c.open(), goal: goalUp}
	var most time.Duration
	for _, o := range given {
		switch o.letter {
		case 'a', 'o':
			a.any = o.letter == 'o'
		case 't':
			if most, ok = limit(o.value); !ok {
				return c.misused()
			}
		default:
			a.goal = goal(o.letter)
		}
	}
	for _, path := range words {
		name, err := serviceOf(path)
		if err != nil {
			return c.fatal(exitSystem, "unable to subscribe to events for %s: %v", path, err)
		}
		a.names = append(a.names, name)
	}
	ctx, cancel := within(c.ctx, most)
	defer cancel()
	err := a.begin(ctx)
	failed := 0
	if err == nil {
		failed, err = a.end(ctx)
	}
	return c.awaited(words, failed, err)
}

// awaited turns the end of a wait into an exit code.
func (c *call) awaited(paths []string, failed int, err error) int {
	var p *control.Problem
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return c.fatal(exitExpired, "timed out")
	case unknown(err):
		errors.As(err, &p)
		return c.fatal(exitSystem, "unable to subscribe to events for %s: %s", paths[0], because(err))
	case exits(err, control.ExitNoAnswer):
		return c.fatal(exitDied, "%s", because(err))
	case err != nil:
		return c.fatal(exitSystem, "%s", because(err))
	}
	return min(failed, exitExpired-1)
}
