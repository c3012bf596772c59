// Package reconcile compares the volume and the configuration with
// the records and the live services, and returns the steps between.
//
// It is pure: values in, an ordered list of operations out. It reads no file,
// knows no clock and starts nothing. The same function serves the boot, each
// later scan of the volume and the dry run of either.
package reconcile

import (
	"cmp"
	"slices"

	"rlminit/service"
)

// Input is all that a decision rests on. A service's name stands in at most
// one element of Profiles and Services, and in at most one of Present.
type Input struct {
	Profiles []Profile // of the volume
	Services []Static  // of the configuration
	Present  []Present // registered, or alive

	FoundState service.Intent // gateway.found_state: of a profile without any record
	// Held: another container has the volume, or RLMINIT_PROFILES=off. No
	// profile is registered, and records do not count: they are not ours.
	Held bool
	// Taken: the volume is ours since this moment. Services registered before go by
	// its records from now on.
	Taken bool
}

// Profile is a profile found on the volume.
type Profile struct {
	Name        string // of the profile
	Service     string // "gateway-" + name
	Fault       string // why it cannot be run; "": it can
	Fingerprint string // changes when the definition does
	Record      service.Record
	Unrecorded  bool // its port is not in the state file yet
	Scheduled   bool // its schedule alone runs it: registered stopped, whatever is recorded

	// Declared is its desired state in a declared set, whatever is recorded;
	// IntentNone where there is no such set: then only a command changes that.
	Declared service.Intent
}

// Static is a service of the configuration.
type Static struct {
	Service     string
	Enabled     bool
	Scheduled   bool // its schedule alone runs it: registered stopped, whatever is recorded
	Fault       string
	Fingerprint string
	Recorded    service.Intent // IntentNone: nothing is
}

// Present is a service that the supervisor knows, or whose process lives on
// from an earlier supervisor.
type Present struct {
	Service     string
	Registered  bool // with a definition; false: only reported, or only alive
	Alive       bool
	Fault       string // as last reported, and not yet mended
	Fingerprint string // as registered
	// Wanted is what an earlier supervisor of this container last wanted of
	// it, if that is known: `stop --runtime` is in no record.
	Wanted service.Intent

	// Where a set is declared: what is recorded as wanted, and why that is not
	// so ("failed: …"; "": it is so, or on its way).
	Desired service.Intent
	Astray  string
}

// Kind is what an operation does.
type Kind int

// The kinds of operation, in their order.
const (
	Unregister Kind = iota // stop it, and forget it
	Report                 // show it as failed with Reason; a live process is left alone
	Update                 // the definition changed
	Register               // make it known; Start says whether to start it
	Intend                 // it stays as it is, but is to be started (Start) or stopped; of a static service: goes by its record
)

func (k Kind) String() string {
	return [...]string{"unregister", "report", "update", "register", "intend"}[k]
}

// Op is one operation on one service.
type Op struct {
	Kind    Kind
	Service string
	Profile string // "" for a static service
	Reason  string // of a Report; of a Register, the fault of the record

	Start bool // Register: wanted running, else wanted stopped
	Adopt bool // Register: a process of it is alive already

	// Record: the state file lacks something that must outlive the container
	// (the port, or what was decided): save Intent, IntentNone leaves the
	// recorded one as it is. Without Record it is recorded already.
	Record bool
	Intent service.Intent

	// Stale: what was last seen of it is no longer so, for it is registered
	// stopped, or as failed: save that it is.
	Stale bool

	// What container-boot.log says of a profile.
	PriorState string // the state last seen; none, corrupt
	Action     string // started, registered, failed
}

// The words of container-boot.log that are no state.
const (
	PriorNone    = "none"
	PriorCorrupt = "corrupt"

	ActionStarted    = "started"
	ActionRegistered = "registered"
	ActionFailed     = "failed"
)

// Diff says what to do: first what frees a name, then faults, updates and
// registrations, each kind by name, static services before profiles. Carried
// out, it leaves nothing to do for the same input.
func Diff(in Input) []Op {
	present := make(map[string]Present, len(in.Present))
	for _, p := range in.Present {
		present[p.Service] = p
	}
	ops := make([]Op, 0, 16)
	add := func(op Op, needed bool) {
		if needed {
			ops = append(ops, op)
		}
	}
	wanted := make(map[string]bool, len(in.Profiles)+len(in.Services))
	for _, s := range in.Services {
		wanted[s.Service] = true
		add(static(s, present[s.Service], in))
	}
	for _, p := range in.Profiles {
		if in.Held {
			break
		}
		wanted[p.Service] = true
		add(profile(p, present[p.Service], in.FoundState))
	}
	for _, p := range in.Present {
		add(Op{Kind: Unregister, Service: p.Service}, !wanted[p.Service])
	}
	slices.SortFunc(ops, func(a, b Op) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(min(len(a.Profile), 1), min(len(b.Profile), 1)),
			cmp.Compare(a.Service, b.Service),
		)
	})
	return ops
}

