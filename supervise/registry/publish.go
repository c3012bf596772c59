package registry

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/inbox"
	"rlminit/supervise/handover"
	"rlminit/supervise/slots"
)

// definitionsUnder is where definitions in force are in what a successor is to know.
const definitionsUnder = "definition/"

// publisher writes slots, and keeps definitions for a successor, which reads none of
// its own in a slot. Invariant: of each name that is supervised the definition in force
// is kept, with what is in its slot. The goroutine's.
type publisher struct {
	queue    inbox.Work
	services Services
	slots    slots.Dir
	table    *handover.Table
	names    *names
}

// publish writes a proposal's slot, which is a copy, and has a successor know what is in
// it. What cannot be written is tried again.
func (b *publisher) publish(e *entry, p Proposal) (err error) {
	if p.Fault != "" {
		err = b.slots.Occupy(p.Name)
	} else if stamp, failed := b.slots.Publish(p.Name, p.source); failed == nil {
		e.slot, e.configured = stamp, p.Fingerprint
		b.keep(p.Name, e, p)
	} else {
		err, e.configured = failed, ""
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
	if e == nil || e.life != Supervised || e.source != p.Fingerprint || p.Fault == "" && e.configured == p.Fingerprint || p.Fault != e.fault {
		return
	}
	if b.publish(e, p) == nil {
		b.services.Published([]string{p.Name})
	}
}

// keep has a successor know a definition that is about to be in force, or was published,
// and what is in its slot; or why there is none. A fault leaves the one of before, and the slot is
// looked at again.
func (b *publisher) keep(name string, e *entry, p Proposal) {
	if p.Fault != "" && e.source != "" {
		return
	}
	row := fmt.Appendf(nil, "%t %x %s %q\n", e.ours, e.configured, e.slot, p.Fault)
	if p.Fault == "" {
		row = append(row, p.source...)
	}
	if err := b.table.Put(definitionsUnder+name, row); err != nil {
		slog.Warn("a successor will not know the definition of a service", "service", name, "err", err)
	}
}

// lost is the stamp of a slot of which nobody knows what was in it.
const lost = "?"

// kept is the definition that a predecessor had in force, or else why there was none, and
// puts into e what it knew of the slot.
func (b *publisher) kept(name string, e *entry) (source []byte, fault string) {
	head, source, _ := bytes.Cut(b.table.Get(definitionsUnder+name), []byte("\n"))
	known := strings.SplitN(string(head), " ", 4)
	if len(known) != 4 {
		e.slot = lost
		return nil, "the supervisor before had no definition of it"
	}
	configured, _ := hex.DecodeString(known[1])
	e.ours, e.configured, e.slot = known[0] == "true", string(configured), known[2]
	fault, _ = strconv.Unquote(known[3])
	return source, fault
}

// forget lets go of what a successor is to know of a name.
func (b *publisher) forget(name string) {
	if err := b.table.Delete(definitionsUnder + name); err != nil {
		slog.Warn("a successor will know the definition of a service that is gone", "service", name, "err", err)
	}
}
