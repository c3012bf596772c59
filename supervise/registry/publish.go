package registry

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/inbox"
	"rlminit/supervise/handover"
	"rlminit/supervise/slots"
)

// definitionsUnder is the prefix of the rows with definitions in force.
const definitionsUnder = "definition/"

// publisher writes slots, and keeps definitions for a successor, which reads none of
// its own in a slot. Invariant: of each name that is supervised the definition in force
// is kept, with its slot's stamp. The goroutine's.
type publisher struct {
	queue    inbox.Work
	services Services
	slots    slots.Dir
	table    *handover.Table
	names    *names
	there    func() bool // the service directory is ours; nobody writes into another one

	holds   bool       // definitions in force are published later
	held    []Proposal // those to be published since, or that could not be
	failing bool       // something could not be, and is tried again
}

// force makes a proposal the definition in force of its name, for a successor too.
func (b *publisher) force(e *entry, p Proposal) {
	e.fault, e.ours, e.recorded = p.Fault, p.Ours, e.recorded || p.Recorded
	if p.Fault == "" {
		b.names.sources += len(p.source) - e.size
		e.source, e.size = p.Fingerprint, len(p.source)
	}
	if p.Profile != "" {
		e.profile = p.Profile
	}
	b.keep(p.Name, e, p)
}

// release publishes held definitions that are still in force.
func (b *publisher) release() {
	held := b.held
	b.holds, b.held = false, nil
	b.publish(slices.DeleteFunc(held, func(p Proposal) bool {
		e := b.names.of[p.Name]
		return e == nil || e.life != Supervised || p.Fault != e.fault || p.Fault == "" && (p.Fingerprint != e.source || p.Fingerprint == e.configured)
	}))
}

// publish writes the slots of definitions in force, which are copies, and their stamps into
// the rows. A slot that cannot be written is tried again.
func (b *publisher) publish(inForce []Proposal) {
	if b.holds || len(inForce) > 0 && !b.there() {
		b.held = append(b.held, inForce...)
		return
	}
	var names []string
	for _, p := range inForce {
		names = append(names, p.Name)
		if err := b.write(p); err != nil {
			b.held = append(b.held, p)
			b.failed(p.Name, err)
		}
	}
	b.services.Published(names)
}

// failed has held definitions tried again, and says why, once until it works.
func (b *publisher) failed(name string, why error) {
	if !b.failing {
		b.failing = true
		slog.Error("cannot publish a service; tried again until it works", "service", name, "err", why)
		b.tryAgain()
	}
}

func (b *publisher) tryAgain() {
	time.AfterFunc(publishAgain, func() {
		b.queue.Do(func() {
			if b.there() {
				b.release()
			}
			if b.failing = len(b.held) > 0; b.failing {
				b.tryAgain()
			}
		})
	})
}

// publishAgain is how long slots that could not be written wait for the next try.
const publishAgain = 5 * time.Second

// write writes the slot of a proposal.
func (b *publisher) write(p Proposal) error {
	e := b.names.entry(p.Name)
	if p.Fault != "" {
		return b.slots.Occupy(p.Name)
	}
	stamp, err := b.slots.Publish(p.Name, p.source)
	if err != nil {
		e.configured = ""
		return err
	}
	e.slot, e.configured = stamp, p.Fingerprint
	b.keep(p.Name, e, p)
	return nil
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

// lost is the stamp of a slot with unknown content.
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

// forget removes the row of a name.
func (b *publisher) forget(name string) {
	if err := b.table.Delete(definitionsUnder + name); err != nil {
		slog.Warn("a successor will know the definition of a service that is gone", "service", name, "err", err)
	}
}
