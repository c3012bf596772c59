package registry

import (
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/inbox"
	"rlminit/supervise/handover"
	"rlminit/supervise/slots"
	"rlminit/wire"
)

// A definition is in force whether or not its slot can be written. One that could
// not be, on a /run that is full, is in a sealed memfd that tier 1 holds: what the
// slot had, as a fingerprint, and the definition. So a successor goes on with what
// runs, and tells a slot that is behind from one that somebody has changed.

// UnpublishedKey names the definition of a service among what tier 1 holds.
func UnpublishedKey(name string) string { return "definition/" + name }

// publisher writes slots, and has tier 1 hold what could not be written. Invariant:
// of each name that is supervised the definition in force is in its slot, or tier 1
// holds it, or it is a stranger's. The goroutine's.
type publisher struct {
	queue    inbox.Work
	services Services
	slots    slots.Dir
	hold     handover.Hold
	names    *names
}

// publish writes a proposal's slot. What cannot be written is kept for a successor,
// and tried again.
func (b *publisher) publish(e *entry, p Proposal) error {
	var err error
	if p.Fault != "" {
		err = b.slots.Occupy(p.Name)
	} else if err = b.slots.Publish(p.Name, p.source); err == nil {
		e.slot, e.configured = p.Fingerprint, p.Fingerprint
		b.published(p.Name, e)
		return nil
	} else {
		b.keepUnpublished(e, p)
		_ = b.slots.Occupy(p.Name) // a socket of the service needs no room, but a directory
	}
	if err != nil {
		b.republishSoon(p)
	}
	return err
}

func (b *publisher) republishSoon(p Proposal) {
	time.AfterFunc(publishAgain, func() { b.queue.Do(func() { b.republish(p) }) })
}

// republish tries again to write the slot of what is in force, and has the status
// written that had no place.
func (b *publisher) republish(p Proposal) {
	e := b.names.of[p.Name]
	if e == nil || e.life != Supervised || e.source != p.Fingerprint || p.Fault == "" && e.slot == p.Fingerprint || p.Fault != e.fault {
		return
	}
	if b.publish(e, p) == nil {
		b.services.Define(p)
	}
}

// keepUnpublished has tier 1 hold the definition of a proposal.
func (b *publisher) keepUnpublished(e *entry, p Proposal) {
	slot := make([]byte, fingerprintBytes)
	copy(slot, e.slot)
	fd, err := wire.Sealed("definition", append(slot, p.source...))
	if err != nil {
		slog.Warn("a successor will not know the definition of a service", "service", p.Name, "err", err)
		return
	}
	e.unpublished = true
	b.hold(UnpublishedKey(p.Name), fd)
}

// published lets go of what tier 1 holds of a name.
func (b *publisher) published(name string, e *entry) {
	if e.unpublished {
		e.unpublished = false
		b.hold(UnpublishedKey(name), -1)
	}
}

// unpublished reads what a predecessor kept: the definition, and the fingerprint of
// what was in the slot; "" where there was none.
func unpublished(fds []int) (source []byte, slot string) {
	if len(fds) != 1 {
		return nil, ""
	}
	defer unix.Close(fds[0])
	content, err := wire.ReadSealed(fds[0], fingerprintBytes+slots.DefinitionMax)
	if err != nil || len(content) < fingerprintBytes {
		return nil, ""
	}
	if slot = string(content[:fingerprintBytes]); slot == gone {
		slot = ""
	}
	return content[fingerprintBytes:], slot
}
