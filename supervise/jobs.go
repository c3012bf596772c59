package supervise

import (
	"rlminit/config"
	"rlminit/supervise/jobs"
	"rlminit/supervise/spawn"
)

// jobRunner is the runner of jobs, as the loop and the boot have it go on and end.
type jobRunner struct {
	*jobs.Runner // nil: there are no jobs, in a simulation

	loop    *mailbox
	tier1   *spawn.Tier1
	fleet   *fleet
	records *records

	left bool   // the container is stopping, and jobs are not over yet; the loop's
	over func() // called by the loop when they are
}

// employ has a runner run jobs, and hooks. What a predecessor left of them is theirs.
func (j *jobRunner) employ(r *jobs.Runner, hooks func() []config.Hook) {
	j.Runner = r
	j.records.volume.Journal.Hooks = jobs.NewHooks(hooks)
	j.tier1.Host(r)
}

// start has the runner go on with what was left, and take what comes.
func (j *jobRunner) start(scheduled func() []jobs.Scheduled) {
	if j.Runner == nil {
		return
	}
	held := map[string][]int{}
	stopping := false
	j.loop.ask(func() {
		for _, key := range jobs.Keys(j.tier1.Held) {
			held[key] = j.tier1.Held.Take(key)
		}
		stopping = j.fleet.set.Stopping()
	})
	j.Start(j.records.volume.Journal.JobRecords(), held, stopping)
	j.Schedules(scheduled)
	go j.records.volume.Journal.Hooks.Run(j.Runner)
}

// record has jobs recorded on the volume, if it is ours, or not any more, if it was. What
// waits begins with open.
func (j *jobRunner) record() {
	if j.Runner != nil {
		j.Use(j.records.volume.Journal.JobRecords())
	}
}

// open has those begin that wait, now that every profile is known.
func (j *jobRunner) open() {
	if j.Runner != nil {
		j.Open()
	}
}

// reschedule tells that u's schedule has come, gone or changed. Only the loop calls it.
func (j *jobRunner) reschedule(u *unit) {
	if j.Runner != nil && u.definition.Schedule != nil {
		j.Rescheduled()
	}
}

// stop ends every job, which is recorded as interrupted. Only the loop calls it.
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

// spawns is serve.Spawns.
type spawns struct {
	*spawn.Tier1
	jobs *jobRunner
}

func (s spawns) NewID() uint64 { return s.Tier1.NewID(s.jobs.Runner) }
