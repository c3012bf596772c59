package verdict_test

import (
	"testing"

	"rlminit/service"
	"rlminit/supervise/machine"
	. "rlminit/supervise/verdict"
)

// TestEveryRow: each row of the table in docs/json.md, by the facts that lead to it.
func TestEveryRow(t *testing.T) {
	up := func(ph machine.Phase) Facts {
		return Facts{State: &machine.State{Want: machine.WantUp, Phase: ph}, Enabled: true}
	}
	down := func(ph machine.Phase) Facts {
		return Facts{State: &machine.State{Phase: ph}, Enabled: true}
	}
	with := func(f Facts, change func(*Facts)) Facts { change(&f); return f }
	ended := func(code int) *machine.Exit { return &machine.Exit{Code: code} }
	success := machine.Policy{ExitSuccess: []int{0}}
	for name, row := range map[string]struct {
		facts Facts
		is    Verdict
		code  Code
	}{
		"runs":                           {up(machine.Running), OK, Running},
		"runs, newer definition refused": {with(up(machine.Running), func(f *Facts) { f.Fault = "x" }), OK, Running},
		"ended with success":             {with(up(machine.Exited), func(f *Facts) { f.State.Verdict = machine.VerdictSuccess }), OK, Completed},
		"spawning":                       {up(machine.Spawning), Pending, Starting},
		"starting":                       {up(machine.Starting), Pending, Starting},
		"stops to start again":           {with(up(machine.Stopping), func(f *Facts) { f.State.StartAgain = true }), Pending, Restarting},
		"a restart was given":            {with(up(machine.Running), func(f *Facts) { f.Restart = true }), Pending, Restarting},
		"back-off after success": {with(up(machine.Backoff), func(f *Facts) {
			f.State.LastExit, f.Policy = ended(0), success
		}), Pending, BackOff},
		"back-off after success, never ready": {with(up(machine.Backoff), func(f *Facts) {
			f.State.LastExit, f.Policy, f.State.LastWords = ended(0), success, "exit code 0 before it was ready"
		}), Ill, BackOffFailed},
		"waits for pending": {with(up(machine.Waiting), func(f *Facts) { f.For = Pending }), Pending, Waiting},
		"failed":            {up(machine.Failed), Ill, Failed},
		"stuck":             {up(machine.Parked), Ill, Failed},
		"back-off after a failure": {with(up(machine.Backoff), func(f *Facts) {
			f.State.LastExit, f.Policy = ended(1), success
		}), Ill, BackOffFailed},
		"could not be spawned": {up(machine.Backoff), Ill, BackOffFailed},
		"ended with a failure": {with(up(machine.Exited), func(f *Facts) { f.State.Verdict = machine.VerdictFailure }), Ill, ExitedFailed},
		"ended before ready": {with(up(machine.Exited), func(f *Facts) {
			f.State.Verdict, f.State.NeverReady = machine.VerdictSuccess, true
		}), Ill, ExitedFailed},
		"unhealthy":           {with(up(machine.Running), func(f *Facts) { f.State.Health = machine.Unhealthy }), Ill, Unhealthy},
		"waits for ill":       {with(up(machine.Waiting), func(f *Facts) { f.For = Ill }), Ill, WaitingIll},
		"refused at the boot": {with(down(machine.Stopped), func(f *Facts) { f.Fault, f.Owed = "x", true }), Ill, DefinitionRefused},
		"refused, backs off":  {with(up(machine.Backoff), func(f *Facts) { f.Fault = "x" }), Ill, DefinitionRefused},
		"refused, and stopped on purpose": {with(down(machine.Stopped), func(f *Facts) {
			f.Fault = "x"
		}), Off, Stopped},
		"stopped":                  {down(machine.Stopped), Off, Stopped},
		"a stop was given":         {with(up(machine.Waiting), func(f *Facts) { f.Stop, f.For = true, Off }), Off, WaitingOff},
		"stops for good":           {down(machine.Stopping), Off, Stopped},
		"disabled":                 {with(down(machine.Stopped), func(f *Facts) { f.Enabled = false }), Off, Disabled},
		"waits for its schedule":   {with(down(machine.Stopped), func(f *Facts) { f.Scheduled = true }), Off, Scheduled},
		"its scheduled run failed": {with(up(machine.Failed), func(f *Facts) { f.Scheduled = true }), Off, ScheduledFailed},
		"its scheduled run ended well": {with(up(machine.Exited), func(f *Facts) {
			f.Scheduled, f.State.Verdict = true, machine.VerdictSuccess
		}), Off, Scheduled},
		"its scheduled run goes on": {with(up(machine.Running), func(f *Facts) { f.Scheduled = true }), OK, Running},
		"waits for off":             {with(up(machine.Waiting), func(f *Facts) { f.For = Off }), Off, WaitingOff},
		"unclaimed":                 {with(down(machine.Stopped), func(f *Facts) { f.Policy.Deadline = true }), Off, Unclaimed},
	} {
		if is, code := Of(row.facts); is != row.is || code != row.code {
			t.Errorf("%s: %s (%s), want %s (%s)", name, is, code, row.is, row.code)
		}
	}
}

// TestEveryPair: each phase with each desired state has a verdict, and one that nobody
// desires and that has no process is never pending.
func TestEveryPair(t *testing.T) {
	for _, ph := range machine.Phases {
		for _, want := range []machine.Want{machine.WantUp, machine.WantDown} {
			for _, fault := range []string{"", "x"} {
				is, code := Of(Facts{State: &machine.State{Want: want, Phase: ph}, Fault: fault, Enabled: true, For: Pending, Policy: machine.Policy{Restart: service.RestartAlways}})
				if is == "" || code == "" {
					t.Errorf("phase %q, want %q: no verdict", ph, want)
				}
				if is == Pending && want == machine.WantDown && ph != machine.Waiting && ph != machine.Backoff {
					t.Errorf("phase %q, want %q: pending", ph, want)
				}
			}
		}
	}
}

// TestFlapping: three restarts within ten minutes, at the bound and past it.
func TestFlapping(t *testing.T) {
	s := &machine.State{}
	s.Unasked = []int64{100, 200}
	if IsFlapping(s, 300) {
		t.Error("two restarts are enough")
	}
	s.Unasked = append(s.Unasked, 300)
	if at := 100 + int64(FlappingWithin); !IsFlapping(s, at) || IsFlapping(s, at+1) {
		t.Error("the window is not ten minutes")
	}
}
