package agent

import "cmp"

// heartbeats are what this member has heard of the sessions of all members.
type heartbeats struct {
	beats map[int64]beat   // the last beat of each session, by lease
	until map[string]int64 // by profile: until when the gateway of an ended session may run
	floor int64            // the same of sessions whose end or beats this member has not heard; never: it hears none (R8)
	late  int64            // when the next session may be overdue; 0: now
}

// beat is when a session was last heard of.
type beat struct {
	at, ttl  int64
	revision int64 // of the member's key
	asked    int64 // when etcd was asked to end it; 0: never
}

// beat notes that a member has put its key: its session was there when it did so.
func (a *Agent) beat(m Member, revision int64) {
	b := beat{at: a.now, ttl: cmp.Or(m.TTL, a.config.TTL), revision: revision}
	a.beats[m.Lease] = b
	a.late = min(a.late, b.at+b.ttl)
	if len(a.beats) <= 2*len(a.view.Members) {
		return
	}
	there := map[int64]bool{}
	for _, m := range a.view.Members {
		there[m.Lease] = true
	}
	for lease, b := range a.beats { // nobody asks any more for sessions that are long over
		if !there[lease] && a.now > b.at+2*b.ttl {
			delete(a.beats, lease)
		}
	}
	for name, at := range a.until {
		if a.now > at {
			delete(a.until, name)
		}
	}
}

// vacated notes until when the gateway of an owner that is gone may run. If the owner has not
// given the profile back, its session has ended, and the gateway's deadline is earlier than the
// last beat of that session and the time of its lease (R3).
func (a *Agent) vacated(name string, before Owner) {
	b, heard := a.beats[before.Lease]
	if !heard {
		b = beat{at: a.now, ttl: a.config.TTL}
	}
	a.until[name] = max(a.until[name], b.at+b.ttl)
}

// missed is called when the view was read as a whole: a session of which this member has heard
// nothing may have ended just before (R3). It is called too when the key space came or went: while
// it is absent, beats put nothing that a member could hear. Each of those was confirmed before the
// key was put again, so after the time of a lease from then on silence tells again that a session
// is over (R8).
func (a *Agent) missed() {
	if a.view.Space == 0 {
		a.floor = never
		return
	}
	longest := a.config.TTL
	for _, m := range a.view.Members {
		longest = max(longest, m.TTL)
	}
	a.floor = a.now + longest
	a.late = min(a.late, a.floor)
}

// overdue has etcd end the sessions of which no beat was heard for the time of their lease:
// they are over by their members' own clocks. etcd ends them too, but counts that time anew
// when its leader changes.
func (a *Agent) overdue() {
	if a.session.lease == 0 {
		return
	}
	if a.now < a.floor {
		a.wake(a.floor)
		return
	}
	if a.now >= a.late {
		a.late = never
		turn := a.turn()
		for _, name := range sorted(a.view.Members) {
			lease := a.view.Members[name].Lease
			b, heard := a.beats[lease]
			if !heard || name == a.config.Member {
				continue
			}
			due := max(b.at+b.ttl+turn, b.asked+retry)
			if a.now >= due {
				a.do(Effect{Kind: Evict, Name: name, Lease: lease, Revision: b.revision, Space: a.view.Space})
				b.asked, due = a.now, a.now+retry
				a.beats[lease] = b
			}
			a.late = min(a.late, due)
		}
	}
	a.wake(a.late)
}

// turn is how long this member waits until it asks for that, for one is enough: once the delay
// for etcd, which ends leases some moments late, and once for each member that lives and comes
// before this one by its name.
func (a *Agent) turn() int64 {
	wait := a.config.Delay
	for name, m := range a.view.Members {
		if b := a.beats[m.Lease]; name < a.config.Member && a.now < b.at+b.ttl {
			wait += a.config.Delay
		}
	}
	return wait
}
