package publish

import (
	"context"
	"reflect"
	"testing"
	"time"

	"rlminit/control"
)

func TestSlowReaderOfEventsIsCutOffAndTheOthersLoseNothing(t *testing.T) {
	e := NewEvents()
	_, slow, _ := e.subscribe()
	_, quick, cancel := e.subscribe()
	defer cancel()
	for i := range eventsBehind + 10 {
		e.Publish(control.Event{})
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
	past, _, done := e.subscribe()
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
	set := func(key string, value int) { n.Put(key, value) }
	for i := range 100 {
		set("a", i)
	}
	go func() { gate <- struct{}{} }()
	n.Flush(t.Context()) // which does not wait for the hour
	set("a", 100)
	set("b", 7)
	go func() { gate <- struct{}{} }()
	n.Flush(t.Context())
	n.Flush(t.Context()) // there is nothing to wait for
	if want := map[string][]int{"a": {99, 100}, "b": {7}}; !reflect.DeepEqual(wrote, want) {
		t.Fatalf("written: %v, want %v", wrote, want)
	}
	set("b", 8)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.Flush(ctx) // gives up with its caller
}
