package supervise

import (
	"container/heap"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// boottime is the clock of everything that must outlive this process: time
// since boot in nanoseconds, suspends included. A simulation has another.
var boottime = readBoottime

func readBoottime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Now().UnixNano() // no kernel since 2.6.39 is without it
	}
	return ts.Nano()
}

// timers keeps the one deadline that each unit may have, the earliest on top.
// Only the loop touches it.
type timers struct {
	heap  timerHeap
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

func newTimers() *timers {
	clock := time.NewTimer(time.Hour)
	clock.Stop()
	return &timers{clock: clock}
}

// set arms the unit's slot for a time of the boot clock; 0 disarms it.
func (t *timers) set(u *unit, at int64) {
	u.timer.at = at
	switch {
	case at == 0 && u.timer.index >= 0:
		heap.Remove(&t.heap, u.timer.index)
	case at == 0:
	case u.timer.index >= 0:
		heap.Fix(&t.heap, u.timer.index)
	default:
		heap.Push(&t.heap, u)
	}
}

// due takes out a unit whose time has come, or returns nil.
func (t *timers) due(now int64) *unit {
	if len(t.heap) == 0 || t.heap[0].timer.at > now {
		return nil
	}
	return heap.Pop(&t.heap).(*unit)
}

// arm sets the clock for the earliest deadline.
func (t *timers) arm(now int64) {
	var next int64
	if len(t.heap) > 0 {
		next = t.heap[0].timer.at
	}
	if next == t.armed && (next == 0 || t.rings != 0) {
		return
	}
	if next != t.armed {
		t.armed, t.look = next, max((next-now)/looks, shortestLook)
	}
	t.clock.Stop()
	t.rings = 0
	if next != 0 {
		t.rings = min(next, now+t.look)
		t.clock.Reset(time.Duration(max(0, t.rings-now)))
	}
}

// rang notes that the clock has.
func (t *timers) rang() { t.rings = 0 }

// lost is for how long nobody ran, as far as the clock tells: a container that was
// paused, a host that stood still or slept. It is told once.
func (t *timers) lost(now int64) int64 {
	late := now - t.rings
	if t.rings == 0 || late < punctual {
		return 0
	}
	t.rings = 0
	return late
}

// running are the units with a deadline.
func (t *timers) running() []*unit { return slices.Clone(t.heap) }

// timerSlot is a unit's place in the heap.
type timerSlot struct {
	at         int64
	generation uint64
	index      int // -1: not in the heap
}

type timerHeap []*unit

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].timer.at < h[j].timer.at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer.index, h[j].timer.index = i, j
}

func (h *timerHeap) Push(x any) {
	u := x.(*unit)
	u.timer.index = len(*h)
	*h = append(*h, u)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	u := (*h)[last]
	u.timer.index = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return u
}
