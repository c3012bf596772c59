package supervise

import (
	"slices"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/spawn"
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
		UID: d.prep.Policy.User.UID, GID: d.prep.Policy.User.GID, Groups: d.prep.Policy.User.Groups, Home: d.prep.Policy.User.Home,
	}
	of := service.Default("exec")
	own := uint32(0)
	if u != nil {
		d.loop.read(func() {
			of = u.definition
			if u.tag != 0 {
				answer.Groups = append(answer.Groups[:len(answer.Groups):len(answer.Groups)], u.tag)
			}
		})
		answer.Dir = of.WorkingDir
		if answer.Dir == "" && of.Profile != "" { // with a fault it has no definition
			answer.Dir = spawn.ProfileDir(d.prep.Config(), of.Profile)
		}
		if own, _, err = d.prep.OwnUser(of); err != nil {
			return answer, err
		}
		if id := d.prep.Identity(own, of); own != 0 {
			tag := answer.Groups[len(d.prep.Policy.User.Groups):]
			answer.UID, answer.GID, answer.Home = id.UID, id.GID, id.Home
			answer.Groups = append(slices.Clone(id.Groups), tag...)
		}
	}
	answer.Environment, err = d.prep.Environment(of, own)
	return answer, err
}
