package logs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// inbox is the way into the collector's goroutine: commands, in the order in which
// they were posted.
type inbox struct {
	wake  int    // eventfd that the collector waits for; negative: it has ended
	hurry func() // ends a nap of it
	done  chan struct{}

	mu       sync.Mutex
	commands []func()
	pending  atomic.Bool // there are commands
}

// post has the collector's goroutine run a command, after those posted before.
func (b *inbox) post(command func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake < 0 {
		return // the collector has ended
	}
	b.commands = append(b.commands, command)
	if !b.pending.Swap(true) {
		one := [8]byte{0: 1}
		_, _ = unix.Write(b.wake, one[:])
		b.hurry()
	}
}

// ask has the collector's goroutine run f, and waits for it. It reports false
// where the collector has ended.
func (b *inbox) ask(f func()) bool {
	done := make(chan struct{})
	b.post(func() {
		f()
		close(done)
	})
	select {
	case <-done:
		return true
	case <-b.done:
		return false
	}
}

// next takes the oldest command; nil: there is none.
func (b *inbox) next() func() {
	if !b.pending.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.commands) == 0 {
		b.commands = nil
		b.pending.Store(false)
		return nil
	}
	command := b.commands[0]
	b.commands[0] = nil
	b.commands = b.commands[1:]
	return command
}

// close lets nothing more in.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	unix.Close(b.wake)
	b.wake = -1
}
