package operation

import (
	"fmt"
	"time"
)

// Seen is what is seen of a member at one moment.
type Seen struct {
	InService bool          // it runs and is ready, and nothing is about to stop it
	For       time.Duration // since when it is ready
	Run       uint64        // the id of its latest run
	Ended     bool          // its run is over, and a next one is not on its way by itself, or only after a pause
	Hopeless  bool          // nothing but a person or a retry brings it up
	Stuck     bool          // it waits for what will not come up by itself, with the run that it had before
	Unhealthy bool          // it runs, and its probe fails
	Wanted    bool          // it is to run
	Down      bool          // nothing of it is left, and nothing is on its way by itself
	How       string        // its state, in words
}

// Roll is a rolling restart of members, at most Limit of which may be out of
// service at once.
type Roll struct {
	Limit  int           // at least 1
	Steady time.Duration // how long one must be ready before the next is taken
	Fresh  bool          // with another run than it had; else one that is up as it is will do

	taken []bool
	gates []Gate // of those that were taken
	Done  []bool // it has a new run, which was ready for Steady
}

// NewRoll is one over n members.
func NewRoll(n, limit int, steady time.Duration, fresh bool) *Roll {
	return &Roll{
		Limit: max(1, limit), Steady: steady, Fresh: fresh,
		taken: make([]bool, n), gates: make([]Gate, n), Done: make([]bool, n),
	}
}

// Verdict is how it goes on.
type Verdict struct {
	Take   int           // the member to take now; -1: none
	Wait   time.Duration // look again after this at the latest; 0: when something changes
	Over   bool          // all are done
	Out    int           // a member out of service for which the others wait; -1: none, or it was taken
	Failed int           // the member that it stops at; -1: none
	Why    string        // of that
}

// Next says how it goes on, with what is seen of each member. The one that it
// takes counts as taken from then on. It takes none while Limit of the members are
// out of service, for whatever reason, but one that is unhealthy: that is out already,
// and perhaps for ever if it is not restarted.
func (r *Roll) Next(seen []Seen) Verdict {
	v := Verdict{Take: -1, Out: -1, Failed: -1}
	out, under := 0, 0
	hopeless, lost := -1, 0
	for i, s := range seen {
		if r.taken[i] && !r.Done[i] {
			// Whom somebody has commanded otherwise is skipped, and not looked at.
			j := r.gates[i].Look(s, Standing{})
			if j.Why != "" {
				v.Failed, v.Why = i, j.Why
				return v
			}
			if r.Done[i] = j.Passed; !j.Passed {
				if under++; j.Wait > 0 && (v.Wait == 0 || j.Wait < v.Wait) {
					v.Wait = j.Wait
				}
				out++
				continue
			}
		}
		if s.InService {
			continue
		}
		if out++; s.Hopeless {
			if lost++; hopeless < 0 {
				hopeless = i
			}
		}
		if v.Out < 0 {
			v.Out = i
		}
	}
	next := -1
	for i := range seen {
		// What is out already comes first: to take it costs nobody anything.
		if !r.taken[i] && (next < 0 || urgency(seen[i]) > urgency(seen[next])) {
			next = i
		}
	}
	switch {
	case next < 0:
		v.Over = under == 0
	case out < r.Limit, seen[next].Unhealthy && under < r.Limit && lost < r.Limit:
		v.Take = next
		r.taken[next], r.gates[next] = true, Gate{Steady: r.Steady, Fresh: r.Fresh, Old: seen[next].Run}
	case under == 0 && hopeless >= 0:
		v.Failed = hopeless
		v.Why = fmt.Sprintf("it is %s, and no more than %d may be out of service at once", seen[hopeless].How, r.Limit)
	}
	return v
}

// urgency is which member is taken before others.
func urgency(s Seen) int {
	switch {
	case s.InService:
		return 0
	case s.Unhealthy:
		return 2
	}
	return 1
}

// Skip leaves a member out: somebody has commanded otherwise.
func (r *Roll) Skip(i int) { r.taken[i], r.Done[i] = true, true }

// Begun counts a member as taken that is on its way already: it is waited for, whatever
// run it comes up with.
func (r *Roll) Begun(i int) { r.taken[i], r.gates[i] = true, Gate{Steady: r.Steady} }

// Taken tells whether a member was taken.
func (r *Roll) Taken(i int) bool { return r.taken[i] }
