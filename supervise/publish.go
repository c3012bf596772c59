package supervise

import "rlminit/supervise/publish"

// publishStatus has u's status written.
func (r *records) publishStatus(u *unit) {
	r.publisher.Put(u.name, publish.Status{Service: u.status(), MainPID: u.state.MainPID})
}
