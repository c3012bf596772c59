package rights

import (
	"errors"
	"sync"
	"time"
)

// ErrSilent is in the error of a look at paths whose file system does not answer.
var ErrSilent = errors.New("its file system does not answer")

// silentEvery is how long a look may take before it is asked where it is, and from then on
// between one question and the next; a variable, for tests.
var silentEvery = 2 * time.Second

// mostSilent is how often in a row a look may be found in the kernel before its file system
// is said not to answer. What waits for others is not in the kernel, however long it takes.
const mostSilent = 3

// LookUntilSilent is LookAlong that gives up with ErrSilent when the file system of the
// paths themselves does not answer: not where the process that looks is busy, or replaced.
// The look goes on, and nobody hears of it.
func (u *User) LookUntilSilent(paths []string, use uint32) ([]Look, error) {
	type found struct {
		looks []Look
		err   error
	}
	done := make(chan found, 1)
	at := new(whereabouts)
	go func() {
		looks, err := u.lookAlong(paths, use, at)
		done <- found{looks, err}
	}()
	for times := 0; times < mostSilent; {
		select {
		case f := <-done:
			return f.looks, f.err
		case <-time.After(silentEvery):
		}
		if u == nil || at.underWay() { // a look of our own waits for nobody else
			times++
		} else {
			times = 0
		}
	}
	return nil, ErrSilent
}

// whereabouts is which process was asked for a call last, and by which id.
type whereabouts struct {
	mu      sync.Mutex
	running *running // nil: none was
	id      uint64
}

func (w *whereabouts) set(r *running, id uint64) {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running, w.id = r, id
	}
}

// underWay tells whether the process has begun the call, and not come to its end.
func (w *whereabouts) underWay() bool {
	w.mu.Lock()
	r, id := w.running, w.id
	w.mu.Unlock()
	if r == nil {
		return false
	}
	ask := call{Kind: kindPing, Offset: int64(id)}
	done := r.await(&ask)
	if done == nil {
		return false
	}
	if r.link.send(&ask) != nil {
		r.forget(ask.ID)
		return false
	}
	got := <-done
	return got.err == nil && got.answer.Value == 1
}

// underWay are the calls that a process has begun and not come to the end of.
type underWay struct {
	mu    sync.Mutex
	calls map[uint64]bool
}

func (u *underWay) begin(id uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls[id] = true
}

func (u *underWay) end(id uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, id)
}

// count is 1 if a call is one of them, and else 0.
func (u *underWay) count(id uint64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls[id] {
		return 1
	}
	return 0
}
