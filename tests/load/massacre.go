package load

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// limited is how many starts every tenth service of Massacre has: it fails then.
const limited = 5

// Massacre kills services at random, as soon as they run again, until there
// were so many kills. Each kill is followed by exactly one start, or by the
// failure that its policy says, and no two processes of one service ever live
// at once. The services see to that: each counts its starts in a file, and
// holds a lock on it for as long as it lives.
func Massacre(t *testing.T, start contract.New, services, kills int) {
	var lines []string
	for i := range services {
		limit := 0
		if i%10 == 0 {
			limit = limited
		}
		lines = append(lines, fmt.Sprintf(
			`s%d: {command: [sh, -c, 'exec 9>>"$0"; flock -n 9 || echo "$0" >>twice; echo >&9; exec sleep "$1"', s%d, "1000000%d"], working_dir: "${RLMINIT_HOME}/counts", restart: {policy: always, delay: 1ms, factor: 1, max_delay: 1ms, jitter: 0, limit: %d, window: 24h, retry_failed: 0s, reset_after: 1ms}, log: {tee: off}, enabled: false}`,
			i, i, i, limit))
	}
	b := start(t, box.Spec{Config: contract.Services(lines...)})
	b.Shell(box.Service, `mkdir "`+b.Home()+`/counts"`)
	began := time.Now()
	b.Must(everyOne("start", services, "--timeout", "120s")...)
	t.Logf("figure: massacre: %d services started in %s", services, time.Since(began).Round(time.Millisecond))

	began = time.Now()
	var killed map[string]int
	if r := b.As(box.Root, "nasty", "massacre", "sleep", fmt.Sprint(kills)); r.Code != 0 {
		t.Fatal(r)
	} else if err := json.Unmarshal([]byte(r.Out), &killed); err != nil {
		t.Fatalf("%v in %s", err, r)
	}
	took := time.Since(began)
	total := 0
	for _, n := range killed {
		total += n
	}
	if total != kills {
		t.Errorf("%d of %d kills found somebody to kill", total, kills)
	}
	t.Logf("figure: massacre: %d kills of %d services in %s, %.0f restarts/s", total, services, took.Round(time.Millisecond), float64(total)/took.Seconds())

	box.Eventually(b, time.Minute, "all have settled", func() (bool, any) {
		for name, s := range b.Status() {
			if s.State != "running" && s.State != "failed" {
				return false, name + " is " + box.Describe(s)
			}
		}
		return true, nil
	})
	status := b.Status()
	box.Eventually(b, time.Minute, "each start is counted, and once", func() (bool, any) {
		starts := counts(b)
		wrong := []string{}
		for i := range services {
			name := fmt.Sprintf("s%d", i)
			deaths := killed[fmt.Sprintf("1000000%d", i)]
			s, want, state := status[name], deaths+1, "running"
			if i%10 == 0 && deaths >= limited {
				want, state = limited, "failed"
			}
			if starts[name] != want || s.State != state || s.Restarts != want-1 {
				wrong = append(wrong, fmt.Sprintf("%s was killed %d times, started %d times: %s", name, deaths, starts[name], box.Describe(s)))
			}
		}
		return len(wrong) == 0, strings.Join(wrong[:min(len(wrong), 20)], "\n")
	})
	if twice := b.Shell(box.Service, `cd "`+b.Home()+`/counts"; if [ -e twice ]; then cat twice; fi`); twice != "" {
		t.Errorf("two processes of a service lived at once: %s", twice)
	}
	began = time.Now()
	b.Must("stop", "--all", "--timeout", "60s")
	t.Logf("figure: massacre: %d services stopped in %s", services, time.Since(began).Round(time.Millisecond))
	for _, p := range b.Processes() {
		if p.State == "Z" || p.Name == "sleep" {
			t.Errorf("pid %d, %s, state %s is left", p.PID, p.Name, p.State)
		}
	}
}

// counts is how many bytes each service has added to its file.
func counts(b *box.Box) map[string]int {
	b.Helper()
	starts := map[string]int{}
	for line := range strings.Lines(b.Shell(box.Service, `cd "`+b.Home()+`/counts"; stat -c '%n %s' *`)) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			b.Fatalf("%v in %q", err, line)
		}
		starts[name] = n
	}
	return starts
}
