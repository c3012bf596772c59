package supervise

import (
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/remember"
)

// memory is what a successor is to know of u.
func (u *unit) memory(state *machine.State, wants core.Wants) remember.Service {
	m := remember.Service{
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
	row := core.Row{Life: u.life, Version: u.life.Version()}
	if r.memory.Service(u.name, u.memory(u.state, u.life.Wants()), row) {
		r.fleet.apply(core.Input{Kind: core.Remembered, Rows: []core.Row{row}})
	}
}
