package jobs

import (
	"fmt"
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

// However many jobs one party has, and however long they run: a neighbour's is taken, has its
// turn at once, and from then on every other one.
func TestAHogDelaysNobody(t *testing.T) {
	for _, kind := range []string{"run", kindSchedule, kindHook} {
		q := newQueue(func() Settings { return Settings{AtOnce: 8, PerProfile: 8, Queue: 64} })
		q.open = true
		of := func(name string) *task {
			one := newTask("", kind, nil, control.RunJob{Command: []string{"true"}, Profile: name})
			one.spec.About = name
			return one
		}
		var running []*task
		for n := 0; !q.lane(of("hog")).full(partyOf(of("hog"))); n++ {
			if n > 1000 {
				t.Fatalf("%s: the line has no end", kind)
			}
			q.enter(of("hog"))
			for one := q.next(); one != nil; one = q.next() {
				running = append(running, one)
			}
		}
		for i := range 3 { // each of another neighbour
			neighbour := of(string(rune('a' + i)))
			if q.lane(neighbour).full(partyOf(neighbour)) {
				t.Errorf("%s: neighbour %d is refused", kind, i)
			}
			q.enter(neighbour)
			if i == 0 {
				if one := q.next(); one != neighbour {
					t.Fatalf("%s: the neighbour has no turn", kind)
				}
				q.giveBack(neighbour)
			}
		}
		for i := range 2 { // what is given back goes round
			q.giveBack(running[i])
			if one := q.next(); one == nil || partyOf(one) == partyOf(of("hog")) {
				t.Errorf("%s: turn %d goes to the hog again", kind, i)
			}
		}
		if len(q.lanes[laneOf(of("x"))].parties) != 3 {
			t.Errorf("%s: parties are kept that have nothing: %v", kind, q.lanes[laneOf(of("x"))].parties)
		}
	}
}

// A party that comes again and again with one job keeps no other waiting that has had a turn.
func TestWhoComesAgainIsBehindWhoWaits(t *testing.T) {
	q := newQueue(func() Settings { return Settings{AtOnce: 8, PerProfile: 8, Queue: 100} })
	q.open = true
	of := func(profile string) *task {
		return newTask("", "run", nil, control.RunJob{Command: []string{"true"}, Profile: profile})
	}
	var running []*task
	turns := func() {
		for one := q.next(); one != nil; one = q.next() {
			running = append(running, one)
		}
	}
	q.enter(of("patient"))
	turns()
	waits := of("patient")
	for i := range 12 {
		q.enter(of(fmt.Sprintf("busy-%d", i)))
	}
	turns()
	q.enter(waits)
	for range 40 {
		over := running[0]
		running = running[1:]
		q.giveBack(over)
		if over.spec.Request.Profile != "patient" {
			q.enter(of(over.spec.Request.Profile)) // which has nothing else
		}
		if turns(); waits.active {
			break
		}
	}
	if !waits.active {
		t.Error("it has had no turn in 40")
	}
	for len(running) > 0 {
		q.giveBack(running[0])
		running = running[1:]
		turns()
	}
	if l := q.lane(waits); len(l.had) > 0 || len(l.parties) > 0 {
		t.Errorf("a lane in which nothing is knows of %v and %v", l.had, l.parties)
	}
}
