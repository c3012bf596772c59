// Package check judges what a fleet did by what its gateways recorded: whether two
// gateways of a profile ran at once, ever, and whether each of them ran when it
// should have. It knows nothing of the fleet but the recordings, the claims that
// somebody saw in etcd, the faults that were made, and the changes that were
// acknowledged; all times are nanoseconds of CLOCK_BOOTTIME of one machine.
//
// It is a checker of its own and no checker of linearizability: etcd orders the
// claims itself, and the recordings of gateways are intervals whose overlap is the
// question. A search over possible orders would add nothing.
package check

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// History is all that is known of a run.
type History struct {
	Members []string      // their names
	Nodes   []string      // those of etcd
	Lease   time.Duration // of the members' leases
	Slack   time.Duration // that a failover may take besides, on a machine that is slow
	Runs    []Run
	Claims  []Claim
	Faults  []Fault
	Changes []Change
	Outages []Outage
	Saves   []Save
	Till    int64 // when the recording ended
}

// Outage is a time in which etcd answered no request.
type Outage struct{ From, Till int64 }

// Claim is an owner's key, as somebody saw it come and go: he sees both late.
type Claim struct {
	Profile, Member string
	Fence           int64 // the key's create revision
	From            int64
	Till            int64 // 0: it is there still
	Returned        bool  // by whom it was, who must have stored all data before
}

// Fault is what was done to a member or to a node of etcd, until it was undone.
type Fault struct {
	Kind, Target string
	Freezes      bool  // PID 1 of the member could not run
	From         int64 // before it was done
	Till         int64 // after it was undone
}

// Change is a declaration that was sent.
type Change struct {
	Profile  string
	Revision string // what its gateway is to record; "" if it is to run no more
	Sent     int64
	Acked    int64 // 0: never
}

// Kind is what is wrong.
type Kind string

// What is found. The frozen kinds are those in which PID 1 of a member could not run:
// no promise was broken, and they are reported all the same.
const (
	Overlap        Kind = "two gateways of a profile at once"
	FrozenOverlap  Kind = "two gateways of a profile at once, of which one had been frozen"
	FenceBack      Kind = "a fence that went backwards"
	FenceShared    Kind = "a fence of two members"
	NoFence        Kind = "a gateway without a fence"
	NoClaim        Kind = "a gateway that no claim allowed"
	Outlived       Kind = "a gateway that outlived its claim"
	FrozenOutlived Kind = "a gateway that outlived its claim, having been frozen"
	Unserved       Kind = "a profile that nobody ran"
	NotApplied     Kind = "an acknowledged change that never came about"
	Lost           Kind = "stored data that a gateway did not find"
)

// Apart are the kinds that break no promise.
var Apart = []Kind{FrozenOverlap, FrozenOutlived}

// Finding is one fault of the fleet.
type Finding struct {
	Kind       Kind
	Profile    string
	From, Till int64
	Text       string
}

const (
	// killAfter is how long PID 1 gives a gateway after a TERM, and how late it may be.
	killAfter = int64(1500 * time.Millisecond)
	// failover is how long a profile may be without a gateway, beyond the lease.
	failover = int64(2 * time.Second)
)

// Check finds what is wrong in a history, in the order of time.
func Check(h History) []Finding {
	var all []Finding
	for _, profile := range h.profiles() {
		runs := h.runsOf(profile)
		all = append(all, h.overlaps(runs)...)
		all = append(all, h.fences(runs)...)
		all = append(all, h.claimed(runs)...)
		all = append(all, h.unserved(profile, runs)...)
		all = append(all, h.unapplied(profile, runs)...)
		all = append(all, h.lost(runs)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.From, b.From) })
	return all
}

// profiles are the names of all profiles that anything is known of.
func (h *History) profiles() []string {
	seen := map[string]bool{}
	for _, r := range h.Runs {
		seen[r.Profile] = true
	}
	for _, c := range h.Changes {
		seen[c.Profile] = true
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// runsOf are the runs of a profile, the one that began first first.
func (h *History) runsOf(profile string) []Run {
	var runs []Run
	for _, r := range h.Runs {
		if r.Profile == profile {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Start, b.Start) })
	return runs
}

// fence is a run's fence, or false if it has none.
func (r *Run) fence() (int64, bool) {
	n, err := strconv.ParseInt(r.Fence, 10, 64)
	return n, err == nil && n > 0
}

// thawed says that a member had been frozen, and that what it ran until then is
// explained by that: PID 1 ends it as soon as it runs again.
func (h *History) thawed(member string, until int64) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return f.Freezes && f.Target == member && f.From < until && until <= f.Till+killAfter
	})
}

// able says that the fleet could run a profile at a time: etcd decides, and a member
// without a fault is there.
func (h *History) able(at int64) bool {
	out := slices.ContainsFunc(h.Outages, func(o Outage) bool { return h.long(o) && o.From <= at && at < o.Till })
	return !out && slices.ContainsFunc(h.Members, func(name string) bool { return !h.hit(name, at) })
}

// long tells whether an outage is so long that deadlines may pass in it.
func (h *History) long(o Outage) bool { return o.Till-o.From > int64(h.Lease/3) }

// hit tells whether a member had a fault at a time.
func (h *History) hit(member string, at int64) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.Target == member && f.From <= at && at < f.Till })
}

// noticed is the shortest outage that counts: what is shorter is within the time of a failover.
const noticed = int64(time.Second)

// Silences are the outages between the times at which requests were answered.
func Silences(answers []int64) (all []Outage) {
	slices.Sort(answers)
	for i := 1; i < len(answers); i++ {
		if o := (Outage{answers[i-1], answers[i]}); o.Till-o.From > noticed {
			all = append(all, o)
		}
	}
	return all
}
