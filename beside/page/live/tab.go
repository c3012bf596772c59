package live

import (
	"errors"
	"sync/atomic"
)

const (
	// tabsMost is how many tabs may be open at once, and viewsMost how many different
	// pages they may show.
	tabsMost  = 768
	viewsMost = 256
	// waitingMost is how many messages may wait for a tab, and bytesMost how many bytes
	// they may have, unless there is but one.
	waitingMost = 64
	bytesMost   = 4 << 20
)

// ErrFull refuses one more tab.
var ErrFull = errors.New("too many pages are open; close some, and try again")

// Tab is one open page. Who serves it reads Messages until Gone is closed.
type Tab struct {
	hub  *Hub
	view View
	seen *Position // what its page shows already; nil: that is not known

	messages chan Message
	bytes    atomic.Int64
	gone     chan struct{} // closed by the hub, when the tab is let go
}

// Messages are what is to be sent to the browser; after each, Sent is to be called.
func (t *Tab) Messages() <-chan Message { return t.messages }

// Gone is closed when the tab is let go: it was too slow, or the page ends.
func (t *Tab) Gone() <-chan struct{} { return t.gone }

// Sent says that a message has left.
func (t *Tab) Sent(m Message) { t.bytes.Add(-int64(len(m.Data))) }

// Close ends it. It may be called once.
func (t *Tab) Close() { t.hub.put(func() { t.hub.leave(t) }) }

// send hands a message on, and tells whether there was room for it. Only the hub calls
// it.
func (t *Tab) send(m Message) bool {
	n := int64(len(m.Data))
	if now := t.bytes.Add(n); now > bytesMost && now != n {
		return false
	}
	select {
	case t.messages <- m:
		return true
	default:
		return false
	}
}
