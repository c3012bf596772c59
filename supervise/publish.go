package supervise

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"

	"rlminit/control"
	"rlminit/supervise/machine"
	"rlminit/supervise/slots"
	"rlminit/wire"
)

// saved is the content of status.json: the published state, and what a
// successor needs to go on from it.
type saved struct {
	control.Service
	Recorded bool           `json:"recorded"`
	Machine  *machine.State `json:"machine"`
}

// publication is a status to be written, and what is to be done when it is.
type publication struct {
	saved
	written []func()
}

// publisher writes status files.
type publisher struct {
	*newest[string, publication]
	slots   slots.Dir
	failing map[string]bool // whose status cannot be written, which is said once
}

func newPublisher(s slots.Dir) *publisher {
	p := &publisher{slots: s, failing: make(map[string]bool)}
	p.newest = newNewest(0, func(batch map[string]publication) map[string]publication {
		for name, next := range batch {
			p.writeStatus(name, next.saved)
			for _, then := range next.written {
				then()
			}
		}
		return nil
	})
	return p
}

// publish has the state written soon, and then calls written.
func (p *publisher) publish(name string, s saved, written func()) {
	p.put(name, func(waiting publication) publication {
		next := publication{saved: s, written: waiting.written}
		if written != nil {
			next.written = append(next.written, written)
		}
		return next
	})
}

func (p *publisher) writeStatus(name string, s saved) {
	content, err := json.Marshal(s)
	if err == nil {
		err = p.slots.Replace(name, slots.StatusFile, append(content, '\n'), 0o644)
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
					s.link.Send(&wire.Acknowledge{ID: e.id}, nil, nil)
				}
			}()
		}
	}
	s.publisher.publish(u.name, saved{Service: u.status(), Recorded: u.recorded, Machine: &state}, written)
}

// recall reads back the state that a predecessor published.
func (s *Supervisor) recall(name string) (saved, bool) {
	var was saved
	content, err := s.slots.Read(name, slots.StatusFile, slots.StatusMax)
	if err != nil || json.Unmarshal(content, &was) != nil || was.Machine == nil {
		return saved{}, false
	}
	return was, true
}
