package operation

import "time"

// Roll is the course of an operation over its members, at most Limit of which may be out
// of service at once.
type Roll struct {
	Limit int  // 0: no bound, all are taken at once
	Blind bool // who is out for another reason does not count: to be started or stopped harms nobody
	Gate  Gate // of each member

	coming []bool // it counts as out of service, and is yet to be taken
	taken  []bool
	gates  []Gate // of those that were taken
	Done   []bool // it has come to what is wanted, or is left out
}

// NewRoll is one over n members.
func NewRoll(n, limit int, gate Gate) *Roll {
	return &Roll{Limit: limit, Gate: gate, coming: make([]bool, n), taken: make([]bool, n), gates: make([]Gate, n), Done: make([]bool, n)}
}

// Verdict is how it goes on.
type Verdict struct {
	Take   int           // the member to come to now; -1: none
	Wait   time.Duration // look again after this at the latest; 0: when something changes
	Over   bool          // all are done
	Out    int           // a member out of service for which the others wait; -1: none, or it was taken
	Failed int           // the member that it stops at; -1: none
	Why    Why           // of that; Nothing: it is out of service, and was so before
}

// tally is how many are out of service, and who.
type tally struct {
	out, under, lost int
	hopeless         int // a member that is out for good; -1: none
}

// Next says how it goes on, with what is seen of each member. The one that it comes to
// counts as out of service from then on, and is judged once Take has said that what is
// wanted of it has begun. It comes to none while Limit of the members are
// out of service, for whatever reason, but one that is unhealthy: that is out already,
// and perhaps for ever if it is not restarted.
func (r *Roll) Next(seen []Seen) Verdict {
	v := Verdict{Take: -1, Out: -1, Failed: -1}
	t := r.count(seen, &v)
	if v.Failed >= 0 {
		return v
	}
	next := -1
	for i := range seen {
		// What is out already comes first: to take it costs nobody anything.
		if !r.taken[i] && !r.coming[i] && (next < 0 || r.urgency(seen[i]) > r.urgency(seen[next])) {
			next = i
		}
	}
	switch {
	case next < 0:
		v.Over = t.under == 0
	case t.out < r.Limit, seen[next].Unhealthy && t.under < r.Limit && t.lost < r.Limit:
		v.Take, r.coming[next] = next, true
	case t.under == 0 && t.hopeless >= 0:
		v.Failed = t.hopeless
	}
	return v
}

// count judges those that were taken, and counts those that are out of service.
func (r *Roll) count(seen []Seen, v *Verdict) tally {
	t := tally{hopeless: -1}
	for i, s := range seen {
		if r.coming[i] {
			t.under, t.out = t.under+1, t.out+1
			continue
		}
		if r.taken[i] && !r.Done[i] {
			j := r.Look(i, s)
			if j.Why != Nothing {
				v.Failed, v.Why = i, j.Why
				return t
			}
			if !j.Passed {
				if t.under++; j.Wait > 0 && (v.Wait == 0 || j.Wait < v.Wait) {
					v.Wait = j.Wait
				}
				t.out++
				continue
			}
		}
		if r.Blind || s.Is == Gone || s.serves() {
			continue
		}
		if t.out++; s.cannotComeUp() {
			if t.lost++; t.hopeless < 0 {
				t.hopeless = i
			}
		}
		if v.Out < 0 {
			v.Out = i
		}
	}
	return t
}

// urgency is which member is taken before others.
func (r *Roll) urgency(s Seen) int {
	switch {
	case r.Blind || s.serves():
		return 0
	case s.Unhealthy:
		return 2
	}
	return 1
}

// Look judges a member that was taken.
func (r *Roll) Look(i int, s Seen) Judgement {
	j := r.gates[i].Look(s)
	r.Done[i] = j.Passed
	return j
}

// Take counts a member as taken, which had that run before.
func (r *Roll) Take(i int, run uint64) {
	r.coming[i], r.taken[i], r.gates[i] = false, true, r.Gate
	r.gates[i].Old = run
}

// Begun counts a member as taken that is on its way already: it is waited for, whatever
// run it comes up with.
func (r *Roll) Begun(i int) {
	r.Take(i, 0)
	r.gates[i].Fresh = false
}

// Skip leaves a member out: somebody has commanded otherwise.
func (r *Roll) Skip(i int) { r.coming[i], r.taken[i], r.Done[i] = false, true, true }

// Coming tells whether a member is come to, and is yet to be taken.
func (r *Roll) Coming(i int) bool { return r.coming[i] }

// Taken tells whether a member was taken.
func (r *Roll) Taken(i int) bool { return r.taken[i] }
