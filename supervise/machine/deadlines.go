package machine

import "math"

// Deadlines are the times, in nanoseconds of the events' monotonic clock, at
// which something is due. 0: nothing is. The one timer of the service is armed
// for the earliest.
type Deadlines struct {
	Start    int64 `json:"start,omitempty"`    // the next start, in Backoff, and in Failed if it is retried
	Spawn    int64 `json:"spawn,omitempty"`    // the spawn should be answered
	Ready    int64 `json:"ready,omitempty"`    // it should be ready
	Watchdog int64 `json:"watchdog,omitempty"` // WATCHDOG=1 should have come
	Stop     int64 `json:"stop,omitempty"`     // SIGKILL, and again while it lives
	Sweep    int64 `json:"sweep,omitempty"`    // look for leftovers again

	// Stalled is how much of the wait for Ready was time in which no process could
	// run, in nanoseconds. Ready was moved by it.
	Stalled int64 `json:"stalled,omitempty"`
}

// Timer is the state of the service's one timer slot.
type Timer struct {
	Generation uint64 `json:"generation"`
	At         int64  `json:"at,omitempty"` // 0: not armed
}

// earliest is the earliest deadline; 0: there is none.
func (d *Deadlines) earliest() (first int64) {
	for _, at := range [...]int64{d.Start, d.Spawn, d.Ready, d.Watchdog, d.Stop, d.Sweep} {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// stall moves the deadlines that the service or tier 1 must meet, since neither could
// run. The time of the next start stays. That of a stop is moved if stop is true.
func (d *Deadlines) stall(by int64, stop bool) {
	moved := func(at int64) int64 {
		if at == 0 || by <= 0 {
			return at
		}
		return at + min(by, math.MaxInt64-at)
	}
	ready := d.Ready
	d.Spawn, d.Ready, d.Watchdog = moved(d.Spawn), moved(d.Ready), moved(d.Watchdog)
	if stop {
		d.Stop = moved(d.Stop)
	}
	d.Stalled += d.Ready - ready
}
