package logs

import (
	"errors"
	"slices"
	"sync"
)

// bell tells a reader which logs have grown.
type bell struct {
	rung chan struct{}

	mu    sync.Mutex
	grown map[string]struct{}
}

func newBell() *bell {
	return &bell{rung: make(chan struct{}, 1), grown: map[string]struct{}{}}
}

func (b *bell) ring(name string) {
	b.mu.Lock()
	b.grown[name] = struct{}{}
	b.mu.Unlock()
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// names returns the logs that have grown since the last call.
func (b *bell) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for name := range b.grown {
		all = append(all, name)
	}
	clear(b.grown)
	slices.Sort(all)
	return all
}

// bells are those of all who follow; the collector's.
type bells []*bell

// grew rings them.
func (all bells) grew(name string) {
	for _, b := range all {
		b.ring(name)
	}
}

// watch has a bell rung until stop is called.
func (c *Collector) watch(b *bell) (stop func(), err error) {
	if !c.inbox.ask(func() { c.bells = append(c.bells, b) }) {
		return nil, errors.New("cannot follow the log: the collector has ended")
	}
	return func() {
		c.inbox.Put(func() {
			c.bells = slices.DeleteFunc(c.bells, func(other *bell) bool { return other == b })
		})
	}, nil
}
