package machine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/tests/explorelife"
)

var update = flag.Bool("update", false, "write what the machine does into testdata and STATES.md")

// Each file in testdata is a story: lines of input, and indented below each line what
// the machine does. Read one to see the form.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tell(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, now := strings.Split(string(text), "\n"), strings.Split(got, "\n")
			for i := range want {
				if i >= len(now) || now[i] != want[i] {
					t.Fatalf("%s:%d: the story says %q; now:\n%s", file, i+1, want[i], got)
				}
			}
		})
	}
}

type teller struct {
	state  machine.State
	policy machine.Policy
	now    time.Duration
	out    strings.Builder
}

// epoch keeps the times of stories off zero, which means "none" in a State.
const epoch = int64(24 * time.Hour)

func tell(text string) (string, error) {
	s := teller{policy: machine.Policy{
		Restart: service.RestartOnFailure, Delay: 100 * time.Millisecond, Factor: 2, MaxDelay: 30 * time.Second,
		ResetAfter: 10 * time.Second, Limit: 8, Window: time.Minute, RetryFailed: 10 * time.Minute,
		ExitSuccess: []int{0}, ExitFatal: []int{78}, ExitRestart: []int{75},
		ReadyTimeout: 30 * time.Second, StopSignal: syscall.SIGTERM, StopTimeout: 5 * time.Second,
	}}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.line(strings.Fields(line)); err != nil {
			return "", fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	return s.out.String(), nil
}

func (s *teller) line(words []string) error {
	var wait time.Duration
	if at, ok := strings.CutPrefix(words[0], "+"); ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			return err
		}
		wait, words = d, words[1:]
	}
	s.now += wait
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = strings.ReplaceAll(v, "_", " ")
	}
	if words[0] == "policy" {
		return s.setPolicy(args)
	}
	return s.event(machine.EventKind(words[0]), args)
}

func (s *teller) event(kind machine.EventKind, args map[string]string) error {
	e := machine.Event{Kind: kind, ID: s.state.ID}
	if kind == machine.Trouble {
		e.ID = s.state.LastID
	}
	if kind == machine.TimerFired {
		if s.state.Timer.At != 0 {
			s.now = max(s.now, time.Duration(s.state.Timer.At-epoch))
		}
		e.Generation = s.state.Timer.Generation
	}
	e.Now, e.Wall, e.NextID = epoch+int64(s.now), int64(s.now), s.state.LastID+1
	for k, v := range args {
		n, _ := strconv.Atoi(v)
		d, _ := time.ParseDuration(v)
		switch k {
		case "uid":
			uid := uint32(n)
			e.Actor = &uid
		case "id":
			e.ID = uint64(n)
		case "pid":
			e.PID = n
		case "code":
			e.Code = n
		case "signal":
			e.Signal = syscall.Signal(n)
		case "left":
			e.Leftovers, e.Remaining = n, n
		case "why":
			e.Reason = v
		case "errno":
			e.Errno = n
		case "status":
			e.ExitStatus = &n
		case "temporary":
			e.Temporary = true
		case "needs-restart":
			e.NeedsRestart = true
		case "hurry":
			e.Hurry = true
		case "within":
			e.Within = int64(d)
		case "generation":
			e.Generation = uint64(n)
		case "child":
			e.Child = machine.Child(v)
		case "want":
			e.SetWant, e.Want = true, machine.Want(strings.TrimPrefix(v, "down"))
		default:
			return fmt.Errorf("unknown word %q", k)
		}
	}
	before := s.state
	after, actions := machine.Step(before, s.policy, e)
	s.state = after
	s.tell(before, actions)
	return explorelife.Check(before, s.policy, e, after, actions)
}

// tell writes what a person would notice.
func (s *teller) tell(before machine.State, actions []machine.Action) {
	say := func(format string, args ...any) { fmt.Fprintf(&s.out, "    "+format+"\n", args...) }
	for _, a := range actions {
		switch a.Kind {
		case machine.Signal:
			say("%s to the %s of %d", machine.SignalName(a.Signal), a.Scope, a.ID)
		case machine.Sweep:
			if a.Signal == 0 {
				say("count what is left of %d", a.ID)
			} else {
				say("%s to all that is left of %d", machine.SignalName(a.Signal), a.ID)
			}
		case machine.Arm:
			say("timer in %s", time.Duration(a.At-epoch)-s.now)
		case machine.Disarm:
			say("no timer")
		case machine.StartProbe, machine.StopProbe:
			say("%s: %s", a.Kind, a.Probe)
		default:
			say("%s %d", a.Kind, a.ID)
		}
	}
	now := s.state
	if now.Public() != before.Public() {
		by := ""
		if now.Actor != nil {
			by = fmt.Sprintf(", by uid %d", *now.Actor)
		}
		say("%s -> %s (%s%s)", before.Public(), now.Public(), now.Cause, by)
	}
	if now.Reason != before.Reason && now.Reason != "" {
		say("reason: %s", now.Reason)
	}
	if now.Health != before.Health && now.Health != "" {
		say("health: %s", now.Health)
	}
	if now.Restarts != before.Restarts {
		say("restarts: %d", now.Restarts)
	}
	if now.Phase == machine.Gone && before.Phase != machine.Gone {
		say("gone")
	}
}

func (s *teller) setPolicy(args map[string]string) error {
	for k, v := range args {
		n, _ := strconv.Atoi(v)
		d, _ := time.ParseDuration(v)
		p := &s.policy
		switch k {
		case "oneshot":
			p.Oneshot = true
		case "restart":
			p.Restart = service.RestartPolicy(v)
		case "delay":
			p.Delay = d
		case "limit":
			p.Limit = n
		case "retry":
			p.RetryFailed = d
		case "ready":
			p.Ready = machine.ReadyBy(strings.TrimPrefix(v, "none"))
		case "health":
			p.Health, p.HealthRetries, p.HealthRestart = true, n, true
		case "start-period":
			p.HealthStartPeriod = d
		case "tell-only":
			p.HealthRestart = false
		case "watchdog":
			p.Watchdog = d
		case "kill":
			p.StopScope = machine.Scope(v)
		default:
			return fmt.Errorf("unknown field %q", k)
		}
	}
	return nil
}
