package profiles

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"sync"
)

// PortRange is the inclusive range that ports are taken from. Its zero value is
// no range at all: no profile has a port.
type PortRange struct{ First, Last int }

func (r PortRange) size() int {
	if r.First < 1 || r.Last > 65535 || r.Last < r.First {
		return 0
	}
	return r.Last - r.First + 1
}

// preferred is the port that name gets if it is free: the first plus the first
// 8 hex digits of SHA-256(name) modulo the size of the range.
func (r PortRange) preferred(name string) int {
	sum := sha256.Sum256([]byte(name))
	return r.First + int(uint64(binary.BigEndian.Uint32(sum[:4]))%uint64(r.size()))
}

// ports says which profile has which port. A port belongs to one profile at
// most, and a profile keeps its port until it is gone.
type ports struct {
	mu      sync.Mutex
	owner   map[int]string
	port    map[string]int
	pending map[string]int // claims of creations under way, which no scan sees yet
}

func newPorts() *ports {
	return &ports{owner: map[int]string{}, port: map[string]int{}, pending: map[string]int{}}
}

// copy is the same, for one who only wants to know what would be given.
func (p *ports) copy() *ports {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &ports{owner: maps.Clone(p.owner), port: maps.Clone(p.port), pending: maps.Clone(p.pending)}
}

// of is the port of name; 0: none.
func (p *ports) of(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.port[name]
}

// claim gives name this very port. It fails, and names the owner, if the port
// is another's; a name that has a port keeps it.
func (p *ports) claim(name string, port int) (owner string, ok bool) {
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

// allot gives name the preferred port of the range, or the next free one; the
// end of the range is followed by its start, and what others than profiles have is left
// out. 0: the range is full.
func (p *ports) allot(name string, r PortRange, held map[int]string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if has, found := p.port[name]; found {
		return has
	}
	n := r.size()
	if n == 0 {
		return 0
	}
	start := r.preferred(name) - r.First
	for i := range n {
		port := r.First + (start+i)%n
		if _, taken := p.owner[port]; !taken && held[port] == "" {
			p.owner[port], p.port[name] = name, port
			return port
		}
	}
	return 0
}

// hold marks name's port as that of a creation under way; done with it, call
// the function that it returns, with whether the profile exists now. A port that name
// has already stays.
func (p *ports) hold(name string) (done func(exists bool)) {
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

// settled lists the names that have a port and are not being created.
func (p *ports) settled() []string {
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

// release frees name's port.
func (p *ports) release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending[name] == 0 {
		p.drop(name)
	}
}

func (p *ports) drop(name string) {
	if port, found := p.port[name]; found {
		delete(p.owner, port)
		delete(p.port, name)
	}
}

// wanted is the port that a creation asks for: an import has that of its profile
// again, if it is one of ours and free.
func (p *ports) wanted(name string, how Creation, settings *Settings) int {
	r := settings.beginning(how.Kind).Range
	if how.Port != 0 || how.Import == nil || how.Import.Port < r.First || how.Import.Port > r.Last || settings.Held[how.Import.Port] != "" {
		return how.Port
	}
	if _, free := p.claim(name, how.Import.Port); !free {
		return 0
	}
	return how.Import.Port
}

// check refuses a port that was asked for and that no profile is to have.
func (how *Creation) check(settings *Settings) error {
	r := settings.beginning(how.Kind).Range
	switch port := how.Port; {
	case port == 0:
		return nil
	case port < 0 || port > 65535:
		return refuse(ErrValue, "port %d is not in 1-65535", port)
	case settings.Held[port] != "":
		return refuse(ErrPortTaken, "port %d belongs to %s; choose another, or leave out --port", port, settings.Held[port])
	case !how.PortAny && r.size() > 0 && (port < r.First || port > r.Last):
		key := "gateway.ports"
		if _, other := settings.Kinds[how.Kind]; other {
			key = "gateways." + how.Kind + ".ports"
		}
		return refuse(ErrValue, "port %d is not in %s, %d-%d; choose one of those, or add --port-any", port, key, r.First, r.Last)
	}
	return nil
}

// take gives name the port asked for, or one of the range.
func (p *ports) take(name string, port int, r PortRange, settings *Settings, told *told) (int, error) {
	if port == 0 {
		port = p.allot(name, r, settings.Held)
		if port == 0 && r.size() > 0 {
			told.once(fullRange(name, r))
		}
		return port, nil
	}
	if owner, ok := p.claim(name, port); !ok {
		if owner == name {
			return 0, refuse(ErrExists, "profile %q has port %d; a port stays with its profile", name, p.of(name))
		}
		return 0, refuse(ErrPortTaken, "port %d belongs to profile %q; choose another, or leave out --port", port, owner)
	}
	return port, nil
}
