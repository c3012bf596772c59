package explorelife

import (
	"syscall"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
)

// Named is a policy with a name for test output.
type Named struct {
	Name   string
	Policy machine.Policy
}

// Policies are small ones (short times, low limits) that between them use every
// feature of the machine.
func Policies() []Named {
	base := machine.Policy{
		Restart: service.RestartOnFailure,
		Delay:   10 * time.Millisecond, Factor: 2, MaxDelay: 20 * time.Millisecond, Jitter: 0.1,
		ResetAfter: 15 * time.Millisecond, Limit: 1, Window: 40 * time.Millisecond,
		ExitSuccess: []int{0}, ExitFatal: []int{78}, ExitRestart: []int{75},
		StopSignal: syscall.SIGTERM, StopTimeout: 10 * time.Millisecond, StopScope: machine.ScopeGroup,
	}
	with := func(name string, change func(p *machine.Policy)) Named {
		p := base
		change(&p)
		return Named{name, p}
	}
	return []Named{
		with("plain", func(p *machine.Policy) {}),
		with("always, retried", func(p *machine.Policy) {
			p.Restart, p.RetryFailed = service.RestartAlways, time.Second
		}),
		with("never", func(p *machine.Policy) {
			p.Restart, p.RetryFailed, p.StopScope = service.RestartNo, time.Second, machine.ScopeMain
		}),
		with("under a deadline", func(p *machine.Policy) {
			p.Deadline, p.Restart, p.Limit = true, service.RestartAlways, 0
		}),
		with("oneshot", func(p *machine.Policy) {
			p.Oneshot, p.Limit = true, 0
		}),
		with("notify and watchdog", func(p *machine.Policy) {
			p.Ready, p.ReadyTimeout, p.Watchdog, p.Limit = machine.ReadyNotify, 30*time.Millisecond, 60*time.Millisecond, 1
		}),
		with("probe and health", func(p *machine.Policy) {
			p.Ready, p.ReadyTimeout, p.Limit = machine.ReadyProbe, 30*time.Millisecond, 1
			p.Health, p.HealthRetries, p.HealthStartPeriod, p.HealthRestart = true, 2, 20*time.Millisecond, true
		}),
		with("health that only tells", func(p *machine.Policy) {
			p.Health, p.HealthRetries, p.Limit = true, 1, 1
		}),
		with("never ready", func(p *machine.Policy) {
			p.Ready, p.ReadyTimeout, p.Limit, p.Window = machine.ReadyNotify, 30*time.Millisecond, 2, time.Millisecond
		}),
		with("no delays, no deadline to be ready", func(p *machine.Policy) {
			p.Delay, p.MaxDelay, p.ResetAfter, p.StopTimeout, p.Ready = 0, 0, 0, 0, machine.ReadyNotify
			p.Limit = 2
		}),
	}
}
