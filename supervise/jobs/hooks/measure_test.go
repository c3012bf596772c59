package hooks

import (
	"os"
	"testing"
	"time"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/service"
)

// What is measured here, of this machine and of this process: shares that can be, CPU time
// from the second time on, and of what is not there the reason.
func TestMeter(t *testing.T) {
	all := config.Occasion{Threshold: config.Threshold{Memory: 80, CPU: 90, Disk: 90}}
	some := config.Occasion{Threshold: config.Threshold{Memory: 80, CPU: 90}}
	there := map[string]Service{
		"me":   {Name: "me", PID: os.Getpid(), Limits: service.Limits{Memory: 1 << 40, CPU: 1000}},
		"rest": {Name: "rest"},
	}
	m := meter{leaves: cgroup.Find(), before: map[string]spent{}, given: Given{
		Volume: t.TempDir,
		Services: func(names []string) (found []Service) {
			if s, ok := there[names[0]]; ok {
				found = append(found, s)
			}
			return found
		},
	}}
	hooks := []config.Hook{
		{Name: "box", On: []config.Occasion{all}},
		{Name: "some", On: []config.Occasion{some}, Services: []string{"me", "rest", "nobody", "me"}},
	}
	read := func() map[string]reading {
		by := map[string]reading{}
		for _, r := range m.read(hooks) {
			by[r.of.Hook+" "+r.of.Service+" "+r.of.What] = r
		}
		return by
	}
	first := read()
	if len(first) != 9 {
		t.Fatalf("%d readings: %+v", len(first), first)
	}
	for key, lacks := range map[string]string{
		"box  memory": "", "box  cpu": notYet, "box  disk": "", "some me memory": "", "some me cpu": notYet,
		"some rest memory": "", "some rest cpu": "", "some nobody memory": noService, "some nobody cpu": noService,
	} {
		if r := first[key]; r.lacks != lacks || r.percent < 0 || r.percent > 100 {
			t.Errorf("%s at first: %+v", key, r)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; { // until time was spent that the kernel counts
		now := read()
		if box, me := now["box  cpu"], now["some me cpu"]; box.lacks == "" && me.lacks == "" && box.percent > 0 && me.percent > 0 && me.percent < 10 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the CPU time is %+v and %+v", box, me)
		}
	}
	m.given.Volume = func() string { return "/no/such/volume" }
	if r := read()["box  disk"]; r.lacks == "" {
		t.Errorf("a volume that is not there: %+v", r)
	}
}
