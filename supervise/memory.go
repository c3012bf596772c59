package supervise

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// memory is what a successor is to know of a service, and cannot learn from tier
// 1's table or from the volume. It is kept in a file that tier 1 holds, and as of
// the last spawn it is the label of that: tier 1 has it as soon as the process.
type memory struct {
	Profile    string         `json:"profile,omitempty"`
	Recorded   bool           `json:"recorded,omitempty"`
	Desired    service.Intent `json:"desired,omitempty"`
	Before     service.Intent `json:"before,omitempty"`     // what Desired was, where what follows from it is yet to begin
	Commanded  bool           `json:"commanded,omitempty"`  // as in kept
	Owed       bool           `json:"owed,omitempty"`       // likewise
	Definition []byte         `json:"definition,omitempty"` // fingerprint of the one in force
	Outdated   *outdated      `json:"outdated,omitempty"`
	Machine    machine.State  `json:"machine"`
}

// labelMax is the longest label that tier 1 takes, in bytes.
const labelMax = 4 << 10

func (u *unit) memory() memory {
	m := memory{
		Profile: u.definition.Profile, Recorded: u.recorded, Desired: u.desired, Before: u.kept.before, Commanded: u.kept.commanded, Owed: u.kept.owed,
		Definition: []byte(u.fingerprint), Machine: *u.state,
	}
	if u.older() != "" {
		m.Outdated = &u.kept.outdated
	}
	return m
}

// keepState keeps what a successor is to know of u. It is called after each change
// of that, before anything is done or said that follows from it.
func (r *records) keepState(u *unit) { r.remember(u, u.state) }

// remember is keepState with a state of u that may have been followed by another, which
// is yet to be remembered.
func (r *records) remember(u *unit, state *machine.State) {
	u.kept.intended = false
	m := u.memory()
	m.Machine = *state
	err := r.states.Save(u.name, m.encode(handover.StateMax-len(u.name)))
	if u.kept.unsaved && err == nil {
		slog.Info("a successor will know of a service again", "service", u.name)
	}
	if err != nil && !u.kept.unsaved {
		slog.Error("a successor would not know of a service; tried again until it can", "service", u.name, "err", err)
	}
	if u.kept.unsaved = err != nil; u.kept.unsaved {
		time.AfterFunc(writeAgain, func() {
			r.loop.do(func() {
				if u.kept.unsaved && r.fleet.units[u.name] == u {
					r.keepState(u)
					r.acknowledge(u)
				}
			})
		})
	}
}

// acknowledge has tier 1 forget the ends of u's runs, when the log knows of them
// too: or a successor might learn of one nowhere.
func (r *records) acknowledge(u *unit) {
	if len(u.kept.ended) == 0 || u.kept.unsaved {
		return
	}
	type end struct {
		id     uint64
		marked <-chan struct{} // nil: there is no log
	}
	var ends []end
	for _, id := range u.kept.ended {
		ends = append(ends, end{id, u.output.marks[id]})
		delete(u.output.marks, id)
	}
	u.kept.ended = nil
	go func() {
		for _, e := range ends {
			if e.marked != nil {
				<-e.marked
			}
			r.tier1.link.Send(&wire.Acknowledge{ID: e.id}, nil, nil)
		}
	}()
}

// encode is the memory in at most so many bytes: what is for people to read is cut
// first, then the times of starts but for the latest.
func (m memory) encode(most int) []byte {
	for text := most; ; text /= 2 {
		b, err := json.Marshal(m)
		if err != nil || len(b) <= most || text == 0 {
			return b
		}
		state := &m.Machine
		for _, s := range []*string{
			&state.Text, &state.Reason, &state.Cause, &state.Blocked, &state.NotReady, &state.StopReason, &state.LastWords,
		} {
			*s = cut(*s, text/8)
		}
		if m.Outdated != nil {
			m.Outdated = &outdated{m.Outdated.Run, m.Outdated.From, cut(m.Outdated.Why, text/8)}
		}
		state.Starts = state.Starts[max(0, len(state.Starts)-text/32):]
	}
}

// cut is the beginning of s, of at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// recalled is what a predecessor kept, by service. Of one that it could not keep,
// what went along with its last spawn.
func (r *records) recalled() map[string]memory {
	all := map[string]memory{}
	var unread error
	for _, left := range r.states.Left() {
		var m memory
		if err := json.Unmarshal(left.Text, &m); err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		all[left.Name] = m
	}
	for name, children := range r.tier1.children {
		if _, known := all[name]; known || len(children) == 0 {
			continue
		}
		newest := slices.MaxFunc(children, func(a, b wire.Child) int { return cmp.Compare(a.ID, b.ID) })
		var m memory
		if json.Unmarshal(newest.Label, &m) == nil && m.Machine.ID == newest.ID {
			all[name] = m
		}
	}
	if unread != nil {
		slog.Error("what a predecessor knew of services cannot be read; what runs is taken over as it is", "err", unread)
	}
	return all
}

func (r *records) forgetState(name string) {
	if err := r.states.Forget(name); err != nil {
		slog.Warn("a successor will look for a service that is gone", "service", name, "err", err)
	}
}
