package jobs

import (
	"cmp"

	"rlminit/control"
	"rlminit/isolate"
	"rlminit/profiles"
)

// enforceable refuses a job that asks for what cannot be enforced here, or takes it
// out where less will do. A job that asks for no isolation has its profile's, and
// none has less than that.
func (r *Runner) enforceable(q *control.RunJob) error {
	of, err := r.host.Isolation(q.Profile)
	if err != nil {
		return err
	}
	if q.Isolation == "" {
		q.Isolation = string(cmp.Or(of.Level, isolate.None))
		q.IsolationFallback = true // as the profile's gateway does without it here
	}
	if of.Level.Above(isolate.Level(q.Isolation)) {
		return control.NotSupported("isolation %s is below %s, which the profile %s has; rlminit exec runs a command outside of it", q.Isolation, of.Level, q.Profile)
	}
	if why := lacking(q); why != "" && !q.IsolationFallback {
		return control.NotSupported("isolation %s cannot be enforced here: %s; see rlminit capabilities, or use --isolation-fallback", q.Isolation, why)
	}
	for name := range q.Limits {
		return control.NotSupported("the limit %s cannot be enforced here: %s; see rlminit capabilities", name, notEnforced)
	}
	return nil
}

const notEnforced = "this rlminit has no means for it"

// lacking is why the isolation that a job asks for cannot be had; "" if it can.
func lacking(q *control.RunJob) string {
	level := isolate.Level(q.Isolation)
	if level.Above(isolate.None) && q.Profile == profiles.Default {
		return "the directory of the profile default is the volume, in which Landlock can hide nothing from it"
	}
	return lack(isolate.Capable(), level)
}

func lack(able isolate.Capabilities, level isolate.Level) string {
	switch {
	case !level.Above(isolate.None):
		return ""
	case able.Landlock == 0:
		return "the kernel, or the container engine's seccomp profile, offers no Landlock"
	case level == isolate.Strict && !able.Ports:
		return "Landlock before ABI 4 does not limit TCP"
	case level == isolate.Strict && !able.Seccomp:
		return "there is no seccomp"
	}
	return ""
}

// isolationOf is the level that is in force for a job.
func isolationOf(q *control.RunJob) isolate.Level {
	if q.Isolation == "" || lacking(q) != "" {
		return isolate.None
	}
	return isolate.Level(q.Isolation)
}

// Capabilities is what can be enforced here.
func (r *Runner) Capabilities() control.Capabilities {
	no := control.Enforced{Why: notEnforced}
	able := isolate.Capable()
	isolations := map[string]control.Enforced{}
	for _, level := range []isolate.Level{isolate.None, isolate.Profile, isolate.Strict} {
		why := lack(able, level)
		isolations[string(level)] = control.Enforced{Enforced: why == "", Why: why}
	}
	return control.Capabilities{
		Tags:       r.host.Tags(),
		Isolations: isolations,
		Limits:     map[string]control.Enforced{"memory": no, "pids": no, "cpu": no},
		Kernel:     able,
	}
}

// tried is what a job has asked for and does without.
func tried(q *control.RunJob) []control.IsolationTried {
	if why := lacking(q); q.Isolation != "" && why != "" {
		return []control.IsolationTried{{Isolation: q.Isolation, Error: why}}
	}
	return []control.IsolationTried{}
}
