package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// rolls are the rolling operations that are under way. Each has a goroutine; what it
// decides and does it does in the loop.
type rolls struct {
	loop       *mailbox
	fleet      *fleet
	records    *records
	operations *operations

	waiting map[chan struct{}][]*unit // for a change of one of these units; the loop's
}

// rolling is one of them.
type rolling struct {
	operation.Handle
	verb  verb
	units []*unit // Invariant: in the order of roll's members
	roll  *operation.Roll
	event machine.Event
	leave func() // before it ends early
	waits string // what those wait for that it has not come to; "": their turn
}

// roll restarts units, at most limit of which are out of service at once; or has
// at most so many on their way up, or down, at once.
func (c *commands) roll(v verb, units []*unit, limit int, steady time.Duration, actor control.Actor) (begun operation.Handle, err error) {
	order, refused := c.accept(context.Background(), v, units, c.startedAlong(v, units), actor, 0)
	if refused != nil {
		return begun, refused
	}
	units = order.units
	g := &rolling{verb: v, units: units, roll: operation.NewRoll(len(units), limit, steady, v.renews), event: commanded(v, actor)}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	c.loop.ask(func() {
		g.leave = func() { c.leave(order.id, actor) }
		g.Handle = c.operations.begin(order.id, v.name, members(units), order.along, operation.Pending, actor, func() {
			cancel()
			<-over // whoever cancels is answered when what that means is recorded
		})
		c.records.intend(order.wants, units, order.along, nil)
	})
	order.release() // not before: a later command would be taken for an earlier one
	var ended map[*unit]occurring
	if v.name == "stop" { // of all at once: nobody is out of service by that
		ended = c.jobs.endOccurrences(units, g.event.Cause)
	}
	go func() {
		defer close(over)
		defer cancel()
		for _, is := range ended {
			if is.over != nil {
				select {
				case <-is.over:
				case <-ctx.Done():
				}
			}
		}
		c.rolls.run(ctx, g)
		g.leave()
	}()
	c.records.copied()
	if order.unrecorded != nil {
		return begun, stoppedOnly(fmt.Sprintf("what operation %d is for", order.id), order.unrecorded)
	}
	return g.Handle, nil
}

// leave has those that rolling operations have recorded otherwise, and none goes on to
// come to, be wanted as before: or status and health would each say something else of
// them, and the next boot start or stop them. Whom another operation than one is yet to
// take, or who goes along with such a member, is that one's.
func (c *commands) leave(id uint64, actor control.Actor) {
	for _, v := range []verb{verbStop, verbStart} {
		var left []*unit
		if c.loop.ask(func() { left = c.left(id, v.intent) }); len(left) == 0 {
			continue
		}
		var still map[*unit]bool // found in one piece of the loop's work
		v.meant = func(u *unit) bool {
			if still == nil {
				still = setOf(c.left(id, v.intent))
			}
			return still[u]
		}
		order, refused := c.accept(context.Background(), v, left, nil, actor, id)
		c.loop.ask(func() { c.records.intend(order.wants, order.units, nil, func() {}) })
		if order.unrecorded != nil {
			slog.Warn("what an operation has not come to stays recorded as it was to be", "operation", id, "err", order.unrecorded)
		}
		if refused == nil {
			order.release()
		}
		c.records.copied()
	}
}

// left are those that were recorded as intent says before a rolling operation, and that
// no other operation than one has. Only the loop calls it.
func (c *commands) left(id uint64, intent service.Intent) (left []*unit) {
	var taken []*unit // by another
	awaited := c.operations.book.Awaited(id)
	for _, u := range c.fleet.all() {
		if u.kept.before == intent && u.desired != intent {
			left = append(left, u)
		}
		if awaited[u.title()] {
			taken = append(taken, u)
		}
	}
	others := setOf(append(taken, c.fleet.along(taken...)...))
	return slices.DeleteFunc(left, func(u *unit) bool { return others[u] })
}

func setOf(units []*unit) map[*unit]bool {
	set := make(map[*unit]bool, len(units))
	for _, u := range units {
		set[u] = true
	}
	return set
}

