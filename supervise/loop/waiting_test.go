package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/operation"
	"rlminit/supervise/registry"
	"rlminit/supervise/serve"
)

// services defines some that run.
func (s *supervisor) services(t *testing.T, n int) (units []*unit) {
	t.Helper()
	var proposals []registry.Proposal
	for i := range n {
		d := service.Default(fmt.Sprintf("s%03d", i))
		d.Command = []string{"sleep"}
		p := registry.Ours(d)
		p.Start = true
		proposals = append(proposals, p)
	}
	s.ask(func() { s.Services.define(proposals, func(u *unit) { u.output.slot = silent{} }) })
	for i := range n {
		s.await(t, fmt.Sprintf("s%03d", i), "running", func(u *unit) bool { return u.state.Public() == "running" })
	}
	s.ask(func() { units = s.fleet.all() })
	return units
}

// nobodyWaits: whoever has waited has left nothing behind.
func (s *supervisor) nobodyWaits(t *testing.T, limits core.Limits) {
	t.Helper()
	s.ask(func() {}) // what they have told the loop is done
	s.ask(func() {
		if n := len(s.Commands.watched); n != 0 {
			t.Errorf("%d operations are watched, and nobody waits", n)
		}
		if n := len(s.Commands.problems); n != 0 {
			t.Errorf("%d problems are kept, and nobody reads them", n)
		}
		over := 0
		for _, o := range s.fleet.set.Operations.List() {
			if o.Over() {
				over++
			}
		}
		if over > limits.Operations {
			t.Errorf("%d operations are remembered that are over, and nobody reads them", over)
		}
		if n, all := len(s.Memory.Operations()), len(s.fleet.set.Operations.List()); n != all {
			t.Errorf("a successor would be told of %d operations of %d", n, all)
		}
	})
}

// Any number of callers are answered, whatever the bound of what is remembered, and leave
// nothing behind.
func TestEveryCallerIsAnswered(t *testing.T) {
	for _, limit := range []int{0, 1, 2} {
		s, _ := plain(t)
		limits := core.Limits{Operations: limit, Members: 2}
		s.ask(func() { s.fleet.set.Limits = limits })
		units := s.services(t, 40)
		var all sync.WaitGroup
		for i := range 120 {
			wait := []*control.Wait{nil, {TimeoutMS: 20_000}}[i%2]
			all.Go(func() {
				outcomes := operate(s, core.VerbStart, units[i%40:i%40+1], true, uint32(i), wait)
				if len(outcomes) != 1 || outcomes[0].Problem != nil {
					t.Errorf("caller %d is answered with %+v", i, outcomes)
				}
			})
		}
		all.Wait()
		s.nobodyWaits(t, limits)
	}
}

// An operation is there as long as somebody waits for it, though others end meanwhile.
func TestAnOperationIsThereForItsReaders(t *testing.T) {
	s, _ := plain(t)
	limits := core.Limits{Operations: 1, Members: 1}
	s.ask(func() { s.fleet.set.Limits = limits })
	units := s.services(t, 3)
	begun, err := s.backend.BeginOperation(context.Background(), control.BeginOperation{Verb: "stop", Names: []string{"s000"}}, control.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan control.Operation)
	go func() {
		for {
			is, err := s.backend.AwaitOperation(context.Background(), begun.ID)
			if err != nil || is.Over() {
				if err != nil {
					t.Error(err)
				}
				read <- is
				return
			}
		}
	}()
	for range 5 {
		operate(s, core.VerbStart, units[1:2], true, 0, nil)
	}
	if is, err := s.backend.CancelOperation(begun.ID); err != nil || is.State != operation.StateCancelled {
		t.Errorf("%+v, %v", is, err)
	}
	if is := <-read; is.ID != begun.ID || is.State != operation.StateCancelled {
		t.Errorf("%+v", is)
	}
	s.nobodyWaits(t, limits)
}

// A caller that goes before there is an answer leaves nothing behind.
func TestOneThatWaitsNoLongerLeavesNothing(t *testing.T) {
	s, _ := plain(t)
	units := s.services(t, 2)
	for range 300 {
		outcome := s.backend.Outcome(context.Background(), viewOf(s, units[0]), operation.Gate{Down: true, Patient: true}, &control.Wait{TimeoutMS: 1})
		if outcome.Problem == nil || !strings.Contains(outcome.Problem.Type, control.KindTimedOut) {
			t.Fatalf("%+v", outcome)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		s.backend.Give(ctx, serve.CommandOf(core.VerbStop, []*serve.View{viewOf(s, units[1])}, control.Actor{}), []*serve.View{viewOf(s, units[1])}, &control.Wait{})
		cancel()
	}
	s.nobodyWaits(t, core.DefaultLimits())
}

func viewOf(s *supervisor, u *unit) (v *serve.View) {
	s.read(func() { v = u.view() })
	return v
}
