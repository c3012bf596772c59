package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// world is a model of all that a fleet is beside its agents: etcd, the boxes, the clocks
// and the network, each as bad as SAFETY.md allows it to be, and no worse.
//
//   - etcd may end a lease at any time, much too early too, as a leader does that was paused
//     and comes back.
//   - A request may be carried out late, also when its sender has given up or died, twice,
//     or never; an answer may be lost.
//   - PID 1 ends a gateway as late as it may.
//   - The clocks of boxes run at rates that differ by 1 %.
//
// A gateway writes into its directory when it starts and as time passes; of saves and restores
// the world knows what package keep promises.
type world struct {
	t        int64
	revision int64
	leases   map[int64]lease
	lastID   int64
	owners   map[string]Owner
	marks    map[string]int64 // fence
	members  map[string]int64 // lease
	log      []Change
	nodes    []*node
	requests []request
	late     []answer
	stored   map[string]stored
	puts     []put // of what is to be current, which may come late
	writes   int64
	saves    int
	full     bool  // etcd has no space: it puts nothing, and deletes
	space    int64 // the revision of the key; 0: it is absent
	rules    rules
	calm     int // the higher the fewer faults
	counts   map[string]int
	failure  string
}

// content is what a gateway has written into its profile's directory: its fence, and a number
// that grows with each write.
type content struct{ fence, n int64 }

func (c content) less(than content) bool {
	return c.fence < than.fence || c.fence == than.fence && c.n < than.n
}

// stored is what etcd names as the current data of a profile.
type stored struct {
	content
	by       int64 // the fence of who saved
	revision int64
}

// put is a request to name data as current.
type put struct {
	name string
	base int64 // the revision of what was current when the save began
	what stored
}

// directory is a profile's at one node.
type directory struct {
	mark int64 // the fence under which it was used last
	has  content
}

type lease struct {
	member string
	end    int64
}

type node struct {
	name    string
	rate    int64 // in thousands
	agent   *Agent
	life    int // of the agent
	heard   int // of the log
	runs    map[string]run
	dirs    map[string]directory
	memory  session // what the agent has left for the next one
	out     bool    // etcd cannot be reached
	frozen  bool    // the agent's process does not run
	mute    bool    // the box answers nothing, and carries nothing out
	answers []Input
}

type run struct {
	fence, at int64
	ended     bool
}

type request struct {
	node, life int
	sent       int64 // local
	effect     Effect
}

// answer is one that is under way.
type answer struct {
	to request
	in Input
}

// rules can be broken, to see that the model finds it.
type rules struct {
	noDeadline bool // PID 1 does not end gateways
	revive     bool // PID 1 starts anew what has ended, when it is told a later deadline
	anyTime    bool // PID 1 starts a gateway whose deadline has passed
	claimAny   bool // a claim asks neither that the key is absent nor for the mark
	markAny    bool // a claim does not compare the mark
	sentLate   bool // a keep-alive is taken as sent when its answer comes
	beatKept   bool // a beat to an etcd without space is confirmed though it deletes nothing: a keep-alive counts as a beat
	releaseAny bool // a release does not compare the fence
	putAny     bool // what names data as current does not compare what was
	restoreNot bool // a restore leaves what is there
	drift      bool // clocks that are 10 % slow
}

const (
	unit    = second / 2
	testTTL = 10 * second
)

var names = []string{"alice", "bob"}

func newWorld(members, profiles int, r rules) *world {
	w := &world{leases: map[int64]lease{}, owners: map[string]Owner{}, stored: map[string]stored{}, marks: map[string]int64{}, members: map[string]int64{}, rules: r, counts: map[string]int{}, revision: 1}
	for _, name := range names[:profiles] {
		w.put(Change{Name: name, Value: &Profile{Revision: w.revision + 1}})
	}
	for i := range members {
		n := &node{name: fmt.Sprintf("m%d", i), rate: 995 + 5*(int64(i)%3), runs: map[string]run{}, dirs: map[string]directory{}}
		if r.drift {
			n.rate = 900 + 100*(int64(i)%2)
		}
		w.nodes = append(w.nodes, n)
		w.begin(i)
	}
	return w
}

func (w *world) local(n *node) int64 { return 1_000*second + w.t*n.rate/1000 }

func (w *world) put(c Change) {
	w.revision++
	c.Revision = w.revision
	w.log = append(w.log, c)
}