// run takes one member after the other.
func (rs *rolls) run(ctx context.Context, g *rolling) {
	for ctx.Err() == nil {
		var verdict operation.Verdict
		wake := make(chan struct{}, 1)
		rs.loop.ask(func() {
			verdict = rs.look(ctx, g)
			rs.waiting[wake] = g.units
		})
		o, changed := g.Now()
		if o.Over() || verdict.Over || verdict.Failed >= 0 {
			if !o.Over() { // before it is known to be: a successor starts whom nobody has left
				g.leave()
			}
			rs.loop.ask(func() {
				delete(rs.waiting, wake)
				switch {
				case o.Over():
				case verdict.Over:
					rs.done(g)
				default:
					rs.halt(g, verdict)
				}
				rs.operations.keep()
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
			case <-changed: // somebody has commanded a member otherwise
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		rs.loop.ask(func() { delete(rs.waiting, wake) })
	}
}

// look judges what there is to see of the members, and takes the next one if it may be
// taken: in one piece of the loop's work, so that nobody goes out of service in between.
func (rs *rolls) look(ctx context.Context, g *rolling) operation.Verdict {
	o, _ := g.Now()
	for i, m := range o.Members {
		if m.State == operation.Superseded {
			g.roll.Skip(i)
		}
	}
	seen := make([]operation.Seen, len(g.units))
	for i, u := range g.units {
		removed := (u.state.Removed || u.life.Turn() == order.Remove) && g.verb.name != "stop"
		if removed {
			rs.operations.member(g.ID(), u, operation.Failed, u.title()+" was removed")
			g.roll.Skip(i)
		}
		if g.verb.name == "stop" && g.roll.Taken(i) && !g.roll.Done[i] && u.wanted() { // along with another
			rs.operations.member(g.ID(), u, operation.Failed, u.title()+" was started again before it had stopped")
			g.roll.Skip(i)
		}
		switch {
		case g.roll.Taken(i) || g.verb.needed(u):
		case g.verb.renews: // it is on its way with a new process
			g.roll.Begun(i)
			rs.operations.book.Member(g.ID(), u.title(), operation.Running, "", 0)
			rs.records.cameTo(u)
		case g.verb.name != "start" || len(rs.along(u)) == 0:
			g.roll.Skip(i)
			rs.records.cameTo(u)
		}
		seen[i] = g.verb.seen(u, g.roll.Taken(i) && !g.roll.Done[i])
		seen[i].InService = seen[i].InService || removed // it is no service of the set that is out
	}
	verdict := g.roll.Next(seen)
	if !verdict.Over {
		rs.done(g)
	}
	if rs.fleet.set.Stopping() {
		rs.operations.book.Stop(g.ID(), operation.Interrupted, "the container is stopping")
		return verdict
	}
	rs.tell(g, verdict)
	if verdict.Take >= 0 && ctx.Err() == nil {
		u := g.units[verdict.Take]
		rs.operations.book.Member(g.ID(), u.title(), operation.Running, "", 0)
		act := []*unit{u}
		if g.verb.name != "stop" {
			act = append(rs.along(u), u)
		}
		g.verb.apply(rs.fleet, act, g.event)
		rs.records.cameTo(act...)
	}
	return verdict
}

// tell notes what those wait for that it has not come to.
func (rs *rolls) tell(g *rolling, verdict operation.Verdict) {
	waits := ""
	if verdict.Take < 0 && verdict.Failed < 0 && verdict.Out >= 0 {
		u := g.units[verdict.Out]
		waits = fmt.Sprintf("%s is %s, and no more than %d may be out of service at once", u.title(), u.plight(), g.roll.Limit)
	}
	if waits == g.waits {
		return
	}
	g.waits = waits
	for i, u := range g.units {
		if !g.roll.Taken(i) {
			rs.operations.book.Member(g.ID(), u.title(), operation.Pending, waits, 0)
		}
	}
}

// along are those that are started with u: not who was stopped since that was recorded.
func (rs *rolls) along(u *unit) []*unit {
	return slices.DeleteFunc(rs.fleet.along(u), func(other *unit) bool { return other.desired != service.Running })
}

// done notes the members that have come to what they are to be.
func (rs *rolls) done(g *rolling) {
	for i, u := range g.units {
		if g.roll.Done[i] {
			rs.operations.member(g.ID(), u, operation.Done, "")
		}
	}
}

// hopeless says why a rolling operation would end at its gate before it has taken
// anybody. Nothing of it is recorded then: what was stopped stays so.
func (rs *rolls) hopeless(v verb, units []*unit, limit int) (problem *control.Problem) {
	rs.loop.ask(func() {
		g := &rolling{verb: v, units: units, roll: operation.NewRoll(len(units), limit, 0, v.renews)}
		seen := make([]operation.Seen, len(units))
		for i, u := range units {
			seen[i] = v.seen(u, false)
		}
		if verdict := g.roll.Next(seen); verdict.Failed >= 0 {
			problem = control.NewProblem(control.KindUnhealthy, g.halted(verdict))
		}
	})
	return problem
}

// halt ends one at its gate.
func (rs *rolls) halt(g *rolling, verdict operation.Verdict) {
	if g.roll.Taken(verdict.Failed) {
		rs.operations.member(g.ID(), g.units[verdict.Failed], operation.Failed, verdict.Why)
	}
	rs.operations.book.Stop(g.ID(), operation.Failed, g.halted(verdict))
}

// halted says where it has ended, and why.
func (g *rolling) halted(verdict operation.Verdict) string {
	return fmt.Sprintf(control.GateReason+"%s: %s; %s", g.units[verdict.Failed].title(), verdict.Why, g.newAndOld())
}

// newAndOld says which members have a new process, and which have theirs from before.
func (g *rolling) newAndOld() string {
	fresh, old := "", ""
	for i, u := range g.units {
		if g.roll.Taken(i) {
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

// stir has the rolling operations look again that u is a member of.
func (rs *rolls) stir(u *unit) {
	for wake, units := range rs.waiting {
		if slices.Contains(units, u) {
			nudge(wake)
		}
	}
}
