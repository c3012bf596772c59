package journal

import (
	"context"
	"fmt"
	"sync"
)

// Bounds of what waits for a slow disk.
const (
	maxBatch = 4 << 20 // bytes that are written at once, unless one request is larger
	maxNotes = 4096    // notes that wait; more are dropped, and counted
)

// request is what one caller wants recorded.
type request struct {
	kinds    []string
	bodies   [][]byte
	reserved bool // may use the reserve for a full disk
	note     bool // nobody waits
	told     func(line []byte)
	done     chan error
	first    uint64 // the sequence number of the first record, once done
}

// size is about how many bytes it takes in the journal.
func (r *request) size() int {
	n := 0
	for _, body := range r.bodies {
		n += len(body) + 160
	}
	return n
}

// queue is what waits for the writer.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	notes   int    // of those
	dropped uint64 // of these none was recorded yet that they were
	missed  uint64 // notes that were dropped, in all
	closed  bool
	wake    chan struct{} // has a token when something waits, or when closed
}

// Append records the entries, durably: when it returns nil, neither a crash nor
// a power cut undoes them, and the folds have them. It returns the sequence
// number of the first. An error means that nothing is recorded, unless it is
// ErrInDoubt. Each entry is whole or not there; several may be torn apart by a
// crash before the answer, and what must not be is one entry.
func (j *Journal) Append(ctx context.Context, entries ...Entry) (first uint64, err error) {
	return j.append(ctx, false, entries)
}

// AppendReserved is Append for what must be possible on a full disk: it may use
// the space that is allocated in advance for that.
func (j *Journal) AppendReserved(ctx context.Context, entries ...Entry) (first uint64, err error) {
	return j.append(ctx, true, entries)
}

// Note records an entry without waiting: it survives the supervisor, and a crash
// of the machine once something else was appended or the kernel has written it.
// On a disk that is full or does not answer it is dropped, and the next record
// says how many were.
func (j *Journal) Note(e Entry) {
	body, err := encodeBody(e)
	if err != nil {
		j.writer.say(err.Error())
		return
	}
	r := &request{kinds: []string{e.Type}, bodies: [][]byte{body}, note: true, told: e.Told}
	if !j.queue.put(r) {
		r.tell(nil)
	}
}

// Flush waits until the notes before it can be read.
func (j *Journal) Flush(ctx context.Context) {
	r := &request{done: make(chan error, 1)}
	if !j.queue.put(r) {
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

func (j *Journal) append(ctx context.Context, reserved bool, entries []Entry) (uint64, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	r := &request{reserved: reserved, done: make(chan error, 1)}
	for _, e := range entries {
		body, err := encodeBody(e)
		if err != nil {
			return 0, err
		}
		if len(body) > maxRecord {
			return 0, fmt.Errorf("cannot record a %s: it has %d KB, and a record at most %d", e.Type, len(body)>>10, maxRecord>>10)
		}
		r.kinds, r.bodies = append(r.kinds, e.Type), append(r.bodies, body)
	}
	if !j.queue.put(r) {
		return 0, ErrClosed
	}
	select {
	case err := <-r.done:
		return r.first, err
	case <-ctx.Done():
	}
	if j.queue.withdraw(r) {
		return 0, ctx.Err()
	}
	select {
	case err := <-r.done: // it came in between
		return r.first, err
	default:
		return 0, fmt.Errorf("%w; %w", ctx.Err(), ErrInDoubt)
	}
}

// tell tells of a note what became of it.
func (r *request) tell(line []byte) {
	if r.told != nil {
		r.told(line)
	}
}

// put adds a request; false: the journal is closed, or it is a note too many.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return false
	case r.note && q.notes >= maxNotes:
		q.dropped++
		q.missed++
		return false
	case r.note:
		q.notes++
	}
	q.waiting = append(q.waiting, r)
	q.rouse()
	return true
}

func (q *queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a request back that the writer has not begun with.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == r {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take waits for requests and returns those that are written together, and how
// many notes were dropped since. At the end of a closed queue it returns none.
func (q *queue) take() (batch []*request, dropped uint64) {
	for {
		q.mu.Lock()
		n, bytes := 0, 0
		for n < len(q.waiting) && (n == 0 || bytes+q.waiting[n].size() <= maxBatch) {
			bytes += q.waiting[n].size()
			if q.waiting[n].note {
				q.notes--
			}
			n++
		}
		batch, q.waiting = q.waiting[:n:n], q.waiting[n:]
		if len(q.waiting) == 0 {
			q.waiting = nil // written records need no memory
		}
		closed := q.closed
		if n > 0 {
			dropped, q.dropped = q.dropped, 0
		}
		q.mu.Unlock()
		if n > 0 || closed {
			return batch, dropped
		}
		<-q.wake
	}
}

// miss counts notes that could not be written.
func (q *queue) miss(n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += n
	q.missed += n
}

// lose takes back notes whose loss could not be written.
func (q *queue) lose(n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += n
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.rouse()
}
