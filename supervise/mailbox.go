package supervise

// mailbox is how others have things done by the loop, which owns all that is said
// to be its own.
type mailbox struct {
	letters chan func()
	later   []func() // the loop's
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

// when has f run by the loop when a channel is closed.
func (m *mailbox) when(closed <-chan struct{}, f func()) {
	go func() {
		<-closed
		m.do(f)
	}()
}

// soon has f run by the loop after what it is doing now. Only the loop calls it.
func (m *mailbox) soon(f func()) { m.later = append(m.later, f) }

// rest is what the loop has put off.
func (m *mailbox) rest() {
	for len(m.later) > 0 {
		f := m.later[0]
		m.later = m.later[1:]
		f()
	}
}
