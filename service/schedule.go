package service

import (
	"maps"
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

// Recurring is a command with a schedule.
type Recurring struct {
	Schedule
	Command []string
}

const (
	defaultScheduleTimeout = 24 * time.Hour
	maxScheduleTimeout     = 7 * 24 * time.Hour
	// maxSchedules is how many a service may have.
	maxSchedules = 64
)

// Parsed is the schedule as it is counted with; it was checked when it was read.
func (s *Schedule) Parsed() (*schedule.Cron, error) { return schedule.Parse(s.Cron, s.Timezone) }

func readSchedule(p **Schedule) document.Setter {
	return func(n document.Node) {
		s := newSchedule()
		s.fields().Read(n)
		if s.check(n) {
			*p = &s
		}
	}
}

func newSchedule() Schedule {
	return Schedule{CatchUp: schedule.CatchUpNone, Overlap: OverlapSkip, Timeout: defaultScheduleTimeout}
}

func (s *Schedule) fields() document.Fields {
	return document.Fields{
		"cron":     document.Word(&s.Cron),
		"timezone": document.Word(&s.Timezone),
		"catch_up": document.OneOf(&s.CatchUp, schedule.CatchUpNone, schedule.CatchUpOne),
		"overlap":  document.OneOf(&s.Overlap, OverlapSkip, OverlapQueue, OverlapKill),
		"jitter":   document.Duration(&s.Jitter, 0),
		"timeout":  document.Duration(&s.Timeout, time.Second),
	}
}

// check tells whether s, which was read from n, can be counted with.
func (s *Schedule) check(n document.Node) bool {
	if !n.IsMapping() {
		return false
	}
	if s.Cron == "" && n.Get("cron").Absent() {
		n.Fault("cron is missing; write cron: \"0 3 * * *\"")
		return false
	}
	if _, err := schedule.Zone(s.Timezone); err != nil {
		n.Get("timezone").Fault("%v", err)
		s.Timezone = ""
	}
	if _, err := s.Parsed(); err != nil {
		at(n, "cron").Fault("%v", err)
		return false
	}
	if s.Timeout > maxScheduleTimeout {
		n.Get("timeout").Fault("is above %s; what runs for longer is a daemon", maxScheduleTimeout)
	}
	return true
}

// schedules reads commands with schedules over those that are there, by name.
func schedules(p *map[string]Recurring) document.Setter {
	return func(n document.Node) {
		all := maps.Clone(*p)
		n.Each(func(key, value document.Node) {
			name := key.Key()
			if fault := CheckName(name); fault != "" && !key.Describes() {
				key.Fault("the name %s %s", document.Quote(name), fault)
				return
			}
			if isNone(value) {
				delete(all, name)
				return
			}
			r, known := all[name]
			if !known {
				r.Schedule = newSchedule()
			}
			fields := r.Schedule.fields()
			fields["command"] = argv(&r.Command)
			fields.Read(value)
			if value.Absent() {
				value.Fault(`is empty; write {cron: "0 3 * * *", command: [prog, arg]}, or none`)
			}
			if value.IsMapping() && len(r.Command) == 0 && value.Get("command").Absent() {
				value.Fault("command is missing; write command: [prog, arg]")
			}
			if r.Schedule.check(value) && len(r.Command) > 0 {
				if all == nil {
					all = map[string]Recurring{}
				}
				all[name] = r
			}
		})
		if len(all) > maxSchedules {
			n.Fault("has %d schedules; a service can have %d", len(all), maxSchedules)
			return
		}
		*p = all
	}
}

// StartsAtBoot tells whether it runs where nobody has started or stopped it yet. What
// has a schedule is started by that.
func (d *Definition) StartsAtBoot() bool { return d.Enabled && d.Schedule == nil }

// checkSchedule refuses settings that a job cannot have.
func (d *Definition) checkSchedule(n document.Node) {
	if d.Schedule != nil && d.Type != Oneshot {
		at(n, "schedule").Fault("needs type: oneshot; a daemon always runs")
		return
	}
	if d.User == "" && d.Group == "" && len(d.Groups) == 0 && len(d.Sandbox.Capabilities) == 0 && d.Sandbox.NoNewPrivs {
		return
	}
	for key, there := range map[string]bool{"schedule": d.Schedule != nil, "schedules": len(d.Schedules) > 0} {
		if there {
			at(n, key).Fault("excludes a user, group or privilege of its own: it starts a job as the service user")
		}
	}
}
