package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"rlminit/control"
)

// untilInterrupted is a context that ^C or TERM ends, so that what follows a
// stream ends cleanly.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// watchStatus shows the status again at every event, and on a terminal every
// second too, for the times that pass.
func watchStatus(ctx context.Context, t *terminal, client *control.Client, names []string, flags statusFlags) error {
	ctx, cancel := untilInterrupted(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	over := make(chan error, 1)
	go func() { over <- followEvents(ctx, client, changed) }()

	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var tick <-chan time.Time
	if t.isTTY && !t.json {
		tick = ticker.C
	}
	var shown []control.Service
	for polls := false; ; {
		services, err := flags.fetch(ctx, t, client, names)
		if ctx.Err() != nil {
			return nil
		}
		if services == nil || len(services) == 0 && err != nil {
			return err
		}
		if flags.wide {
			if services, err = measure(services, len(names) == 0); err != nil {
				return err
			}
		}
		if !polls || t.isTTY && !t.json || !same(shown, services) {
			if err := showAgain(t, services, len(names) > 0, flags); err != nil {
				return err
			}
		}
		shown = services
		if t.out.failed != nil {
			return t.out.failed
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-over:
			if exitCodeOf(err) != control.ExitNotPermitted {
				return err
			}
			// Not every caller that may read the status may follow the events.
			over, tick, polls = nil, ticker.C, true
		case <-changed:
		case <-tick:
		}
	}
}

// showAgain shows the status in place of what was shown before, or below it. In
// place it fits the terminal, with ill services first.
func showAgain(t *terminal, services []control.Service, named bool, flags statusFlags) error {
	if !t.isTTY || t.json {
		err := show(t, services, named, flags)
		if !t.json {
			t.printf("\n")
		}
		return err
	}
	t.measure()
	shown, rest := fitting(services, t.height, urgency, func(s control.Service) string { return s.State })
	t.printf("\x1b[H\x1b[2J\x1b[?7l") // home, clear the screen, and wrap no line
	err := show(t, shown, named && rest == "", flags)
	if rest != "" {
		t.printf("%s", rest)
	}
	t.printf("\x1b[?7h")
	return err
}

// fitting are the entries of a list that a terminal has room for below a header,
// the most urgent first, and a line on those that are left out; "" if none is.
func fitting[T any](list []T, height int, urgency func(T) int, state func(T) string) (shown []T, rest string) {
	shown = slices.Clone(list)
	slices.SortStableFunc(shown, func(a, b T) int { return cmp.Compare(urgency(a), urgency(b)) })
	room := height - 2 // for the header, and the last line
	if height == 0 || len(shown) <= room+1 {
		return shown, ""
	}
	room = max(room, 1)
	if len(shown) <= room {
		return shown, ""
	}
	states := map[string]int{}
	for _, entry := range shown[room:] {
		states[state(entry)]++
	}
	var counts []string
	for _, name := range slices.Sorted(maps.Keys(states)) {
		counts = append(counts, fmt.Sprintf("%d %s", states[name], printable(name)))
	}
	return shown[:room], "and " + strings.Join(counts, ", ")
}

// urgency sorts services that a person should look at before the rest.
func urgency(s control.Service) int {
	switch {
	case s.State == "failed":
		return 0
	case s.State == "running" && s.Healthy != nil && !*s.Healthy:
		return 1
	case s.State == "backoff":
		return 2
	case s.State == "waiting", s.State == "starting", s.State == "stopping":
		return 3
	case s.State == "running":
		return 4
	}
	return 5
}

// same tells whether services differ in nothing but the time that has passed.
func same(before, now []control.Service) bool {
	return slices.EqualFunc(before, now, func(a, b control.Service) bool {
		a.UptimeS, b.UptimeS = nil, nil
		a.Usage, b.Usage = nil, nil
		return reflect.DeepEqual(a, b)
	})
}

// followEvents says on changed that something happened. One word in it stands
// for any number of events: its reader looks at the whole state. It goes
// on over a replacement of the supervisor.
func followEvents(ctx context.Context, client *control.Client, changed chan<- struct{}) error {
	say := func(control.Event) error {
		select {
		case changed <- struct{}{}:
		default:
		}
		return nil
	}
	for {
		err := client.Events(ctx, control.EventQuery{Since: time.Now(), Follow: true}, say)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, control.ErrCut) {
			return err
		}
		say(control.Event{})
		if !pauseBefore(ctx) {
			return nil
		}
	}
}

// pauseBefore waits a moment before a stream that ended is asked for again,
// lest one that always ends keeps a processor busy. It tells whether there is
// any use in going on.
func pauseBefore(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}
