package serve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/jobs"
	"rlminit/supervise/jobs/hooks"
	"rlminit/supervise/process"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// JobHost is where jobs are run: it begins and ends what their runner says, for it
// knows whose each is, and has services run by their schedules. It is jobs.Host.
type JobHost struct {
	*Directory
	runner *jobs.Runner // nil: there are no jobs, in a simulation
	memory hooks.Memory // what a successor finds; nil: nothing
}

// Directories is jobs.Host's.
func (h *JobHost) Directories() error {
	if again := h.Given.Remake; again != nil {
		return again()
	}
	return nil
}

// Employ makes the runner of jobs.
func (h *JobHost) Employ() *jobs.Runner {
	h.runner = jobs.New(h, func() jobs.Settings {
		c := h.Settings.Current().Jobs
		return jobs.Settings{AtOnce: c.AtOnce, PerProfile: c.PerProfile, Queue: min(c.Queue, process.MostWaiting()), Guards: c.Guards}
	})
	h.Registry.Profiles.Employ(h.runner)
	return h.runner
}

// TellHooks makes those that are told what happens. publish shows readers of events what no
// journal has; memory is what a successor finds.
func (h *JobHost) TellHooks(publish func(control.Event) control.Event, memory hooks.Memory) *hooks.Hooks {
	h.memory = memory
	all := jobs.HooksOf(hooks.Given{
		List:     func() []config.Hook { return h.Settings.Current().Hooks },
		Services: h.used, Publish: publish, Memory: memory,
		Volume: func() string { return h.Settings.Current().Home },
	}, h.runner)
	h.Settings.Used = all.Wake
	return all
}

// used are the services that a person means by some names, or all, with the processes whose
// use is theirs.
func (h *JobHost) used(names []string) (all []hooks.Service) {
	h.loop.Read(func(now Services) {
		for u := range now.All() {
			if len(names) > 0 && !anyMatches(names, u.Name, u.Definition.Profile) {
				continue
			}
			s := hooks.Service{Name: u.Name, Limits: u.Definition.Limits}
			if u.State.Alive() {
				s.PID = u.State.PID
			}
			all = append(all, s)
		}
	})
	return all
}

// Scheduled is every schedule of every service.
func (h *JobHost) Scheduled() (list []jobs.Scheduled) {
	h.loop.Read(func(now Services) {
		for u := range now.All() {
			list = append(list, schedulesOf(u)...)
		}
	})
	return list
}

// schedulesOf are a service's: that which runs it, and those of commands beside it, which
// count while it is to run.
func schedulesOf(u *View) (list []jobs.Scheduled) {
	d := u.Definition
	if u.Fault != "" {
		return nil
	}
	if d.Schedule != nil {
		is := jobs.Scheduled{Name: u.Name, Of: u.Name, Command: d.Command, Schedule: *d.Schedule}
		if !d.Enabled {
			is.Off = jobs.NotOn
		}
		list = append(list, is)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Schedules)) {
		r := d.Schedules[name]
		is := jobs.Scheduled{Name: u.Name + "/" + name, Of: u.Name, Command: r.Command, Schedule: r.Schedule}
		if !u.Wanted && d.Schedule == nil {
			is.Off = jobs.NotWanted
		}
		list = append(list, is)
	}
	return list
}

// tellSchedules adds to what is told of services when they, and commands beside them, run
// next.
func (h *JobHost) tellSchedules(list []control.Service) {
	if h.runner == nil {
		return
	}
	at := make(map[string]int, len(list))
	for i := range list {
		at[list[i].Name] = i
	}
	for _, what := range h.Scheduled() {
		i, told := at[what.Of]
		if !told {
			continue
		}
		next := h.runner.NextOf(what)
		_, name, beside := strings.Cut(what.Name, "/")
		switch {
		case !beside:
			list[i].Schedule = &next
		case list[i].Schedules == nil:
			list[i].Schedules = map[string]control.Schedule{}
			fallthrough
		default:
			list[i].Schedules[name] = next
		}
	}
}

// occurring is what a stop has ended of a service that has a schedule.
type occurring struct {
	over <-chan struct{} // closed when nothing of it is left; nil: there was nothing
	note string          // that its schedule goes on; "": it does not
}

// endOccurrences ends what the schedules of some services have begun: those are jobs, and
// a person who stops a service means them too.
func (h *JobHost) endOccurrences(units []*View, cause string) map[*core.Life]occurring {
	ended := map[*core.Life]occurring{}
	for _, u := range units {
		if h.runner == nil || u.Definition.Schedule == nil && len(u.Definition.Schedules) == 0 {
			continue
		}
		is := occurring{over: h.runner.EndOccurrences(u.Name, cause)}
		if u.Fault == "" && u.Definition.Schedule != nil && h.runner.NextOf(schedulesOf(u)[0]).NotRun == "" {
			is.note = "its schedule goes on"
			if u.Definition.Profile == "" {
				is.note += " (enabled: false, and rlminit reload, switch it off)"
			}
		}
		ended[u.Life] = is
	}
	return ended
}

func (h *JobHost) Begin(name string) (id uint64, tag uint32, err error) {
	if tag, err = h.Given.Tags.Allot(name); err == nil {
		id = h.Spawns.NewID(h.runner)
	}
	return id, tag, err
}

func (h *JobHost) Resume(name string) uint32 {
	tag, _ := h.Given.Tags.Allot(name) // what it has had is left for it
	return tag
}

func (h *JobHost) End(id uint64, tag uint32) {
	h.Spawns.Disown(id)
	h.Given.Tags.Free(tag)
}

