package machine_test

import (
	"encoding/json"
	"reflect"
	"syscall"
	"testing"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
)

// The next supervisor reads the State that this one stored.
func TestStateSurvivesJSON(t *testing.T) {
	uid := uint32(1000)
	p := machine.Policy{Limit: 3, Window: time.Minute, ReadyTimeout: time.Second, Ready: machine.ReadyNotify}
	var s machine.State
	now := int64(time.Hour)
	for _, e := range []machine.Event{
		{Kind: machine.Start, Actor: &uid, Cause: "start"},
		{Kind: machine.Spawned, ID: 1, PID: 42, StartTime: 8731},
		{Kind: machine.ExitedEvent, ID: 1, Signal: syscall.SIGSEGV, Leftovers: 2},
	} {
		now += int64(time.Second)
		e.Now, e.Wall, e.NextID = now, now, 1
		s, _ = machine.Step(s, p, e)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back machine.State
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, s) {
			t.Fatalf("after %s: %+v, read back as %+v", e.Kind, s, back)
		}
	}
}

// A State of another version, or from a broken disk, does not prevent starts and stops
// of a service.
func TestAdoptForeignState(t *testing.T) {
	for _, s := range []machine.State{
		{Phase: "hibernating", Want: machine.WantUp, Run: machine.Run{ID: 7}},
		{Phase: machine.Running, Want: machine.WantUp},
		{Phase: machine.Sweeping},
		{Phase: machine.Waiting, Removed: true, Want: machine.WantUp},
	} {
		for _, child := range []machine.Child{machine.ChildNone, machine.ChildPending, machine.ChildAlive, machine.ChildExited, "?"} {
			e := machine.Event{Kind: machine.Adopt, Now: 1, Wall: 1, NextID: 9, Child: child}
			if child != machine.ChildNone && child != "?" {
				e.ID, e.PID = 8, 100
			}
			got, _ := machine.Step(s, machine.Policy{}, e)
			switch got.Public() {
			case "stopped", "waiting", "starting", "running", "stopping", "backoff", "failed", "exited":
			default:
				t.Errorf("%+v with child %q became %q", s, child, got.Public())
			}
		}
	}
}

// The delays of a back-off: exponential, bounded, and shortened by jitter only.
func TestBackOffDelays(t *testing.T) {
	p := machine.Policy{
		Delay: 100 * time.Millisecond, Factor: 2, MaxDelay: time.Second, Jitter: 0.5,
		ResetAfter: time.Hour, Restart: service.RestartAlways,
	}
	for _, c := range []struct {
		rand uint64
		want []time.Duration
	}{
		{0, []time.Duration{100, 200, 400, 800, 1000, 1000}},
		{1 << 63, []time.Duration{75, 150, 300, 600, 750, 750}},
	} {
		s, _ := machine.Step(machine.State{}, p, machine.Event{Kind: machine.Start, Now: 1, NextID: 1})
		for i, want := range c.want {
			id := uint64(i + 1)
			s, _ = machine.Step(s, p, machine.Event{Kind: machine.Spawned, ID: id, Now: 1})
			s, _ = machine.Step(s, p, machine.Event{Kind: machine.ExitedEvent, ID: id, Code: 1, Now: 1, Rand: c.rand})
			if got := time.Duration(s.Timer.At - 1); got != want*time.Millisecond {
				t.Errorf("rand %d, restart %d after %s, want %s", c.rand, i+1, got, want*time.Millisecond)
			}
			s, _ = machine.Step(s, p, machine.Event{Kind: machine.TimerFired, Generation: s.Timer.Generation, Now: s.Timer.At, NextID: id + 1})
		}
	}
}

func TestPolicyOf(t *testing.T) {
	d := service.Definition{
		Type: service.Oneshot, Watchdog: time.Second,
		Restart: service.Restart{Policy: service.RestartAlways, Delay: 1, Factor: 2, MaxDelay: 3, Jitter: 0.4, ResetAfter: 5, Limit: 6, Window: 7, RetryFailed: 8},
		Exits:   service.Exits{Success: []int{0}, Fatal: []int{78}, Restart: []int{75}},
		Ready:   &service.Probe{TCP: "127.0.0.1:80", Timeout: 9},
		Health:  &service.Health{Retries: 3, StartPeriod: 10, Action: service.HealthNone},
		Stop:    service.Stop{Signal: syscall.SIGQUIT, Timeout: 11, Kill: service.KillMain},
	}
	want := machine.Policy{
		Oneshot: true, Watchdog: time.Second,
		Restart: service.RestartAlways, Delay: 1, Factor: 2, MaxDelay: 3, Jitter: 0.4, ResetAfter: 5, Limit: 6, Window: 7, RetryFailed: 8,
		ExitSuccess: []int{0}, ExitFatal: []int{78}, ExitRestart: []int{75},
		Ready: machine.ReadyProbe, ReadyTimeout: 9,
		Health: true, HealthRetries: 3, HealthStartPeriod: 10,
		StopSignal: syscall.SIGQUIT, StopTimeout: 11, StopScope: machine.ScopeMain,
	}
	if got := machine.PolicyOf(&d); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	d.Ready.Notify, d.Health, d.Stop.Kill = true, nil, service.KillGroup
	if got := machine.PolicyOf(&d); got.Ready != machine.ReadyNotify || got.Health || got.StopScope != machine.ScopeGroup {
		t.Errorf("got %+v", got)
	}
}

func TestSignalName(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{15: "TERM", 9: "KILL", 6: "ABRT", 40: "signal 40"} {
		if got := machine.SignalName(sig); got != want {
			t.Errorf("signal %d is %q, want %q", int(sig), got, want)
		}
	}
}
