package core

import (
	"container/heap"
	"slices"

	"rlminit/supervise/machine"
)

// timers are the deadlines of lives, the earliest on top.
type timers struct {
	heap timerHeap
	ripe []*Life // those that are being fired
}

// next is the earliest deadline; false: there is none.
func (t *timers) next() (at int64, ok bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].state.Timer.At, true
}

// set has the heap follow a life's timer slot.
func (t *timers) set(l *Life) {
	switch {
	case l.state.Timer.At == 0:
		t.remove(l)
	case l.place >= 0:
		heap.Fix(&t.heap, l.place)
	default:
		heap.Push(&t.heap, l)
	}
}

func (t *timers) remove(l *Life) {
	if l.place >= 0 {
		heap.Remove(&t.heap, l.place)
	}
}

// running are the lives with a deadline.
func (t *timers) running() []*Life { return slices.Clone(t.heap) }

// fire tells each life whose time has come. What is armed anew meanwhile is left for
// the next time.
func (s *Set) fire() {
	t := &s.timers
	t.ripe = t.ripe[:0]
	for at, ok := t.next(); ok && at <= s.input.Now; at, ok = t.next() {
		t.ripe = append(t.ripe, heap.Pop(&t.heap).(*Life))
	}
	for _, l := range t.ripe {
		if at := l.state.Timer.At; at == 0 || at > s.input.Now {
			continue // something else has befallen it meanwhile
		}
		t.remove(l)
		s.transition(l, machine.Event{Kind: machine.TimerFired, Generation: l.state.Timer.Generation})
		s.decide()
	}
}

type timerHeap []*Life

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].state.Timer.At < h[j].state.Timer.At }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *timerHeap) Push(x any) {
	l := x.(*Life)
	l.place = len(*h)
	*h = append(*h, l)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	l.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
