package view

import (
	"slices"

	"rlminit/control"
)

// folded shows restarts that follow one another as one: a service that crashes every
// second has nothing else on its page otherwise. bodies are the events as they are shown,
// in the opposite order.
func folded(events []control.Event, bodies []eventBody) (all []eventBody) {
	for i := 0; i < len(events); {
		b := bodies[len(bodies)-1-i]
		n, restarts, why := cycle(events[i:])
		if restarts < 2 {
			n = 1
		} else {
			last := bodies[len(bodies)-i-n]
			first := clock(b.At)
			b = eventBody{Seq: last.Seq, At: last.At, Type: last.Type, To: last.To, Service: last.Service, Tone: ill, Mark: markOf("backoff")}
			b.Words = clean("restarted " + times(restarts) + " between " + first + " and " + clock(last.At) + ", last after " + why)
		}
		all = append(all, b)
		i += n
	}
	slices.Reverse(all)
	return all
}

// cycle is with how many events a service has ended and was restarted that nobody has
// asked for anything, how often, and why for the last time.
func cycle(events []control.Event) (n, restarts int, why string) {
	for _, e := range events {
		if n > 0 && isTransition(e) && (e.To == "ill" || e.To == "well" || e.To == "flapping") {
			n++ // what follows from a restart
			continue
		}
		up := e.To == "running" || e.To == "starting"
		if !isTransition(e) || e.Actor != nil || n == 0 && e.To == "running" || !up && e.To != "backoff" || e.From != "running" && e.From != "starting" && e.From != "backoff" {
			return n, restarts, why
		}
		if n++; e.To == "starting" {
			restarts++
		}
		if e.From == "running" || e.To == "backoff" {
			why = e.Cause
		}
	}
	return n, restarts, why
}
