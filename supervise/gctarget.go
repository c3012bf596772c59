package supervise

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// collectLate has nothing collected before bootMemory is in use: most of what a boot makes
// stays, and to look at all of it again and again took half of the boot's time. What a
// large boot needs beyond that is collected as while many commands come. booted ends that.
func collectLate() (booted func()) {
	var once sync.Once
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(bootMemory)
	ends := func(garbage int) {
		debug.SetGCPercent(garbage)
		debug.SetMemoryLimit(math.MaxInt64)
	}
	runtime.AddCleanup(new([64]byte), func(int) { once.Do(func() { ends(muchGarbage) }) }, 0) // by the first collection
	return func() {
		once.Do(func() {})
		ends(littleGarbage)
	}
}

// bootMemory is, in bytes, what a boot of a thousand services needs at its peak, whether
// it collects or not.
const bootMemory = 24 << 20

// gcTarget is the garbage collector's target. A supervisor is idle as a rule, and memory
// dearer than time: little. While commands come in numbers that would cost a fifth of
// their time, so there may be more, until it is quiet again. Only the loop touches it; a
// nil one changes nothing.
type gcTarget struct {
	loop    *mailbox
	percent func(garbage int) // of what is in use
	free    func()            // gives back what is not in use any more

	since    int64 // when the present second began, ns of the boot clock
	commands int   // in it
	busy     int64 // when there were last many
	generous bool
}

const (
	littleGarbage = 35
	muchGarbage   = 100
	manyCommands  = 50 // in a second
	// quiet is how long there are few before memory is given back.
	quiet = 2 * time.Second
)

func newGCTarget(loop *mailbox) *gcTarget {
	return &gcTarget{
		loop:    loop,
		percent: func(garbage int) { go debug.SetGCPercent(garbage) }, // it waits for a collection that runs
		free:    func() { go debug.FreeOSMemory() },
	}
}

// worked notes a command.
func (t *gcTarget) worked(now int64) {
	if t == nil {
		return
	}
	if now-t.since >= int64(time.Second) {
		t.since, t.commands = now, 0
	}
	if t.commands++; t.commands < manyCommands {
		return
	}
	if t.busy = now; !t.generous {
		t.generous = true
		t.percent(muchGarbage)
		t.look(quiet)
	}
}

// look comes back after some time, to see whether it is quiet.
func (t *gcTarget) look(after time.Duration) {
	time.AfterFunc(after, func() {
		t.loop.do(func() {
			if left := t.busy + int64(quiet) - boottime(); left > 0 {
				t.look(time.Duration(left))
				return
			}
			t.generous = false
			t.percent(littleGarbage)
			t.free()
		})
	})
}
