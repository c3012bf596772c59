package supervise

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/supervise/core"
	"rlminit/wire"
)

func TestSlowReaderOfEventsIsCutOffAndTheOthersLoseNothing(t *testing.T) {
	e := newEvents()
	_, slow, _ := e.Subscribe()
	_, quick, cancel := e.Subscribe()
	defer cancel()
	for i := range eventsBehind + 10 {
		e.publish(control.Event{})
		if got := <-quick; got.Seq != uint64(i+1) {
			t.Fatalf("event %d came as %d", i+1, got.Seq)
		}
	}
	n := 0
	for range slow {
		n++
	}
	if n != eventsBehind {
		t.Fatalf("the slow reader got %d events before it was cut off, want %d", n, eventsBehind)
	}
	past, _, done := e.Subscribe()
	defer done()
	if len(past) != eventsKept || past[len(past)-1].Seq != eventsBehind+10 {
		t.Fatalf("%d events kept, the last is %d", len(past), past[len(past)-1].Seq)
	}
}

func TestOnlyTheNewestIsWrittenAndFlushWaitsForIt(t *testing.T) {
	gate := make(chan struct{})
	wrote := map[string][]int{}
	n := newNewest(time.Hour, func(batch map[string]int) map[string]int {
		<-gate
		for key, value := range batch {
			wrote[key] = append(wrote[key], value)
		}
		return nil
	})
	set := func(key string, value int) { n.put(key, func(int) int { return value }) }
	for i := range 100 {
		set("a", i)
	}
	go func() { gate <- struct{}{} }()
	n.flush(t.Context()) // which does not wait for the hour
	set("a", 100)
	set("b", 7)
	go func() { gate <- struct{}{} }()
	n.flush(t.Context())
	n.flush(t.Context()) // there is nothing to wait for
	if want := map[string][]int{"a": {99, 100}, "b": {7}}; !reflect.DeepEqual(wrote, want) {
		t.Fatalf("written: %v, want %v", wrote, want)
	}
	set("b", 8)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.flush(ctx) // gives up with its caller
}

// A probe's program that is given up before it runs could not be signalled: it
// is ended when it is there.
func TestAProbeThatIsGivenUpBeforeItRuns(t *testing.T) {
	p := newPlace(t, gateways)
	p.now.loop.ask(func() {
		p.now.succession.restored = true
		p.now.prober.runs[7] = &probeRun{ended: make(chan error, 1), abandoned: true}
		p.now.tier1.owned[7] = &p.now.prober
		p.now.hear(&wire.Spawned{ID: 7, PID: 107}, nil)
	})
	p.now.tier1.link.Flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	if want := fmt.Sprintf("9 to 7, scope %d", wire.ScopeGroup); !slices.Contains(p.sent, want) {
		t.Errorf("sent: %q, want %q", p.sent, want)
	}
}

// What an effect leads to waits until the core has been told all before it, and is told
// before anybody else's turn comes.
func TestAnInputThatAnEffectLeadsTo(t *testing.T) {
	p := newPlace(t, gateways)
	p.now.loop.ask(func() {
		var told []string
		at := true
		p.now.fleet.absent = func(name string) {
			p.now.apply(core.Input{Kind: core.Booted})
			told, at = append(told, name), at && !p.now.fleet.set.Booted()
		}
		p.now.apply(core.Input{Kind: core.Define, Name: "x", Definition: &core.Definition{Wants: []string{"nobody", "none"}}})
		if !at || !p.now.fleet.set.Booted() || !slices.Equal(told, []string{"nobody", "none"}) || len(p.now.fleet.queue) != 0 {
			t.Errorf("told of %q; at once: %v; in the end: %v", told, !at, p.now.fleet.set.Booted())
		}
	})
}
