package control

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"rlminit/internal/nearest"
)

// The exit codes of every verb.
const (
	ExitDone         = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitNotRunning   = 3
	ExitNoSuchName   = 4
	ExitNotPermitted = 5
	ExitNoAnswer     = 6
	ExitTimedOut     = 7
	ExitUnhealthy    = 8
	ExitApplied      = 9  // a plan, and something has changed
	ExitRefused      = 10 // out of scope, not allowed, or refused by a guard
	ExitNotApproved  = 11 // the plan, or it was altered
	ExitPartly       = 12 // rolled back in part: a person is needed
	ExitDeletion     = 13 // it was not allowed
	ExitPending      = 14 // changes are
	ExitNotClean     = 15 // the plan's source
	ExitExpired      = 16 // the plan
	ExitExists       = 17 // also: the state of the thing forbids it; a plan's starting point has changed
)

// The kinds of problem: the last part of the URN in Problem.Type.
const (
	KindFailed       = "failed"
	KindUsage        = "usage"
	KindNoSuchPath   = "no-such-path"
	KindWrongMethod  = "wrong-method"
	KindTooLarge     = "too-large"
	KindNotRunning   = "not-running"
	KindNoSuchName   = "no-such-name"
	KindNotPermitted = "not-permitted"
	KindNoAnswer     = "no-answer"
	KindBusy         = "busy"
	KindTimedOut     = "timed-out"
	KindUnhealthy    = "unhealthy"
	KindExists       = "exists"
	KindConflict     = "conflict"
	KindRefused      = "refused"
	KindNotApproved  = "not-approved"
	KindDeletion     = "deletion-not-allowed"
	KindExpired      = "expired"
	KindMoved        = "base-moved"
	KindNotSupported = "not-supported"
)

// kinds gives each kind of problem its title, HTTP status and exit code.
func kinds(kind string) (title string, status, exit int) {
	switch kind {
	case KindUsage:
		return "The request is not valid", http.StatusBadRequest, ExitUsage
	case KindNoSuchPath:
		return "No such path", http.StatusNotFound, ExitUsage
	case KindWrongMethod:
		return "The method is not allowed", http.StatusMethodNotAllowed, ExitUsage
	case KindTooLarge:
		return "The request is too large", http.StatusRequestEntityTooLarge, ExitUsage
	case KindNotRunning:
		return "Not running", http.StatusConflict, ExitNotRunning
	case KindNoSuchName:
		return "No such name", http.StatusNotFound, ExitNoSuchName
	case KindNotPermitted:
		return "Not permitted", http.StatusForbidden, ExitNotPermitted
	case KindNoAnswer:
		return "No rlminit answers", http.StatusServiceUnavailable, ExitNoAnswer
	case KindBusy:
		return "Too many requests at once", http.StatusServiceUnavailable, ExitNoAnswer
	case KindTimedOut:
		return "Timed out", http.StatusGatewayTimeout, ExitTimedOut
	case KindUnhealthy:
		return "Unhealthy", http.StatusServiceUnavailable, ExitUnhealthy
	case KindExists:
		return "Exists already", http.StatusConflict, ExitExists
	case KindConflict:
		return "Its state forbids it", http.StatusConflict, ExitExists
	case KindRefused:
		return "Refused", http.StatusForbidden, ExitRefused
	case KindNotApproved:
		return "Not approved", http.StatusForbidden, ExitNotApproved
	case KindDeletion:
		return "Deletion is not allowed", http.StatusConflict, ExitDeletion
	case KindExpired:
		return "The plan is too old", http.StatusConflict, ExitExpired
	case KindMoved:
		return "What it starts from has changed", http.StatusConflict, ExitExists
	case KindNotSupported:
		return "Not supported here", http.StatusConflict, ExitRefused
	default:
		return "Failed", http.StatusInternalServerError, ExitFailed
	}
}

// NewProblem makes a problem of one of the kinds above; any other kind is
// KindFailed. The detail is the line that a person reads, without the leading
// "rlminit: ".
func NewProblem(kind, detail string) *Problem {
	title, status, exit := kinds(kind)
	return &Problem{
		Type:     "urn:rlminit:" + kind,
		Title:    title,
		Status:   status,
		Detail:   detail,
		ExitCode: exit,

		Retryable: kind == KindNoAnswer || kind == KindTimedOut || kind == KindBusy,
	}
}

// Retry is p as one that may succeed at another time.
func (p *Problem) Retry() *Problem {
	p.Retryable = true
	return p
}

// Failed is a problem with exit code 1: the request was tried and did
// not work.
func Failed(format string, args ...any) *Problem {
	return NewProblem(KindFailed, fmt.Sprintf(format, args...))
}

// BadRequest is a problem with exit code 2: the request makes no sense.
func BadRequest(format string, args ...any) *Problem {
	return NewProblem(KindUsage, fmt.Sprintf(format, args...))
}

// TooLarge refuses a body of more than limit bytes, exit code 2.
func TooLarge(limit int64) *Problem {
	return NewProblem(KindTooLarge, fmt.Sprintf("the request is larger than %d bytes", limit))
}

// NotRunning is a problem with exit code 3: name is no running service.
func NotRunning(name string) *Problem {
	return NewProblem(KindNotRunning, name+" is not running")
}

// NoSuchName is a problem with exit code 4, with the nearest of the known
// names as a suggestion. Known holds the words that a person may write: the names of
// services and the bare names of profiles.
func NoSuchName(name string, known []string) *Problem {
	return noSuch("profile or service", name, known)
}

// NoSuchProfile is NoSuchName where only a profile would do.
func NoSuchProfile(name string, known []string) *Problem {
	return noSuch("profile", name, known)
}

