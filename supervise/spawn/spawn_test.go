package spawn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/inbox"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/link"
	"rlminit/supervise/machine"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// sent is what tier 1 is told.
type sent struct {
	mu   sync.Mutex
	text []string
}

func (s *sent) tier1() *Tier1 {
	t := NewTier1()
	t.Link = link.To(func(o link.Outgoing) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch m := o.Message.(type) {
		case *wire.Signal:
			s.text = append(s.text, fmt.Sprintf("%d to %d, scope %d", m.Signal, m.ID, m.Scope))
		case *wire.Acknowledge:
			s.text = append(s.text, fmt.Sprintf("acknowledge %d", m.ID))
		}
	})
	return t
}

func (s *sent) check(t *testing.T, tier1 *Tier1, want ...string) {
	t.Helper()
	tier1.Link.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.text, want) {
		t.Errorf("sent: %q, want %q", s.text, want)
	}
	s.text = nil
}

// A probe's program that is given up before it runs could not be signalled: it
// is ended when it is there.
func TestAProbeThatIsGivenUpBeforeItRuns(t *testing.T) {
	var s sent
	tier1 := s.tier1()
	p := NewDriver(tier1, &Preparer{}).Programs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.driver.Prepare = func(Service, *rights.Progress) process.Prepared { return process.Prepared{} }
	of := Service{Definition: service.Default("web"), Probe: []string{"ask"}}
	if err := p.Probe(ctx, wire.HealthProbe("web"), of, 0, nil); err == nil || err.Error() != "ask did not end in time" {
		t.Error(err)
	}
	id := tier1.NewID(p) - 1
	kill := fmt.Sprintf("9 to %d, scope %d", id, wire.ScopeGroup)
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Spawned{ID: id, PID: 107})
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Exited{ID: id, Exit: wire.Exit{Signal: 9}})
	s.check(t, tier1, fmt.Sprintf("acknowledge %d", id))
	if tier1.owned[id] != nil {
		t.Error("it has ended, and somebody answers for it")
	}
}

// A child that nobody answers for is ended whatever it is at, with what it leaves behind.
func TestDismissed(t *testing.T) {
	var s sent
	tier1 := s.tier1()
	kill := fmt.Sprintf("9 to 5, scope %d", wire.ScopeGroup)
	tier1.Dismiss(wire.Child{ID: 5, State: wire.ChildPending})
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Spawned{ID: 5, PID: 105})
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Exited{ID: 5, Exit: wire.Exit{Signal: 9, Leftovers: 2}})
	s.check(t, tier1, fmt.Sprintf("9 to 5, scope %d", wire.ScopeLeftover), "acknowledge 5")
	tier1.Dismiss(wire.Child{ID: 6, State: wire.ChildExited})
	s.check(t, tier1, "acknowledge 6")
}

// No two spawns have one id, whoever gives them.
func TestNumbers(t *testing.T) {
	tier1 := NewTier1()
	p := NewDriver(tier1, &Preparer{}).Programs
	a := tier1.NewID(p)
	var b uint64
	tier1.Number(func(next uint64) uint64 { b = next; return next + 3 })
	c := tier1.NewID(p)
	if b != a+1 || c != b+3 {
		t.Error(a, b, c)
	}
}

// work is a loop that runs what it is given when it is told to.
type work struct {
	*inbox.Inbox[func()]
	turn func() // what it does after each thing
}

// until runs what comes until that is so.
func (w work) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); {
		w.turn()
		if f, waits := w.Next(); waits {
			f()
		} else if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		} else {
			time.Sleep(time.Millisecond)
		}
	}
}

// driver is one that starts services at once, with its loop, and what the core hears.
func driver(tier1 *Tier1) (d *Driver, loop work, heard *[]machine.Event) {
	d = NewDriver(tier1, &Preparer{})
	loop, heard = work{inbox.New[func()](), d.Turn}, &[]machine.Event{}
	d.Do = func(f func()) { loop.Put(f) }
	d.Apply = func(in core.Input) { *heard = append(*heard, in.Event) }
	d.Immediate = func(Service) bool { return true }
	d.Prepare = func(s Service, _ *rights.Progress) process.Prepared {
		return process.Unchecked(process.Where{Dir: "/"}, s.Definition.Command, []string{"PATH=/nowhere"})
	}
	d.Open = func(*Launch, *wire.Spawn, func(*wire.Hold, []int)) ([]int, error) { return nil, nil }
	return d, loop, heard
}

func runs(name string, command ...string) Service {
	d := service.Default(name)
	d.Command = command
	return Service{Name: name, Definition: d}
}

// While tier 1 is behind, no launch sends; then they do so in their order, without those
// that were given up meanwhile.
func TestLaunchesWaitForTier1(t *testing.T) {
	tier1 := NewTier1()
	var mu sync.Mutex
	var asked []uint64
	behind := make(chan struct{})
	tier1.Link = link.To(func(o link.Outgoing) {
		<-behind
		if m, is := o.Message.(*wire.Spawn); is {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, m.ID)
		}
	})
	d, loop, _ := driver(tier1)
	tier1.Send(&wire.Pong{}, nil, nil)
	for id := uint64(1); id <= 5; id++ {
		d.Begin(runs("web", "true"), id)
	}
	loop.until(t, "all are prepared", func() bool { return len(d.ready) == 5 })
	d.Abandon(3)
	if d.launches[2].asked {
		t.Error("tier 1 is behind, and was asked")
	}
	close(behind)
	want := []uint64{1, 2, 4, 5}
	loop.until(t, "tier 1 is asked for the rest", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) == len(want)
	})
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}

// The loop, which begins launches, is the only one to empty its mailbox: it puts nothing
// there, however many it begins at a time.
func TestBeginLeavesTheMailboxAlone(t *testing.T) {
	tier1 := (&sent{}).tier1()
	d, loop, _ := driver(tier1)
	const many = 2000
	for id := uint64(1); id <= many; id++ {
		d.Begin(runs("web", "true"), id)
	}
	if _, waits := loop.Next(); waits || len(d.ready) != many {
		t.Errorf("%d of %d are ready, and the loop has a letter: %t", len(d.ready), many, waits)
	}
	loop.until(t, "tier 1 is asked for all", func() bool { return len(d.ready) == 0 })
}

// A spawn that fails is explained by a look at what it did not find, also where a
// predecessor has asked for it.
func TestFailureIsExplained(t *testing.T) {
	for name, begin := range map[string]func(*Driver, Service){
		"own":           func(d *Driver, s Service) { d.Begin(s, 1) },
		"predecessor's": func(d *Driver, s Service) { d.Adopt(s, nil, 1) },
	} {
		d, loop, heard := driver((&sent{}).tier1())
		begin(d, runs("web", "agent"))
		loop.until(t, "tier 1 is asked", func() bool { return d.launches[1].asked })
		l := d.launches[1]
		d.Hear(&wire.SpawnFailed{ID: 1, Step: wire.StepExec, Errno: int32(unix.ENOENT)})
		loop.until(t, "the core hears of it", func() bool { return len(*heard) > 0 })
		const want = `cannot run "agent": not found in PATH (/nowhere)`
		if e := (*heard)[0]; e.Kind != machine.SpawnFailed || e.Reason != want || e.Temporary || l.Unrunnable != 127 {
			t.Errorf("%s: %+v, exit code %d; want %q", name, e, l.Unrunnable, want)
		}
	}
}
