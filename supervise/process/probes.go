package process

import (
	"context"
	"time"

	"rlminit/service"
	"rlminit/supervise/probe"
)

// How often a service is asked whether it is ready: quickly at first, for most
// are ready soon.
const (
	readyFirst  = 20 * time.Millisecond
	readyLatest = time.Second
	readyCheck  = 3 * time.Second // for one answer; whoever asks bounds them all
)

// Asker asks a service once by a probe; nil means well.
type Asker func(context.Context, service.Probe) error

// Answer is what came of asking once, and how long that took.
type Answer struct {
	Err  error // nil: well
	Took time.Duration
}

// AskNetwork asks by tcp or http.
func AskNetwork(ctx context.Context, p service.Probe) error {
	if p.TCP != "" {
		return probe.TCP(ctx, p.TCP)
	}
	return probe.HTTP(ctx, p.HTTP)
}

// UntilReady asks again and again, and tells of each answer, until one is well
// or ctx ends.
func UntilReady(ctx context.Context, p service.Probe, ask Asker, tell func(Answer)) {
	for pause := readyFirst; ; pause = min(2*pause, readyLatest) {
		answer := within(ctx, readyCheck, p, ask)
		tell(answer)
		if answer.Err == nil || !sleep(ctx, pause) {
			return
		}
	}
}

// WhileHealthy asks at each interval, and tells of each answer, until ctx ends.
func WhileHealthy(ctx context.Context, h service.Health, ask Asker, tell func(Answer)) {
	for sleep(ctx, h.Interval) {
		tell(within(ctx, h.Timeout, h.Probe, ask))
	}
}

// within asks once, for no longer than timeout; 0: for as long as it takes.
func within(ctx context.Context, timeout time.Duration, p service.Probe, ask Asker) Answer {
	if timeout > 0 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		go patience(ctx, timeout, cancel)
	}
	began := time.Now()
	err := ask(ctx, p)
	return Answer{err, time.Since(began)}
}

// looks is how often the clock is looked at on the way to a timeout.
const looks = 4

// patience cancels when timeout is over, of which only time counts in which this
// process ran: a service that was paused along with it could not answer.
func patience(ctx context.Context, timeout time.Duration, cancel context.CancelCauseFunc) {
	look := max(timeout/looks, 1)
	for left := timeout; left > 0; left -= look {
		if !sleep(ctx, min(look, left)) {
			return
		}
	}
	cancel(context.DeadlineExceeded)
}

// sleep pauses for d, and tells whether ctx still wants what comes after.
func sleep(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}