// begin starts the agent of a node, as after a crash of it.
func (w *world) begin(i int) {
	n := w.nodes[i]
	n.life++
	n.answers, n.frozen = nil, false
	n.agent = New(Config{Member: n.name, TTL: testTTL, Settle: 1, Margin: 1, Every: 8 * second}, nil)
	n.heard = 0
	w.tell(i, Input{Kind: Began, Lease: n.memory.lease, TTL: n.memory.ttl, Sent: n.memory.sent})
}

// tell gives an input to the agent of a node, and sends what it asks for.
func (w *world) tell(i int, in Input) {
	n := w.nodes[i]
	in.Now = w.local(n)
	for _, e := range n.agent.Step(in) {
		switch e.Kind {
		case Say, Report:
		case Moved, Fail, Recover:
			w.record(n, e)
		default:
			w.requests = append(w.requests, request{i, n.life, in.Now, e})
		}
	}
	n.memory = n.agent.session
	if why := n.agent.forgets(); why != "" && w.failure == "" {
		w.failure = why
	}
}

// forgets names what an agent would never look at again, or too late.
func (a *Agent) forgets() string {
	if !a.adopted {
		return ""
	}
	if len(a.due) > 0 {
		return fmt.Sprintf("after a step these are to be looked at: %v", a.due)
	}
	for name, h := range a.held {
		switch {
		case h.due:
			return name + " is to be looked at, and in no list"
		case h.wakeAt != 0 && (a.wakeHeld > h.wakeAt || a.next == 0 || a.next > h.wakeAt):
			return name + " is not looked at when it is time"
		}
	}
	return ""
}

// record writes what is no matter of safety at once.
func (w *world) record(n *node, e Effect) {
	switch e.Kind {
	case Moved:
		w.put(Change{Name: e.Name, Gone: true, Value: (*Move)(nil)})
	case Fail:
		w.put(Change{Name: e.Name, Value: &Backoff{Count: e.Count, Member: n.name}})
	case Recover:
		w.put(Change{Name: e.Name, Gone: true, Value: (*Backoff)(nil)})
	}
}

// pass lets time pass: leases end, and so do gateways whose deadline is over.
func (w *world) pass(by int64) {
	w.t += by
	for _, n := range w.nodes {
		for name, r := range n.runs {
			if !w.rules.noDeadline && w.local(n) > r.at+second {
				delete(n.runs, name)
				w.counts["deadline"]++
			} else if !r.ended {
				w.write(n, name, r.fence)
			}
		}
	}
	w.check()
}

// write is a gateway's.
func (w *world) write(n *node, name string, fence int64) {
	w.writes++
	d := n.dirs[name]
	d.has = content{fence, w.writes}
	n.dirs[name] = d
}

// restore puts what is stored in place, if it is newer than what was used there last.
func (w *world) restore(n *node, e Effect) (failed bool) {
	d, s := n.dirs[e.Name], w.stored[e.Name]
	if d.mark > e.Fence {
		return true
	}
	if d.mark < s.by && !w.rules.restoreNot {
		w.counts["restored"]++
		d.has = s.content
	}
	d.mark = e.Fence
	n.dirs[e.Name] = d
	return false
}

// save stores what is there. Each fourth request of it to etcd is a late one.
func (w *world) save(n *node, e Effect) (failed bool) {
	d := n.dirs[e.Name]
	switch {
	case d.mark > e.Fence:
		return true
	case d.mark < e.Fence && e.Unsure:
		return false
	}
	d.mark = e.Fence
	n.dirs[e.Name] = d
	p := put{e.Name, w.stored[e.Name].revision, stored{content: d.has, by: e.Fence}}
	if w.saves++; w.saves%4 == 0 {
		w.puts = append(w.puts, p)
		return true
	}
	return !w.name(p)
}

// name names data as current. What was stored once must not be lost again.
func (w *world) name(p put) bool {
	have := w.stored[p.name]
	if w.owners[p.name].Fence != p.what.by || have.revision != p.base && !w.rules.putAny {
		return false
	}
	if p.what.less(have.content) && w.failure == "" {
		w.failure = fmt.Sprintf("at %d: of %s %+v is current, and what was before is %+v", w.t/unit, p.name, p.what, have)
	}
	w.revision++
	p.what.revision = w.revision
	w.stored[p.name] = p.what
	w.counts["stored"]++
	return true
}

