package loop

import "sync"

// mailbox is how others have things done by the loop, which owns all that is said
// to be its own, and how they read that: while the loop is at nothing.
type mailbox struct {
	letters chan func()
	at      sync.RWMutex // held by the loop while it is at something
}

func newMailbox() mailbox { return mailbox{letters: make(chan func(), 1024)} }

// do has f run by the loop, some time.
func (m *mailbox) do(f func()) { m.letters <- f }

// ask has f run by the loop and waits until it was.
func (m *mailbox) ask(f func()) {
	done := make(chan struct{})
	m.letters <- func() {
		defer close(done)
		f()
	}
	<-done
}

// read has f read what is the loop's, between two things that the loop does: it copies what
// it needs, and neither changes anything nor waits. It is not for the loop.
func (m *mailbox) read(f func()) {
	m.at.RLock()
	defer m.at.RUnlock()
	f()
}
