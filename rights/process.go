package rights

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"rlminit/wire"

	"golang.org/x/sys/unix"
)

// askEvery is how long a process that owes answers may be silent; a variable, for
// tests.
var askEvery = 5 * time.Second

const (
	startEvery = 100 * time.Millisecond // from one start to the next, at least
	mostStuck  = 12                     // times that it is asked while every call waits
)

// ErrEnded is in the error of a call whose process has ended before it answered, and
// says nothing about the file: the next process may be asked again.
var ErrEnded = errors.New("the process that touches this user's files has ended; see what has come of it, and try again")

// mostEnds is how many processes in a row may end under one call, before it fails with
// ErrEnded.
const mostEnds = 4

// Start starts a process that serves, and returns our end of the pair. end ends
// it; it may be called more than once, and when the process has ended already.
type Start func() (fd int, end func(), err error)

// New is the services' user, whose files are touched by a process that start starts, now
// and whenever there is none, and that serves atOnce calls at a time; As are others that
// it can be. say is told of each that had to be replaced.
func New(start Start, uid uint32, atOnce int, say func(string)) *User {
	return &User{&process{start: start, services: uid, atOnce: atOnce, say: say, places: map[uint32]*room{}}, uid, nil}
}

// process is the one that serves, as far as there is one.
type process struct {
	start    Start
	services uint32 // the services' user
	atOnce   int
	say      func(string)

	mu      sync.Mutex
	running *running         // nil: none
	places  map[uint32]*room // of each user, for what it has under way
	began   time.Time
}

// room is what bounds the calls that a user has under way.
type room struct {
	taken chan struct{} // one for each
	left  atomic.Uint64 // how many calls have left it so far
}

// enter waits for a place among what a user has under way: each may wait for ever for a
// file system that does not answer, and is to leave threads for others. at is told that it
// waits. leave gives the place back.
func (p *process) enter(uid uint32, at *Progress) (leave func()) {
	p.mu.Lock()
	of := p.places[uid]
	if of == nil {
		most := max(1, p.atOnce/4)
		if uid == p.services {
			most = mostOfServices(p.atOnce)
		}
		of = &room{taken: make(chan struct{}, most)}
		p.places[uid] = of
	}
	p.mu.Unlock()
	at.set(asked{place: of})
	of.taken <- struct{}{}
	at.set(asked{})
	return func() {
		of.left.Add(1)
		<-of.taken
	}
}

// mostOfServices is how many calls of the services' user may be under way: two thirds of
// all.
func mostOfServices(atOnce int) int { return max(1, (atOnce+mostHung(atOnce))*2/3) }

// running is one process and what it was asked for.
type running struct {
	link   *link
	end    func()
	atOnce int
	say    func(string)

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan result // nil: it has ended
	pinged  uint64                 // the id of a ping without an answer; 0: none
	watched bool                   // a timer asks it soon
	seen    uint64                 // the newest call when it was asked last
	stuck   int                    // times in a row that every call waited
}

type result struct {
	answer answer
	fds    []int
	err    error
}

// call has one thing done and waits for the answer. Whose process ends meanwhile is
// asked of the next one.
func (p *process) call(c call, fds ...int) (a answer, opened []int, err error) {
	defer p.enter(c.UID, c.at)()
	for range mostEnds {
		if a, opened, err = p.callOnce(&c, fds...); !errors.Is(err, ErrEnded) || !c.File.Repeatable() {
			break
		}
		c.File.Again = true
	}
	return a, opened, err
}

// callOnce is call of one process.
func (p *process) callOnce(c *call, fds ...int) (answer, []int, error) {
	r, err := p.get()
	if err != nil {
		return answer{}, nil, err
	}
	if done := r.await(c); done != nil {
		c.at.set(asked{running: r, id: c.ID})
		if err = r.link.send(c, fds...); err == nil {
			got := <-done
			return got.answer, got.fds, got.err
		}
		r.forget(c.ID)
		if !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			return answer{}, nil, err
		}
	}
	p.drop(r)
	return answer{}, nil, ErrEnded
}

// drop has the next call start another process.
func (p *process) drop(r *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == r {
		p.running = nil
	}
}

// get is the process, started if need be.
func (p *process) get() (*running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return p.running, nil
	}
	if wait := startEvery - time.Since(p.began); wait > 0 {
		time.Sleep(wait)
	}
	p.began = time.Now()
	fd, end, err := p.start()
	if err != nil {
		return nil, err
	}
	l, err := newLink(fd)
	if err != nil {
		end()
		return nil, err
	}
	r := &running{link: l, end: end, atOnce: p.atOnce, say: p.say, waiting: map[uint64]chan result{}}
	p.running = r
	go p.listen(r)
	return r, nil
}

// listen takes answers until the process has ended.
func (p *process) listen(r *running) {
	for {
		var a answer
		fds, err := r.link.receive(&a)
		if err != nil {
			break
		}
		r.answered(a, fds)
	}
	// First of all: who holds the lock may be waiting for the end of this one.
	r.link.conn.Close()
	r.end()
	p.drop(r)
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	for _, done := range waiting {
		done <- result{err: ErrEnded}
	}
}

// await gives a call its id, and the channel on which its result comes; nil: the
// process has ended.
func (r *running) await(c *call) chan result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		return nil
	}
	r.next++
	c.ID = r.next
	done := make(chan result, 1)
	r.waiting[c.ID] = done
	if !r.watched {
		r.watched = true
		time.AfterFunc(askEvery, r.watch)
	}
	return done
}

func (r *running) forget(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, id)
}

// answered passes an answer on.
func (r *running) answered(a answer, fds []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.ID == r.pinged {
		r.pinged = 0
	}
	done := r.waiting[a.ID]
	delete(r.waiting, a.ID)
	if done == nil {
		wire.CloseAll(fds)
	} else {
		done <- result{answer: a, fds: fds}
	}
}

// watch asks a process that owes answers whether it still lives, and ends one
// that does not say so, or whose calls have all waited for so long that what they
// wait for in the kernel keeps every other one waiting. Nobody is woken while
// nothing is asked.
func (r *running) watch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.watched, r.stuck = false, 0
		return
	}
	old := 0
	for id := range r.waiting {
		if id <= r.seen {
			old++
		}
	}
	if old < mostOfServices(r.atOnce) {
		r.stuck = 0
		r.seen = r.next
	} else {
		r.stuck++
	}
	if r.pinged != 0 || r.stuck > mostStuck {
		r.say("the process that touches the services' files does not answer; replaced")
		go func() {
			r.end()
			r.link.shut()
		}()
		return
	}
	r.next++
	r.pinged = r.next
	ping := call{ID: r.next, Kind: kindPing}
	go func() { _ = r.link.send(&ping) }() // an error is the listener's too
	time.AfterFunc(askEvery, r.watch)
}
