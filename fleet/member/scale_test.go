package member

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	scaleMembers  = flag.Int("members", 4, "how many members TestScale has")
	scaleProfiles = flag.Int("profiles", 400, "how many profiles it has")
	scaleLease    = flag.Duration("lease", 10*time.Second, "of its members")
)

// cpu is what this process has used: that of all members and of the test.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // getrusage(2): a wrong argument only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestScale has many members share many profiles on one etcd, and loses one of them.
func TestScale(t *testing.T) {
	f := newFleetOf(t, 1, 0, *scaleLease)
	var wait sync.WaitGroup
	begun := time.Now()
	work := make(chan int)
	for range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range work {
				// One whose answer was lost is declared, or is the next time.
				name, err := fmt.Sprintf("p%d", i), error(nil)
				for try := 0; try == 0 || err != nil && try < 10; try++ {
					_, _, err = f.store.Declare(context.Background(), name, `{"kind":"web"}`, 0)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for i := range *scaleProfiles {
		work <- i
	}
	close(work)
	wait.Wait()
	t.Logf("%d profiles are declared after %s", *scaleProfiles, time.Since(begun))
	if t.Failed() {
		return
	}
	for i := range *scaleMembers {
		name := fmt.Sprintf("m%d", i)
		f.boxes[name] = &pretended{name: name, all: f.all, runs: map[string]*gateway{}}
		f.run(name, t.TempDir())
	}
	used := cpu()
	t.Logf("%d members run all of them after %s, with %s of CPU time", *scaleMembers, f.within("all run", 20*time.Minute, *scaleProfiles, nil), cpu()-used)
	used, begun = cpu(), time.Now()
	f.extended(f.boxes["m1"], boottime()+int64(*scaleLease))
	idle := (cpu() - used).Seconds() / time.Since(begun).Seconds()
	t.Logf("at rest all members use %.1f %% of a core", 100*idle)

	lost := names(f.boxes["m0"])
	used = cpu()
	f.cancels["m0"]()
	for _, name := range lost {
		f.boxes["m0"].kill(name)
	}
	took := f.within("those of m0 run elsewhere", 10*time.Minute, *scaleProfiles, func(_, at string) bool { return at != "m0" })
	t.Logf("the %d profiles of a lost member run elsewhere after %s, with %s of CPU time", len(lost), took, cpu()-used)
}
