package live

import (
	"context"
	"time"

	"rlminit/control"
)

const (
	// asksMost is how many requests are under way with the supervisor at once, beside the
	// streams: the control socket lets the page have 32 connections.
	asksMost = 12
	// askTime is how long an answer may take, with the wait for a turn.
	askTime = 10 * time.Second
)

// Supervisor is whom all of the page asks, a few requests at a time.
type Supervisor struct {
	client *control.Client
	turns  chan struct{}
}

// NewSupervisor is the one behind a client.
func NewSupervisor(client *control.Client) *Supervisor {
	return &Supervisor{client: client, turns: make(chan struct{}, asksMost)}
}

// Ask has a request made when there is a turn for it. The error is the client's; where no
// turn came, it says so.
func Ask[T any](ctx context.Context, s *Supervisor, request func(context.Context, *control.Client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
		return request(ctx, s.client)
	case <-ctx.Done():
		var none T
		return none, control.NoAnswer("cannot ask the supervisor: too many requests are waiting; try again")
	}
}

// Services asks for all of them.
func (s *Supervisor) Services(ctx context.Context) ([]control.Service, error) {
	return Ask(ctx, s, func(ctx context.Context, c *control.Client) ([]control.Service, error) { return c.Services(ctx) })
}

// Service asks for one.
func (s *Supervisor) Service(ctx context.Context, name string) (control.Service, error) {
	return Ask(ctx, s, func(ctx context.Context, c *control.Client) (control.Service, error) { return c.Service(ctx, name) })
}

// Events asks for those that there are, at most the last n of them.
func (s *Supervisor) Events(ctx context.Context, q control.EventQuery, n int) ([]control.Event, error) {
	q.Last, q.Follow = &n, false
	return Ask(ctx, s, func(ctx context.Context, c *control.Client) (all []control.Event, err error) {
		err = c.Events(ctx, q, func(e control.Event) error {
			e.Raw = append([]byte(nil), e.Raw...)
			all = append(all, e)
			return nil
		})
		return all, err
	})
}

// Last is the position of the latest event.
func (s *Supervisor) Last(ctx context.Context) (Position, error) {
	all, err := s.Events(ctx, control.EventQuery{}, 1)
	if err != nil || len(all) == 0 {
		return Position{}, err
	}
	last := all[len(all)-1]
	return Position{Boot: last.Boot, Seq: last.Seq}, nil
}
