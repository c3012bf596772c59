package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Failovers are, for each kind of fault of a member, the times from the fault until a
// gateway with another fence ran, shortest first. A gateway that outlived the fault
// has had none. Those in which etcd had a fault too are told apart.
func Failovers(h History) map[string][]time.Duration {
	all := map[string][]time.Duration{}
	for _, profile := range h.profiles() {
		runs := h.runsOf(profile)
		for _, f := range h.Faults {
			if took, ok := took(f, runs, h.Lease); ok {
				kind := f.Kind
				if h.etcdHit(f.From, f.From+int64(took)) {
					kind += EtcdToo
				}
				all[kind] = append(all[kind], took)
			}
		}
	}
	for _, times := range all {
		slices.Sort(times)
	}
	return all
}

// EtcdToo ends the kinds of those faults of members within which etcd had one.
const EtcdToo = " (etcd too)"

// etcdHit says that a node of etcd had a fault, or got over one, within a time.
func (h *History) etcdHit(from, till int64) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return slices.Contains(h.Nodes, f.Target) && f.From < till && f.Till > from
	})
}

// took is how long a profile that a member ran when it was hit was without another
// gateway than that.
func took(f Fault, runs []Run, lease time.Duration) (time.Duration, bool) {
	i := slices.IndexFunc(runs, func(r Run) bool { return r.Member == f.Target && r.Start < f.From && f.From <= r.Last+int64(Beat) })
	if i < 0 {
		return 0, false
	}
	j := slices.IndexFunc(runs, func(r Run) bool { return r.Start > f.From && r.Fence != runs[i].Fence })
	if j < 0 || runs[j].Start > f.Till+int64(lease)+failover {
		return 0, false
	}
	return time.Duration(runs[j].Start - f.From), true
}

// Margin is the shortest time for which a gateway was gone when the next claim was seen:
// how near it came. One that had been frozen is reported elsewhere. False if no
// claim ended.
func Margin(h History) (time.Duration, bool) {
	var margins []time.Duration
	for _, c := range h.Claims {
		for _, r := range h.Runs {
			next, succeeded := h.succeeded(c)
			if f, ok := r.fence(); ok && succeeded && f == c.Fence && r.Profile == c.Profile && r.Member == c.Member && !h.thawed(r.Member, r.Last) {
				margins = append(margins, time.Duration(next-r.Last))
			}
		}
	}
	if len(margins) == 0 {
		return 0, false
	}
	return slices.Min(margins), true
}

// Summary is the text of a report: what was done, what was found of each kind, and
// how long failovers took.
func Summary(h History, found []Finding) string {
	var b strings.Builder
	faults := map[string]int{}
	for _, f := range h.Faults {
		faults[f.Kind]++
	}
	fmt.Fprintf(&b, "%d gateways ran under %d claims; %d changes; %d faults:\n", len(h.Runs), len(h.Claims), len(h.Changes), len(h.Faults))
	times := Failovers(h)
	for _, kind := range sortedKeys(faults) {
		fmt.Fprintf(&b, "  %4d %s\n", faults[kind], kind)
	}
	b.WriteString("profiles that ran elsewhere, after\n")
	for _, kind := range sortedKeys(times) {
		t := times[kind]
		fmt.Fprintf(&b, "  %-44s %4d, median %5.1f s, worst %5.1f s\n", kind, len(t), t[len(t)/2].Seconds(), t[len(t)-1].Seconds())
	}
	if m, ok := Margin(h); ok {
		fmt.Fprintf(&b, "the last gateway of a claim was gone %s before the next claim, or longer\n", m.Round(time.Millisecond))
	}
	returned := 0
	for _, c := range h.Claims {
		if c.Returned {
			returned++
		}
	}
	fmt.Fprintf(&b, "data was stored %d times; %d claims were given back", len(h.Saves), returned)
	if lost := Losses(h); len(lost) > 0 {
		fmt.Fprintf(&b, "; %d claims began with another member's, which lacked the last %.1f s in the median, at worst %.1f s", len(lost), lost[len(lost)/2].Seconds(), lost[len(lost)-1].Seconds())
	}
	b.WriteString("\n")
	kinds := map[Kind]int{}
	for _, f := range found {
		kinds[f.Kind]++
	}
	if len(found) == 0 {
		b.WriteString("nothing was found\n")
	}
	for _, kind := range sortedKeys(kinds) {
		fmt.Fprintf(&b, "found: %4d × %s\n", kinds[kind], kind)
	}
	return b.String()
}

// Broken are the findings that break a promise.
func Broken(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return slices.Contains(Apart, f.Kind) })
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
