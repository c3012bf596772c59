package loop

import "rlminit/supervise/jobs"

// jobRunner is the runner of jobs, as the loop has it go on and end.
type jobRunner struct {
	*jobs.Runner // nil: there are no jobs, in a simulation

	loop *mailbox
	left bool   // the container is stopping, and jobs are not over yet
	over func() // called when they are
}

// LeftOfJobs takes what a predecessor left of jobs, and tells whether the container stops.
func (l *Loop) LeftOfJobs() (held map[string][]int, stopping bool) {
	held = map[string][]int{}
	l.ask(func() {
		for _, key := range jobs.Keys(l.tier1.Held) {
			held[key] = l.tier1.Held.Take(key)
		}
		stopping = l.fleet.set.Stopping()
	})
	return held, stopping
}

// reschedule tells that a schedule of u has come, gone or changed.
func (j *jobRunner) reschedule(u *unit) {
	if j.Runner != nil && (u.definition.Schedule != nil || len(u.definition.Schedules) > 0) {
		j.Rescheduled()
	}
}

// turned tells of schedules that count while u is to run, if that has changed.
func (j *jobRunner) turned(u *unit) {
	if len(u.definition.Schedules) > 0 && u.kept.scheduling != u.wanted() {
		u.kept.scheduling = u.wanted()
		j.reschedule(u)
	}
}

// prolonged moves the deadlines of u's jobs on with its own.
func (j *jobRunner) prolonged(u *unit, at int64) {
	if j.Runner != nil {
		j.Prolonged(jobs.OwnerOf(u.definition.Profile, u.name), at)
	}
}

// stop ends every job, which is recorded as interrupted.
func (j *jobRunner) stop() {
	if j.Runner == nil {
		return
	}
	j.left = true
	j.Shutdown(func() {
		j.loop.do(func() {
			j.left = false
			j.over()
		})
	})
}
