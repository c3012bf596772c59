package supervise

import (
	"cmp"
	"fmt"
	"slices"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/jobs"
	"rlminit/supervise/process"
	"rlminit/supervise/spawn"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// jobHost is where jobs are run: it begins and ends what their runner says, for it
// knows whose each is, and has services run by their schedules. Its exported methods
// are jobs.Host. Anybody may call them but the loop; of the others each says who.
type jobHost struct {
	loop      *mailbox
	tier1     *spawn.Tier1
	prep      *preparer
	fleet     *fleet
	records   *records
	directory *directory

	leaves cgroup.Leaves

	runner *jobs.Runner // nil: there are no jobs, in a simulation
	left   bool         // the container is stopping, and jobs are not over yet; the loop's
	over   func()       // called by the loop when they are
}

// employ makes the runner of jobs. What a predecessor left of them is theirs.
func (h *jobHost) employ() {
	h.runner = jobs.New(h, func() jobs.Settings {
		c := h.prep.Config().Jobs
		return jobs.Settings{AtOnce: c.AtOnce, PerProfile: c.PerProfile, Queue: min(c.Queue, process.MostWaiting()), Guards: c.Guards}
	})
	h.records.volume.Journal.Hooks = jobs.NewHooks(func() []config.Hook { return h.prep.Config().Hooks })
	h.tier1.Host(h.runner)
	h.directory.registry.Profiles.Employ(h.runner)
}

// start has the runner go on with what was left, and take what comes.
func (h *jobHost) start() {
	if h.runner == nil {
		return
	}
	held := map[string][]int{}
	stopping := false
	h.loop.ask(func() {
		for _, key := range jobs.Keys(h.tier1.Held) {
			held[key] = h.tier1.Held.Take(key)
		}
		stopping = h.fleet.set.Stopping()
	})
	h.runner.Start(h.records.volume.Journal.JobRecords(), held, stopping)
	h.runner.Schedules(h.scheduled)
	go h.records.volume.Journal.Hooks.Run(h.runner)
}

// record has jobs recorded on the volume, if it is ours, or not any more, if it was. What
// waits begins with open.
func (h *jobHost) record() {
	if h.runner != nil {
		h.runner.Use(h.records.volume.Journal.JobRecords())
	}
}

// open has those begin that wait, now that every profile is known.
func (h *jobHost) open() {
	if h.runner != nil {
		h.runner.Open()
	}
}

// scheduled is every service that has a schedule.
func (h *jobHost) scheduled() (list []jobs.Scheduled) {
	h.loop.read(func() {
		for _, u := range h.fleet.units {
			if u.definition.Schedule != nil && u.fault == "" {
				list = append(list, jobs.Scheduled{
					Name: u.name, Command: u.definition.Command, Schedule: *u.definition.Schedule, Off: !u.definition.Enabled,
				})
			}
		}
	})
	return list
}

// reschedule tells that u's schedule has come, gone or changed. Only the loop calls it.
func (h *jobHost) reschedule(u *unit) {
	if h.runner != nil && u.definition.Schedule != nil {
		h.runner.Rescheduled()
	}
}

// tellSchedules adds to what is told of services when they run next.
func (h *jobHost) tellSchedules(list []control.Service) {
	if h.runner == nil {
		return
	}
	for _, what := range h.scheduled() {
		for i := range list {
			if list[i].Name == what.Name {
				next := h.runner.NextOf(what)
				list[i].Schedule = &next
			}
		}
	}
}

// occurring is what a stop has ended of a service that has a schedule.
type occurring struct {
	over <-chan struct{} // closed when nothing of it is left; nil: there was nothing
	note string          // that its schedule goes on; "": it does not
}

// endOccurrences ends what the schedules of the units have begun: those are jobs, and
// a person who stops a service means them too. It is for any goroutine but the loop.
func (h *jobHost) endOccurrences(units []*unit, cause string) map[*unit]occurring {
	if h.runner == nil {
		return nil
	}
	var scheduled []*unit
	profile := map[*unit]bool{}
	h.loop.read(func() {
		for _, u := range units {
			if u.definition.Schedule != nil {
				scheduled, profile[u] = append(scheduled, u), u.definition.Profile != ""
			}
		}
	})
	if len(scheduled) == 0 {
		return nil
	}
	ended := map[*unit]occurring{}
	all := h.scheduled()
	for _, u := range scheduled {
		is := occurring{over: h.runner.EndOccurrences(u.name, cause)}
		i := slices.IndexFunc(all, func(what jobs.Scheduled) bool { return what.Name == u.name })
		if i >= 0 && h.runner.NextOf(all[i]).NotRun == "" {
			is.note = "its schedule goes on"
			if !profile[u] {
				is.note += " (enabled: false, and rlminit reload, switch it off)"
			}
		}
		ended[u] = is
	}
	return ended
}

// stop ends every job, which is recorded as interrupted. Only the loop calls it.
func (h *jobHost) stop() {
	if h.runner == nil {
		return
	}
	h.left = true
	h.runner.Shutdown(func() {
		h.loop.do(func() {
			h.left = false
			h.over()
		})
	})
}

func (h *jobHost) Begin(name string) (id uint64, tag uint32, err error) {
	if tag, err = h.tier1.Tags.Allot(name); err == nil {
		id = h.tier1.NewID(h.runner)
	}
	return id, tag, err
}

func (h *jobHost) Resume(name string) uint32 {
	tag, _ := h.tier1.Tags.Allot(name) // what it has had is left for it
	return tag
}

func (h *jobHost) End(id uint64, tag uint32) {
	h.tier1.Disown(id)
	h.tier1.Tags.Free(tag)
}

func (h *jobHost) Send(m wire.Message, fds, after []int) { h.tier1.Send(m, fds, after) }

func (h *jobHost) Canonical(name string) (of jobs.Owner, err error) {
	u, err := h.directory.lookUp(name)
	if err != nil {
		return of, err
	}
	h.loop.read(func() { of = ownerOf(u) })
	return of, nil
}

func ownerOf(u *unit) jobs.Owner {
	if u.definition.Profile != "" {
		return jobs.Owner{Profile: u.definition.Profile}
	}
	return jobs.Owner{Service: u.name}
}

// unit is an owner's; nil: it is nobody's. What has only the name of one that is no more is
// another.
func (h *jobHost) unit(of jobs.Owner) (u *unit, err error) {
	if of == (jobs.Owner{}) {
		return nil, nil
	}
	name := of.Service
	if of.Profile != "" {
		name = profiles.GatewayName(of.Profile) // which is no service's of the configuration
	}
	if u, err = h.directory.lookUp(name); err != nil {
		if _, named := h.directory.lookUp(of.Name()); named != nil {
			err = named // as a person calls it
		}
		return nil, err
	}
	now := of
	if h.loop.read(func() { now = ownerOf(u) }); now != of {
		return nil, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("there is no %s any more", of))
	}
	return u, nil
}

