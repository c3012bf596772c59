package garbage

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestGarbageIsAllowedWhileManyCommandsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := make(chan func(), 10)
		began := time.Now()
		s := NewTarget(func(f func()) { loop <- f }, func() int64 { return int64(time.Since(began)) + 1 })
		var did []int
		s.percent = func(garbage int) { did = append(did, garbage) }
		s.free = func() { did = append(did, 0) }
		// works does so many commands in a second, for some seconds.
		works := func(of, seconds int) {
			for range seconds {
				for range of {
					s.Worked()
				}
				time.Sleep(time.Second)
				for len(loop) > 0 {
					(<-loop)()
				}
			}
		}
		for _, step := range []struct {
			name          string
			work, seconds int
			did           []int
		}{
			{"little", manyCommands - 10, 10, nil},
			{"much", manyCommands, 10, []int{much}},
			{"hardly anything", 1, 5, []int{little, 0}},
			{"nothing", 0, 20, nil},
			{"much again", 3 * manyCommands, 1, []int{much}},
		} {
			did = nil
			if works(step.work, step.seconds); !slices.Equal(did, step.did) {
				t.Errorf("%s: %v, not %v", step.name, did, step.did)
			}
		}
	})
}

// The first collection ends the time without one, and so does the end of the boot; what
// comes second changes nothing of what the end has set.
func TestBootingEnds(t *testing.T) {
	booted := Hurry(Boot)
	for percent := -1; percent == -1; time.Sleep(time.Millisecond) {
		runtime.GC()
		percent = debug.SetGCPercent(much)
	}
	booted()
	if percent := debug.SetGCPercent(much); percent != little {
		t.Errorf("after the boot the target is %d %%", percent)
	}
	booted = Hurry(Boot)
	booted()
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if percent := debug.SetGCPercent(much); percent != little {
		t.Errorf("after a boot in which nothing was collected the target is %d %%", percent)
	}
}
