package supervise

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/isolate"
	"rlminit/service"
	"rlminit/supervise/machine"
)

// Ready tells whether what is wanted is so: of the names, or of all. Then it is
// also about what nobody could be asked for: profiles of a volume that is another
// container's, or that cannot be read, or one whose name a service has.
func (s *backend) Ready(names []string) (health control.Health, err error) {
	health.Reasons = []string{}
	var units []*unit
	for _, name := range names {
		u, err := s.directory.lookUp(name)
		if err != nil {
			return health, err
		}
		units = append(units, u)
	}
	if len(names) == 0 {
		for _, why := range []string{s.directory.without(), s.directory.registry.Trouble()} {
			if why != "" {
				health.Missing = why
				health.Reasons = append(health.Reasons, why)
			}
		}
	}
	s.loop.read(func() {
		named := len(units) > 0
		if !named {
			units = s.fleet.all()
		}
		if !named {
			for _, u := range units {
				if u.shadowed {
					health.Missing = strings.TrimPrefix(health.Missing+"; "+u.fault, "; ")
					health.Reasons = append(health.Reasons, u.fault)
				}
			}
		}
		if !s.fleet.set.Booted() {
			health.Reasons = append(health.Reasons, "rlminit is still starting")
		}
		for _, u := range units {
			if why := u.unready(named); why != "" {
				health.Reasons = append(health.Reasons, u.title()+": "+why)
			}
		}
	})
	health.OK = len(health.Reasons) == 0
	return health, nil
}

// LostWalls are the walls between services that the configuration asks for and that
// cannot be had in this place, with the reason.
func (s *backend) LostWalls() (lost []string) {
	started, _ := s.prep.Settings.Started()
	if why := s.prep.Policy.Profiles.Why; s.prep.Policy.Profiles.Low == 0 && started.Gateway != nil && started.Gateway.OwnUsers() {
		lost = append(lost, "user: auto is not in force, and all profiles have one user: "+why)
	}
	able, without := isolate.Capable(), map[isolate.Level]int{}
	s.loop.read(func() {
		for _, u := range s.fleet.all() {
			without[u.definition.Isolation.Level]++
		}
	})
	for _, level := range slices.Sorted(maps.Keys(without)) {
		if why := able.Lack(level); why != "" {
			lost = append(lost, fmt.Sprintf("isolation: %s is not in force in full, for %d services: %s", level, without[level], why))
		}
	}
	return lost
}

// unready says why a service that is wanted, or was asked for by name, is not
// up; "" if it is.
func (u *unit) unready(named bool) string {
	up := u.state.Phase == machine.Running || u.state.Satisfies(u.policy()) ||
		u.state.Phase == machine.Exited && u.state.Verdict == machine.VerdictSuccess
	wanted := named || u.state.Want == machine.WantUp || u.desired() == service.Running
	switch {
	case u.fault != "" && wanted:
		return u.fault
	case u.state.Want != machine.WantUp && !named && !up:
		return ""
	case up && u.state.Health == machine.Unhealthy:
		return "unhealthy"
	case up:
		return ""
	}
	return u.plight()
}
