package machine

import (
	"cmp"
	"time"
)

// watch checks a live process: that it becomes ready in time, and then its health and
// its watchdog.
type watch struct {
	*call
	run *Run       // its Process, and Probing
	due *Deadlines // Ready, Watchdog
}

func (w *watch) startProbe(p Probe) {
	w.run.Probing = p
	w.do(Action{Kind: StartProbe, ID: w.run.ID, Probe: p})
}

func (w *watch) stopProbe() {
	if w.run.Probing != "" {
		w.do(Action{Kind: StopProbe, ID: w.run.ID, Probe: w.run.Probing})
		w.run.Probing = ""
	}
}

// untilReady waits for readiness. The time counts from the start of the process,
// without the time that the process could not run.
func (w *watch) untilReady() {
	w.due.Ready = 0
	if t := w.policy.ReadyTimeout; t > 0 {
		w.due.Ready = w.event.after(t - time.Duration(w.event.Now-w.run.StartedAt-w.due.Stalled))
	}
	if w.policy.Ready == ReadyProbe {
		w.startProbe(ProbeReady)
	}
}

// extendReady moves the deadline for readiness to at, if there is one that is earlier.
func (w *watch) extendReady(at int64) {
	if w.due.Ready != 0 {
		w.due.Ready = max(w.due.Ready, at)
	}
}

// ready notes that the process is ready, and begins to watch it.
func (w *watch) ready() {
	run := w.run
	run.NotReady, run.ReportedErrno, run.ReportedExit = "", 0, nil
	run.ReadyAt, run.GoodAt = w.event.Now, w.event.Now
	w.begin()
}

// begin starts the watchdog and the health check of a process that is ready.
func (w *watch) begin() {
	w.armWatchdog()
	if w.policy.Health {
		w.startProbe(ProbeHealth)
	}
}

func (w *watch) watchdog() time.Duration {
	return cmp.Or(time.Duration(w.run.WatchdogNS), w.policy.Watchdog)
}

func (w *watch) armWatchdog() {
	w.due.Watchdog = 0
	if d := w.watchdog(); d > 0 {
		w.due.Watchdog = w.event.after(d)
	}
}

// pinged handles WATCHDOG=1. It counts as a sign of health only if there is no health
// check: a service may ping and yet not answer.
func (w *watch) pinged() {
	if !w.policy.Health {
		w.run.GoodAt = w.event.Now
	}
	w.armWatchdog()
}

// passed notes a health check that passed.
func (w *watch) passed() {
	if w.run.Health == Unhealthy {
		w.reason = ""
	}
	w.run.Health, w.run.Fails, w.run.GoodAt = Healthy, 0, w.event.Now
}

// failed counts a health check that failed, and tells whether the service is
// unhealthy now.
func (w *watch) failed() bool {
	run := w.run
	// As in Docker: until start_period is over, or a check has passed, failures do
	// not count, since the service is still starting.
	if run.Health == HealthUnknown && w.event.Now-run.ReadyAt < int64(w.policy.HealthStartPeriod) {
		return false
	}
	retries := max(w.policy.HealthRetries, 1)
	run.Fails = min(run.Fails+1, retries)
	if run.Fails < retries {
		return false
	}
	run.Health = Unhealthy
	return true
}
