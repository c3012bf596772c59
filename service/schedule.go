package service

import (
	"time"

	"rlminit/internal/document"
	"rlminit/internal/schedule"
)

// Schedule says when a oneshot is run by itself, as a job.
type Schedule struct {
	Cron     string // five fields, or @daily and the like
	Timezone string // "" is UTC
	CatchUp  schedule.CatchUp
	Overlap  Overlap
	Jitter   time.Duration // it is run up to this much later, always by the same
	Timeout  time.Duration // the job's deadline
}

// Overlap says what becomes of an occurrence while the one before it still runs.
type Overlap string

// What becomes of it.
const (
	OverlapSkip  Overlap = "skip"
	OverlapQueue Overlap = "queue" // it is run after it
	OverlapKill  Overlap = "kill"  // the one before it is ended
)

const defaultScheduleTimeout = 24 * time.Hour

// Parsed is the schedule as it is counted with; it was checked when it was read.
func (s *Schedule) Parsed() (*schedule.Cron, error) { return schedule.Parse(s.Cron, s.Timezone) }

func readSchedule(p **Schedule) document.Setter {
	return func(n document.Node) {
		s := &Schedule{CatchUp: schedule.CatchUpNone, Overlap: OverlapSkip, Timeout: defaultScheduleTimeout}
		document.Fields{
			"cron":     document.Word(&s.Cron),
			"timezone": document.Word(&s.Timezone),
			"catch_up": document.OneOf(&s.CatchUp, schedule.CatchUpNone, schedule.CatchUpOne),
			"overlap":  document.OneOf(&s.Overlap, OverlapSkip, OverlapQueue, OverlapKill),
			"jitter":   document.Duration(&s.Jitter, 0),
			"timeout":  document.Duration(&s.Timeout, time.Second),
		}.Read(n)
		if !n.IsMapping() {
			return
		}
		if n.Get("cron").Absent() {
			n.Fault("cron is missing; write cron: \"0 3 * * *\"")
			return
		}
		if _, err := schedule.Zone(s.Timezone); err != nil {
			n.Get("timezone").Fault("%v", err)
			s.Timezone = ""
		}
		if _, err := s.Parsed(); err != nil {
			n.Get("cron").Fault("%v", err)
			return
		}
		if most := 7 * 24 * time.Hour; s.Timeout > most {
			n.Get("timeout").Fault("is above %s; what runs for longer is a daemon", most)
		}
		*p = s
	}
}

// StartsAtBoot tells whether it runs where nobody has started or stopped it yet. What
// has a schedule is started by that.
func (d *Definition) StartsAtBoot() bool { return d.Enabled && d.Schedule == nil }

// checkSchedule refuses what a job cannot be.
func (d *Definition) checkSchedule(n document.Node) {
	if d.Schedule == nil {
		return
	}
	switch {
	case d.Type != Oneshot:
		at(n, "schedule").Fault("needs type: oneshot; a daemon always runs")
	case d.User != "" || d.Group != "" || len(d.Groups) > 0 || len(d.Sandbox.Capabilities) > 0 || !d.Sandbox.NoNewPrivs:
		at(n, "schedule").Fault("excludes a user, group or privilege of its own: it starts a job as the service user")
	}
}
