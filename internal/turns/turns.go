// Package turns bounds how many do something at a time that may wait in the kernel,
// so that one that waits for a file system which does not answer keeps nobody from
// those that do.
package turns

import (
	"slices"
	"sync"
	"time"
)

// Turns are those that may be taken at a time. With nil nobody waits for anybody.
// No timer runs, and nobody is woken, while nobody waits.
//
// Invariant: at most n are held, and where somebody waits, n.
type Turns struct {
	n, most int // turns, and those that may be late; most is below 0 where they are not counted

	mu      sync.Mutex
	held    []*turn
	late    int     // as far as they are counted
	waiting []*turn // in the order in which they came
	watch   *time.Timer
}

// turn is one that is waited for, held, late or over.
type turn struct {
	lasts time.Duration
	ends  time.Time     // when it is over for others
	got   chan struct{} // closed when it is held
	late  bool          // it was over, and is counted
}

// New is n turns.
func New(n int) *Turns { return NewBounded(n, -1) }

// NewBounded is n turns, of which late at most go on when they were to be over.
func NewBounded(n, late int) *Turns { return &Turns{n: n, most: late} }

// Take waits for a turn, which done ends; it may be called more than once. After lasts
// somebody else may have it, and the caller is late, if there may be one more.
func (t *Turns) Take(lasts time.Duration) (done func()) {
	if t == nil {
		return func() {}
	}
	one := &turn{lasts: lasts, got: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, one)
	t.pass()
	t.mu.Unlock()
	<-one.got
	return func() { t.end(one) }
}

func (t *Turns) end(one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.held, one); i >= 0 {
		t.held = slices.Delete(t.held, i, i+1)
	} else if one.late {
		one.late = false
		t.late--
	}
	t.pass()
}

// pass gives those who wait the turns that are free, or over, and has a timer look
// again when the next is over. The caller has the lock.
func (t *Turns) pass() {
	for len(t.waiting) > 0 {
		now := time.Now()
		if len(t.held) >= t.n && !t.relieve(now) {
			return
		}
		one := t.waiting[0]
		t.waiting = slices.Delete(t.waiting, 0, 1)
		one.ends = now.Add(one.lasts)
		t.held = append(t.held, one)
		close(one.got)
	}
}

// relieve makes the one late whose turn was over first; false: none is, or may be.
func (t *Turns) relieve(now time.Time) bool {
	if t.n == 0 || t.late == t.most {
		return false // whoever ends passes on
	}
	first := slices.MinFunc(t.held, func(a, b *turn) int { return a.ends.Compare(b.ends) })
	if left := first.ends.Sub(now); left > 0 {
		if t.watch != nil {
			t.watch.Stop()
		}
		t.watch = time.AfterFunc(left, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.pass()
		})
		return false
	}
	t.held = slices.DeleteFunc(t.held, func(one *turn) bool { return one == first })
	if t.most >= 0 {
		first.late = true
		t.late++
	}
	return true
}
