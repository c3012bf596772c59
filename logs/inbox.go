package logs

import (
	"golang.org/x/sys/unix"

	mailbox "rlminit/internal/inbox"
)

// inbox is the way into the collector's goroutine, which waits for descriptors:
// commands, in the order in which they were put.
type inbox struct {
	*mailbox.Inbox[func()]
	wake int           // eventfd that the collector waits for
	done chan struct{} // closed when it has ended
}

// open makes it; hurry ends a nap of the collector.
func (b *inbox) open(hurry func()) (err error) {
	b.done = make(chan struct{})
	b.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	one := [8]byte{0: 1}
	b.Inbox = mailbox.NewRousing[func()](func() {
		_, _ = unix.Write(b.wake, one[:])
		hurry()
	})
	return err
}

// ask has the collector's goroutine run f, and waits for it. It reports false
// where the collector has ended.
func (b *inbox) ask(f func()) bool {
	done := make(chan struct{})
	b.Put(func() {
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

// close lets nothing more in.
func (b *inbox) close() {
	b.Close()
	unix.Close(b.wake)
}