func noSuch(what, name string, known []string) *Problem {
	detail := fmt.Sprintf("no %s %q", what, name)
	if near := nearest.Name(name, known); near != "" {
		detail += fmt.Sprintf("; did you mean %q?", near)
	}
	return NewProblem(KindNoSuchName, detail)
}

// ServiceStates are the states that a service can be in, as Service.State has them.
var ServiceStates = []string{"stopped", "waiting", "starting", "running", "stopping", "backoff", "failed", "exited"}

// Unhealthy is what people see of a service that is running, and whose health probe
// fails.
const Unhealthy = "unhealthy"

// Scheduled is what people see of a service that is stopped, and that its schedule runs.
const Scheduled = "scheduled"

// Seen is the state as people see it: Unhealthy and Scheduled have words of their own.
func (s *Service) Seen() string {
	switch {
	case s.State == "running" && s.Healthy != nil && !*s.Healthy:
		return Unhealthy
	case s.State == "stopped" && s.Schedule != nil && s.Schedule.Next != nil:
		return Scheduled
	}
	return s.State
}

// Is tells whether a service is in a state, of States, or of that verdict.
func (s *Service) Is(state string) bool {
	switch state {
	case s.State, s.Verdict, s.Seen():
		return true
	case Outdated:
		return s.Outdated
	}
	return false
}

// Attention orders services by how much they ask a person to look at them, 0 first: those
// that are ill, those that restart again and again, those that are on their way, then
// those with a mark, then the rest.
func (s *Service) Attention() int {
	switch {
	case s.Verdict == "ill":
		return 0
	case s.Flapping:
		return 1
	case s.Verdict == "pending":
		return 2
	case s.Refused != "" || s.Outdated || s.ReasonCode == "scheduled_failed":
		return 3
	case s.Verdict == "off":
		return 5
	}
	return 4
}

// Outdated is what people see of a service whose process has older values than are in force.
const Outdated = "outdated"

// The words of an event for a service's new verdict.
const (
	ToIll      = "ill"      // it came to be ill
	ToWell     = "well"     // it was told to be ill, and is so no more
	ToFlapping = "flapping" // three restarts within ten minutes that nobody asked for
)

// Verdicts are the answers to whether a service is well, as Service.Verdict has them.
var Verdicts = []string{"ok", "pending", "ill", "off"}

// States are the states and verdicts that services can be chosen by.
var States = slices.Concat(ServiceStates, []string{Unhealthy, Outdated}, Verdicts)

// CheckState refuses a request about services in a state that none can be in; ""
// is any.
func CheckState(state string) error {
	if state == "" || slices.Contains(States, state) {
		return nil
	}
	return NoneOf("no state", state, States, "a service is "+strings.Join(States, ", "))
}

// NoneOf refuses a word that is none of those that are known, and says which was
// likely meant, or else which there are. Exit code 2.
func NoneOf(what, written string, known []string, which string) *Problem {
	if near := nearest.Name(written, known); near != "" {
		which = fmt.Sprintf("did you mean %q?", near)
	}
	return BadRequest("%s %q; %s", what, written, which)
}

// NotPermitted is a problem with exit code 5.
func NotPermitted(format string, args ...any) *Problem {
	return NewProblem(KindNotPermitted, fmt.Sprintf(format, args...))
}

// WrongUser refuses a caller that is neither root nor the service user, exit
// code 5.
func WrongUser(caller, services uint32) *Problem {
	return NotPermitted("permission denied: you are uid %d, services run as %d; use docker exec without -u, or with -u %d",
		caller, services, services)
}

// TaggedCaller refuses a service that asks its supervisor for more than its definition
// allows, exit code 5. may is its level of control; "": none.
func TaggedCaller(name, may string) *Problem {
	if may != "" {
		return NotPermitted("permission denied: %s is a supervised service and may not do this: it has \"control: %s\"", name, may)
	}
	return NotPermitted("permission denied: %s is a supervised service and may read its own status only; add \"control: true\" to its definition", name)
}

// NoAnswer is a problem with exit code 6: nobody, or no supervisor, is there
// to answer.
func NoAnswer(format string, args ...any) *Problem {
	return NewProblem(KindNoAnswer, fmt.Sprintf(format, args...))
}

// Busy is a problem with exit code 6: nothing was done, since too many requests are
// answered at the moment.
func Busy(format string, args ...any) *Problem {
	return NewProblem(KindBusy, fmt.Sprintf(format, args...))
}

// busy tells whether an error is that.
func busy(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Type == "urn:rlminit:"+KindBusy
}

// TimedOut is a problem with exit code 7: after the given time, the awaited service was
// still in the given state. see is the verb that tells more, with its arguments.
func TimedOut(what, state string, after time.Duration, see string) *Problem {
	return NewProblem(KindTimedOut, fmt.Sprintf("%s: still %s after %s; see rlminit %s", what, state, roughly(after), see))
}

// roughly rounds a time as a person would say it.
func roughly(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= 100*time.Millisecond:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// Refused is a problem with exit code 10: a guard says no.
func Refused(format string, args ...any) *Problem {
	return NewProblem(KindRefused, fmt.Sprintf(format, args...))
}

// NotSupported is a problem with exit code 10: the request cannot be
// enforced here.
func NotSupported(format string, args ...any) *Problem {
	return NewProblem(KindNotSupported, fmt.Sprintf(format, args...))
}

// StillNeeded is a problem with exit code 17: an entry of the trash is left, for a
// rollback of a revision takes it.
func StillNeeded(entry string, revision int) *Problem {
	return Conflict("%s is left for a rollback of revision %d; --needed removes it all the same", entry, revision)
}

// Conflict is a problem with exit code 17: the state of the thing forbids what
// was asked for.
func Conflict(format string, args ...any) *Problem {
	return NewProblem(KindConflict, fmt.Sprintf(format, args...))
}
