package probe

import (
	"context"
	"time"

	"rlminit/service"
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

// answer is what came of asking once, and how long that took.
type answer struct {
	err  error // nil: well
	took time.Duration
}

// Network asks by tcp or http.
func Network(ctx context.Context, p service.Probe) error {
	if p.TCP != "" {
		return TCP(ctx, p.TCP)
	}
	return HTTP(ctx, p.HTTP)
}

// untilReady asks again and again, and tells of each answer, until one is well
// or ctx ends.
func untilReady(ctx context.Context, p service.Probe, ask Asker, tell func(answer)) {
	for pause := readyFirst; ; pause = min(2*pause, readyLatest) {
		is := within(ctx, readyCheck, p, ask)
		tell(is)
		if is.err == nil || !sleep(ctx, pause) {
			return
		}
	}
}

// whileHealthy asks at each interval, and tells of each answer, until ctx ends.
func whileHealthy(ctx context.Context, h service.Health, ask Asker, tell func(answer)) {
	for sleep(ctx, h.Interval) {
		tell(within(ctx, h.Timeout, h.Probe, ask))
	}
}

// within asks once, for no longer than timeout; 0: for as long as it takes.
func within(ctx context.Context, timeout time.Duration, p service.Probe, ask Asker) answer {
	if timeout > 0 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		go patience(ctx, timeout, cancel)
	}
	began := time.Now()
	err := ask(ctx, p)
	return answer{err, time.Since(began)}
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
