package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// StartsBesideHogs: services that start as often as they can, or that are asked by many probes,
// take no start from a neighbour: it gets each that it is to have.
func StartsBesideHogs(t *testing.T, start New) {
	const hogs, starts = 8, 20
	kinds := map[string]string{
		"nobody":          "",
		"crash loops":     `{command: ["true"], restart: {policy: always, delay: 10ms, max_delay: 10ms, limit: 0}}`,
		"frequent probes": `{command: [sleep, "1000000"], health: {exec: ["true"], interval: 100ms, timeout: 1s}}`,
	}
	for _, kind := range []string{"nobody", "crash loops", "frequent probes"} {
		services := []string{`neighbour: {command: [sleep, "1000000"], restart: {delay: 10ms, max_delay: 10ms, limit: 0}}`}
		for i := range hogs {
			if kind != "nobody" {
				services = append(services, fmt.Sprintf("hog%d: %s", i, kinds[kind]))
			}
		}
		t.Run(strings.ReplaceAll(kind, " ", "-"), func(t *testing.T) {
			b := start(t, box.Spec{Config: Services(services...)})
			pid := *b.Await("neighbour", "running").PID
			before := restartsOf(b, "hog")
			var took []time.Duration
			for range starts {
				kill(b, "KILL", pid)
				began := time.Now()
				s := b.AwaitThat("neighbour", "another run", runsAnew(pid))
				took = append(took, time.Since(began))
				pid = *s.PID
			}
			s := b.Status()["neighbour"]
			if s.Restarts != starts {
				t.Errorf("it was killed %d times, and started again %d times", starts, s.Restarts)
			}
			slices.Sort(took)
			others := restartsOf(b, "hog") - before
			if kind == "crash loops" && others < starts {
				t.Errorf("the hogs were started %d times", others)
			}
			t.Logf("figure: beside %s, which started %d times meanwhile, %d of %d starts, median %s, longest %s", kind, others, s.Restarts, starts, took[starts/2].Round(time.Millisecond), took[starts-1].Round(time.Millisecond))
		})
	}
}

// restartsOf is how often services whose names begin so were restarted.
func restartsOf(b *box.Box, prefix string) (n int) {
	b.Helper()
	for name, s := range b.Status() {
		if strings.HasPrefix(name, prefix) {
			n += s.Restarts
		}
	}
	return n
}

// runsAnew tells whether a service runs as another process.
func runsAnew(pid int) func(control.Service) bool {
	return func(s control.Service) bool { return s.State == "running" && s.PID != nil && *s.PID != pid }
}
