package jobs

import (
	"fmt"
	"strings"

	"rlminit/control"
	"rlminit/internal/inbox"
)

// doors are the profiles of which nothing begins, for how many reasons. They are
// the runner's goroutine's alone.
//
// Invariant: there is no zero in shut.
type doors struct {
	loop inbox.Work
	shut map[string]int
}

// vacant refuses what would begin for a profile that is on its way out.
func (d *doors) vacant(profile string) error {
	if d.shut[profile] > 0 {
		return control.Conflict("profile %q is being deleted or renamed; nothing of it is started meanwhile", profile)
	}
	return nil
}

// close has nothing begin of a profile until release is called, by anybody.
func (d *doors) close(profile string) (release func()) {
	d.shut[profile]++
	return func() {
		d.loop.Do(func() {
			if d.shut[profile]--; d.shut[profile] == 0 {
				delete(d.shut, profile)
			}
		})
	}
}

// owns is what a profile has: jobs that are not over, and sessions that are open.
func (r *Runner) owns(profile string) (tasks []*task, sessions []string) {
	return r.tasks.which(func(t *task) bool {
		return ownerOf(&t.spec.Request) == Owner{Profile: profile} && t.state.Outcome == ""
	}), r.sessions.ofProfile(profile)
}

// Vacate ends the sessions and the jobs of a profile, and returns when they are
// over, as JOBS.md says. Until release is called nothing of it begins.
func (r *Runner) Vacate(profile, cause string) (release func()) {
	var tasks []*task
	var sessions []string
	r.loop.Ask(func() {
		release = r.doors.close(profile)
		tasks, sessions = r.owns(profile)
		for _, t := range tasks {
			r.cancel(t, cause)
		}
	})
	for _, id := range sessions {
		_ = r.sessions.end(id, cause) // its directory goes along with the profile's
	}
	for _, t := range tasks {
		<-t.outcome.done
	}
	return release
}

// Reserve has nothing begin of a profile until release is called, or says which
// jobs and sessions it has: to be renamed is no reason to end them.
func (r *Runner) Reserve(profile, what string) (release func(), err error) {
	r.loop.Ask(func() {
		tasks, sessions := r.owns(profile)
		if len(tasks) == 0 && len(sessions) == 0 {
			release = r.doors.close(profile)
			return
		}
		var has, end []string
		if len(tasks) > 0 {
			ids := make([]string, len(tasks))
			for i, t := range tasks {
				ids[i] = t.spec.ID
			}
			has, end = append(has, "job "+listed(ids)), append(end, "rlminit job cancel "+ids[0])
		}
		if len(sessions) > 0 {
			has, end = append(has, "session "+listed(sessions)), append(end, "rlminit session end "+sessions[0])
		}
		err = control.Conflict("profile %q cannot be %s: it has %s; end that first, such as with %s",
			profile, what, strings.Join(has, " and "), strings.Join(end, " and "))
	})
	return release, err
}

// listed are the first of some numbers.
func listed(ids []string) string {
	const most = 5
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}
