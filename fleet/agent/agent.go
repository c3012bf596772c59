package agent

import (
	"fmt"
	"slices"
)

// Config is what a member is told once. Times are nanoseconds.
type Config struct {
	Member string
	TTL    int64 // of the lease; 0: 10 s
	Stop   int64 // what PID 1 takes to end a gateway after its deadline; 0: 1 s
	Margin int64 // between that and the end of the lease; 0: 0.5 s
	Delay  int64 // the member of rank r claims after r times this; 0: 0.5 s
	Settle int64 // a new session claims nothing for so long, for others may come too; 0: 2 s
	Every  int64 // how often data is saved; 0: only before a release
	Claims int   // how many claims may be under way; 0: 64
	Starts int   // how many gateways may be starting; 0: 16
}

// Times that are not set by a person.
const (
	second = int64(1e9)
	retry  = second      // after which what failed is tried again
	steady = 60 * second // a gateway that has run for so long has not failed
	most   = 10          // the back-off is at most 2^most seconds
)

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	for _, d := range []struct {
		at    *int64
		value int64
	}{{&c.TTL, 10 * second}, {&c.Stop, second}, {&c.Margin, second / 2}, {&c.Delay, second / 2}, {&c.Settle, 2 * second}} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	if c.Claims == 0 {
		c.Claims = 64
	}
	if c.Starts == 0 {
		c.Starts = 16
	}
	return c
}

// Agent is one member. Make it with New.
type Agent struct {
	config   Config
	view     *View
	session  session
	held     map[string]*Held
	due      []string           // of them, those to be looked at
	wakeHeld int64              // not later than the next of them is to be; 0: now
	phases   [Releasing + 1]int // how many held are in each
	drained  int                // how many held go since the member is drained
	vacancies

	// over has for a name the highest fence that this agent has let go: nothing is started
	// under it any more, whatever an older answer or view says (R5).
	over map[string]int64

	began    bool
	loaded   bool  // the view is that of some moment
	surveyed bool  // what the box had when the agent began is held
	adopted  bool  // it is decided about that: loaded and surveyed
	quiet    int64 // from then on no start of an agent before this one can have an effect (R6)
	seen     int64 // the latest time at which the box was asked something that it has answered
	leaving  bool

	foreign map[string]bool // names that something else has in the box

	now     int64
	next    int64
	effects []Effect
}

// New is an agent that knows nothing yet. A view may be given that others keep up to date;
// nil: it has one of its own.
func New(c Config, v *View) *Agent {
	if v == nil {
		v = NewView()
	}
	return &Agent{
		config: c.withDefaults(), view: v,
		held: map[string]*Held{}, vacancies: newVacancies(), over: map[string]int64{}, foreign: map[string]bool{},
	}
}

// Step takes an input, and returns what is to be done, in order. The effects are valid
// until the next Step.
func (a *Agent) Step(in Input) []Effect {
	a.now, a.effects, a.next = in.Now, a.effects[:0], 0
	switch in.Kind {
	case Tick:
	case Began:
		a.begin(in)
	case Surveyed:
		a.survey(in)
	case Granted, NotGranted, Renewed, NotRenewed, Expired:
		a.session.answer(a, in)
	case Changed:
		a.change(in)
	case Claimed, Taken, Unsure:
		a.answerClaim(in)
	case Extended:
		for _, name := range in.Names {
			if h := a.held[name]; h != nil && h.Phase == Running {
				a.say("%s: its deadline had passed before it could be moved on; it is given back", name)
				h.give(a, "its deadline had passed")
			}
		}
	case Seen:
		a.see(in)
	case Leave:
		a.leaving = true
		for _, h := range a.held {
			h.look(a)
		}
	default:
		if h := a.held[in.Name]; h != nil && h.Fence == in.Fence {
			h.answer(a, in)
		}
	}
	a.decide()
	return a.effects
}

// Next is when Step is to be called again if nothing happens before.
func (a *Agent) Next() int64 { return a.next }

// View is what the agent knows of the fleet. It is read only.
func (a *Agent) View() *View { return a.view }

// Held is what the agent holds, by name. It is read only.
func (a *Agent) Held() map[string]*Held { return a.held }

