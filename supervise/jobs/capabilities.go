package jobs

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/kernel"
	"rlminit/isolate"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/oom"
	"rlminit/supervise/telemetry"
	"rlminit/wire"
)

// enforceable refuses a job that asks for what cannot be enforced here, or takes it
// out where less will do. A job that asks for no isolation has its profile's, and
// none has less than that.
func (l *place) enforceable(q *control.RunJob) error {
	of, err := l.host.Isolation(ownerOf(q))
	if err != nil {
		return err
	}
	if err := l.limited(q); err != nil {
		return err
	}
	if q.Isolation == "" {
		q.Isolation = string(cmp.Or(of.Level, isolate.None))
		q.IsolationFallback = true // as the profile's gateway does without it here
	}
	if of.Level.Above(isolate.Level(q.Isolation)) {
		return control.NotSupported("isolation %s is below %s, which %s has; rlminit exec runs a command outside of it", q.Isolation, of.Level, ownerOf(q))
	}
	if why := lacking(q); why != "" && !q.IsolationFallback {
		return control.NotSupported("isolation %s cannot be enforced here: %s; see rlminit capabilities, or use --isolation-fallback", q.Isolation, why)
	}
	return nil
}

// eachItself is how a limit of memory is kept without a cgroup.
const eachItself = "it holds for each process by itself (RLIMIT_DATA of setrlimit(2)), not for all together: "

// limited refuses a limit that is none, that cannot be enforced here where less
// will not do, or that is above what the profile or the container has.
func (l *place) limited(q *control.RunJob) error {
	limits, err := l.limitsOf(q)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
		if why := notInForce(name); why != "" && !q.IsolationFallback {
			return control.NotSupported("the limit %s cannot be enforced here: %s; see rlminit capabilities, or use --isolation-fallback", name, why)
		}
	}
	if _, asked := q.Limits["memory"]; asked {
		if _, most := telemetry.Memory(); most > 0 && limits.Memory > most {
			return control.Refused("the limit memory=%d is above what the container has, %d bytes", limits.Memory, most)
		}
	}
	return nil
}

// limitsOf are the limits of a job: its profile's, and lower ones that it asks for.
func (l *place) limitsOf(q *control.RunJob) (service.Limits, error) {
	base, err := l.host.Limits(ownerOf(q))
	if err != nil || len(q.Limits) == 0 {
		return base, err
	}
	limits, err := base.Lower(q.Limits)
	switch {
	case errors.Is(err, service.ErrNoLimit):
		return base, control.NotSupported("%v", err)
	case errors.Is(err, service.ErrAbove):
		return base, control.Refused("%v", err)
	case err != nil:
		return base, control.BadRequest("%v", err)
	}
	return limits, nil
}

// notInForce is why a limit of a job as a whole is not in force, where less will
// not do; "" if it is.
func notInForce(name string) string {
	switch why := cgroup.Find().Why(name); {
	case !slices.Contains(cgroup.Limits, name) || why == "":
		return ""
	case name != "memory":
		return why
	}
	if _, err := kernel.Rlimit(unix.RLIMIT_DATA); err != nil {
		return err.Error()
	}
	return ""
}

// lesser is how a limit of a job as a whole is kept here, if not as such.
func lesser(name string) string {
	if why := notInForce(name); name != "memory" || why != "" {
		return why
	}
	if why := cgroup.Find().Why(name); why != "" {
		return eachItself + why
	}
	return ""
}

// outOfMemory is what is to be said of a job of which the kernel has killed some.
func (l *place) outOfMemory(q *control.RunJob) string {
	limits, err := l.limitsOf(q)
	if err != nil || limits.Memory == 0 {
		return "out of memory"
	}
	return oom.Own(limits.Memory)
}

// rlimits are what setrlimit(2) can do of limits.
func rlimits(l service.Limits) []wire.Rlimit {
	if own, err := kernel.Rlimit(unix.RLIMIT_DATA); err == nil && l.Memory > 0 && !cgroup.Find().Enforces("memory") {
		each := maps.Clone(l.Rlimits)
		if each == nil {
			each = map[int]service.Rlimit{}
		}
		most := min(uint64(l.Memory), own.Max) // the container's, above which nobody can be given anything
		if was, ok := each[unix.RLIMIT_DATA]; ok {
			most = min(most, was.Hard)
		}
		each[unix.RLIMIT_DATA] = service.Rlimit{Soft: most, Hard: most}
		l.Rlimits = each
	}
	return config.Rlimits(l)
}

// lacking is why the isolation that a job asks for cannot be had; "" if it can.
func lacking(q *control.RunJob) string {
	level := isolate.Level(q.Isolation)
	if level.Above(isolate.None) && q.Profile == profiles.Default {
		return "the directory of the profile default is the volume, in which Landlock can hide nothing from it"
	}
	return isolate.Capable().Lack(level)
}

// isolationOf is the level that is in force for a job.
func isolationOf(q *control.RunJob) isolate.Level {
	if q.Isolation == "" || lacking(q) != "" {
		return isolate.None
	}
	return isolate.Level(q.Isolation)
}

// capabilities is what can be enforced here.
func (l *place) capabilities() control.Capabilities {
	limits, ofServices, leaves := map[string]control.Enforced{}, map[string]control.Enforced{}, cgroup.Find()
	for _, name := range cgroup.Limits {
		ofServices[name] = control.Enforced{Enforced: leaves.Enforces(name), Why: leaves.Why(name)}
		limits[name] = control.Enforced{Enforced: notInForce(name) == "", Why: lesser(name)}
	}
	for _, name := range service.RlimitNames() {
		limits[name] = control.Enforced{Enforced: true}
	}
	able := isolate.Capable()
	isolations := map[string]control.Enforced{}
	for _, level := range []isolate.Level{isolate.None, isolate.Profile, isolate.Strict} {
		why := able.Lack(level)
		isolations[string(level)] = control.Enforced{Enforced: why == "", Why: why}
	}
	low, _ := l.host.Tags()
	return control.Capabilities{
		Tags:       low != 0,
		Isolations: isolations,
		Limits:     limits,

		ServiceLimits: ofServices,

		Guards: guardsHere(low != 0),
		Kernel: able,

		ProfileUsers: l.host.ProfileUsers(),
	}
}

// guardsHere are the guards of jobs, and how far they are in force.
func guardsHere(tagged bool) map[string]control.Enforced {
	guards := map[string]control.Enforced{"zombies": {Enforced: true}}
	if !tagged {
		guards["zombies"] = control.Enforced{Enforced: true, Why: "zombies of the whole container count for each job: processes bear no tags here"}
	}
	for _, guard := range cgroup.Guards {
		why := cgroup.Unguarded(guard, os.ReadFile)
		guards[guard] = control.Enforced{Enforced: why == "", Why: why}
	}
	if guards["cpu_pressure"].Enforced {
		guards["cpu_pressure"] = control.Enforced{Enforced: true, Why: "not while another job runs, or has run in the last minute: jobs.at_once bounds what jobs cause"}
	}
	return guards
}

// tried is what a job has asked for and does without.
func tried(q *control.RunJob) []control.IsolationTried {
	list := []control.IsolationTried{}
	if why := lacking(q); q.Isolation != "" && why != "" {
		list = append(list, control.IsolationTried{Isolation: q.Isolation, Error: why})
	}
	for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
		if why := lesser(name); why != "" {
			list = append(list, control.IsolationTried{Limit: name, Error: why})
		}
	}
	return list
}
