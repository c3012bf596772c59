// Package load holds what must be true of rlminit under load, and measures it,
// in any kind of box. Figures go to the test's output as "figure: …"; they are
// no assertions.
package load

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// Storm leaves so many double-forked orphans a second, for so many seconds,
// while services crash and restart as fast as they are let. In the end there
// is no zombie, every service's starts are as many as rlminit says, and its
// last exit code is the one that this start gave.
func Storm(t *testing.T, start contract.New, rate, seconds, services int) {
	lines := []string{fmt.Sprintf(`storm: {type: oneshot, enabled: false, command: [nasty, orphans, "%d", "%d"]}`, rate, seconds)}
	for i := range services {
		lines = append(lines, fmt.Sprintf(
			`flap%d: {command: [nasty, flap, "${RLMINIT_HOME}/flap%d"], restart: {policy: always, delay: 250ms, factor: 1, max_delay: 250ms, jitter: 0, limit: 0}, log: {tee: off}}`, i, i))
	}
	b := start(t, box.Spec{Config: contract.Services(lines...)})
	b.Must("start", "storm", "--timeout", "180s") // beside other tests it has a small part of the machine
	b.AwaitThat("storm", "is over", func(s control.Service) bool { return s.State == "exited" })
	if out := b.Must("logs", "storm"); !strings.Contains(out, fmt.Sprintf("orphans %d", rate*seconds)) {
		t.Errorf("the storm said %q", out)
	}
	b.Must("stop", "--all", "--timeout", "30s")

	total := 0
	counts := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(b.Shell(box.Service, `cd "`+b.Home()+`"; for d in flap*; do echo "$d $(stat -c %s "$d")"; done`)), "\n") {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		counts[name] = n
	}
	for name, s := range b.Status() {
		if name == "storm" {
			continue
		}
		starts := counts[name]
		total += starts
		if starts < seconds {
			t.Errorf("%s started %d times in %d s", name, starts, seconds)
		}
		// The stop may have come before the last run could count itself, or
		// between the decision to start it and its beginning.
		if s.Restarts != starts-1 && s.Restarts != starts {
			t.Errorf("%s started %d times, rlminit counts %d restarts", name, starts, s.Restarts)
		}
		// One that was stopped as it ran has a signal in place of its code.
		if s.LastExit == nil || s.LastExit.Code != nil && *s.LastExit.Code != starts%64 || s.LastExit.Code == nil && s.LastExit.Signal == nil {
			t.Errorf("%s started %d times, last: %s", name, starts, box.Describe(s))
		}
	}
	if len(counts) != services {
		t.Errorf("%d of %d services ran", len(counts), services)
	}
	for _, p := range b.Processes() {
		if p.State == "Z" {
			t.Errorf("pid %d is a zombie, parent %d", p.PID, p.Parent)
		}
	}
	t.Logf("figure: storm: %d orphans, %d restarts of %d services in %d s", rate*seconds, total, services, seconds)
}

// Boot makes profiles, starts the box anew, and measures from the start of PID 1
// until the gateways of all profiles are ready: what a container's engine needs
// before that is not rlminit's.
func Boot(t testing.TB, start contract.New, profiles int) time.Duration {
	b := start(t, box.Spec{Config: contract.Config()})
	b.Shell(box.Service, fmt.Sprintf(`for i in $(seq %d); do rlminit profile create --no-wait "p$i"; done`, profiles))
	b.Must("start", "--all", "--timeout", "60s")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	b.AwaitReady()
	var last time.Time
	box.Eventually(b, time.Minute, "all run", func() (bool, any) {
		running := 0
		for _, s := range b.Status() {
			if s.State == "running" {
				running++
				if s.Since.After(last) {
					last = *s.Since
				}
			}
		}
		return running == profiles, running
	})
	took := last.Sub(started(b))
	t.Logf("figure: boot: %d profiles ready %d ms after the start of PID 1", profiles, took.Milliseconds())
	return took
}

// started is when PID 1 was started, to the hundredth of a second: proc(5).
func started(b *box.Box) time.Time {
	b.Helper()
	const ticks = 100 // a second: USER_HZ on every architecture that Go has
	for _, p := range b.Processes() {
		if p.PID == 1 {
			var uptime float64
			if _, err := fmt.Sscan(b.Shell(box.Service, "cat /proc/uptime"), &uptime); err != nil {
				b.Fatal(err)
			}
			age := time.Duration((uptime - float64(p.Start)/ticks) * float64(time.Second))
			return time.Now().Add(-age)
		}
	}
	b.Fatal("there is no PID 1")
	return time.Time{}
}

// everyOne is a verb for the services s0, s1 and so on by their full names: a set starts no
// service that is disabled.
func everyOne(verb string, services int, flags ...string) []string {
	words := append([]string{verb}, flags...)
	for i := range services {
		words = append(words, fmt.Sprintf("s%d", i))
	}
	return words
}
