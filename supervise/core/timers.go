package core

import (
	"container/heap"

	"rlminit/supervise/machine"
)

// deadline is when something is to be looked at again.
type deadline struct {
	at        int64
	place     int        // in the heap; -1: it is not armed
	life      *Life      // whose it is
	operation *Operation // or this one's
}

// timers are the deadlines that are armed, the earliest on top.
type timers struct {
	heap timerHeap
	ripe []*deadline // those that are being fired
}

// next is the earliest deadline; false: there is none.
func (t *timers) next() (at int64, ok bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}

// set arms a deadline; 0 disarms it.
func (t *timers) set(d *deadline, at int64) {
	d.at = at
	switch {
	case at == 0:
		t.remove(d)
	case d.place >= 0:
		heap.Fix(&t.heap, d.place)
	default:
		heap.Push(&t.heap, d)
	}
}

func (t *timers) remove(d *deadline) {
	if d.place >= 0 {
		heap.Remove(&t.heap, d.place)
	}
}

// running are the lives with a deadline.
func (t *timers) running() (lives []*Life) {
	for _, d := range t.heap {
		if d.life != nil {
			lives = append(lives, d.life)
		}
	}
	return lives
}

// fire tells each whose time has come. A timer armed anew meanwhile is left for the next
// time.
func (s *Set) fire() {
	t := &s.timers
	t.ripe = t.ripe[:0]
	for at, ok := t.next(); ok && at <= s.input.Now; at, ok = t.next() {
		t.ripe = append(t.ripe, heap.Pop(&t.heap).(*deadline))
	}
	for _, d := range t.ripe {
		if o := d.operation; o != nil {
			s.scheduler.recheck(o, -1)
			s.decide()
			continue
		}
		l := d.life
		if at := l.state.Timer.At; at == 0 || at > s.input.Now {
			continue // something else has befallen it meanwhile
		}
		t.remove(d)
		s.transition(l, machine.Event{Kind: machine.TimerFired, Generation: l.state.Timer.Generation})
		s.decide()
	}
}

type timerHeap []*deadline

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *timerHeap) Push(x any) {
	d := x.(*deadline)
	d.place = len(*h)
	*h = append(*h, d)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	d.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
