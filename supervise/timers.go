package supervise

import (
	"container/heap"
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
	armed int64 // what the clock is set to; 0: not at all
}

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
	if next == t.armed {
		return
	}
	t.armed = next
	t.clock.Stop()
	if next != 0 {
		t.clock.Reset(time.Duration(max(0, next-now)))
	}
}

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