func (h *JobHost) Send(m wire.Message, fds, after []int) { h.Spawns.Send(m, fds, after) }

func (h *JobHost) Canonical(name string) (of jobs.Owner, err error) {
	u, err := h.LookUp(name)
	if err != nil {
		return of, err
	}
	return ownerOf(u), nil
}

func ownerOf(u *View) jobs.Owner { return jobs.OwnerOf(u.Definition.Profile, u.Name) }

// unit is an owner's; nil: it is nobody's. What has only the name of one that is no more is
// another.
func (h *JobHost) unit(of jobs.Owner) (u *View, err error) {
	if of == (jobs.Owner{}) {
		return nil, nil
	}
	name := of.Service
	if of.Profile != "" {
		name = profiles.GatewayName(of.Profile) // which is no service's of the configuration
	}
	if u, err = h.LookUp(name); err != nil {
		if _, named := h.LookUp(of.Name()); named != nil {
			err = named // as a person calls it
		}
		return nil, err
	}
	if ownerOf(u) != of {
		return nil, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("there is no %s any more", of))
	}
	return u, nil
}

func (h *JobHost) Environment(of jobs.Owner) (control.Environment, error) {
	u, err := h.unit(of)
	if err != nil {
		return control.Environment{}, err
	}
	return h.environmentOf(u)
}

func (h *JobHost) Isolation(of jobs.Owner) (isolation service.Isolation, err error) {
	u, err := h.unit(of)
	if err != nil || u == nil {
		return isolation, err
	}
	if of.Profile == profiles.Default {
		return service.Isolation{}, nil // Landlock can hide nothing from it
	}
	return u.Definition.Isolation, nil
}

// StateFile is jobs.Host's.
func (h *JobHost) StateFile() string {
	if g := h.Settings.Current().Gateway; g != nil {
		return g.StateFile
	}
	return ""
}

func (h *JobHost) Redact(of jobs.Owner) []string {
	if u, err := h.unit(of); err == nil && u != nil {
		return u.Definition.Log.Redact
	}
	return nil
}

func (h *JobHost) LogOf(service string) (pipes [2]int, done func(), err error) {
	return h.Log.Pipes(service)
}

func (h *JobHost) Remember(key string, value []byte) error {
	if h.memory == nil {
		return nil
	}
	return h.memory.Put(key, value)
}

func (h *JobHost) Recall(key string) []byte {
	if h.memory == nil {
		return nil
	}
	return h.memory.Get(key)
}

func (h *JobHost) Secrets(of jobs.Owner) (none redact.Set) {
	if u, err := h.unit(of); err == nil && u != nil {
		return h.secretsOf(u)
	}
	return none
}

func (h *JobHost) Deadline(of jobs.Owner) (at int64, err error) {
	u, err := h.unit(of)
	if err != nil || u == nil || !u.policy().Deadline {
		return 0, err
	}
	if lease := u.State.Lease; lease.At > u.At {
		return lease.At, nil
	}
	return 0, fmt.Errorf("%s runs only under a deadline, and has none here", u.Title)
}

func (h *JobHost) Limits(of jobs.Owner) (limits service.Limits, err error) {
	u, err := h.unit(of)
	if err != nil {
		return limits, err
	}
	if u != nil {
		limits = u.Definition.Limits
	}
	limits = limits.Or(h.Settings.Current().Jobs.Limits)
	// Without a cgroup memory holds for each process by itself, and the others not at all.
	if !h.Leaves.Enforces("pids") {
		limits.Pids = 0
	}
	if !h.Leaves.Enforces("cpu") {
		limits.CPU = 0
	}
	return limits, nil
}

func (h *JobHost) Walls(of jobs.Owner, isolation service.Isolation, env []string, own string) (walls.Walls, error) {
	subject := walls.Subject{Name: "job", Isolation: isolation, Environment: env, Named: func(string) bool { return false }}
	switch {
	case of.Profile != "":
		subject.Name = profiles.GatewayName(of.Profile)
		subject.Own = config.ProfileDir(h.Settings.Current().For(subject.Name).Home, of.Profile)
	case of.Service != "":
		subject.Name = of.Service
	}
	subject.UID, subject.User = h.User(of)
	if own != "" {
		subject.Isolation.Write = append(slices.Clip(isolation.Write), own)
		subject.Isolation.Exec = append(slices.Clip(isolation.Exec), own)
	}
	return h.Given.Walls().Build(subject)
}

func (h *JobHost) User(of jobs.Owner) (uint32, *rights.User) {
	d := service.Default(profiles.GatewayName(of.Profile))
	d.Profile = of.Profile
	return h.Users.RecordedUser(d)
}

func (h *JobHost) ProfileUsers() control.Enforced {
	of := h.Policy.Profiles
	return control.Enforced{Enforced: of.Low != 0, Why: of.Why}
}

func (h *JobHost) Tags() (low, high uint32) {
	if !h.Tagged {
		return 0, 0
	}
	return h.Policy.TagLow, h.Policy.TagHigh
}

func (h *JobHost) Tag(of jobs.Owner) uint32 {
	if u, err := h.unit(of); err == nil && u != nil {
		return u.Tag
	}
	return 0
}

func (h *JobHost) Volume() (dir, lacks string) {
	switch {
	case h.Given.Volume.Store() == nil:
		lacks = cmp.Or(h.Given.Volume.Absent(), "there is no volume")
	case h.Given.Volume.ReadOnly():
		lacks = "the volume cannot be written to"
	}
	return h.Settings.Current().Home, lacks
}
