package registry

import (
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/supervise/slots"
	"rlminit/wire"
)

// A definition is in force whether or not its slot can be written. One that could
// not be, on a /run that is full, is in a sealed memfd that tier 1 holds: what the
// slot had, as a fingerprint, and the definition. So a successor goes on with what
// runs, and tells a slot that is behind from one that somebody has changed.

// UnpublishedKey names the definition of a service among what tier 1 holds.
func UnpublishedKey(name string) string { return "definition/" + name }

// publish writes a proposal's slot. What cannot be written is kept for a successor,
// and tried again.
func (r *Registry) publish(e *entry, p Proposal) error {
	var err error
	if p.Fault != "" {
		err = r.slots.Occupy(p.Name)
	} else if err = r.slots.Publish(p.Name, p.source); err == nil {
		e.slot, e.configured = p.Fingerprint, p.Fingerprint
		r.published(p.Name, e)
		return nil
	} else {
		r.keepUnpublished(e, p)
		_ = r.slots.Occupy(p.Name) // a socket of the service needs no room, but a directory
	}
	if err != nil {
		r.republishSoon(p)
	}
	return err
}

func (r *Registry) republishSoon(p Proposal) {
	time.AfterFunc(publishAgain, func() { r.post(func() { r.republish(p) }) })
}

// republish tries again to write the slot of what is in force, and has the status
// written that had no place.
func (r *Registry) republish(p Proposal) {
	e := r.names[p.Name]
	if e == nil || e.life != Supervised || e.source != p.Fingerprint || p.Fault == "" && e.slot == p.Fingerprint || p.Fault != e.fault {
		return
	}
	if r.publish(e, p) == nil {
		r.services.Define(p)
	}
}

// keepUnpublished has tier 1 hold the definition of a proposal.
func (r *Registry) keepUnpublished(e *entry, p Proposal) {
	slot := make([]byte, fingerprintBytes)
	copy(slot, e.slot)
	fd, err := wire.Sealed("definition", append(slot, p.source...))
	if err != nil {
		slog.Warn("a successor will not know the definition of a service", "service", p.Name, "err", err)
		return
	}
	e.unpublished = true
	r.hold(UnpublishedKey(p.Name), fd)
}

// published lets go of what tier 1 holds of a name.
func (r *Registry) published(name string, e *entry) {
	if e.unpublished {
		e.unpublished = false
		r.hold(UnpublishedKey(name), -1)
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
