package machine

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

// Policy is the part of a definition that decides the service's lifecycle.
type Policy struct {
	Oneshot  bool
	Deadline bool // it runs under a Lease alone

	Restart     service.RestartPolicy
	Delay       time.Duration // before a restart that is not immediate
	Factor      float64       // each further delay is longer by this factor; less than 1 counts as 1
	MaxDelay    time.Duration // 0: no bound
	Jitter      float64       // 0 to 1: the share of the delay that is random
	ResetAfter  time.Duration // a run this long was good
	Limit       int           // more starts than this within Window: failed. 0: no limit
	Window      time.Duration
	RetryFailed time.Duration // 0: never

	ExitSuccess, ExitFatal, ExitRestart []int // exit codes; where two hold one code: fatal, restart, success

	Ready        ReadyBy
	ReadyTimeout time.Duration // 0: for ever

	Health            bool
	HealthRetries     int // failures in a row that make it unhealthy; less than 1 counts as 1
	HealthStartPeriod time.Duration
	HealthRestart     bool

	Watchdog time.Duration // 0: none

	StopSignal  unix.Signal   // 0: TERM
	StopTimeout time.Duration // until SIGKILL
	StopScope   Scope         // the receivers of StopSignal; SIGKILL goes to the group, and then to all with the tag
}

// ReadyBy says how a service becomes ready.
type ReadyBy string

// The ways to become ready.
const (
	ReadyAtOnce ReadyBy = ""       // when it is alive
	ReadyNotify ReadyBy = "notify" // READY=1, sd_notify(3); no probe is started
	ReadyProbe  ReadyBy = "probe"  // tcp, http or exec: StartProbe
)

// PolicyOf returns the policy of a definition.
func PolicyOf(d *service.Definition) Policy {
	p := Policy{
		Oneshot: d.Type == service.Oneshot, Deadline: d.Deadline == service.DeadlineRequired,

		Restart:     d.Restart.Policy,
		Delay:       d.Restart.Delay,
		Factor:      d.Restart.Factor,
		MaxDelay:    d.Restart.MaxDelay,
		Jitter:      d.Restart.Jitter,
		ResetAfter:  d.Restart.ResetAfter,
		Limit:       d.Restart.Limit,
		Window:      d.Restart.Window,
		RetryFailed: d.Restart.RetryFailed,

		ExitSuccess: d.Exits.Success,
		ExitFatal:   d.Exits.Fatal,
		ExitRestart: d.Exits.Restart,

		Watchdog: d.Watchdog,

		StopSignal:  d.Stop.Signal,
		StopTimeout: d.Stop.Timeout,
		StopScope:   ScopeGroup,
	}
	if d.Stop.Kill == service.KillMain {
		p.StopScope = ScopeMain
	}
	if d.Ready != nil {
		p.Ready, p.ReadyTimeout = ReadyProbe, d.Ready.Timeout
		if d.Ready.Notify {
			p.Ready = ReadyNotify
		}
	}
	if d.Health != nil {
		p.Health = true
		p.HealthRetries = d.Health.Retries
		p.HealthStartPeriod = d.Health.StartPeriod
		p.HealthRestart = d.Health.Action != service.HealthNone
	}
	return p
}

func (p *Policy) stopSignal() unix.Signal { return cmp.Or(p.StopSignal, unix.SIGTERM) }

func (p *Policy) stopScope() Scope { return cmp.Or(p.StopScope, ScopeGroup) }

// Judge returns the class of an exit.
func (p *Policy) Judge(x Exit) Verdict {
	switch {
	case x.Signal != 0 || x.Lost:
		return VerdictFailure
	case slices.Contains(p.ExitFatal, x.Code):
		return VerdictFatal
	case slices.Contains(p.ExitRestart, x.Code):
		return VerdictRestart
	case slices.Contains(p.ExitSuccess, x.Code):
		return VerdictSuccess
	}
	return VerdictFailure
}
