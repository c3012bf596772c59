// Package garbage is how much memory the supervisor lets its garbage collector leave
// unlooked at, while it boots, while commands come in numbers, and otherwise.
package garbage

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// How much garbage there may be, in percent of what is in use: debug.SetGCPercent.
const (
	little = 35
	much   = 100
)

// What is in use, in bytes, before anything is collected.
const (
	Boot = 24 << 20 // what a boot of a thousand services needs at its peak, whether it collects or not
	Stop = 64 << 20 // of which a thousand services take twenty before it
)

// Hurry turns the collector off until so much is in use. It is for a boot, of which
// most memory stays in use, and for a stop and for short-lived children, whose memory ends
// with the process: collecting would take a tenth of a boot's time, and a quarter of a
// stop's. Above that it collects as while many commands come. over ends that.
func Hurry(until int64) (over func()) {
	var once sync.Once
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(until)
	from := func(percent int) {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	}
	runtime.AddCleanup(new([64]byte), func(int) { once.Do(func() { from(much) }) }, 0) // by the first collection
	return func() {
		once.Do(func() {})
		from(little)
	}
}

const (
	manyCommands = 50 // in a second
	// quiet is how long there are few before memory is given back.
	quiet = 2 * time.Second
)

// Target is the collector's target after the boot. A supervisor is idle as a rule, and
// memory dearer than time: little. While commands come in numbers that would cost a fifth
// of their time, so there may be more, until it is quiet again. Only the loop calls it; a
// nil one changes nothing.
type Target struct {
	do      func(func())      // has something done by the loop
	clock   func() int64      // ns of the boot clock
	percent func(garbage int) // of what is in use
	free    func()            // gives back what is not in use any more

	since    int64 // when the present second began
	commands int   // in it
	busy     int64 // when there were last many
	generous bool
}

// NewTarget is a Target whose loop do is, and that reads the boot clock, in ns, by clock.
func NewTarget(do func(func()), clock func() int64) *Target {
	return &Target{
		do: do, clock: clock,
		percent: func(garbage int) { go debug.SetGCPercent(garbage) }, // it waits for a collection that runs
		free:    func() { go debug.FreeOSMemory() },
	}
}

// Worked notes a command.
func (t *Target) Worked() {
	if t == nil {
		return
	}
	now := t.clock()
	if now-t.since >= int64(time.Second) {
		t.since, t.commands = now, 0
	}
	if t.commands++; t.commands < manyCommands {
		return
	}
	if t.busy = now; !t.generous {
		t.generous = true
		t.percent(much)
		t.look(quiet)
	}
}

// look comes back after some time, to see whether it is quiet.
func (t *Target) look(after time.Duration) {
	time.AfterFunc(after, func() {
		t.do(func() {
			if left := t.busy + int64(quiet) - t.clock(); left > 0 {
				t.look(time.Duration(left))
				return
			}
			t.generous = false
			t.percent(little)
			t.free()
		})
	})
}
