package watch

import (
	"context"
	"time"

	"rlminit/control"
)

// answerWithin is how long a command may take to be recorded and answered.
const answerWithin = 15 * time.Second

// Begin begins an operation on services.
func (s *Source) Begin(ctx context.Context, o control.BeginOperation) (control.Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return s.client.Operate(ctx, o)
}

// Cancel has an operation go no further.
func (s *Source) Cancel(ctx context.Context, id uint64) (control.Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return s.client.Cancel(ctx, id)
}

// Operations returns those under way and the latest that are over.
func (s *Source) Operations(ctx context.Context) ([]control.Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return s.client.Operations(ctx)
}

// Dependencies returns what each service comes after.
func (s *Source) Dependencies(ctx context.Context) ([]control.Dependencies, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return s.client.Dependencies(ctx)
}

// Await tells how an operation is, a few times a second while it changes, until it is over
// or is not there any more; then it closes the channel. It goes on over a supervisor
// that does not answer.
func (s *Source) Await(ctx context.Context, id uint64) <-chan control.Operation {
	out := make(chan control.Operation)
	go func() {
		defer close(out)
		for {
			o, err := s.client.Operation(ctx, id, true)
			if err == nil && (!hand(ctx, out, o) || o.Over()) || exits(err) == control.ExitNoSuchName {
				return
			}
			if !sleep(ctx, gap) {
				return
			}
		}
	}()
	return out
}
