package supervise

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
)

// roll restarts units, at most limit of which are out of service at once; or has
// at most so many on their way up, or down, at once.
func (c *commands) roll(v verb, units []*unit, limit int, steady time.Duration, actor control.Actor) (begun operation.Handle, err error) {
	if problem := c.refusal(v); problem != nil {
		return begun, problem
	}
	along := c.startedAlong(v, units)
	release := oneAtATime(append(slices.Clone(units), along...))
	id := c.operations.NewID()
	problem := c.records.recordCommand(context.Background(), id, v, units, along, actor)
	release()
	if problem != nil && v.name != "stop" { // which is carried out all the same
		return begun, problem
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.loop.ask(func() { begun = c.beginOperation(id, v, units, operation.Pending, actor, cancel) })
	go func() {
		defer cancel()
		c.rolling(ctx, begun, v, units, operation.NewRoll(len(units), limit, steady), actor)
	}()
	return begun, nil
}

// rolling takes one member after the other. It decides and takes in one piece of
// the loop's work, so that nobody goes out of service in between.
func (c *commands) rolling(ctx context.Context, begun operation.Handle, v verb, units []*unit, roll *operation.Roll, actor control.Actor) {
	id, event := begun.ID(), commanded(v, actor)
	for ctx.Err() == nil {
		var verdict operation.Verdict
		wake := make(chan struct{}, 1)
		c.loop.ask(func() {
			seen := make([]operation.Seen, len(units))
			for i, u := range units {
				seen[i] = c.seenIn(v, u, roll.Taken(i))
				if !roll.Taken(i) && !v.needed(u) {
					roll.Skip(i)
				}
			}
			o, _ := begun.Now()
			for i, m := range o.Members {
				if m.State == operation.Superseded {
					roll.Skip(i)
				}
			}
			verdict = roll.Next(seen)
			for i, u := range units {
				if roll.Done[i] {
					c.operations.Member(id, u.title(), operation.Done, "", u.pid())
				}
			}
			if c.fleet.stopping {
				c.operations.Stop(id, operation.Interrupted, "the container is stopping")
				return
			}
			if verdict.Take >= 0 && ctx.Err() == nil {
				u := units[verdict.Take]
				c.operations.Member(id, u.title(), operation.Running, "", 0)
				act := []*unit{u}
				if v.name != "stop" {
					act = append(c.fleet.along(u), u)
				}
				v.apply(c.fleet, act, event)
			}
			c.rolls[wake] = units
		})
		o, _ := begun.Now()
		switch {
		case o.Over() || verdict.Over:
			c.loop.ask(func() { delete(c.rolls, wake); c.keepOperations() })
			return
		case verdict.Failed >= 0:
			c.loop.ask(func() {
				delete(c.rolls, wake)
				u := units[verdict.Failed]
				if roll.Taken(verdict.Failed) {
					c.operations.Member(id, u.title(), operation.Failed, verdict.Why, u.pid())
				}
				c.operations.Stop(id, operation.Failed, fmt.Sprintf(control.GateReason+"%s: %s; %s", u.title(), verdict.Why, newAndOld(units, roll)))
				c.keepOperations()
			})
			return
		}
		if verdict.Take < 0 {
			pause := time.Minute
			if verdict.Wait > 0 {
				pause = verdict.Wait
			}
			timer := time.NewTimer(pause)
			select {
			case <-wake:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		c.loop.ask(func() { delete(c.rolls, wake) })
	}
}

// newAndOld says which members have a new process, and which have theirs from before.
func newAndOld(units []*unit, roll *operation.Roll) string {
	fresh, old := "", ""
	for i, u := range units {
		if roll.Taken(i) {
			fresh += ", " + u.title()
		} else {
			old += ", " + u.title()
		}
	}
	text := "new: " + "none"
	if fresh != "" {
		text = "new: " + fresh[2:]
	}
	if old == "" {
		return text + "; old: none"
	}
	return text + "; old: " + old[2:]
}

// seenIn is u as the gate of a verb sees it. To be started or stopped harms nobody,
// so there it is about those alone that were taken; and what has come to be stopped
// is what a new run is elsewhere.
func (c *commands) seenIn(v verb, u *unit, taken bool) operation.Seen {
	seen := c.seen(u)
	switch {
	case v.renews:
	case !taken:
		seen.InService, seen.Hopeless = true, false
	case v.name == "stop":
		gone := !u.active() && !u.order.turn.Stops()
		seen = operation.Seen{InService: gone, For: time.Hour, Run: seen.Run, How: seen.How}
		if gone {
			seen.Run++
		}
	}
	return seen
}

// seen is u as the gate of a rolling operation sees it.
func (c *commands) seen(u *unit) operation.Seen {
	seen := operation.Seen{
		InService: u.state.Phase == machine.Running && !u.order.turn.Stops() && u.state.Health != machine.Unhealthy,
		Run:       u.state.LastID,
		Unhealthy: u.state.Phase == machine.Running && u.state.Health == machine.Unhealthy,
		Wanted:    u.state.Want == machine.WantUp,
		Down:      !u.active() && u.state.Phase != machine.Backoff,
		How:       u.plight(),
	}
	switch u.state.Phase {
	case machine.Running:
		seen.For = time.Duration(boottime() - u.state.ReadyAt)
	case machine.Exited:
		if u.state.Satisfies(u.policy) { // a oneshot that is done
			seen.InService, seen.For = !u.order.turn.Stops(), time.Duration(1<<62)
		} else {
			seen.Ended, seen.Hopeless = true, true
		}
	case machine.Failed, machine.Parked, machine.Stopped, machine.Gone:
		seen.Ended, seen.Hopeless = true, true
	case machine.Backoff:
		seen.Ended = true
	case machine.Waiting:
		seen.Hopeless = u.order.stuck
		seen.Ended = u.order.stuck
	}
	return seen
}

// stirRolls has the rolling operations look again that u is a member of.
func (c *commands) stirRolls(u *unit) {
	for wake, units := range c.rolls {
		if slices.Contains(units, u) {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}
}