func (h *jobHost) Environment(of jobs.Owner) (control.Environment, error) {
	u, err := h.unit(of)
	if err != nil {
		return control.Environment{}, err
	}
	return h.directory.environmentOf(u)
}

func (h *jobHost) Isolation(of jobs.Owner) (isolation service.Isolation, err error) {
	u, err := h.unit(of)
	if err != nil || u == nil {
		return isolation, err
	}
	h.loop.read(func() { isolation = u.definition.Isolation })
	if of.Profile == profiles.Default {
		return service.Isolation{}, nil // Landlock can hide nothing from it
	}
	return isolation, nil
}

func (h *jobHost) Limits(of jobs.Owner) (limits service.Limits, err error) {
	u, err := h.unit(of)
	if err != nil {
		return limits, err
	}
	if u != nil {
		h.loop.read(func() { limits = u.definition.Limits })
	}
	limits = limits.Or(h.prep.Config().Jobs.Limits)
	// What is not in force for the gateway is not for its jobs either.
	if !h.leaves.Enforces("memory") {
		limits.Memory = 0
	}
	if !h.leaves.Enforces("pids") {
		limits.Pids = 0
	}
	if !h.leaves.Enforces("cpu") {
		limits.CPU = 0
	}
	return limits, nil
}

func (h *jobHost) Walls(of jobs.Owner, isolation service.Isolation, env []string, own string) (walls.Walls, error) {
	subject := walls.Subject{Name: "job", Isolation: isolation, Environment: env, Named: func(string) bool { return false }}
	switch {
	case of.Profile != "":
		subject.Name = profiles.GatewayName(of.Profile)
		subject.Own = spawn.ProfileDir(h.prep.Config().For(subject.Name), of.Profile)
	case of.Service != "":
		subject.Name = of.Service
	}
	subject.UID, subject.User = h.User(of)
	if own != "" {
		subject.Isolation.Write = append(slices.Clip(isolation.Write), own)
		subject.Isolation.Exec = append(slices.Clip(isolation.Exec), own)
	}
	return h.prep.Walls().Build(subject)
}

func (h *jobHost) User(of jobs.Owner) (uint32, *rights.User) {
	d := service.Default(profiles.GatewayName(of.Profile))
	d.Profile = of.Profile
	return h.prep.RecordedUser(d)
}

func (h *jobHost) ProfileUsers() control.Enforced {
	of := h.prep.Policy.Profiles
	return control.Enforced{Enforced: of.Low != 0, Why: of.Why}
}

func (h *jobHost) Tags() bool { return h.tier1.Welcome.Tags }

func (h *jobHost) Volume() (dir, lacks string) {
	switch {
	case h.prep.volume.Store() == nil:
		lacks = cmp.Or(h.prep.volume.Absent(), "there is no volume")
	case h.prep.volume.ReadOnly():
		lacks = "the volume cannot be written to"
	}
	return h.prep.Config().Home, lacks
}
