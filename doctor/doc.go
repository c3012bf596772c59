// Package doctor examines the place that rlminit runs in: what the container
// allows and what not, its volume, clock, limits and ports, and what to do about
// each.
//
// It reads /proc and /sys and asks the kernel; it changes nothing and owns
// nothing. What rlminit itself says of its services is given to it.
package doctor

import "time"

// States of a finding, from good to bad. Unknown is what could not be found out.
const (
	OK      = "ok"
	Warn    = "warn"
	Fail    = "fail"
	Unknown = "unknown"
)

// Finding is what one look came to.
type Finding struct {
	Check  string `json:"check"`  // kernel, capabilities, volume, …
	State  string `json:"state"`  // ok, warn, fail, unknown
	What   string `json:"what"`   // what is so, and what that means
	Remedy string `json:"remedy"` // what to do; "" where nothing is to be done
}

// Place is what is examined.
type Place struct {
	Root     string   // where /proc and /sys are; "" but in a test
	Home     string   // the volume
	Runtime  string   // the runtime directory
	Missing  string   // why the profiles are not there, as the supervisor says it; "": they are
	Walls    []string // that were asked for and are not in force, as the supervisor says it
	Cautions []string // what the configuration says that cannot be as it seems
	Unsent   []string // where logs cannot be sent on to, as the supervisor says it
	Services []Service
	Jobs     []Job  // the latest of each hook and schedule
	Steps    []Step // of the last boot, in their order; none: they are not known

	kernel kernel
}

// Service is one that rlminit has.
type Service struct {
	Name     string
	State    string
	Verdict  string // ok, pending, ill or off
	Code     string // the reason for the verdict
	Flapping bool   // three restarts within ten minutes that nobody asked for
	Refused  string // why its newest definition is not in force; "": it is
	Restarts int    // since rlminit started
	Reason   string
	Port     int // 0: none
}

// Job is the latest job of a hook or a schedule.
type Job struct {
	ID     string
	Of     string // hook COMMAND, or schedule SERVICE
	Failed string // why it has failed; "": it has not
}

// Step is a part of the last boot.
type Step struct {
	Name string
	Took time.Duration
}

// Examine looks at everything.
func Examine(p Place) []Finding {
	if p.kernel == nil {
		p.kernel = system{}
	}
	e := &examination{Place: p}
	e.kernelItself()
	e.process()
	e.capabilities()
	e.identity()
	e.sandbox()
	e.cgroup()
	e.limits()
	e.runtimeDirectory()
	e.volume()
	e.owners()
	e.secrets()
	e.clock()
	e.boot()
	e.cautions()
	e.ports()
	e.zombies()
	e.services()
	e.jobs()
	e.forwarding()
	return e.findings
}

// Worst is the worst state among findings.
func Worst(findings []Finding) string {
	worst := OK
	for _, f := range findings {
		if f.State == Fail || f.State == Warn && worst == OK {
			worst = f.State
		}
	}
	return worst
}

// examination is an Examine under way.
type examination struct {
	Place
	findings []Finding
	status   map[string]string // of PID 1, proc_pid_status(5)
}

func (e *examination) add(check, state, what, remedy string) {
	e.findings = append(e.findings, Finding{check, state, what, remedy})
}
