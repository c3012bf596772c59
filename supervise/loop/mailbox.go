package loop

import (
	"sync"

	"rlminit/internal/inbox"
)

// mailbox is how others have things done by the loop, which owns all that is said
// to be its own, and how they read that: while the loop is at nothing. Nobody waits to
// put something in: so the loop may, and who holds what the loop takes.
type mailbox struct {
	letters inbox.Work
	at      sync.RWMutex // held by the loop while it is at something
}

func newMailbox() mailbox { return mailbox{letters: inbox.NewWork()} }

// do has f run by the loop, some time.
func (m *mailbox) do(f func()) { m.letters.Do(f) }

// ask has f run by the loop and waits until it was. It is not for the loop.
func (m *mailbox) ask(f func()) { m.letters.Ask(f) }

// read has f read what is the loop's, between two things that the loop does: it copies what
// it needs, and neither changes anything nor waits. It is not for the loop.
func (m *mailbox) read(f func()) {
	m.at.RLock()
	defer m.at.RUnlock()
	f()
}
