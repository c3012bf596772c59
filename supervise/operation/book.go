package operation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"rlminit/control"
)

// State is that of an operation, or of a member.
type State = string

// The states. Pending is a member's alone: it is yet to be taken.
const (
	Pending     State = "pending"
	Running     State = "running"
	Done        State = "done"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
	Superseded  State = "superseded"
	Interrupted State = "interrupted"
)

// kept and membersKept bound what a Book remembers of operations that are over.
const (
	kept        = 100
	membersKept = 5000
)

// Book is the operations under way and the latest that are over.
type Book struct {
	// Ended is told of each that comes to its end. It must return at once, and not
	// call the Book. nil: nobody is.
	Ended func(control.Operation)

	mu    sync.Mutex
	last  uint64
	ended uint64   // how many have ended
	all   []*entry // Invariant: by id, ascending
}

// Handle is one operation of a Book, which may have been forgotten meanwhile.
type Handle struct {
	book  *Book
	entry *entry
}

// ID is that of the operation; 0: there is none.
func (h Handle) ID() uint64 {
	if h.entry == nil {
		return 0
	}
	return h.entry.ID
}

// Now is the operation as it is now, and a channel that is closed at its next change.
func (h Handle) Now() (control.Operation, <-chan struct{}) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	return h.entry.copy(), h.entry.changed
}

type entry struct {
	control.Operation
	book    *Book
	by      map[string]int // members by name
	left    int            // Invariant: how many members are pending or running
	changed chan struct{}  // closed at the next change
	cancel  func()
	ended   uint64 // which one it was to end, counted from 1; 0: none yet, or before this Book
	encoded []byte // as Encode has it; nil: it has changed since
}

// NewID is an id that no operation has had.
func (b *Book) NewID() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	return b.last
}

// Begin makes an operation of the members, all of them in state, under an id that
// is new, and ends for each what an earlier operation still does.
func (b *Book) Begin(id uint64, verb string, actor control.Actor, at time.Time, members []control.OperationMember, state State, cancel func()) Handle {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{book: b, by: make(map[string]int, len(members)), left: len(members), changed: make(chan struct{}), cancel: cancel}
	e.Operation = control.Operation{ID: id, Verb: verb, Actor: actor, At: at, State: Running, Members: members}
	for i := range members {
		members[i].State = state
		e.by[members[i].Name] = i
	}
	b.supersede(id, func(name string) bool { _, also := e.by[name]; return also })
	b.insert(e)
	b.forget()
	if len(members) == 0 {
		e.end(Done, "")
	}
	return Handle{b, e}
}

// Along ends what other operations still do for those who are started along with the
// members of one.
func (b *Book) Along(id uint64, names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.supersede(id, func(name string) bool { return slices.Contains(names, name) })
}

// supersede ends what other operations than one still do for whom it has.
func (b *Book) supersede(id uint64, has func(name string) bool) {
	for _, other := range b.all {
		if other.ID == id || other.Over() {
			continue
		}
		for i, m := range other.Members {
			if open(m.State) && has(m.Name) {
				other.set(i, Superseded, fmt.Sprintf("by operation %d", id), 0)
			}
		}
	}
}

// insert puts an entry in its place, where there is none of its id.
func (b *Book) insert(e *entry) {
	if i, known := b.search(e.ID); !known {
		b.all = slices.Insert(b.all, i, e)
	}
	b.last = max(b.last, e.ID)
}

