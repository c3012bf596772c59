package supervise

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	"rlminit/control"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// saved is the content of status.json: the published state, and what a
// successor needs to go on from it.
type saved struct {
	control.Service
	Recorded bool           `json:"recorded"`
	Tag      uint32         `json:"tag"`
	Machine  *machine.State `json:"machine"`
}

// publication is a status to be written, and what is to be done when it is.
type publication struct {
	saved
	written []func()
}

// publisher writes status files beside the loop. Of several states of one
// service that wait to be written only the newest is.
type publisher struct {
	slots slots

	mu      sync.Mutex
	waiting map[string]publication
	wake    chan struct{}
	idle    *sync.Cond
	busy    bool

	failing map[string]bool // whose status cannot be written, which is said once; run's alone
}

func newPublisher(s slots) *publisher {
	p := &publisher{slots: s, waiting: make(map[string]publication), wake: make(chan struct{}, 1), failing: make(map[string]bool)}
	p.idle = sync.NewCond(&p.mu)
	go p.run()
	return p
}

// publish has the state written soon, and then calls written.
func (p *publisher) publish(name string, s saved, written func()) {
	p.mu.Lock()
	next := publication{saved: s, written: p.waiting[name].written}
	if written != nil {
		next.written = append(next.written, written)
	}
	p.waiting[name] = next
	p.busy = true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// flush waits until everything published so far is written.
func (p *publisher) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy {
		p.idle.Wait()
	}
}

func (p *publisher) run() {
	for range p.wake {
		for {
			p.mu.Lock()
			batch := p.waiting
			if len(batch) == 0 {
				p.busy = false
				p.idle.Broadcast()
				p.mu.Unlock()
				break
			}
			p.waiting = make(map[string]publication)
			p.mu.Unlock()
			for name, next := range batch {
				p.write(name, next.saved)
				for _, then := range next.written {
					then()
				}
			}
		}
	}
}

func (p *publisher) write(name string, s saved) {
	content, err := json.Marshal(s)
	if err == nil {
		err = p.slots.replace(name, statusFile, append(content, '\n'), 0o644)
	}
	if err == nil {
		delete(p.failing, name)
	} else if !errors.Is(err, fs.ErrNotExist) && !p.failing[name] {
		p.failing[name] = true
		slog.Warn("cannot publish the status of a service", "service", name, "err", err)
	}
}

// publishStatus has u's status written. An exit is acknowledged only when both
// the status and the log know of it: or a successor might learn of it nowhere.
func (s *Supervisor) publishStatus(u *unit) {
	state := u.state
	var written func()
	if len(u.ended) > 0 {
		type end struct {
			id     uint64
			marked <-chan struct{} // nil: there is no log
		}
		var ends []end
		for _, id := range u.ended {
			ends = append(ends, end{id, u.marks[id]})
			delete(u.marks, id)
		}
		u.ended = nil
		written = func() {
			go func() {
				for _, e := range ends {
					if e.marked != nil {
						<-e.marked
					}
					s.link.send(&wire.Acknowledge{ID: e.id}, nil, nil)
				}
			}()
		}
	}
	s.publisher.publish(u.name, saved{Service: u.status(), Recorded: u.recorded, Tag: u.tag, Machine: &state}, written)
}

// recall reads back the state that a predecessor published.
func (s *Supervisor) recall(name string) (saved, bool) {
	var was saved
	content, err := s.slots.read(name, statusFile, statusMax)
	if err != nil || json.Unmarshal(content, &was) != nil || was.Machine == nil {
		return saved{}, false
	}
	return was, true
}
