package supervise

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestGarbageIsAllowedWhileManyCommandsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := newMailbox()
		var did []int
		s := &gcTarget{
			loop:    &loop,
			percent: func(garbage int) { did = append(did, garbage) },
			free:    func() { did = append(did, 0) },
		}
		was := boottime
		defer func() { boottime = was }()
		began := time.Now()
		boottime = func() int64 { return int64(time.Since(began)) + 1 }
		// works does so many commands in a second, for some seconds.
		works := func(of, seconds int) {
			for range seconds {
				for range of {
					s.worked(boottime())
				}
				time.Sleep(time.Second)
				for len(loop.letters) > 0 {
					(<-loop.letters)()
				}
			}
		}
		for _, step := range []struct {
			name          string
			work, seconds int
			did           []int
		}{
			{"little", manyCommands - 10, 10, nil},
			{"much", manyCommands, 10, []int{muchGarbage}},
			{"hardly anything", 1, 5, []int{littleGarbage, 0}},
			{"nothing", 0, 20, nil},
			{"much again", 3 * manyCommands, 1, []int{muchGarbage}},
		} {
			did = nil
			if works(step.work, step.seconds); !slices.Equal(did, step.did) {
				t.Errorf("%s: %v, not %v", step.name, did, step.did)
			}
		}
	})
}