// forget lets go of those that were the first to end, above the bounds. One with a
// low id may have been long in coming, so its id does not count.
func (b *Book) forget() {
	count, members := len(b.all), 0
	for _, e := range b.all {
		members += len(e.Members)
	}
	for count > kept || members > membersKept {
		first := -1
		for i, e := range b.all {
			if e.Over() && (first < 0 || e.ended < b.all[first].ended) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		count, members = count-1, members-len(b.all[first].Members)
		b.all = slices.Delete(b.all, first, first+1)
	}
}

// open tells whether something is still to come of a member.
func open(s State) bool { return s == Pending || s == Running }

// Member notes what became of a member. One that is over stays as it is.
func (b *Book) Member(id uint64, name string, state State, reason string, pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(id); e != nil {
		if i, ok := e.by[name]; ok && open(e.Members[i].State) {
			e.set(i, state, reason, pid)
		}
	}
}

// Standing is what has become of a member.
func (b *Book) Standing(id uint64, name string) Standing {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(id); e != nil {
		if i, ok := e.by[name]; ok {
			return Standing{Operation: id, State: e.Members[i].State, Reason: e.Members[i].Reason}
		}
	}
	return Standing{}
}

// Over tells whether an operation is over, or forgotten.
func (b *Book) Over(id uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(id)
	return e == nil || e.Over()
}

// Stop ends an operation at its gate: what is not over of it is left as it is, or
// interrupted with it.
func (b *Book) Stop(id uint64, state State, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(id); e != nil && !e.Over() {
		if state == Interrupted {
			e.interrupt(reason)
		} else {
			e.end(state, reason)
		}
	}
}

func (e *entry) set(i int, state State, reason string, pid int) {
	m := &e.Members[i]
	if open(m.State) && !open(state) {
		e.left--
	}
	m.State, m.Reason = state, reason
	if pid > 0 {
		m.PID = pid
	}
	if e.left == 0 && !e.Over() {
		e.end(e.outcome())
		return
	}
	e.wake()
}

// outcome is that of an operation all of whose members are over.
func (e *entry) outcome() (State, string) {
	count := map[State]int{}
	var why string
	for _, m := range e.Members {
		count[m.State]++
		if m.State == Failed && why == "" {
			why = m.Reason
		}
	}
	switch {
	case count[Failed] > 0:
		return Failed, why
	case count[Cancelled] > 0:
		return Cancelled, "it was cancelled"
	case count[Superseded] == len(e.Members):
		return Superseded, e.Members[0].Reason
	}
	return Done, ""
}

func (e *entry) end(state State, reason string) {
	e.State, e.Reason = state, reason
	e.book.ended++
	e.ended = e.book.ended
	e.wake()
	if e.book.Ended != nil {
		e.book.Ended(e.copy())
	}
}

// wake tells of a change.
func (e *entry) wake() {
	e.encoded = nil
	close(e.changed)
	e.changed = make(chan struct{})
}

// Cancel has an operation go no further. What has begun goes on to its end.
func (b *Book) Cancel(id uint64) (control.Operation, *control.Problem) {
	b.mu.Lock()
	e := b.find(id)
	if e == nil {
		b.mu.Unlock()
		return control.Operation{}, noSuch(id)
	}
	if e.Over() {
		defer b.mu.Unlock()
		return e.copy(), control.Conflict("operation %d is over: %s", id, e.State)
	}
	for i, m := range e.Members {
		if open(m.State) {
			reason := "it had not begun"
			if m.State == Running {
				reason = "what had begun goes on"
			}
			e.Members[i].State, e.Members[i].Reason = Cancelled, reason
		}
	}
	e.left = 0
	e.end(Cancelled, "it was cancelled")
	cancel, now := e.cancel, e.copy()
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return now, nil
}

// Awaited are the members that other operations than one, which are under way, have yet
// to take.
func (b *Book) Awaited(but uint64) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	awaited := map[string]bool{}
	for _, e := range b.all {
		for _, m := range e.Members {
			if m.State == Pending && e.ID != but && !e.Over() {
				awaited[m.Name] = true
			}
		}
	}
	return awaited
}

// Get is an operation that is remembered.
func (b *Book) Get(id uint64) (Handle, *control.Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(id)
	if e == nil {
		return Handle{}, noSuch(id)
	}
	return Handle{b, e}, nil
}

// List is every operation that is remembered, the oldest first.
func (b *Book) List() []control.Operation {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]control.Operation, 0, len(b.all))
	for _, e := range b.all {
		list = append(list, e.copy())
	}
	return list
}

// AppendTo appends List as JSON, of those that are over Shortened. It is asked for at
// each change, so only what has changed is encoded anew.
func (b *Book) AppendTo(list []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	list = append(list, '[')
	for i, e := range b.all {
		if i > 0 {
			list = append(list, ',')
		}
		if e.encoded == nil {
			e.encode()
		}
		list = append(list, e.encoded...)
	}
	return append(list, ']')
}

func (e *entry) encode() {
	o := e.Operation
	if o.Over() {
		o = Shortened(o)
	}
	e.encoded, _ = json.Marshal(o) // it has nothing that JSON has not
}

// Recall adds operations of before, up to the id last, to those that there are:
// of one that is known already what is known counts.
func (b *Book) Recall(before []control.Operation, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range before {
		b.insert(&entry{book: b, Operation: o, by: map[string]int{}, changed: make(chan struct{})})
	}
	b.last = max(b.last, last)
	b.forget()
}

// Resume ends, as interrupted, the operations of a predecessor that are under way.
// done tells of a member of one whether it has come to what was asked, and its
// process.
func (b *Book) Resume(done func(verb string, m control.OperationMember) (pid int, is bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.all {
		if e.Over() {
			continue
		}
		for i, m := range e.Members {
			if !open(m.State) {
				continue
			}
			if pid, is := done(e.Verb, m); is {
				e.Members[i].State, e.Members[i].Reason, e.Members[i].PID = Done, "", pid
			}
		}
		e.interrupt("the supervisor was replaced")
	}
}

// Interrupt ends, as interrupted, all that is under way.
func (b *Book) Interrupt(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.all {
		if !e.Over() {
			e.interrupt(why)
		}
	}
}

func (e *entry) interrupt(why string) {
	interrupt(&e.Operation, why)
	e.left = 0
	e.end(Interrupted, why)
}

func (b *Book) find(id uint64) *entry {
	if i, known := b.search(id); known {
		return b.all[i]
	}
	return nil
}

func (b *Book) search(id uint64) (i int, known bool) {
	return slices.BinarySearchFunc(b.all, id, func(e *entry, id uint64) int { return cmp.Compare(e.ID, id) })
}

func (e *entry) copy() control.Operation {
	o := e.Operation
	o.Members = slices.Clone(o.Members)
	return o
}

func noSuch(id uint64) *control.Problem {
	return control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no operation %d; rlminit operations lists them", id))
}
