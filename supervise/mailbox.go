package supervise

// mailbox is how others have things done by the loop, which owns all that is said
// to be its own.
type mailbox struct {
	letters chan func()
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