// expire removes a lease that has ended, with its keys.
func (w *world) expire(id int64) {
	l := w.leases[id]
	delete(w.leases, id)
	w.counts["expired"]++
	if w.members[l.member] == id {
		delete(w.members, l.member)
		w.put(Change{Name: l.member, Gone: true, Value: (*Member)(nil)})
	}
	for _, name := range sorted(w.owners) {
		if w.owners[name].Lease == id {
			delete(w.owners, name)
			w.put(Change{Name: name, Gone: true, Value: (*Owner)(nil)})
		}
	}
	w.check()
}

// check holds the invariant: while a gateway may be alive, nobody has a later claim of its
// profile.
func (w *world) check() {
	for _, n := range w.nodes {
		for name, r := range n.runs {
			if o := w.owners[name]; o.Fence > r.fence && w.failure == "" {
				w.failure = fmt.Sprintf("at %d: %s runs %s under fence %d, and the claim is %+v", w.t/unit, n.name, name, r.fence, o)
			}
		}
	}
}

// carryOut does what a request asks for, and returns the answer.
func (w *world) carryOut(r request) (in Input, answered bool) {
	n, e := w.nodes[r.node], r.effect
	in = Input{Name: e.Name, Fence: e.Fence, Lease: e.Lease}
	defer w.check()
	switch e.Kind {
	case Grant, Renew, Revoke, Evict, Claim, Release:
		return w.etcd(r, in)
	case Survey:
		in.Kind = Surveyed
		in.Runs, in.Sent = n.survey(w), r.sent
	case Prepare:
		in.Kind, in.Failed = Prepared, r.life == n.life && e.Restore && w.restore(n, e)
	case Try:
		in.Kind, in.Revision, in.Failed = Tried, e.Revision, e.Revision%5 == 0
	case Save:
		in.Kind, in.Failed = Saved, r.life != n.life || w.save(n, e)
	case Start:
		in.Kind, in.Outcome = Started, w.start(n, e)
	case Extend:
		in.Kind = Extended
		for _, d := range e.Deadlines {
			have, ok := n.runs[d.Name]
			if !ok && w.rules.revive {
				have, ok = run{fence: d.Fence}, true
			}
			if !ok || have.fence != d.Fence || w.local(n) >= have.at && !w.rules.revive {
				in.Names = append(in.Names, d.Name)
				continue
			}
			have.at = max(have.at, d.At)
			n.runs[d.Name] = have
		}
	case Stop:
		in.Kind = Stopped
		delete(n.runs, e.Name)
	}
	return in, true
}

func (w *world) start(n *node, e Effect) Outcome {
	now := w.local(n)
	if now >= e.At && !w.rules.anyTime {
		return Late
	}
	if have, ok := n.runs[e.Name]; ok && have.fence != e.Fence {
		return Refused
	}
	w.counts["started"]++
	if has := n.dirs[e.Name].has; has.less(w.stored[e.Name].content) && w.failure == "" {
		w.failure = fmt.Sprintf("at %d: %s starts %s with %+v, and %+v is stored", w.t/unit, n.name, e.Name, has, w.stored[e.Name])
	}
	w.write(n, e.Name, e.Fence)
	if w.writes%16 == 0 { // and ends at once
		w.counts["ended at once"]++
		return Ended
	}
	n.runs[e.Name] = run{fence: e.Fence, at: max(e.At, n.runs[e.Name].at)}
	return OK
}

func (n *node) survey(w *world) (out []Run) {
	for _, name := range sorted(n.runs) {
		out = append(out, Run{Name: name, Fence: n.runs[name].fence, Ended: n.runs[name].ended})
	}
	return out
}

