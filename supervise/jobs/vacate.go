package jobs

import (
	"fmt"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/job"
)

// named makes of what a person calls a profile its name; "" stays.
func (r *Runner) named(profile *string) (err error) {
	if *profile != "" {
		*profile, err = r.host.Canonical(*profile)
	}
	return err
}

// vacant refuses what would begin for a profile that is on its way out.
func (r *Runner) vacant(profile string) error {
	if r.closed[profile] > 0 {
		return control.Conflict("profile %q is being deleted or renamed; nothing of it is started meanwhile", profile)
	}
	return nil
}

// shut has nothing begin of a profile until release is called. Only the runner's
// goroutine calls it.
func (r *Runner) shut(profile string) (release func()) {
	r.closed[profile]++
	return func() {
		r.do(func() {
			if r.closed[profile]--; r.closed[profile] == 0 {
				delete(r.closed, profile)
			}
		})
	}
}

// owns is what a profile has: jobs that are not over, and sessions that are open.
func (r *Runner) owns(profile string) (tasks []*task, sessions []string) {
	for _, t := range r.ordered() {
		if t.request.Profile == profile && t.kind != kindInternal && t.state.Outcome == "" {
			tasks = append(tasks, t)
		}
	}
	for id, s := range r.sessions {
		if s.profile == profile {
			sessions = append(sessions, id)
		}
	}
	slices.SortFunc(sessions, job.Compare)
	return tasks, sessions
}

// Vacate ends the sessions and the jobs of a profile, and returns when they are
// over, as JOBS.md says. Until release is called nothing of it begins.
func (r *Runner) Vacate(profile, cause string) (release func()) {
	var tasks []*task
	var sessions []string
	r.ask(func() {
		release = r.shut(profile)
		tasks, sessions = r.owns(profile)
		for _, t := range tasks {
			r.cancel(t, cause)
		}
	})
	for _, id := range sessions {
		_ = r.EndSession(id, cause) // its directory goes along with the profile's
	}
	for _, t := range tasks {
		<-t.done
	}
	return release
}

// Reserve has nothing begin of a profile until release is called, or says which
// jobs and sessions it has: to be renamed is no reason to end them.
func (r *Runner) Reserve(profile, what string) (release func(), err error) {
	r.ask(func() {
		tasks, sessions := r.owns(profile)
		if len(tasks) == 0 && len(sessions) == 0 {
			release = r.shut(profile)
			return
		}
		var has, end []string
		if len(tasks) > 0 {
			ids := make([]string, len(tasks))
			for i, t := range tasks {
				ids[i] = t.id
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
