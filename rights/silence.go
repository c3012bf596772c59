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
// is said not to answer. A look of our own, of which only the time is known, has mostOwn.
const (
	mostSilent = 3
	mostOwn    = 10
)

// LookUntilSilent is LookAlong that gives up with ErrSilent when the file system of the
// paths themselves does not answer: not where the process that looks is busy, or replaced.
// The look goes on, and nobody hears of it.
func (u *User) LookUntilSilent(paths []string, use uint32) (looks []Look, err error) {
	type found struct {
		looks []Look
		err   error
	}
	got, over := make(chan found, 1), make(chan struct{})
	at := new(Progress)
	go func() {
		looks, err := u.Followed(at).LookAlong(paths, use)
		got <- found{looks, err}
		close(over)
	}()
	if u.Silent(at, over) {
		return nil, ErrSilent
	}
	f := <-got
	return f.looks, f.err
}

// Followed is the same user, whose calls at is told of, one after the other.
func (u *User) Followed(at *Progress) *User {
	if u == nil {
		return nil
	}
	return &User{u.process, u.uid, at}
}

// Silent waits until over is closed, and then is false; or until one call of those that at
// is told of is found in the kernel so often that its file system does not answer, or finds
// all places of its user taken by calls of which none comes to its end. A call that waits
// for the process to be replaced may take any time.
func (u *User) Silent(at *Progress, over <-chan struct{}) bool {
	timer := time.NewTimer(silentEvery)
	defer timer.Stop()
	most := mostSilent
	if u == nil {
		most = mostOwn
	}
	var last asked
	for times := 0; times < most; timer.Reset(silentEvery) {
		select {
		case <-over:
			return false
		case <-timer.C:
		}
		switch now := at.last(); {
		case u == nil:
			times++
		case !now.waits():
			times = 0
		case now != last:
			last, times = now, 1
		default:
			times++
		}
	}
	return true
}

// Progress is how far some calls have come that are made one after the other. The zero
// value has seen none.
type Progress struct {
	mu    sync.Mutex
	asked asked
}

// asked is a call that a process was asked for, by its id, or one that waits for a place of
// its user, by how many calls have left that; the zero value is none.
type asked struct {
	running *running
	place   *room
	id      uint64
}

func (p *Progress) set(now asked) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = now
	}
}

func (p *Progress) last() asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.asked
	if now.place != nil {
		now.id = now.place.left.Load()
	}
	return now
}

// waits tells whether the call is in the kernel, or waits for others that may be.
func (a asked) waits() bool { return a.place != nil || a.underWay() }

// underWay tells whether the process has begun the call, and not come to its end.
func (a asked) underWay() bool {
	r, id := a.running, a.id
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