// etcd carries out a request to it.
func (w *world) etcd(r request, in Input) (Input, bool) {
	n, e := w.nodes[r.node], r.effect
	switch e.Kind {
	case Grant:
		if w.full {
			in.Kind = NotGranted
			return in, true
		}
		w.lastID++
		w.room()
		w.leases[w.lastID] = lease{member: n.name, end: w.t + testTTL}
		w.members[n.name] = w.lastID
		w.put(Change{Name: n.name, Value: &Member{Lease: w.lastID}})
		in.Kind, in.Lease, in.TTL, in.Sent = Granted, w.lastID, testTTL, r.sent
	case Renew:
		l, ok := w.leases[e.Lease]
		if !ok {
			in.Kind = Expired
			return in, true
		}
		l.end = w.t + testTTL
		w.leases[e.Lease] = l
		in.Kind, in.Sent, in.Full = Renewed, r.sent, w.full || e.Count != 0
		switch {
		case e.Count != 0: // the second half of a beat that could put nothing
			w.delete()
		case w.full && !w.rules.beatKept:
			r.effect.Count = 1
			w.requests = append(w.requests, r)
			return in, false
		case !w.full:
			w.room()
			w.put(Change{Name: l.member, Value: &Member{Lease: e.Lease}})
		}
	case Revoke:
		if _, ok := w.leases[e.Lease]; ok {
			w.expire(e.Lease)
		}
		return in, false
	case Evict:
		if _, ok := w.leases[e.Lease]; ok && w.lastBeat(e.Name) == e.Revision && w.space == e.Space {
			w.counts["evicted"]++
			w.expire(e.Lease)
		}
		return in, false
	case Claim:
		_, alive := w.leases[e.Lease]
		in.Fence = 0
		if w.full {
			in.Kind = Unsure
			return in, true
		}
		if _, has := w.owners[e.Name]; !alive || !w.rules.claimAny && (has || w.marks[e.Name] != e.Fence && !w.rules.markAny || e.Fence != 0 && w.space != e.Space) {
			in.Kind = Taken
			return in, true
		}
		o := Owner{Member: n.name, Lease: e.Lease, Fence: w.revision + 1}
		w.owners[e.Name] = o
		w.marks[e.Name] = o.Fence
		w.put(Change{Name: e.Name, Value: &o})
		w.put(Change{Name: e.Name, Value: &Mark{o.Fence}})
		in.Kind, in.Fence = Claimed, o.Fence
	case Release:
		if o, ok := w.owners[e.Name]; ok && (o.Fence == e.Fence || w.rules.releaseAny) {
			delete(w.owners, e.Name)
			delete(w.marks, e.Name)
			w.put(Change{Name: e.Name, Gone: true, Value: (*Mark)(nil)})
			w.put(Change{Name: e.Name, Gone: true, Value: (*Owner)(nil)})
			w.counts["released"]++
			if has := n.dirs[e.Name].has; has.fence == e.Fence && w.stored[e.Name].less(has) && w.failure == "" {
				w.failure = fmt.Sprintf("at %d: %s gives %s back with %+v, and %+v is stored", w.t/unit, n.name, e.Name, has, w.stored[e.Name])
			}
		}
		in.Kind = Released
	}
	return in, true
}

// room puts the key space, if it is absent.
func (w *world) room() {
	if w.space == 0 {
		w.space = w.revision + 1
		w.put(Change{Value: &Space{w.space}})
	}
}

// delete deletes it.
func (w *world) delete() {
	w.counts["full"]++
	if w.space != 0 {
		w.space = 0
		w.put(Change{Gone: true, Value: (*Space)(nil)})
	}
}

// lastBeat is the revision of a member's key.
func (w *world) lastBeat(member string) int64 {
	for _, c := range slices.Backward(w.log) {
		if m, is := c.Value.(*Member); is && c.Name == member && m != nil {
			return c.Revision
		}
	}
	return 0
}

// unknown is what the driver says of a request whose answer does not come.
func unknown(e Effect) (in Input, said bool) {
	in = Input{Name: e.Name, Fence: e.Fence, Lease: e.Lease, Failed: true}
	switch e.Kind {
	case Grant:
		in.Kind = NotGranted
	case Renew:
		in.Kind = NotRenewed
	case Claim:
		in.Kind = Unsure
	case Release:
		in.Kind = Released
	case Start:
		in.Kind, in.Outcome = Started, Lost
	case Stop:
		in.Kind = Stopped
	default:
		return in, false // asked again until it is answered, or what the agent does itself: once, with one answer
	}
	return in, true
}

func reaches(k EffectKind) (etcd bool) {
	return k == Grant || k == Renew || k == Revoke || k == Evict || k == Claim || k == Release
}

