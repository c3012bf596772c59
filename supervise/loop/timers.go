package loop

import (
	"time"

	"rlminit/wire"
)

// boottime is the clock of everything that must outlive this process: time
// since boot in nanoseconds, suspends included. A simulation has another.
var boottime = func() int64 { return int64(wire.SinceBoot()) }

// alarm rings for the earliest deadline, and finds out by that for how long nobody ran.
// Only the loop touches it.
type alarm struct {
	clock *time.Timer
	armed int64 // the deadline that the clock is on the way to; 0: none
	look  int64 // ns between two rings on that way
	rings int64 // when the clock rings next; 0: not at all
}

const (
	// looks is how often the clock rings on the way to a deadline, the end
	// included. How late it does tells of time in which nobody ran, and that can be
	// known only of the part after a ring that was due.
	looks = 4
	// shortestLook bounds what looking costs on the way to a near deadline, and
	// punctual is how late a ring may be on a machine that is merely busy.
	shortestLook = int64(25 * time.Millisecond)
	punctual     = int64(50 * time.Millisecond)
)

func newAlarm() *alarm {
	clock := time.NewTimer(time.Hour)
	clock.Stop()
	return &alarm{clock: clock}
}

// arm sets the clock for the earliest deadline; 0: there is none.
func (a *alarm) arm(next, now int64) {
	if next == a.armed && (next == 0 || a.rings != 0) {
		return
	}
	if next != a.armed {
		a.armed, a.look = next, max((next-now)/looks, shortestLook)
	}
	a.clock.Stop()
	a.rings = 0
	if next != 0 {
		a.rings = min(next, now+a.look)
		a.clock.Reset(time.Duration(max(0, a.rings-now)))
	}
}

// lost is for how long nobody ran, as far as the clock tells: a container that was
// paused, a host that stood still or slept. It is told once.
func (a *alarm) lost(now int64) int64 {
	late := now - a.rings
	if a.rings == 0 || late < punctual {
		return 0
	}
	a.rings = 0
	return late
}
