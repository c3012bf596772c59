package jobs

import "sync"

// loop is the runner's goroutine, and the way to it. What is said to be that
// goroutine's alone is touched in functions that are given to the loop, and they
// never wait.
type loop struct {
	mu    sync.Mutex // for inbox; never held while something is waited for
	inbox []func()
	wake  chan struct{}
}

func newLoop() *loop { return &loop{wake: make(chan struct{}, 1)} }

// do has f run by the goroutine. It never waits.
func (l *loop) do(f func()) {
	l.mu.Lock()
	l.inbox = append(l.inbox, f)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// ask has f run and waits until it was.
func (l *loop) ask(f func()) {
	done := make(chan struct{})
	l.do(func() {
		defer close(done)
		f()
	})
	<-done
}

func (l *loop) run() {
	for range l.wake {
		for {
			l.mu.Lock()
			batch := l.inbox
			l.inbox = nil
			l.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			for _, f := range batch {
				f()
			}
		}
	}
}
