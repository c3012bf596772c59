package member

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	scaleMembers  = flag.Int("members", 4, "how many members TestScale has")
	scaleProfiles = flag.Int("profiles", 400, "how many profiles it has")
	scaleLease    = flag.Duration("lease", 10*time.Second, "of its members")
	scaleLimit    = flag.Duration("limit", 20*time.Minute, "until when all must run")
)

// cpu is what this process has used: that of all members and of the test.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // getrusage(2): a wrong argument only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// costs is what a process has used, and what it has.
func costs(t *testing.T, pid int) (cpu time.Duration, memory int64) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the third on
	number := func(field int) int64 {
		n, err := strconv.ParseInt(fields[field-3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const tick = time.Second / 100 // proc_pid_stat(5): USER_HZ
	return time.Duration(number(14)+number(15)) * tick, number(24) * int64(os.Getpagesize())
}

// TestScale has many members share many profiles on one etcd, loses one of them, and has one
// more join.
func TestScale(t *testing.T) {
	f := newFleetOf(t, 1, 0, *scaleLease)
	f.poll = 0 // as it is by default
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
	took := f.within("all run", *scaleLimit, *scaleProfiles, nil)
	own := cpu() - used
	etcd, memory := costs(t, f.etcd.Nodes[0].PID())
	_, all := costs(t, os.Getpid())
	t.Logf("%d members run all of them after %s, with %s of CPU time, and %s of etcd's; etcd has %d MB, a member %d MB", *scaleMembers, took, own, etcd, memory>>20, all>>20/int64(*scaleMembers))

	used, begun = cpu(), time.Now()
	before := etcd
	f.extended(f.boxes["m1"], boottime()+int64(*scaleLease))
	for time.Since(begun) < *scaleLease {
		<-time.After(time.Second)
	}
	etcd, _ = costs(t, f.etcd.Nodes[0].PID())
	part := func(of time.Duration) float64 { return 100 * of.Seconds() / time.Since(begun).Seconds() }
	t.Logf("at rest all members use %.1f %% of a core, and etcd %.1f %%", part(cpu()-used), part(etcd-before))

	lost := names(f.boxes["m0"])
	used = cpu()
	f.cancels["m0"]()
	for _, name := range lost {
		f.boxes["m0"].kill(name)
	}
	took = f.within("those of m0 run elsewhere", 10*time.Minute, *scaleProfiles, func(_, at string) bool { return at != "m0" })
	t.Logf("the %d profiles of a lost member run elsewhere after %s, with %s of CPU time", len(lost), took, cpu()-used)

	where := f.all.where()
	f.boxes["new"] = &pretended{name: "new", all: f.all, runs: map[string]*gateway{}}
	used, begun = cpu(), time.Now()
	f.run("new", t.TempDir())
	f.must(f.store.Move(context.Background(), "p0", "new"))
	f.within("p0 runs at the new one", 10*time.Minute, *scaleProfiles, func(name, at string) bool { return name != "p0" || at == "new" })
	moved := 0
	for name, at := range f.all.where() {
		if where[name] != at {
			moved++
		}
	}
	t.Logf("a profile that is sent to a new member runs there after %s, with %s of CPU time; %d have moved", time.Since(begun), cpu()-used, moved)
	if moved != 1 {
		t.Errorf("a new member has moved %d profiles", moved-1)
	}
}
