// Package history is the operations of this boot and of earlier ones, as the journal has
// them: how each began, and how it ended.
package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/operation"
)

// kept bounds how many operations are remembered.
const kept = 100

// Section is the history's in the journal's snapshot.
const Section = "operations"

// TypeEnded is the record of an operation that is over: an Ended. How one began
// is in the record of the command, profiles.TypeOperation.
const TypeEnded = "operation_ended"

// Ended is the body of an operation's last record. Of its members it has those
// that Shortened keeps.
type Ended struct {
	Operation uint64                    `json:"operation"`
	Begun     string                    `json:"begun,omitempty"` // the boot that began it; "": the one that wrote this
	Verb      string                    `json:"verb"`
	State     string                    `json:"state"`
	Reason    string                    `json:"reason,omitempty"`
	Members   []control.OperationMember `json:"members"`
	Omitted   int                       `json:"omitted,omitempty"`
}

// History is the fold of operations over boots: the newest ones, by what was
// recorded of how they began and ended.
//
// Invariant: at most kept of them, each with at most membersListed members.
type History struct {
	last uint64
	all  []past // in the order in which they were recorded
}

// past is an operation, and the boot that began it: ids begin anew where there
// was no journal to count them.
type past struct {
	Boot string `json:"boot"`
	control.Operation
}

// Apply is journal.Fold's.
func (h *History) Apply(r journal.Record) {
	switch r.Type {
	case profiles.TypeOperation:
		var c profiles.Command
		if r.Decode(&c) == nil && c.Operation > 0 {
			h.begin(r, c)
		}
	case TypeEnded:
		var e Ended
		if r.Decode(&e) == nil {
			h.end(cmp.Or(e.Begun, r.Boot), e)
		}
	}
}

func (h *History) begin(r journal.Record, c profiles.Command) {
	h.last = max(h.last, c.Operation)
	o := control.Operation{ID: c.Operation, Verb: c.Verb, At: r.At, State: operation.StateRunning}
	if c.Actor != nil {
		o.Actor = control.Actor(*c.Actor)
	}
	for _, name := range c.Named() {
		o.Members = append(o.Members, control.OperationMember{Name: strings.TrimPrefix(name, service.GatewayPrefix), State: operation.StateRunning})
	}
	h.all = append(h.all, past{r.Boot, Shortened(o)})
	if len(h.all) > kept {
		h.all = slices.Delete(h.all, 0, len(h.all)-kept)
	}
}

func (h *History) end(boot string, e Ended) {
	for i := range h.all {
		if p := &h.all[i]; p.ID == e.Operation && p.Boot == boot && !p.Over() {
			p.State, p.Reason, p.Members, p.Omitted = e.State, e.Reason, e.Members, e.Omitted
		}
	}
}

// Snapshot is journal.Fold's.
func (h *History) Snapshot() any { return historySection{h.last, h.all} }

type historySection struct {
	Last uint64 `json:"last"`
	All  []past `json:"operations"`
}

// Restore is journal.Fold's.
func (h *History) Restore(section json.RawMessage) error {
	var s historySection
	err := json.Unmarshal(section, &s)
	h.last, h.all = s.Last, s.All
	return err
}

// Since is what a boot finds: the operations, by id, and the last id that was
// given. Those that an earlier boot left under way are interrupted, which left
// says so that it can be recorded.
func (h *History) Since(boot string) (all []control.Operation, left []Ended, last uint64) {
	newest := map[uint64]int{} // the later one of an id counts
	for i, p := range h.all {
		newest[p.ID] = i
	}
	for i, p := range h.all {
		if newest[p.ID] != i {
			continue
		}
		o := p.Operation
		o.Members = slices.Clone(o.Members)
		if !o.Over() && p.Boot != boot {
			interrupt(&o, "the container ended")
			e := EndedOf(o)
			e.Begun = p.Boot
			left = append(left, e)
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b control.Operation) int { return cmp.Compare(a.ID, b.ID) })
	return all, left, h.last
}

// interrupt ends what is open of an operation.
func interrupt(o *control.Operation, why string) {
	o.State, o.Reason = operation.StateInterrupted, why
	for i := range o.Members {
		if m := &o.Members[i]; m.State == operation.StatePending || m.State == operation.StateRunning {
			m.State, m.Reason = operation.StateInterrupted, why
		}
	}
}

// EndedOf is the record of an operation that is over.
func EndedOf(o control.Operation) Ended {
	o = Shortened(o)
	return Ended{Operation: o.ID, Verb: o.Verb, State: o.State, Reason: o.Reason, Members: o.Members, Omitted: o.Omitted}
}

// membersListed is how many members are kept of an operation for later.
const membersListed = 50

// Shortened is an operation with so many members that it can be kept: those that
// are not done come first.
func Shortened(o control.Operation) control.Operation {
	if len(o.Members) <= membersListed {
		return o
	}
	members := slices.Clone(o.Members)
	slices.SortStableFunc(members, func(a, b control.OperationMember) int {
		return cmp.Compare(doneLast(a), doneLast(b))
	})
	o.Omitted += len(members) - membersListed
	o.Members = members[:membersListed:membersListed]
	return o
}

func doneLast(m control.OperationMember) int {
	if m.State == operation.StateDone {
		return 1
	}
	return 0
}
