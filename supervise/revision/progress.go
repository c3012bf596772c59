package revision

import (
	"maps"
	"slices"
	"sync"
)

// progress is that of the revision under way, for its waiting callers.
type progress struct {
	mu      sync.Mutex
	version uint64
	changed chan struct{}  // closed when version grows
	held    map[int]string // by step of the one under way, or wholeOfIt: why it waits
}

// wholeOfIt is the key in held of messages about no single step.
const wholeOfIt = -1

// hold notes why a step of the revision under way, or all of it, waits; "": it goes on.
func (p *progress) hold(step int, why string) {
	p.mu.Lock()
	same := p.held[step] == why
	if p.held[step] = why; why == "" {
		delete(p.held, step)
	}
	p.mu.Unlock()
	if !same {
		p.bump()
	}
}

// heldUp is why the revision under way waits, the whole before any step; "": it does not.
func (p *progress) heldUp() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, step := range slices.Sorted(maps.Keys(p.held)) {
		return p.held[step]
	}
	return ""
}

// bump tells waiting callers of a change.
func (p *progress) bump() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	close(p.changed)
	p.changed = make(chan struct{})
}

// seen is the version now, and a channel that is closed with the next.
func (p *progress) seen() (uint64, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.changed
}
