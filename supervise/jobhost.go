package supervise

import (
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/jobs"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// jobHost is what jobs need of the supervisor.
type jobHost struct{ s *Supervisor }

// hostJobs makes the runner of jobs. What a predecessor left of them is theirs.
func (s *Supervisor) hostJobs() {
	s.jobs = jobs.New(jobHost{s}, func() jobs.Settings {
		c := s.config().Jobs
		return jobs.Settings{AtOnce: c.AtOnce, PerProfile: c.PerProfile, Queue: c.Queue}
	})
	s.records.chronicle.hooks = jobs.NewHooks(func() []config.Hook { return s.config().Hooks })
	s.Host(s.jobs)
	s.registry.Employ(s.jobs)
}

// startJobs has the runner go on with what was left, and take what comes.
func (s *Supervisor) startJobs() {
	if s.jobs == nil { // in a simulation
		return
	}
	held := map[string][]int{}
	stopping := false
	s.ask(func() {
		for _, key := range jobs.Keys(s.held) {
			held[key] = s.held.Take(key)
		}
		stopping = s.stopping
	})
	s.jobs.Start(s.records.chronicle.jobRecords(), held, stopping)
	s.jobs.Schedules(s.scheduled)
	go s.records.chronicle.hooks.Run(s.jobs)
}

// jobsHaveVolume has jobs recorded on the volume, which is ours from now on.
// What waits begins with openJobs.
func (s *Supervisor) jobsHaveVolume() {
	if records := s.records.chronicle.jobRecords(); s.jobs != nil && records != nil {
		s.jobs.Use(records)
	}
}

// openJobs has those begin that wait, now that every profile is known.
func (s *Supervisor) openJobs() {
	if s.jobs != nil {
		s.jobs.Open()
	}
}

// scheduled is every service that is run by its schedule.
func (s *Supervisor) scheduled() (list []jobs.Scheduled) {
	s.ask(func() {
		for _, u := range s.units {
			if u.definition.Schedule != nil && u.fault == "" {
				list = append(list, jobs.Scheduled{Name: u.name, Command: u.definition.Command, Schedule: *u.definition.Schedule})
			}
		}
	})
	return list
}

// reschedule tells that u's schedule has come, gone or changed. Only the loop calls it.
func (s *Supervisor) reschedule(u *unit) {
	if s.jobs != nil && u.definition.Schedule != nil {
		s.jobs.Rescheduled()
	}
}

// tellSchedules adds to what is told of services when they run next.
func (s *Supervisor) tellSchedules(list []control.Service) {
	if s.jobs == nil {
		return
	}
	for _, what := range s.scheduled() {
		for i := range list {
			if list[i].Name == what.Name {
				next := s.jobs.NextOf(what)
				list[i].Schedule = &next
			}
		}
	}
}

// stopJobs ends every job, which is recorded as interrupted. Only the loop calls it.
func (s *Supervisor) stopJobs() {
	if s.jobs == nil {
		return
	}
	s.jobsLeft = true
	s.jobs.Shutdown(func() {
		s.do(func() {
			s.jobsLeft = false
			s.checkStopped()
		})
	})
}

func (h jobHost) Begin(name string) (id uint64, tag uint32, err error) {
	h.s.ask(func() {
		if tag, err = h.s.tags.Allot(name); err == nil {
			id = h.s.NewID(h.s.jobs)
		}
	})
	return id, tag, err
}

func (h jobHost) Resume(name string) (tag uint32) {
	h.s.ask(func() { tag, _ = h.s.tags.Allot(name) }) // what it has had is left for it
	return tag
}

func (h jobHost) End(id uint64, tag uint32) {
	h.s.do(func() {
		h.s.Disown(id)
		h.s.tags.Free(tag)
	})
}

func (h jobHost) Send(m wire.Message, fds, after []int) { h.s.link.Send(m, fds, after) }

func (h jobHost) Canonical(name string) (string, error) {
	u, err := h.s.directory.lookUp(name)
	if err != nil {
		return "", err
	}
	h.s.ask(func() { name = u.title() })
	return name, nil
}

func (h jobHost) Environment(profile string) (control.Environment, error) {
	return desk{h.s}.Environment(profile)
}

func (h jobHost) Isolation(profile string) (service.Isolation, error) {
	if profile == "" {
		return service.Isolation{}, nil
	}
	u, err := h.s.directory.lookUp(profile)
	if err != nil {
		return service.Isolation{}, err
	}
	var isolation service.Isolation
	h.s.ask(func() { isolation = u.definition.Isolation })
	if profile == profiles.Default {
		return service.Isolation{}, nil // Landlock can hide nothing from it
	}
	return isolation, nil
}

func (h jobHost) Limits(profile string) (limits service.Limits, err error) {
	if profile == "" {
		return limits, nil
	}
	u, err := h.s.directory.lookUp(profile)
	if err != nil {
		return limits, err
	}
	h.s.ask(func() { limits = u.definition.Limits })
	// What is not in force for the gateway is not for its jobs either.
	if !h.s.leaves.Enforces("memory") {
		limits.Memory = 0
	}
	if !h.s.leaves.Enforces("pids") {
		limits.Pids = 0
	}
	if !h.s.leaves.Enforces("cpu") {
		limits.CPU = 0
	}
	return limits, nil
}

func (h jobHost) Walls(profile string, isolation service.Isolation, env []string, own string) (walls.Walls, error) {
	subject := walls.Subject{Name: "job", Isolation: isolation, Environment: env, Named: func(string) bool { return false }}
	if profile != "" {
		subject.Name = profiles.GatewayName(profile)
		subject.Own = profileDir(h.s.config().For(subject.Name), profile)
	}
	subject.UID, subject.User = h.User(profile)
	if own != "" {
		subject.Isolation.Write = append(slices.Clip(isolation.Write), own)
		subject.Isolation.Exec = append(slices.Clip(isolation.Exec), own)
	}
	return h.s.walls().Build(subject)
}

func (h jobHost) User(profile string) (uint32, *rights.User) {
	d := service.Default(profiles.GatewayName(profile))
	d.Profile = profile
	return h.s.recordedUser(d)
}

func (h jobHost) ProfileUsers() control.Enforced {
	of := h.s.policy.Profiles
	return control.Enforced{Enforced: of.Low != 0, Why: of.Why}
}

func (h jobHost) Tags() bool { return h.s.tagged }

func (h jobHost) Volume() (dir string, ours bool) {
	return h.s.config().Home, h.s.volume.Store() != nil && !h.s.volume.readOnly.Load()
}
