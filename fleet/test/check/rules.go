package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// overlaps finds the runs of a profile that were there at once. Runs are in the
// order of their starts.
func (h *History) overlaps(runs []Run) []Finding {
	var all []Finding
	var open []Run // those that may reach into a later one
	for _, r := range runs {
		open = slices.DeleteFunc(open, func(o Run) bool { return o.Last < r.Start })
		for _, o := range open {
			until := min(o.Last, r.Last)
			kind := Overlap
			// Of two, the one that should not be there any more is the older claim's.
			older := o
			if of, ok := o.fence(); ok {
				if rf, ok := r.fence(); ok && rf < of {
					older = r
				}
			}
			if o.Fence != r.Fence && h.thawed(older.Member, until) {
				kind = FrozenOverlap
			}
			all = append(all, Finding{kind, r.Profile, r.Start, until, fmt.Sprintf(
				"fence %s on %s and fence %s on %s for %s", o.Fence, o.Member, r.Fence, r.Member, span(r.Start, until))})
		}
		open = append(open, r)
	}
	return all
}

// fences finds fences that are none, that went backwards, and that two members had.
func (h *History) fences(runs []Run) []Finding {
	var all []Finding
	var highest int64
	holder := map[int64]string{}
	for _, r := range runs {
		fence, ok := r.fence()
		if !ok {
			all = append(all, Finding{NoFence, r.Profile, r.Start, r.Last, fmt.Sprintf("%s ran it with the fence %q", r.Member, r.Fence)})
			continue
		}
		if fence < highest {
			all = append(all, Finding{FenceBack, r.Profile, r.Start, r.Last, fmt.Sprintf("%s began with fence %d after one with %d", r.Member, fence, highest)})
		}
		highest = max(highest, fence)
		if other, ok := holder[fence]; ok && other != r.Member {
			all = append(all, Finding{FenceShared, r.Profile, r.Start, r.Last, fmt.Sprintf("%s and %s had the fence %d", other, r.Member, fence)})
		}
		holder[fence] = r.Member
	}
	return all
}

// succeeded is when the next claim of a profile was seen, which is not before it was made.
func (h *History) succeeded(c Claim) (at int64, ok bool) {
	for _, next := range h.Claims {
		if next.Profile == c.Profile && next.Fence > c.Fence && (!ok || next.From < at) {
			at, ok = next.From, true
		}
	}
	return at, ok
}

// claimOf is the claim under which a gateway ran; false: there was none.
func (h *History) claimOf(r Run) (Claim, bool) {
	fence, ok := r.fence()
	i := slices.IndexFunc(h.Claims, func(c Claim) bool {
		return ok && c.Profile == r.Profile && c.Fence == fence && c.Member == r.Member
	})
	if i < 0 {
		return Claim{}, false
	}
	return h.Claims[i], true
}

// claimed finds runs without a claim, those that were there when the profile had another
// one, and those that were there for more than a lease after their claim was gone.
func (h *History) claimed(runs []Run) []Finding {
	var all []Finding
	for _, r := range runs {
		c, ok := h.claimOf(r)
		if !ok {
			all = append(all, Finding{NoClaim, r.Profile, r.Start, r.Last, fmt.Sprintf("%s ran it with the fence %q", r.Member, r.Fence)})
			continue
		}
		if c.Till == 0 {
			continue
		}
		end := c.Till + int64(h.Lease)
		if next, ok := h.succeeded(c); ok {
			end = min(end, next)
		}
		if r.Last <= end {
			continue
		}
		kind := Outlived
		if h.thawed(r.Member, r.Last) {
			kind = FrozenOutlived
		}
		all = append(all, Finding{kind, r.Profile, c.Till, r.Last, fmt.Sprintf(
			"fence %d on %s ran for %s after its claim was gone", c.Fence, r.Member, span(c.Till, r.Last))})
	}
	return all
}

// unserved finds the times in which a profile was wanted, and nobody ran it for longer
// than a failover takes.
func (h *History) unserved(profile string, runs []Run) []Finding {
	var all []Finding
	for _, w := range h.wanted(profile) {
		at := w[0]
		for _, r := range runs {
			if r.Last <= at || r.Start >= w[1] {
				continue
			}
			if r.Start > at {
				all = append(all, h.gap(profile, at, r.Start)...)
			}
			at = max(at, r.Last)
		}
		// Between two beats it runs.
		if at < w[1]-2*int64(Beat) {
			all = append(all, h.gap(profile, at, w[1])...)
		}
	}
	return all
}

