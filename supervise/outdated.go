package supervise

import (
	"slices"

	"rlminit/control"
)

// outdated is what of a run is older than the definition in force, which it has
// not got because nobody has restarted it yet: a rolling reload has not come to it,
// or was cancelled or interrupted. It is a part of what a successor is told.
// OUTDATED.md has the table.
type outdated struct {
	Run  uint64 `json:"run,omitempty"`  // whose it is; another run has the definition in force
	From []byte `json:"from,omitempty"` // fingerprint of the definition that it was begun with, or one as good
	Why  string `json:"why,omitempty"`  // what has changed since that takes a restart
}

// redefined is what follows when the definition in force becomes another while a
// run goes on; why is "" where that needs no restart.
func (o outdated) redefined(run uint64, from, to, why string) outdated {
	if o.Run != run { // it has what was in force until now
		if why == "" {
			return outdated{}
		}
		return outdated{run, []byte(from), why}
	}
	switch {
	case string(o.From) == to:
		return outdated{}
	case why != "":
		o.Why = why
	}
	return o
}

// older says why u's process is older than its definition; "" if it is not.
func (u *unit) older() string {
	if !u.active() || u.kept.outdated.Run != u.state.ID {
		return ""
	}
	return u.kept.outdated.Why
}

// older are the services of these names, or of all, that are still to be restarted
// for the definition in force, beside those that are about to be for a change.
func (s *desk) older(names []string, changes []control.Change) (list []control.Change) {
	s.loop.ask(func() {
		for _, u := range s.fleet.all() {
			named := len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return s.fleet.find(name) == u })
			changed := slices.ContainsFunc(changes, func(c control.Change) bool { return c.Service == u.name })
			if why := u.older(); why != "" && named && !changed && u.wanted() && u.fault == "" {
				list = append(list, control.Change{Service: u.name, Action: "restart", Why: "it still runs with the definition before: " + why})
			}
		}
	})
	return list
}
