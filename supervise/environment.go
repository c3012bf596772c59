package supervise

import (
	"slices"

	"rlminit/control"
	"rlminit/service"
)

// Environment is what `rlminit exec` needs to be like the service: the
// service user's for "", a profile's or a static service's by name.
func (d *directory) Environment(name string) (answer control.Environment, err error) {
	if name == "" {
		return d.environmentOf(nil)
	}
	u, err := d.lookUp(name)
	if err != nil {
		return answer, err
	}
	return d.environmentOf(u)
}

// environmentOf is that of a unit; nil: of the service user.
func (d *directory) environmentOf(u *unit) (answer control.Environment, err error) {
	answer = control.Environment{
		UID: d.prep.policy.User.UID, GID: d.prep.policy.User.GID, Groups: d.prep.policy.User.Groups, Home: d.prep.policy.User.Home,
	}
	of := service.Default("exec")
	own := uint32(0)
	if u != nil {
		d.loop.ask(func() {
			of = u.definition
			if u.tag != 0 {
				answer.Groups = append(answer.Groups[:len(answer.Groups):len(answer.Groups)], u.tag)
			}
		})
		answer.Dir = of.WorkingDir
		if answer.Dir == "" && of.Profile != "" { // with a fault it has no definition
			answer.Dir = profileDir(d.prep.config(), of.Profile)
		}
		if own, _, err = d.prep.ownUser(of); err != nil {
			return answer, err
		}
		if id := d.prep.identity(own, of); own != 0 {
			tag := answer.Groups[len(d.prep.policy.User.Groups):]
			answer.UID, answer.GID, answer.Home = id.UID, id.GID, id.Home
			answer.Groups = append(slices.Clone(id.Groups), tag...)
		}
	}
	answer.Environment, err = d.prep.environment(of, own)
	return answer, err
}
