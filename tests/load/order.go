package load

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// Order starts and stops services that require one another, in layers: each
// requires two of the layer below. No service starts before those that it
// requires run, and none gets its stop before all that require it have stopped.
func Order(t *testing.T, start contract.New, services, layers int) {
	width := services / layers
	requires := map[string][]string{}
	var lines []string
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		if layer := i / width; layer > 0 {
			below := (layer - 1) * width
			requires[name] = []string{fmt.Sprintf("s%d", below+i%width), fmt.Sprintf("s%d", below+(i+1)%width)}
		}
		lines = append(lines, fmt.Sprintf(`%s: {command: [sleep, infinity], requires: [%s], enabled: false, log: {tee: off}}`, name, strings.Join(requires[name], ", ")))
	}
	b := start(t, box.Spec{Config: contract.Services(lines...)})
	b.Shell(box.Service, `rlminit events -f --json </dev/null >"`+b.Home()+`/events" 2>&1 &`)

	timed := func(what string, f func()) {
		began := time.Now()
		f()
		t.Logf("figure: order: %d services in %d layers: %s took %s", services, layers, what, time.Since(began).Round(time.Millisecond))
	}
	timed("start --all", func() { b.Must(everyOne("start", services, "--timeout", "120s")...) })
	timed("stop --all", func() { b.Must("stop", "--all", "--timeout", "60s") })

	var seen []control.Event
	box.Eventually(b, 20*time.Second, "all events", func() (bool, any) {
		seen = nil
		stopped := 0
		for line := range strings.Lines(b.Shell(box.Service, `cat "`+b.Home()+`/events"`)) {
			var e control.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				return false, fmt.Sprintf("%v in %q", err, line)
			}
			seen = append(seen, e)
			if e.To == "stopped" {
				stopped++
			}
		}
		return stopped == services, fmt.Sprintf("%d events, %d stopped", len(seen), stopped)
	})
	first := map[string]uint64{}
	for _, e := range seen {
		if key := e.Service + " " + e.To; first[key] == 0 {
			first[key] = e.Seq
		}
	}
	for name, below := range requires {
		for _, other := range below {
			if first[name+" starting"] < first[other+" running"] {
				t.Errorf("%s was started before %s ran", name, other)
			}
			if first[other+" stopping"] < first[name+" stopped"] {
				t.Errorf("%s was told to stop before %s had stopped", other, name)
			}
		}
	}
	b.Must(everyOne("start", services, "--timeout", "120s")...)
	timed("stop --all --runtime, which records nothing,", func() { b.Must("stop", "--all", "--runtime", "--timeout", "60s") })
	b.Must(everyOne("start", services, "--timeout", "120s")...)
	timed("the container's stop", func() {
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}
