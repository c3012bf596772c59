package agent

// NoRoom is what a view tells whose key space is absent. Members of versions before that key
// never put it, so of a fleet of these alone it tells nothing; etcd itself tells its alarms to
// its administrators only.
const NoRoom = "etcd has no space left, or all members are of an older version (etcdctl alarm list names NOSPACE if it is etcd)"

// Remedy is what a person does when etcd has no space.
const Remedy = "compact and defragment etcd, or raise its --quota-backend-bytes, then run etcdctl alarm disarm"

// session is the lease of a member. The zero value is none.
//
// Invariant: if lease is not 0, others claim nothing that it has before sent+ttl, by their
// clocks (R3).
type session struct {
	lease   int64
	ttl     int64
	sent    int64 // when the last keep-alive that was confirmed was sent
	from    int64 // when it began
	adopted bool  // an agent before this one began it
	asked   int64 // when the keep-alive was sent that is under way; 0: none is
	said    bool  // that etcd does not answer, or the box
	full    bool  // the last beat could put nothing, since etcd has no room

	ended int64 // the lease before, which is revoked before the next one, once nothing runs under it
	grant int64 // when a grant was asked for that is not answered; 0: none was
	again int64 // not before then
}

// end is when others may claim what the session has, by a clock that is 1 % slow (R2).
func (s *session) end() int64 { return s.sent + s.ttl - s.ttl/100 }

// deadline is until when PID 1 may let gateways run (R1).
func (s *session) deadline(a *Agent) int64 { return s.end() - a.config.Stop - a.config.Margin }

// answer takes what etcd has said of a lease.
func (s *session) answer(a *Agent, in Input) {
	switch in.Kind {
	case Granted:
		if s.grant == 0 || s.lease != 0 {
			s.ended = in.Lease // a late answer; nothing runs under it
			return
		}
		*s = session{lease: in.Lease, ttl: in.TTL, sent: in.Sent, from: a.now}
		a.say("the session %x begins", in.Lease)
	case NotGranted:
		s.grant, s.again = 0, a.now+retry
	case Renewed:
		s.renewed(a, in)
	case NotRenewed:
		if in.Lease == s.lease {
			s.asked, s.again = 0, a.now+s.ttl/20
			if !s.said {
				s.said = true
				a.say("etcd does not answer: what runs goes on until its deadline, and nothing is started: %s", in.Text)
			}
		}
	case Expired:
		if in.Lease == s.lease {
			s.over(a, "etcd has ended it")
		}
	}
}

// renewed takes a keep-alive that is confirmed.
func (s *session) renewed(a *Agent, in Input) {
	if in.Lease != s.lease {
		return
	}
	s.asked = 0
	s.sent = max(s.sent, in.Sent)
	if s.full != in.Full {
		s.full = in.Full
		if s.full {
			a.say("etcd has no space left: what runs goes on, and nothing is started elsewhere; %s", Remedy)
		} else {
			a.say("etcd has space again: profiles are claimed again after a lease")
		}
	}
	if s.said {
		s.said = false
		a.say("the lease is renewed again")
	}
	var all []Deadline
	for _, name := range sorted(a.held) {
		if h := a.held[name]; h.Phase == Running {
			all = append(all, Deadline{Name: name, Fence: h.Fence, At: s.deadline(a)})
		}
	}
	if len(all) > 0 {
		a.do(Effect{Kind: Extend, Deadlines: all})
	}
}

// over ends the session here: all that was held under it is stopped, and not released, for
// the keys end with the lease.
func (s *session) over(a *Agent, why string) {
	a.say("the session %x is over: %s", s.lease, why)
	*s = session{ended: s.lease, again: a.now}
	for _, name := range sorted(a.held) {
		a.held[name].lost(a)
	}
}

// decide renews the lease, or begins another one.
func (s *session) decide(a *Agent) {
	switch {
	case s.lease != 0 && a.now >= s.end():
		s.over(a, "no keep-alive was confirmed in time")
	case s.lease != 0 && a.leaving && a.surveyed && a.loaded && len(a.held) == 0:
		s.over(a, "the agent is to end")
	}
	if s.lease == 0 {
		s.begin(a)
		return
	}
	if a.seen < s.sent && a.now >= s.sent+s.ttl/3 {
		s.mute(a)
		return
	}
	next := max(s.sent+s.ttl/3, s.again)
	if s.asked != 0 {
		next = s.asked + s.ttl/3 // a keep-alive without an answer does not hold up the next
	}
	if a.now >= next {
		s.asked = a.now
		a.do(Effect{Kind: Renew, Lease: s.lease, TTL: s.ttl, Names: a.foreignDeclared()})
		next = a.now + s.ttl/3
	}
	a.wake(min(next, s.end()))
}

// mute lets the lease run out while the box answers nothing: it cannot move deadlines on, so
// its gateways end, and they are to run elsewhere.
func (s *session) mute(a *Agent) {
	late := max(s.sent, s.from) + s.ttl/2
	if a.now >= late && !s.said {
		s.said = true
		a.say("rlminit does not answer: the lease is not renewed until it does")
	}
	if a.now < late {
		a.wake(late)
	}
	a.wake(s.end())
}

// begin asks for a lease, once the box has said that nothing is left of what ran under
// the one before (R4).
func (s *session) begin(a *Agent) {
	if !a.surveyed || len(a.held) > 0 {
		return
	}
	if s.grant == 0 && a.now >= s.again {
		if s.ended != 0 { // each time: the key of the one before would be in the way
			a.do(Effect{Kind: Revoke, Lease: s.ended})
		}
		if a.leaving {
			return
		}
		s.grant = a.now
		a.do(Effect{Kind: Grant})
	}
	a.wake(max(s.again, a.now+retry))
}
