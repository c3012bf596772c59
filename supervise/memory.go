package supervise

import (
	"encoding/json"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/publish"
)

// memory is what a successor is to know of a service, and cannot learn from tier
// 1's table or from the volume. It is kept in a file that tier 1 holds, and no process
// is started of which that does not know.
type memory struct {
	Profile    string         `json:"profile,omitempty"`
	Recorded   bool           `json:"recorded,omitempty"`
	Desired    service.Intent `json:"desired,omitempty"`
	Before     service.Intent `json:"before,omitempty"`     // what Desired was, where what follows from it is yet to begin
	Commanded  bool           `json:"commanded,omitempty"`  // as in kept
	Owed       bool           `json:"owed,omitempty"`       // as in core.Wants
	Definition []byte         `json:"definition,omitempty"` // fingerprint of the one in force
	Outdated   *outdated      `json:"outdated,omitempty"`
	Machine    machine.State  `json:"machine"`
}

// servicesUnder is where services are in what a successor is to know; stateMax is what
// there may be of one, in bytes.
const (
	servicesUnder = "service/"
	stateMax      = 2 << 10
)

func (u *unit) memory(state *machine.State, wants core.Wants) memory {
	m := memory{
		Profile: u.definition.Profile, Recorded: u.recorded, Desired: wants.Desired, Before: wants.Before, Commanded: u.kept.commanded, Owed: wants.Owed,
		Definition: []byte(u.fingerprint), Machine: *state,
	}
	if u.older() != "" {
		m.Outdated = &u.kept.outdated
	}
	return m
}

// keepState keeps what a successor is to know of u. It is called after each change
// of that, before anything is done or said that follows from it.
func (r *records) keepState(u *unit) {
	lost := u.kept.unsaved
	if r.remember(u, u.state, u.life.Wants()) && lost {
		r.fleet.apply(core.Input{Kind: core.Remembered, Rows: []core.Row{{Life: u.life, Version: u.life.Version()}}})
	}
}

// remember is keepState with a state of u that may have been followed by another, which
// is yet to be remembered. false: it could not be; that is tried again, and told then.
func (r *records) remember(u *unit, state *machine.State, wants core.Wants) bool {
	m := u.memory(state, wants)
	err := r.table.Put(servicesUnder+u.name, m.encode())
	if u.kept.unsaved && err == nil {
		slog.Info("a successor will know of a service again", "service", u.name)
	}
	if err != nil && !u.kept.unsaved {
		slog.Error("a successor would not know of a service; tried again until it can", "service", u.name, "err", err)
	}
	if u.kept.unsaved = err != nil; u.kept.unsaved {
		time.AfterFunc(publish.Again, func() {
			r.loop.do(func() {
				if u.kept.unsaved && r.fleet.units[u.name] == u {
					r.keepState(u)
				}
			})
		})
	}
	return err == nil
}

// encode is the memory in at most stateMax bytes: what is for people to read is cut
// first, then the times of starts but for the latest.
func (m memory) encode() []byte {
	for text := stateMax; ; text /= 2 {
		b, err := json.Marshal(m)
		if err != nil || len(b) <= stateMax || text == 0 {
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

// recalled is what a predecessor kept, by service.
func (r *records) recalled() map[string]memory {
	all := map[string]memory{}
	var unread error
	for name, text := range r.table.Under(servicesUnder) {
		var m memory
		if err := json.Unmarshal(text, &m); err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		all[name] = m
	}
	if unread != nil {
		slog.Error("what a predecessor knew of services cannot be read; what runs is taken over as it is", "err", unread)
	}
	return all
}

func (r *records) forgetState(name string) {
	if err := r.table.Delete(servicesUnder + name); err != nil {
		slog.Warn("a successor will look for a service that is gone", "service", name, "err", err)
	}
}
