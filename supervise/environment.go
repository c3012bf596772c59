package supervise

import (
	"slices"

	"rlminit/control"
	"rlminit/service"
)

// Environment is what `rlminit exec` needs to be like the service: the
// service user's for "", a profile's or a static service's by name.
func (s desk) Environment(name string) (answer control.Environment, err error) {
	answer = control.Environment{
		UID: s.policy.User.UID, GID: s.policy.User.GID, Groups: s.policy.User.Groups, Home: s.policy.User.Home, Dir: s.policy.User.Home,
	}
	d := service.Default("exec")
	own := uint32(0)
	if name != "" {
		u, err := s.directory.lookUp(name)
		if err != nil {
			return answer, err
		}
		s.ask(func() {
			d = u.definition
			if u.tag != 0 {
				answer.Groups = append(answer.Groups[:len(answer.Groups):len(answer.Groups)], u.tag)
			}
		})
		answer.Dir = d.WorkingDir
		if own, _, err = s.ownUser(d); err != nil {
			return answer, err
		}
		if id := s.identity(own, d); own != 0 {
			tag := answer.Groups[len(s.policy.User.Groups):]
			answer.UID, answer.GID, answer.Home = id.UID, id.GID, id.Home
			answer.Groups = append(slices.Clone(id.Groups), tag...)
		}
	}
	answer.Environment, err = s.environment(d, own)
	return answer, err
}
