package serve

import (
	"cmp"
	"context"
	"iter"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/logs"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/verdict"
)

// Loop is what there is to be asked of the supervisor's loop, which owns every service.
type Loop interface {
	// Read has f read between two things that the loop does: f copies what it needs, and
	// waits for nothing.
	Read(f func(Services))
	// Commander tells whether the service of a name may command. It does not wait for the loop.
	Commander(name string) bool
	// Tell has the core told one thing, in its turn.
	Tell(core.Input)
	// Begin gives a command its id and the core the command, and returns when it has begun,
	// or the problem for which it goes no further. noted is why one that has begun is not
	// recorded. One that has begun is there until the caller tells the core Drop.
	Begin(*core.Command) (noted, refused *control.Problem)
	// Await waits until enough is true of an operation, which the loop calls, or ctx ends;
	// then it is called a last time. The operation is there meanwhile. nil: there was none
	// of that id from the beginning, or it was hidden and is gone.
	Await(ctx context.Context, id uint64, enough func(Services, *core.Operation) bool) error
}

// Services is every service, and the core, as long as Read has them read.
type Services interface {
	All() iter.Seq[*View]    // by name; each View is good until the next
	Named(name string) *View // the service of a name; nil: there is none
	Find(name string) *View  // the service that a person means by a name; nil: there is none
	Again(*View) *View       // what a service has become, gone or not
	Core() *core.Set
}

// View is a service as it was when it was read: a copy. Nobody changes what it points to;
// what Life says is the loop's, and is read within Read.
type View struct {
	Name       string
	Title      string // what a person calls it
	Definition *service.Definition
	Fault      string // why there is no usable definition; "" if there is one
	Ours       bool   // its definition is ours, so it may grant what only configuration grants
	Shadowed   bool   // a service of the configuration has its profile's name
	Life       *core.Life

	State   machine.State
	At      int64 // when it was read, on the boot clock
	Desired service.Intent
	Wanted  bool // it is to run, after a stop that has yet to begin too
	Started service.Started
	Older   string // why its process is older than its definition; "" if it is not
	Left    string // of a set that a command is for: why the command leaves it as it is
	Verdict verdict.Verdict
	Code    verdict.Code // the reason for the verdict

	Tag     uint32       // of its processes; 0: none yet
	UID     uint32       // of a profile with its own user; 0: the services' user's
	Secrets *redact.Kept // what of its texts is shown to nobody; it goes on to be that of the newest run
	Logged  bool         // its log is open
	Written logs.Stats   // since this supervisor began
	Unsent  *uint64      // lines of its log that the receiver does not have, for all that is known; nil: it is sent nowhere
	Lines   []string     // the end of its log, of a failed service
}

func (v *View) policy() machine.Policy { return machine.PolicyOf(v.Definition) }

// Restarts says why the process that runs has to be started again for another definition
// to hold; "": it has not, or nothing runs.
func (v *View) Restarts(to *service.Definition) string {
	if !v.Active() {
		return ""
	}
	return v.Started.Older(v.State.ID, service.StartOf(to))
}

// Active tells whether a process of it may exist, or is about to.
func (v *View) Active() bool { return core.Active(&v.State) }

// Condition is its state in words, with the reason of one that is not up.
func (v *View) Condition() string { return core.Condition(&v.State, v.Fault) }

// Status is the service as status shows it.
func (v *View) Status() control.Service {
	st := control.Service{
		Name: v.Name, Type: string(v.Definition.Type), State: v.State.Public(),
		Desired: string(v.Desired), Restarts: v.State.Restarts,
	}
	st.Profile, st.Port, st.UID = orNull(v.Definition.Profile), orNull(v.Definition.Port), orNull(v.UID)
	if v.Definition.Profile != "" {
		st.Kind = new(config.KindCalled(v.Definition.Kind))
	}
	st.Outdated, st.OutdatedWhy = v.Older != "", v.Older
	if v.State.Since != 0 {
		st.Since = new(time.Unix(0, v.State.Since).UTC())
	}
	if v.State.Alive() {
		st.PID = new(v.State.PID)
		st.UptimeS = new(max(0, float64(v.At-v.State.StartedAt)/1e9))
		if v.policy().Ready != machine.ReadyAtOnce {
			st.Ready = new(v.State.Phase == machine.Running)
		}
		if v.State.Health != machine.HealthUnknown {
			st.Healthy = new(v.State.Health == machine.Healthy)
		}
		st.StatusText = orNull(v.State.Text)
	}
	if e := v.State.LastExit; e != nil && !e.Lost {
		st.LastExit = &control.Exit{At: time.Unix(0, e.Wall).UTC()}
		if e.Signal != 0 {
			st.LastExit.Signal = new(service.SignalName(e.Signal))
		} else {
			st.LastExit.Code = &e.Code
		}
	}
	st.LogLostBytes, st.LogUnsentLines = v.Written.LostBytes, v.Unsent
	st.Verdict, st.ReasonCode = string(v.Verdict), string(v.Code)
	st.Flapping = verdict.IsFlapping(&v.State, v.At)
	st.Refused = v.Fault
	reason := cmp.Or(v.Fault, v.State.Reason, v.lastWords())
	if st.State == "stopped" {
		reason = cmp.Or(v.Fault, v.State.Reason) // how its last run ended is in last_exit
	}
	if lease := v.State.Lease; v.policy().Deadline && lease.At > v.At {
		at := time.Now().Add(time.Duration(lease.At - v.At)).UTC()
		st.Deadline = &control.Deadline{AtNS: lease.At, At: at, Fence: lease.Fence}
	}
	st.Reason = orNull(reason)
	if v.Fault != "" && !v.Active() {
		st.State = "failed"
	}
	if st.State == "failed" && v.Fault == "" {
		st.LastLines = v.Lines
	}
	return st
}

// isOf tells whether it is the gateway of a profile of a kind; "": of any, or none.
func (v *View) isOf(kind string) bool {
	return kind == "" || v.Definition.Profile != "" && config.KindCalled(v.Definition.Kind) == kind
}

// orNull is where a value is, as JSON has it: null where there is none.
func orNull[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// worthTelling is how long a run that is well tells of the one before it, at
// least: for somebody who comes to see what has happened.
const worthTelling = 10 * time.Minute

// lastWords is how the run before the current one ended, as long as that may
// happen again, or is news: an immediate restart would hide it.
func (v *View) lastWords() string {
	long := int64(max(v.policy().ResetAfter, worthTelling))
	if v.State.LastWords == "" || !v.Active() || v.State.Phase == machine.Running && v.At-v.State.ReadyAt >= long {
		return ""
	}
	return "before: " + v.State.LastWords
}