// wanted are the times from a declaration's acknowledgement until it is taken back.
func (h *History) wanted(profile string) [][2]int64 {
	var all [][2]int64
	from := int64(0)
	for _, c := range h.Changes {
		switch {
		case c.Profile != profile:
		case c.Revision != "" && c.Acked != 0 && from == 0:
			from = c.Acked
		case c.Revision == "" && from != 0:
			all = append(all, [2]int64{from, c.Sent})
			from = 0
		}
	}
	if from != 0 {
		all = append(all, [2]int64{from, h.Till})
	}
	return all
}

// gap judges a time without a gateway. Its clock begins anew when the fleet was hit
// again: when etcd lost or regained a node, when the member that had the claim then
// was hit or one that had been hit claimed, and when it became possible at all to run the
// profile. A short outage of etcd is granted, and begins nothing anew.
func (h *History) gap(profile string, from, till int64) []Finding {
	points := []int64{from, till}
	add := func(at int64) {
		if at > from && at < till {
			points = append(points, at)
		}
	}
	for _, o := range h.Outages {
		if h.long(o) {
			add(o.From)
			add(o.Till)
		}
	}
	for _, f := range h.Faults {
		if slices.Contains(h.Nodes, f.Target) {
			add(f.From)
			add(f.Till)
		}
		// Only its first claim counts: a member that is hit must not claim it again and again.
		first := func(c Claim) bool {
			return c.Profile == profile && c.Member == f.Target && c.From < f.Till && (c.Till == 0 || f.From < c.Till)
		}
		if i := slices.IndexFunc(h.Claims, first); i >= 0 {
			add(max(f.From, h.Claims[i].From))
		}
		for _, edge := range []int64{f.From, f.Till} {
			if h.able(edge-1) != h.able(edge) {
				add(edge)
			}
		}
	}
	slices.Sort(points)
	var all []Finding
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		most := int64(h.Lease+h.Slack) + failover
		for _, o := range h.Outages {
			if !h.long(o) && o.Till > a && o.From < b {
				most += o.Till - o.From
			}
		}
		if b-a > most && h.able(a) {
			all = append(all, Finding{Unserved, profile, a, b, fmt.Sprintf("for %s, of %s without a gateway in all; a failover may take %s; meanwhile: %s", span(a, b), span(from, till), time.Duration(most), h.during(a, b))})
		}
	}
	return all
}

// during names the faults of a time.
func (h *History) during(from, till int64) string {
	var all []string
	for _, f := range h.Faults {
		if f.From < till && f.Till > from {
			all = append(all, f.Kind+" ("+f.Target+")")
		}
	}
	if len(all) == 0 {
		return "no fault"
	}
	return strings.Join(all, ", ")
}

// unapplied finds acknowledged changes with which no gateway ever ran, gateways that
// began with something else after them, and those of profiles that were taken back.
// What is not acknowledged may be so or not.
func (h *History) unapplied(profile string, runs []Run) []Finding {
	var changes []Change
	for _, c := range h.Changes {
		if c.Profile == profile {
			changes = append(changes, c)
		}
	}
	var all []Finding
	for i, c := range changes {
		next := h.Till
		if i+1 < len(changes) {
			next = changes[i+1].Sent
		}
		if c.Acked == 0 || next <= c.Acked {
			continue
		}
		all = append(all, h.applied(c, next, runs)...)
	}
	return all
}

// applied judges one acknowledged change, which counts until the next one was sent.
func (h *History) applied(c Change, next int64, runs []Run) []Finding {
	most := int64(h.Lease+h.Slack) + failover
	var all []Finding
	seen := false
	for _, r := range runs {
		seen = seen || r.Revision == c.Revision && r.Last >= c.Sent && r.Start < next
		switch {
		case r.Start >= next:
		case c.Revision == "" && r.Last > c.Acked+most:
			all = append(all, Finding{NotApplied, c.Profile, c.Acked, r.Last, fmt.Sprintf("taken back, and %s ran it for %s after that", r.Member, span(c.Acked, r.Last))})
		case c.Revision != "" && r.Start > c.Acked && r.Revision != c.Revision:
			all = append(all, Finding{NotApplied, c.Profile, r.Start, r.Last, fmt.Sprintf("%s began revision %q after %q was acknowledged", r.Member, r.Revision, c.Revision)})
		}
	}
	if c.Revision != "" && !seen {
		all = append(all, Finding{NotApplied, c.Profile, c.Acked, next, fmt.Sprintf("no gateway ran revision %q", c.Revision)})
	}
	return all
}

func span(from, till int64) time.Duration {
	return time.Duration(till - from).Round(time.Millisecond)
}