// act lets one thing happen, by chance.
func (w *world) act(r *rand.Rand, faults bool) {
	i := r.IntN(len(w.nodes))
	n := w.nodes[i]
	switch k := r.IntN(100); {
	case k < 22:
		w.pass([]int64{1, unit / 10, unit, unit, 2 * unit}[r.IntN(5)])
	case k < 26 && len(w.late) > 0:
		at := r.IntN(len(w.late))
		late := w.late[at]
		w.late = slices.Delete(w.late, at, at+1)
		w.answer(late.to, late.in)
	case k < 28 && len(w.puts) > 0:
		at := r.IntN(len(w.puts))
		late := w.puts[at]
		w.puts = slices.Delete(w.puts, at, at+1)
		if w.name(late) {
			w.counts["stored late"]++
		}
	case k < 62 && len(w.requests) > 0:
		w.deliver(r, faults)
	case k < 72:
		w.hear(i, 1+r.IntN(3))
	case k < 85:
		if !n.frozen && !n.mute {
			w.tell(i, Input{Kind: Seen, Sent: w.local(n), Runs: n.survey(w)})
		}
	case k < 88:
		for _, id := range sortedIDs(w.leases) {
			if w.t >= w.leases[id].end {
				w.expire(id)
			}
		}
	case !faults:
		n.out, n.mute = false, false
		w.thaw(i)
	case r.IntN(1+w.calm) == 0:
		w.fault(r, i)
	}
}

// deliver lets something become of a request.
func (w *world) deliver(r *rand.Rand, faults bool) {
	at := r.IntN(len(w.requests))
	q := w.requests[at]
	chance := r.IntN(20)
	if !faults {
		chance = 19
	}
	_, said := unknown(q.effect)
	own := q.effect.Kind == Save || q.effect.Kind == Prepare
	switch {
	case !reaches(q.effect.Kind) && w.nodes[q.node].mute:
	case own && w.nodes[q.node].frozen:
	case reaches(q.effect.Kind) && w.nodes[q.node].out, chance == 0 && said:
		if r.IntN(2) == 0 { // else it may come through yet
			w.requests = slices.Delete(w.requests, at, at+1)
		}
		w.unanswered(q)
	case chance == 1 && said:
		w.requests = slices.Delete(w.requests, at, at+1)
		w.carryOut(q)
		w.unanswered(q)
	default:
		if chance != 2 || own { // else it is carried out a second time later
			w.requests = slices.Delete(w.requests, at, at+1)
		}
		if in, answered := w.carryOut(q); !answered {
		} else if chance < 8 {
			w.late = append(w.late, answer{q, in})
		} else {
			w.answer(q, in)
		}
	}
}

// unanswered tells the sender that there is no answer.
func (w *world) unanswered(q request) {
	if in, said := unknown(q.effect); said {
		w.counts["unanswered"]++
		w.answer(q, in)
	}
}

// answer tells the sender, if it is still there, once it runs.
func (w *world) answer(q request, in Input) {
	n := w.nodes[q.node]
	switch {
	case q.life != n.life:
	case n.frozen:
		n.answers = append(n.answers, in)
	default:
		if w.rules.sentLate && in.Kind == Renewed {
			in.Sent = w.local(n)
		}
		w.tell(q.node, in)
	}
}

// thaw lets a frozen agent run, which then hears what has come meanwhile.
func (w *world) thaw(i int) {
	n := w.nodes[i]
	n.frozen = false
	for len(n.answers) > 0 {
		in := n.answers[0]
		n.answers = n.answers[1:]
		w.tell(i, in)
	}
}

// hear lets a node have more of what etcd says of changes.
func (w *world) hear(i, count int) {
	n := w.nodes[i]
	if n.out || n.frozen {
		return
	}
	if n.heard == 0 {
		whole := NewView()
		for _, c := range w.log {
			whole.Apply(c)
		}
		n.heard = len(w.log)
		all := snapshot(whole)
		for j, c := range all {
			if _, is := c.Value.(*Member); is {
				all[j].Revision = w.lastBeat(c.Name)
			}
		}
		w.tell(i, Input{Kind: Changed, Whole: true, Revision: w.revision, Changes: all})
		return
	}
	end := min(n.heard+count, len(w.log))
	if end > n.heard {
		in := Input{Kind: Changed, Changes: w.log[n.heard:end]}
		n.heard = end
		w.tell(i, in)
	}
}

