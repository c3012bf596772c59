package main

import (
	"context"
	"time"

	"rlminit/control"
)

// atOnce is how many profiles are created or deleted at the same time.
const atOnce = 8

// answered is what one of several requests came to.
type answered struct {
	tell func() error // prints it
	err  error
}

// end tells of one, or says why there is nothing to tell.
func (a answered) end() error {
	if a.err != nil {
		return a.err
	}
	return a.tell()
}

// forEach asks for each name, several at a time, and tells of each in the order
// of the names; a failure of one does not keep the others from being done.
func forEach(t *terminal, names []string, ask func(name string) answered) error {
	answers := make([]chan answered, len(names))
	room := make(chan struct{}, atOnce)
	for i, name := range names {
		answers[i] = make(chan answered, 1)
		go func() {
			room <- struct{}{}
			answers[i] <- ask(name)
			<-room
		}()
	}
	worst := 0
	for _, answer := range answers {
		worst = max(worst, t.report((<-answer).end()))
	}
	return status(worst)
}

// attempt asks for something after which a profile's gateway is started, and tells
// how that went.
func (o *operation) attempt(ctx context.Context, t *terminal, name string, stopped bool, ask func(context.Context, *control.Wait) (control.Outcome, error)) answered {
	var wait *control.Wait
	if !o.noWait {
		wait = &control.Wait{TimeoutMS: milliseconds(o.timeout)}
	}
	ctx, cancel := within(ctx, o.timeout, grace)
	defer cancel()
	begun := t.now()
	outcome, err := ask(ctx, wait)
	if err == nil && outcome.Problem != nil {
		err = outcome.Problem
	}
	if err != nil {
		return answered{err: err}
	}
	took := t.now().Sub(begun)
	if o.noWait || stopped || !outcome.Changed {
		took = 0
	}
	if name == "" {
		name = shortName(outcome.Service)
	}
	return answered{tell: func() error {
		return answer(t, outcome, func() { t.printf("%s%s\n", outcomeLine(t, name, outcome, took, portOf(outcome)...), noteOf(outcome)) })
	}}
}

// portOf is a profile's port in words.
func portOf(outcome control.Outcome) []string {
	if outcome.Service.Port == nil {
		return nil
	}
	return []string{"port " + number(outcome.Service.Port)}
}

// noteOf is an outcome's note as it ends its line.
func noteOf(outcome control.Outcome) string {
	if outcome.Note == "" {
		return ""
	}
	return "; " + printable(outcome.Note)
}

// trashTime writes when a profile was deleted.
func trashTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }
