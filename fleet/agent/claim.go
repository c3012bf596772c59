package agent

// vacancy is a declared profile without an owner.
type vacancy struct {
	since int64 // as this member has heard
	after int64 // a claim of it has failed: not before then
	due   int64 // when this member may claim it; never: not now
	epoch int64 // of the view for which due was computed; -1: it was not
}

const never = int64(1) << 62

// vacancies are all of them.
type vacancies struct {
	vacant map[string]*vacancy
	queue  []string // of them, those that were due at the last scan and are not claimed yet
	scan   int64    // when they are to be looked at again; 0: now
	epoch  int64    // of the view at the last scan
	joined int64    // when this member heard of the last one that has come

	heartbeats
	failed  map[string]int64 // by profile: when this member heard last that it could not be started
	heardOf int64            // the view's epoch at which the profiles held were last looked at for it
}

func newVacancies() vacancies {
	return vacancies{vacant: map[string]*vacancy{}, failed: map[string]int64{}, heartbeats: heartbeats{beats: map[int64]beat{}, until: map[string]int64{}}}
}

// many vacancies are looked at only so often, in nanoseconds.
const (
	many  = 1000
	pause = second / 8
)

// vacate looks whether a name has no owner.
func (a *Agent) vacate(name string) {
	p, declared := a.view.Profiles[name]
	_, owned := a.view.Owners[name]
	switch v := a.vacant[name]; {
	case !declared || owned || p.Stopped:
		delete(a.vacant, name)
		return
	case v == nil:
		a.vacant[name] = &vacancy{since: a.now, epoch: -1}
	default:
		v.epoch = -1
	}
	a.soon()
}

// soon has the vacancies looked at.
func (a *Agent) soon() {
	at := int64(0)
	if len(a.vacant) > many {
		at = a.now + pause
	}
	a.scan = min(a.scan, at)
}

// postpone has a profile not claimed again at once.
func (a *Agent) postpone(name string) {
	if v := a.vacant[name]; v != nil {
		v.after, v.epoch = a.now+a.config.Delay, -1
		a.soon()
	}
}

// claim claims what is this member's turn.
func (a *Agent) claim() {
	s := &a.session
	if s.lease == 0 || a.leaving || len(a.vacant) == 0 {
		return
	}
	if a.seen < a.now-s.ttl/2 {
		return // a box that does not answer could hardly start it: until it does
	}
	if at := s.from + a.config.Settle; !s.adopted && a.now < at {
		a.wake(at)
		return
	}
	if a.now >= s.deadline(a)-s.ttl/4 {
		return // what is claimed now could hardly be started: until a keep-alive is confirmed
	}
	if a.epoch != a.view.Epoch {
		a.soon()
	}
	if len(a.queue) == 0 && a.scan <= a.now {
		a.scanAll()
	}
	room := min(a.config.Claims-a.phases[Claiming], a.config.Starts-a.phases[Preparing]-a.phases[Starting]-a.phases[Claiming], a.room())
	for ; room > 0 && len(a.queue) > 0; a.queue = a.queue[1:] {
		name := a.queue[0]
		if v := a.vacant[name]; v == nil || a.held[name] != nil || a.foreign[name] || v.epoch != a.view.Epoch {
			continue // it is in the next scan, if at all
		}
		a.hold(name, 0, Claiming)
		a.do(Effect{Kind: Claim, Name: name, Lease: s.lease, Fence: a.view.Marks[name].Fence, Space: a.view.Space})
		room--
	}
	if len(a.queue) == 0 && a.scan != never {
		a.wake(max(a.scan, a.now+1))
	}
}

// room is how many profiles more this member may have.
func (a *Agent) room() int {
	most := a.view.Members[a.config.Member].Capacity
	if most == 0 {
		most = int(^uint(0) >> 1)
	}
	return most - len(a.held)
}

// scanAll finds the vacancies that this member may claim now, and when the next one is due.
func (a *Agent) scanAll() {
	a.scan, a.epoch = never, a.view.Epoch
	due := map[string]bool{}
	for name, v := range a.vacant {
		if v.epoch != a.view.Epoch {
			v.epoch, v.due = a.view.Epoch, never
			if rank := a.view.Rank(name, a.config.Member); rank >= 0 {
				from := max(v.since, a.backoff(name))
				_, left := a.view.Marks[name]
				if left {
					from = max(from, a.floor, a.until[name])
				}
				// A member that has just come does not claim yet. What was lost waits for none,
				// but where all have just come.
				if s := &a.session; rank > 0 && (!left || a.now < s.from+s.ttl) {
					from = max(from, a.joined+a.config.Settle)
				}
				v.due = min(never, max(v.after, from+int64(rank)*a.config.Delay))
			}
		}
		switch {
		case a.held[name] != nil, a.foreign[name]:
		case v.due <= a.now:
			due[name] = true
		default:
			a.scan = min(a.scan, v.due)
		}
	}
	a.queue = sorted(due)
}

// backoff is until when a profile waits that could not be started; 0: it need not.
func (a *Agent) backoff(name string) int64 {
	b, ok := a.view.Backoffs[name]
	if !ok {
		return 0
	}
	return a.failed[name] + second<<min(b.Count, most)
}