func snapshot(v *View) (out []Change) {
	for name, m := range v.Members {
		out = append(out, Change{Name: name, Value: &m})
	}
	for name, m := range v.Profiles {
		out = append(out, Change{Name: name, Value: &m})
	}
	for name, m := range v.Owners {
		out = append(out, Change{Name: name, Value: &m})
	}
	for name, m := range v.Marks {
		out = append(out, Change{Name: name, Value: &m})
	}
	for name, m := range v.Moves {
		out = append(out, Change{Name: name, Value: &m})
	}
	for name, m := range v.Drains {
		out = append(out, Change{Name: name, Value: &m})
	}
	for name, m := range v.Backoffs {
		out = append(out, Change{Name: name, Value: &m})
	}
	if v.Space != 0 {
		out = append(out, Change{Value: &Space{v.Space}})
	}
	slices.SortFunc(out, func(a, b Change) int {
		return strings.Compare(a.Name+fmt.Sprintf("%T", a.Value), b.Name+fmt.Sprintf("%T", b.Value))
	})
	return out
}

// fault is one of the faults that a fleet must bear.
func (w *world) fault(r *rand.Rand, i int) {
	n := w.nodes[i]
	name := sorted(w.nodes[0].agent.view.Profiles)
	switch k := r.IntN(14); {
	case k < 2:
		n.out = !n.out
		w.counts["partition"]++
	case k < 4:
		if n.frozen {
			w.thaw(i)
			break
		}
		n.frozen = true
		w.counts["frozen"]++
	case k == 4:
		w.counts["agent killed"]++
		w.begin(i)
	case k == 5:
		w.counts["box killed"]++
		n.runs, n.memory = map[string]run{}, session{}
		w.requests = slices.DeleteFunc(w.requests, func(q request) bool { return q.node == i && !reaches(q.effect.Kind) })
		w.begin(i)
	case k == 6 && len(name) > 0:
		w.counts["moved"]++
		w.put(Change{Name: name[r.IntN(len(name))], Value: &Move{To: w.nodes[r.IntN(len(w.nodes))].name}})
	case k == 7:
		if r.IntN(2) == 0 {
			w.counts["drained"]++
			w.put(Change{Name: n.name, Value: &Drain{}})
		} else {
			w.put(Change{Name: n.name, Gone: true, Value: (*Drain)(nil)})
		}
	case k == 8 && len(name) > 0:
		w.counts["changed"]++
		w.put(Change{Name: name[r.IntN(len(name))], Value: &Profile{Revision: w.revision + 1, Text: fmt.Sprint(r.IntN(3))}})
	case k == 9 && r.IntN(6) > 0: // a new leader: it counts each lease from the beginning
		w.counts["leader"]++
		for id, l := range w.leases {
			l.end = w.t + testTTL
			w.leases[id] = l
		}
	case k == 9: // a leader that was paused comes back, and ends what the next one has renewed
		w.counts["old leader"]++
		for _, id := range sortedIDs(w.leases) {
			w.expire(id)
		}
	case k == 10 && len(n.runs) > 0: // its gateway ends
		w.counts["crashed"]++
		for _, name := range sorted(n.runs)[:1] {
			have := n.runs[name]
			have.ended = true
			n.runs[name] = have
			if !n.frozen {
				w.tell(i, Input{Kind: Seen, Sent: w.local(n), Runs: []Run{{Name: name, Fence: have.fence, Ended: true}}})
			}
		}
	case k == 11 && !n.out: // the watch begins anew
		n.heard = 0
	case k == 13:
		w.full = !w.full
	case k == 12:
		if n.mute = r.IntN(3) == 0; n.mute {
			w.counts["box mute"]++
		}
	}
}

// String says how everything is, for a person.
func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "t %d owners %v leases %v members %v\n", w.t/unit, w.owners, w.leases, w.members)
	for _, n := range w.nodes {
		a := n.agent
		fmt.Fprintf(&b, "%s now %d runs %v session %+v next %d loaded %v surveyed %v scan %d moves %v drains %v backoffs %v\n", n.name, w.local(n)/unit, n.runs, a.session, a.next/unit, a.loaded, a.surveyed, a.scan/unit, a.view.Moves, a.view.Drains, a.view.Backoffs)
		for _, name := range sorted(a.held) {
			fmt.Fprintf(&b, "  held %+v\n", *a.held[name])
		}
		for _, name := range sorted(a.vacant) {
			fmt.Fprintf(&b, "  vacant %s %+v\n", name, *a.vacant[name])
		}
	}
	fmt.Fprintf(&b, "requests %+v\n", w.requests)
	return b.String()
}

func sortedIDs(m map[int64]lease) []int64 { return slices.Sorted(maps.Keys(m)) }
