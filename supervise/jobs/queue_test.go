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

// A profile, which writes its schedules itself, has no more than a share of the turns of
// all schedules.
func TestSchedulesOfOneLeaveTurnsToOthers(t *testing.T) {
	q := newQueue(func() Settings { return Settings{AtOnce: 8, PerProfile: 8, Queue: 100} })
	q.open = true
	of := func(profile string) *task {
		return newTask("", kindSchedule, nil, control.RunJob{Command: []string{"true"}, Profile: profile})
	}
	for range 20 {
		q.enter(of("greedy"))
	}
	for i := range 2 {
		if q.next() == nil {
			t.Fatalf("turn %d is not given", i)
		}
	}
	if one := q.next(); one != nil {
		t.Errorf("%+v has a third turn", one.spec.Request)
	}
	other := of("other")
	if q.enter(other); q.next() != other {
		t.Error("another has no turn")
	}
}
