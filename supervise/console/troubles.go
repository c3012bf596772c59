package console

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// What is wrong with logs is said when nothing new has come for a while, and at the
// latest after the longer one.
const (
	troubleGap  = time.Second
	troubleLast = 10 * time.Second
)

// Troubles are the logs that cannot be written. What befalls one often befalls
// thousands, as when a volume is full or somebody else's, and is said once for all of
// them.
type Troubles struct {
	mu      sync.Mutex
	failing map[string]bool  // the services of which it was said
	unsaid  map[string]error // by service; nil: its log is written again
	first   time.Time        // when the oldest of these came
	timer   *time.Timer      // nil: there are none
}

// Hear takes note that the log of a service cannot be written, or (nil) can be again.
func (t *Troubles) Hear(service string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if (err != nil) == t.failing[service] {
		delete(t.unsaid, service) // it is again as was last said
		return
	}
	if t.unsaid == nil {
		t.unsaid = map[string]error{}
	}
	t.unsaid[service] = err
	if t.timer == nil {
		t.first, t.timer = time.Now(), time.AfterFunc(troubleGap, t.Say)
	} else if time.Since(t.first) < troubleLast-troubleGap {
		t.timer.Reset(troubleGap)
	}
}

// Say writes a line for each cause.
func (t *Troubles) Say() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
	if t.failing == nil {
		t.failing = map[string]bool{}
	}
	by := map[string][]string{} // services, by cause; "": written again
	for service, err := range t.unsaid {
		if by[cause(err)] = append(by[cause(err)], service); err != nil {
			t.failing[service] = true
		} else {
			delete(t.failing, service)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		one := slices.Min(by[why])
		switch n, err := len(by[why]), t.unsaid[one]; {
		case err == nil && n == 1:
			slog.Info("a log is written again", "service", one)
		case err == nil:
			slog.Info("logs are written again", "services", n, "still_not", len(t.failing))
		case n == 1:
			slog.Warn("cannot write a log; the newest lines are kept in memory", "service", one, "err", err)
		default:
			slog.Warn("cannot write logs; the newest lines of each are kept in memory", "services", n, "in_all", len(t.failing), "such_as", one, "err", err)
		}
	}
	clear(t.unsaid)
}

// cause is what errors about several files have in common.
func cause(err error) string {
	if err == nil {
		return ""
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	return cmp.Or(errno.Error(), err.Error())
}