// Session is the lease, and until when gateways under it may run; 0, 0: there is none.
func (a *Agent) Session() (lease, until int64) {
	if a.session.lease == 0 {
		return 0, 0
	}
	return a.session.lease, a.session.deadline(a)
}

// Confirmed is the session, and when the last keep-alive that was confirmed was sent: what
// the next agent in this box is to be told; all 0: there is none.
func (a *Agent) Confirmed() (lease, ttl, sent int64) {
	return a.session.lease, a.session.ttl, a.session.sent
}

// Done tells that an agent that was told to leave has nothing any more.
func (a *Agent) Done() bool {
	return a.leaving && a.surveyed && len(a.held) == 0 && a.session.lease == 0
}

func (a *Agent) begin(in Input) {
	a.began = true
	a.quiet = in.Now + max(a.config.TTL, in.TTL)
	if in.Lease != 0 {
		a.session = session{lease: in.Lease, ttl: in.TTL, sent: in.Sent, adopted: true, from: in.Now}
	}
	a.do(Effect{Kind: Survey})
}

// survey takes over what the box has.
func (a *Agent) survey(in Input) {
	if a.surveyed {
		return
	}
	a.surveyed, a.seen = true, max(a.seen, in.Sent)
	for _, r := range in.Runs {
		a.hold(r.Name, r.Fence, Found)
	}
}

// change takes what etcd has said.
func (a *Agent) change(in Input) {
	changes := in.Changes
	if in.Whole {
		changes = append(a.view.gone(changes, in.Revision), changes...)
		a.loaded = true
	}
	for _, c := range changes {
		before := a.view.Owners[c.Name]
		a.view.Apply(c)
		a.heard(c, before)
		if _, is := c.Value.(*Space); is && !in.Whole {
			a.missed()
		}
	}
	if in.Whole {
		a.missed()
		for _, name := range sorted(a.held) {
			if h := a.held[name]; h.Fence != 0 && h.Fence <= in.Revision && a.view.Owners[name].Fence != h.Fence && a.adopted {
				h.lost(a) // its end fell into what was not heard
			}
		}
	}
}

// heard acts on a change that the view has.
func (a *Agent) heard(c Change, before Owner) {
	h := a.held[c.Name]
	switch value := c.Value.(type) {
	case *Owner:
		if c.Gone {
			a.vacated(c.Name, before)
		}
		switch {
		case h != nil && h.Fence != 0 && (c.Gone && before.Fence == h.Fence || !c.Gone && value.Fence > h.Fence):
			h.lost(a) // by the end of the lease, or by hand
		case !c.Gone:
			a.owned(c.Name, *value)
		}
		a.vacate(c.Name)
	case *Mark, *Profile, *Move, *Backoff:
		if _, is := c.Value.(*Backoff); is && c.Gone {
			delete(a.failed, c.Name)
		} else if is {
			a.failed[c.Name] = a.now
		}
		if h != nil {
			h.look(a)
			if _, is := value.(*Move); is && h.Phase == Running {
				h.moved(a) // it is here, and another move of it may have been taken back so
			}
		}
		a.vacate(c.Name)
	case *Space:
		for _, h := range a.held {
			h.look(a) // what is to move waits for it
		}
	case *Member, *Drain:
		m, is := c.Value.(*Member)
		if is && !c.Gone {
			a.beat(*m, c.Revision)
		}
		if a.heardOf == a.view.Epoch {
			return // the member has only put its key again
		}
		a.heardOf = a.view.Epoch
		if is && !c.Gone && c.Name != a.config.Member {
			a.joined = a.now
		}
		for _, h := range a.held {
			h.look(a) // it may have to go, or a move of it may have become possible
		}
	}
}

// owned is told that a name has an owner, which is a claim of this session that nobody
// has answered, or the answer of which was lost.
func (a *Agent) owned(name string, o Owner) {
	if !a.adopted || a.session.lease == 0 || o.Lease != a.session.lease || o.Fence <= a.over[name] {
		return
	}
	h := a.held[name]
	if h == nil {
		h = a.hold(name, 0, Claiming)
	}
	if h.Phase == Claiming {
		h.Fence = o.Fence
		h.to(a, Preparing)
	}
}

