package loop

import (
	"slices"
	"testing"
	"time"

	"rlminit/service"
	"rlminit/supervise/registry"
)

// The loop is the only one to empty its mailbox: it may put in as much as it likes, and
// takes all of it in order.
func TestTheLoopMayFillItsMailbox(t *testing.T) {
	s, _ := plain(t)
	const many = 5000
	var taken []int
	s.ask(func() {
		for i := range many {
			s.do(func() { taken = append(taken, i) })
		}
		if len(taken) > 0 {
			t.Error("one was taken before its turn")
		}
	})
	s.ask(func() {
		if len(taken) != many || !slices.IsSorted(taken) {
			t.Errorf("%d of %d were taken, in order: %v", len(taken), many, slices.IsSorted(taken))
		}
	})
}

// A deadline comes, and the loop ends, though there is always something in the mailbox; and
// whoever asks is answered.
func TestAMailboxThatIsNeverEmpty(t *testing.T) {
	s, _ := plain(t)
	var again func()
	again = func() { s.do(again) }
	s.do(again)
	d := service.Default("web")
	d.Command, d.Ready = []string{"web"}, &service.Probe{TCP: "nobody:1", Timeout: 50 * time.Millisecond}
	p := registry.Ours(d)
	p.Start = true
	s.ask(func() { s.Services.define([]registry.Proposal{p}, func(u *unit) { u.output.slot = silent{} }) })
	s.await(t, "web", "started", func(u *unit) bool { return u.state.LastID > 0 })
	s.await(t, "web", "ended, for it is not ready in time", func(u *unit) bool { return u.state.Public() == "stopping" })
}
