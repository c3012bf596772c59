package supervise

import (
	"slices"

	"rlminit/control"
)

// older says why u's process is older than its definition; "" if it is not.
func (u *unit) older() string {
	if !u.active() || u.kept.outdated.Run != u.state.ID {
		return ""
	}
	return u.kept.outdated.Why
}

// older are the services of these names, or of all, that are still to be restarted
// for the definition in force, beside those that are about to be for a change.
func (s *backend) older(names []string, changes []control.Change) (list []control.Change) {
	s.loop.read(func() {
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