// profile decides about one profile; false: nothing is to be done.
func profile(p Profile, is Present, found service.Intent) (Op, bool) {
	op := Op{Service: p.Service, Profile: p.Name, Reason: p.Fault, PriorState: prior(p.Record)}
	start, intent := resolve(p.Record, found)
	if p.Declared != service.IntentNone {
		start, intent = p.Declared == service.Running, p.Declared
	}
	if p.Fault != "" {
		op.Kind, op.Action = Report, ActionFailed
		seen := p.Record.Seen
		op.Stale = !is.Registered && !is.Alive && seen != service.SeenNone && seen != service.SeenStartupFailed
		if !is.Registered { // the desired state stays, so that it is known to be missing
			op.Start, op.Intent, op.Record = wantedBefore(start, is) && !p.Scheduled, intent, intent != service.IntentNone
		}
		return op, is.Fault != p.Fault
	}
	if is.Registered {
		op.Kind = Update
		if is.Fingerprint != p.Fingerprint || is.Fault != "" {
			return op, true
		}
		op.Kind, op.Start = Intend, start
		return op, p.Declared != service.IntentNone && (is.Desired != p.Declared || is.Astray != "")
	}
	op.Kind, op.Start, op.Adopt, op.Reason = Register, start, is.Alive, p.Record.Fault
	op.Intent, op.Record = intent, intent != service.IntentNone || p.Unrecorded
	op.Start = wantedBefore(start, is)
	if p.Scheduled && op.Start {
		op.Start, op.Intent = false, service.Running // wanted it stays: that is the profile's
	}
	op.Stale = stale(op, p.Record)
	op.Action = ActionRegistered
	if op.Start {
		op.Action = ActionStarted
	}
	return op, true
}

// wantedBefore is start, unless an earlier supervisor of this container says otherwise.
func wantedBefore(start bool, is Present) bool {
	if is.Wanted != service.IntentNone {
		return is.Wanted == service.Running
	}
	return start
}

// stale tells whether the state that was last seen is neither true nor about to
// be replaced by what happens.
func stale(op Op, r service.Record) bool {
	return !op.Start && !op.Adopt && r.Seen != service.SeenNone && r.Seen != service.SeenStopped
}

// static decides about one service of the configuration.
func static(s Static, is Present, in Input) (Op, bool) {
	op := Op{Service: s.Service, Reason: s.Fault}
	start := s.Enabled
	if !in.Held && s.Recorded != service.IntentNone {
		start = s.Recorded == service.Running
	}
	start = wantedBefore(start, is) && !s.Scheduled
	if s.Fault != "" {
		op.Kind, op.Start = Report, start && !is.Registered
		return op, is.Fault != s.Fault
	}
	if is.Registered {
		op.Kind = Update
		if is.Fingerprint != s.Fingerprint || is.Fault != "" {
			return op, true
		}
	} else {
		op.Kind = Register
	}
	op.Start, op.Adopt = start, is.Alive
	if is.Registered {
		return Op{Kind: Intend, Service: s.Service, Start: op.Start}, in.Taken && !s.Scheduled
	}
	op.Action = ActionRegistered
	if op.Start {
		op.Action = ActionStarted
	}
	return op, true
}

// Starts tells whether a profile with this record is to run; found is
// Input.FoundState.
func Starts(r service.Record, found service.Intent) bool {
	start, _ := resolve(r, found)
	return start
}

// resolve turns a profile's record into start or not, and what of that has to
// be recorded.
func resolve(r service.Record, found service.Intent) (start bool, record service.Intent) {
	switch r.Origin {
	case service.Corrupt:
		// Stopped is recorded, lest found_state starts it at the next boot.
		return false, service.Stopped
	case service.Missing:
		if found == service.Running {
			return true, service.Running
		}
		return false, service.IntentNone
	}
	start = r.Desired == service.Running
	if r.Desired == service.IntentNone {
		switch r.Seen {
		case service.SeenRunning, service.SeenDraining, service.SeenDegraded:
			// Recorded, lest the state seen at the container's stop decides.
			start, record = true, service.Running
		}
	}
	if r.Origin == service.Imported {
		record = service.Stopped // the application's file is read once
		if start {
			record = service.Running
		}
	}
	return start, record
}

func prior(r service.Record) string {
	switch {
	case r.Origin == service.Missing:
		return PriorNone
	case r.Origin == service.Corrupt:
		return PriorCorrupt
	case r.Seen != service.SeenNone:
		return string(r.Seen)
	case r.Desired != service.IntentNone:
		return string(r.Desired)
	}
	return PriorNone
}
