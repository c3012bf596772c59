package jobs

import (
	"testing"

	"rlminit/control"
)

// A lane that is full, with all its turns taken, is in the way of no other.
func TestLanesTakeNoRoomOfEachOther(t *testing.T) {
	kinds := []string{"run", kindSchedule, kindHook}
	job := func(kind string) *task { return newTask("", kind, nil, control.RunJob{Command: []string{"true"}}) }
	for _, full := range kinds {
		q := newQueue(func() Settings { return Settings{AtOnce: 2, PerProfile: 2, Queue: 3} })
		q.open = true
		n := 0
		for ; !q.lane(job(full)).full(Owner{}); n++ {
			q.enter(job(full))
			q.next()
		}
		if want := map[string]int{"run": 5, kindSchedule: 5, kindHook: hooksAtOnce + hooksWaiting}[full]; n != want {
			t.Errorf("%d jobs of kind %s are taken, not %d", n, full, want)
		}
		for _, kind := range kinds {
			one := job(kind)
			if kind == full {
				continue
			}
			if !q.free(one) || q.lane(one).full(Owner{}) {
				t.Errorf("with all of kind %s, one of kind %s is not taken", full, kind)
			}
			if q.enter(one); q.next() != one {
				t.Errorf("with all of kind %s, one of kind %s has no turn", full, kind)
			}
		}
	}
}
