package machine

import (
	"cmp"
	"time"
)

// watch is what a live process is held to: that it becomes ready in time, then that it
// stays well and gives signs of life.
type watch struct {
	*turn
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

// untilReady is the wait for readiness, from the start of the process, without the
// time during which it could not run.
func (w *watch) untilReady() {
	w.due.Ready = 0
	if t := w.policy.ReadyTimeout; t > 0 {
		w.due.Ready = w.event.after(t - time.Duration(w.event.Now-w.run.StartedAt-w.due.Stalled))
	}
	if w.policy.Ready == ReadyProbe {
		w.startProbe(ProbeReady)
	}
}

// notBefore moves the end of a wait for readiness, where there is one and it has an end.
func (w *watch) notBefore(at int64) {
	if w.due.Ready != 0 {
		w.due.Ready = max(w.due.Ready, at)
	}
}

// ready notes that the process is, and begins what follows.
func (w *watch) ready() {
	run := w.run
	run.NotReady, run.ToldErrno, run.ToldExit = "", 0, nil
	run.ReadyAt, run.GoodAt = w.event.Now, w.event.Now
	w.begin()
}

// begin watches over a process that is ready.
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

// pinged is WATCHDOG=1. A service with a health check is as well as that says: one that
// pings but does not answer is not.
func (w *watch) pinged() {
	if !w.policy.Health {
		w.run.GoodAt = w.event.Now
	}
	w.armWatchdog()
}

// passed notes a health check that did.
func (w *watch) passed() {
	if w.run.Health == Unhealthy {
		w.reason = ""
	}
	w.run.Health, w.run.Fails, w.run.GoodAt = Healthy, 0, w.event.Now
}

// failed counts a health check that did not pass, and tells whether the service is
// unhealthy now.
func (w *watch) failed() bool {
	run := w.run
	// As Docker has it: until start_period is over, or a check has passed,
	// failures say only that it is still busy with its start.
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
