package schedule

import "time"

// CatchUp says what becomes of occurrences at which nobody was there.
type CatchUp string

// What becomes of them.
const (
	CatchUpNone CatchUp = "none" // nothing
	CatchUpOne  CatchUp = "one"  // of all together, one is made up for
)

// Timer is a schedule and how far it has come. Last is what was recorded last: no
// occurrence up to it is due again, whatever clocks do.
type Timer struct {
	Cron    *Cron
	CatchUp CatchUp
	Last    time.Time // the last occurrence that was recorded, run or not; zero: none
	Since   time.Time // the schedule is in force: earlier occurrences are nobody's
}

// Grace is how late an occurrence may be found and still counts as on time.
const Grace = time.Minute

// Due is the occurrence that is to be recorded now and then run, if run is true:
// the latest that is due. Others before it were missed. The zero Time: nothing is
// due.
func (t *Timer) Due(now time.Time) (at time.Time, run bool, missed int) {
	from := t.Last
	if from.Before(t.Since) {
		from = t.Since
	}
	for next := t.Cron.Next(from); !next.IsZero() && !next.After(now); next = t.Cron.Next(next) {
		if !at.IsZero() {
			missed++
		}
		at = next
		if missed == mostMissed { // a clock that was set by years
			at = t.Cron.before(now, at)
			break
		}
	}
	if at.IsZero() {
		return at, false, 0
	}
	run = now.Sub(at) <= Grace || t.CatchUp == CatchUpOne
	if !run {
		missed++
	}
	return at, run, missed
}

// mostMissed bounds what is counted one by one.
const mostMissed = 10000

// before is the last occurrence up to now, found by halves; at is one of them.
func (c *Cron) before(now, at time.Time) time.Time {
	low := at
	for step := now.Sub(at); step > time.Second; step /= 2 {
		if next := c.Next(low.Add(step)); !next.IsZero() && !next.After(now) {
			low = next
		}
	}
	for next := c.Next(low); !next.IsZero() && !next.After(now); next = c.Next(next) {
		low = next
	}
	return low
}

// Next is when the timer is to be looked at again.
func (t *Timer) Next(now time.Time) time.Time {
	from := now
	if from.Before(t.Last) { // the clock was set back
		from = t.Last
	}
	if from.Before(t.Since) {
		from = t.Since
	}
	return t.Cron.Next(from)
}
