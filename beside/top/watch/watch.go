// Package watch asks the supervisor for what `rlminit top` shows, and goes on asking when
// the supervisor is replaced or does not answer: how services are, the log of one, and
// what becomes of an operation.
//
// It does the input and output of top, and all of it. It draws nothing, and keeps no
// more than one answer that nobody has taken yet.
package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/top/table"
	"rlminit/control"
	"rlminit/metrics"
)

const (
	silence = 1500 * time.Millisecond // how long an answer takes before that is told
	enough  = 10 * time.Second        // how long one is waited for before it is asked for again
	pause   = 500 * time.Millisecond  // before what failed is tried again
	gap     = 250 * time.Millisecond  // the least between two looks at all services
	share   = 20                      // a look that took long is followed by so many times of that,
	most    = 2 * time.Second         // but no longer
)

// Source asks one rlminit.
type Source struct {
	client *control.Client
	proc   string // where proc(5) is that shows its processes
	every  time.Duration
}

// New makes a source that looks at all services whenever something has happened, and once
// in every.
func New(client *control.Client, every time.Duration) *Source {
	return &Source{client: client, proc: procOf(client.RuntimeDir()), every: every}
}

// procOf is where the processes of the rlminit of a runtime directory are seen: in the
// /proc of its own PID namespace, if the directory is one below /proc/PID/root.
func procOf(runtimeDir string) string {
	parts := strings.SplitN(filepath.Clean(runtimeDir), "/", 5) // "", proc, PID, root, …
	if len(parts) == 5 && parts[1] == "proc" && parts[3] == "root" {
		if _, err := strconv.Atoi(parts[2]); err == nil {
			return filepath.Join("/proc", parts[2], "root/proc")
		}
	}
	return "/proc"
}

// News is what there is to tell of all services: how they are, or why that is not known.
type News struct {
	Snapshot table.Snapshot
	Err      error // it could not be asked, and is asked again
	Silent   bool  // the supervisor takes its time; Err is nil
}

// box is the name of this one; "": it has none.
var box, _ = os.Hostname()

// Look asks once how all services are, and measures what they use.
func (s *Source) Look(ctx context.Context) (table.Snapshot, error) {
	services, err := s.client.Services(ctx)
	if err != nil {
		return table.Snapshot{}, err
	}
	snapshot := table.Snapshot{At: time.Now(), Box: box}
	snapshot.Used, snapshot.Limit = memory()
	// What cannot be measured is shown as not known.
	all, _ := metrics.Measure(s.proc, services, true)
	snapshot.Services, snapshot.Tiers = all[:len(services)], all[len(services):]
	return snapshot, nil
}

// memory is what the container's cgroup is charged with, and its limit.
func memory() (used, limit int64) {
	number := func(file string) int64 {
		content, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", file))
		if err != nil {
			return 0
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if err != nil {
			return 0 // max: there is none
		}
		return n
	}
	if limit = number("memory.max"); limit == 0 {
		return 0, 0
	}
	return number("memory.current"), limit
}

// Follow tells how all services are, until ctx is done; then it closes the channel.
func (s *Source) Follow(ctx context.Context) <-chan News {
	out := make(chan News)
	changed := make(chan struct{}, 1)
	go s.events(ctx, changed)
	go func() {
		defer close(out)
		for {
			begun := time.Now()
			news := s.answer(ctx, out)
			took := time.Since(begun)
			if !hand(ctx, out, news) {
				return
			}
			// What happens all the time may not keep either of us busy.
			if !sleep(ctx, min(max(gap, share*took), most)) || !until(ctx, changed, s.every-time.Since(begun)) {
				return
			}
		}
	}()
	return out
}

// answer looks at all services. That the supervisor is silent is told meanwhile.
func (s *Source) answer(ctx context.Context, out chan<- News) News {
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	answered := make(chan News, 1)
	go func() {
		snapshot, err := s.Look(ctx)
		answered <- News{Snapshot: snapshot, Err: err}
	}()
	late := time.NewTimer(silence)
	defer late.Stop()
	for {
		select {
		case news := <-answered:
			return news
		case <-late.C:
			hand(ctx, out, News{Silent: true})
		}
	}
}

// events says on changed that something has happened, for as long as the caller may know.
func (s *Source) events(ctx context.Context, changed chan<- struct{}) {
	say := func(control.Event) error {
		select {
		case changed <- struct{}{}:
		default: // one word stands for any number
		}
		return nil
	}
	for {
		err := s.client.Events(ctx, control.EventQuery{Since: time.Now(), Follow: true}, say)
		if NotPermitted(err) {
			return // not all who may read the status may read the events
		}
		_ = say(control.Event{})
		if !sleep(ctx, pause) {
			return
		}
	}
}

// NotPermitted tells whether an error says that the caller may not ask for that.
func NotPermitted(err error) bool { return exits(err) == control.ExitNotPermitted }

// NoAnswer tells whether an error says that nobody has answered, or not in time.
func NoAnswer(err error) bool {
	code := exits(err)
	return code == control.ExitNoAnswer || code == control.ExitTimedOut
}

// exits is the exit code of a problem; 0: an error is none.
func exits(err error) int {
	var problem *control.Problem
	if errors.As(err, &problem) {
		return problem.ExitCode
	}
	return 0
}

func hand[T any](ctx context.Context, out chan<- T, v T) bool {
	select {
	case <-ctx.Done():
		return false
	case out <- v:
		return true
	}
}

func sleep(ctx context.Context, d time.Duration) bool { return until(ctx, nil, d) }

// until waits for a word, or until the time is over. False: ctx is done.
func until(ctx context.Context, word <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-word:
	case <-timer.C:
	}
	return true
}
