// Package ports says which profile has which port. It touches no file and opens no socket.
package ports

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"sync"
)

// Range is the inclusive range that ports are taken from. Its zero value is
// no range at all: no profile has a port.
type Range struct{ First, Last int }

// Size is how many ports there are.
func (r Range) Size() int {
	if r.First < 1 || r.Last > 65535 || r.Last < r.First {
		return 0
	}
	return r.Last - r.First + 1
}

// Preferred is the port that name gets if it is free: the first plus the first
// 8 hex digits of SHA-256(name) modulo the size of the range.
func (r Range) Preferred(name string) int {
	sum := sha256.Sum256([]byte(name))
	return r.First + int(uint64(binary.BigEndian.Uint32(sum[:4]))%uint64(r.Size()))
}

// Book is which profile has which port. A port belongs to one profile at
// most, and a profile keeps its port until it is gone.
type Book struct {
	mu      sync.Mutex
	owner   map[int]string
	port    map[string]int
	pending map[string]int // claims of creations under way, which no scan sees yet
}

// New is a book without entries.
func New() *Book {
	return &Book{owner: map[int]string{}, port: map[string]int{}, pending: map[string]int{}}
}

// Copy is the same, for one who only wants to know what would be given.
func (p *Book) Copy() *Book {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &Book{owner: maps.Clone(p.owner), port: maps.Clone(p.port), pending: maps.Clone(p.pending)}
}

// Of is the port of name; 0: none.
func (p *Book) Of(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.port[name]
}

// Claim gives name this very port. It fails, and names the owner, if the port
// is another's; a name that has a port keeps it.
func (p *Book) Claim(name string, port int) (owner string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if has, found := p.port[name]; found {
		return name, has == port
	}
	if owner, taken := p.owner[port]; taken {
		return owner, owner == name
	}
	p.owner[port], p.port[name] = name, port
	return name, true
}

// Allot gives name the preferred port of the range, or the next free one; the
// end of the range is followed by its start, and what others than profiles have is left
// out. 0: the range is full.
func (p *Book) Allot(name string, r Range, held map[int]string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if has, found := p.port[name]; found {
		return has
	}
	n := r.Size()
	if n == 0 {
		return 0
	}
	start := r.Preferred(name) - r.First
	for i := range n {
		port := r.First + (start+i)%n
		if _, taken := p.owner[port]; !taken && held[port] == "" {
			p.owner[port], p.port[name] = name, port
			return port
		}
	}
	return 0
}

// Hold marks name's port as that of a creation under way; done with it, call
// the function that it returns, with whether the profile exists now. A port that name
// has already stays.
func (p *Book) Hold(name string) (done func(exists bool)) {
	p.mu.Lock()
	_, had := p.port[name]
	p.pending[name]++
	p.mu.Unlock()
	return func(exists bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pending[name]--; p.pending[name] == 0 {
			delete(p.pending, name)
		}
		if !exists && !had {
			p.drop(name)
		}
	}
}

// Settled lists the names that have a port and are not being created.
func (p *Book) Settled() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.port))
	for name := range p.port {
		if p.pending[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Release frees name's port.
func (p *Book) Release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending[name] == 0 {
		p.drop(name)
	}
}

func (p *Book) drop(name string) {
	if port, found := p.port[name]; found {
		delete(p.owner, port)
		delete(p.port, name)
	}
}