// adopt decides about what the box had when the agent began, and what etcd says that this
// session had.
func (a *Agent) adopt() {
	a.adopted = true
	for _, name := range sorted(a.held) {
		a.held[name].found(a)
	}
	if a.session.lease == 0 {
		return
	}
	for _, name := range sorted(a.view.Owners) {
		if o := a.view.Owners[name]; o.Lease == a.session.lease && a.held[name] == nil {
			// The agent before may have sent a start, and may have sent a release: this claim
			// is of no use, but it may be given back once neither can do harm (R6).
			h := a.hold(name, o.Fence, Preparing)
			h.gone, h.starts, h.left = a.quiet, 1, true
			h.give(a, "it was not running when the agent began")
		}
	}
}

// hold begins to hold a profile.
func (a *Agent) hold(name string, fence int64, p Phase) *Held {
	h := &Held{Name: name, Fence: fence, Phase: p, since: a.now}
	a.held[name] = h
	a.phases[p]++
	return h
}

// answerClaim takes what came of a claim.
func (a *Agent) answerClaim(in Input) {
	h := a.held[in.Name]
	switch {
	case in.Kind == Claimed:
		a.owned(in.Name, Owner{Member: a.config.Member, Lease: in.Lease, Fence: in.Fence})
	case h != nil && h.Phase == Claiming && in.Lease == a.session.lease:
		a.forget(h)
		a.vacate(in.Name)
		a.postpone(in.Name)
	}
}

// see takes how the gateways in the box were, for what no command has touched since.
func (a *Agent) see(in Input) {
	a.seen = max(a.seen, in.Sent)
	before := a.foreign
	a.foreign = map[string]bool{}
	for _, r := range in.Runs {
		if r.Foreign {
			a.foreign[r.Name] = true
			continue
		}
		if h := a.held[r.Name]; h != nil && h.Phase == Running && h.Fence == r.Fence && in.Sent >= h.since && r.Ended {
			a.fail(h, r.Text)
		}
	}
	for name := range before {
		if v := a.vacant[name]; v != nil && !a.foreign[name] {
			v.epoch = -1 // it may be claimed now
			a.soon()
		}
	}
}

// mostForeign is how many names a member says that it has for something else. What it does
// not say costs an attempt to start it there.
const mostForeign = 100

// foreignDeclared is the declared names that something else has in the box.
func (a *Agent) foreignDeclared() (names []string) {
	for _, name := range sorted(a.foreign) {
		if _, declared := a.view.Profiles[name]; declared && len(names) < mostForeign {
			names = append(names, name)
		}
	}
	return names
}

// fail gives a claim back, since the gateway does not run here.
func (a *Agent) fail(h *Held, why string) {
	a.do(Effect{Kind: Fail, Name: h.Name, Count: a.failures(h), Text: why})
	h.moved(a)
	h.give(a, why)
}

// failures is how often in a row it could not be started, with this time.
func (a *Agent) failures(h *Held) int { return min(a.view.Backoffs[h.Name].Count+1, most) }

// decide does what follows from all that is known.
func (a *Agent) decide() {
	if !a.began {
		return
	}
	a.session.decide(a)
	if !a.surveyed || !a.loaded {
		return
	}
	if !a.adopted {
		a.adopt()
	}
	a.overdue()
	a.decideDue()
	a.claim()
}

// decideDue decides about those held of which something is to be decided.
func (a *Agent) decideDue() {
	if a.wakeHeld <= a.now {
		a.wakeHeld = never
		for _, h := range a.held {
			switch {
			case h.wakeAt == 0:
			case h.wakeAt <= a.now:
				h.look(a)
			default:
				a.wakeHeld = min(a.wakeHeld, h.wakeAt)
			}
		}
	}
	due := a.due
	a.due = nil
	slices.Sort(due)
	for _, name := range due {
		if h := a.held[name]; h != nil && h.due {
			h.decide(a)
		}
	}
	a.wake(a.wakeHeld)
}

func (a *Agent) do(e Effect) { a.effects = append(a.effects, e) }

func (a *Agent) say(format string, args ...any) {
	a.do(Effect{Kind: Say, Text: fmt.Sprintf(format, args...)})
}

// wake has Step called at a time.
func (a *Agent) wake(at int64) {
	if a.next == 0 || at < a.next {
		a.next = at
	}
}
