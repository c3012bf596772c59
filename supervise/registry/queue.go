package registry

import "sync"

// queue is the goroutine that owns every name, and what it is to do: one thing after
// the other, in the order in which it was asked for. Anybody may ask but itself.
type queue struct {
	mu      sync.Mutex
	waiting []func()
	wake    chan struct{} // nil: closed
	begun   bool          // the goroutine is there
}

// start has first done before all that waits, and from then on what is asked for.
func (q *queue) start(first func()) {
	done := make(chan struct{})
	q.mu.Lock()
	q.waiting = append([]func(){func() { first(); close(done) }}, q.waiting...)
	if !q.begun {
		go q.run(q.wake)
	}
	q.begun = true
	q.nudge()
	q.mu.Unlock()
	<-done
}

// started tells whether the goroutine is there.
func (q *queue) started() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begun
}

// close ends the goroutine.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.wake)
	q.wake = nil
}

// run is the goroutine. As a rule it lives as long as the process.
func (q *queue) run(wake <-chan struct{}) {
	for range wake {
		for {
			q.mu.Lock()
			waiting := q.waiting
			q.waiting = nil
			q.mu.Unlock()
			if len(waiting) == 0 {
				break
			}
			for _, f := range waiting {
				f()
			}
		}
	}
}

// post has f carried out some time. It never waits.
func (q *queue) post(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, f)
	q.nudge()
}

// nudge wakes the goroutine. The caller holds q.mu.
func (q *queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// ask has f carried out and waits until it was.
func (q *queue) ask(f func()) {
	done := make(chan struct{})
	q.post(func() {
		defer close(done)
		f()
	})
	<-done
}
