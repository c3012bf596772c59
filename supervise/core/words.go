package core

import (
	"strconv"
	"strings"
	"time"

	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
)

// words are why a member does not come to what an operation wants of it, for people.
func words(o *Operation, l *Life, why operation.Why, now int64) string {
	title, gate := l.Title(), o.command.gate()
	switch why {
	case operation.Removed:
		return title + " was removed"
	case operation.Started:
		return title + " was started again before it had stopped"
	case operation.Unhealthy:
		return "it has become unhealthy"
	case operation.Early:
		if !gate.Strict {
			return title + " ended as soon as it was started: " + l.attempt() + "; it is started again, see rlminit logs " + title
		}
		return "it ended before it had been ready for " + gate.Steady.String()
	case operation.Faulty:
		if gate.Fresh && Active(&l.state) && !gate.Strict { // with the definition before, and left alone
			return title + " is not restarted: " + l.definition.Fault
		}
	}
	switch {
	case gate.Strict:
		return "it is " + l.Condition()
	case gate.Patient && l.state.Phase == machine.Exited:
		return title + " has exited: " + l.state.LastExit.String() + "; start it with rlminit start " + title
	}
	return l.notUp(why, now)
}

// notUp is why a life did not come up by an attempt.
func (l *Life) notUp(why operation.Why, now int64) string {
	title := l.Title()
	switch why {
	case operation.Faulty:
		return title + " failed: " + l.definition.Fault + "; correct it, then rlminit reload"
	case operation.Stopped:
		return title + " was stopped before it was ready"
	case operation.Held:
		return title + " is waiting: " + l.state.Blocked
	case operation.Full:
		return title + " cannot be started yet: " + l.state.Reason + "; it is tried again"
	case operation.Tried:
		next := "it has been tried again, and is " + l.Condition()
		if l.state.Phase == machine.Backoff {
			next = "it is tried again in " + soon(l.state.Deadlines.Start-now)
		}
		return title + " is not up: " + l.attempt() + "; " + next + "; see rlminit logs " + title
	}
	return l.Failure()
}

// attempt is why the latest attempt has failed, with its last output.
func (l *Life) attempt() string {
	why := l.state.Reason
	if l.state.Phase != machine.Backoff {
		why = l.state.LastWords
		if why == "" && l.state.LastExit != nil {
			why = l.state.LastExit.String()
		}
	}
	if strings.HasPrefix(why, "cannot ") { // and has said nothing
		return why
	}
	return why + l.lastSaid()
}

// Failure is the line of a service that failed, with what to do.
func (l *Life) Failure() string {
	title, why := l.Title(), l.state.Reason
	if strings.HasPrefix(why, "cannot run ") { // it has nothing to do with what an earlier run logged
		return title + ": " + why
	}
	return title + " failed: " + why + l.lastSaid() + "; see rlminit logs " + title + ", then rlminit start " + title
}

// lastSaid is the part after a reason, with a run's last output.
func (l *Life) lastSaid() string {
	if l.known.said == "" {
		return ""
	}
	return ", " + strconv.Quote(l.known.said)
}

// soon is how long it is until a time, for people.
func soon(left int64) string {
	d := durationOf(max(0, left))
	if d > time.Second {
		return d.Round(time.Second).String()
	}
	return max(d.Round(10*time.Millisecond), 10*time.Millisecond).String()
}

// WaitsFor is the blocker of a member that is under way.
func (s *Set) WaitsFor(l *Life) string {
	if l.turn.Stops() {
		if before := s.Before(l.node); before != "" {
			return "waits for " + before + " to stop"
		}
	}
	if l.state.Phase == machine.Waiting {
		return l.state.Blocked
	}
	return "is " + l.state.Public()
}
