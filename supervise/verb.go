package supervise

import (
	"fmt"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
)

// verb is what a command does to units that exist.
type verb struct {
	name    string
	intent  service.Intent // what it makes a person's intent; IntentNone: leaves it as it is
	renews  bool           // it gives each member a new process
	needed  func(*unit) bool
	apply   func(*fleet, []*unit, machine.Event) (along []*unit)
	outcome func(*unit) func(*unit) (bool, *control.Problem)
	meant   func(*unit) bool // of those that were chosen by how they are: whether they still are so; nil: by name
}

// meaning is v for the services that are in a state, or without names for all of
// which it makes sense.
func (v verb) meaning(names []string, state string, failedOnly bool) verb {
	v.meant = func(u *unit) bool {
		switch {
		case state != "" && state != u.status().State && (state != control.Unhealthy || !u.unhealthy()):
			return false
		case len(names) > 0:
			return true
		case failedOnly && u.state.Phase != machine.Failed:
			return false
		}
		return v.name != "restart" || u.wanted() // restart --all wakes nothing that was stopped
	}
	return v
}

func always(over func(*unit) (bool, *control.Problem)) func(*unit) func(*unit) (bool, *control.Problem) {
	return func(*unit) func(*unit) (bool, *control.Problem) { return over }
}

var (
	verbStart = verb{
		name: "start", intent: service.Running,
		needed:  func(u *unit) bool { return !u.wanted() || u.life.Turn().Stops() || u.state.Phase != machine.Running },
		apply:   (*fleet).startUnits,
		outcome: func(*unit) func(*unit) (bool, *control.Problem) { return started() },
	}
	verbStop = verb{
		name: "stop", intent: service.Stopped,
		needed:  func(u *unit) bool { return u.state.Want == machine.WantUp || u.active() },
		apply:   (*fleet).stopUnits,
		outcome: always(stopped),
	}
	verbRestart = verb{
		name: "restart", intent: service.Running, renews: true,
		needed: func(*unit) bool { return true },
		apply:  (*fleet).restartUnits,
		outcome: func(u *unit) func(*unit) (bool, *control.Problem) {
			return restarted(u.state.ID)
		},
	}
)

// verbs are the commands on services.
var verbs = map[string]verb{"start": verbStart, "stop": verbStop, "restart": verbRestart}

// commanded is what the machine is told of a command.
func commanded(v verb, actor control.Actor) machine.Event {
	return machine.Event{Cause: fmt.Sprintf("%s by uid %d", v.name, actor.UID), Actor: &actor.UID}
}

// seen is u as the gate of the verb sees it; under: it was taken, and is yet to be done.
// To be started or stopped harms nobody, so there it is about those alone that are under
// way; and what has come to be stopped is what a new run is elsewhere.
func (v verb) seen(u *unit, under bool) operation.Seen {
	seen := u.seen()
	switch {
	case v.renews:
	case !under:
		seen.InService, seen.Hopeless = true, false
	case v.name == "stop":
		gone := !u.active() && !u.life.Turn().Stops()
		seen = operation.Seen{InService: gone, For: time.Hour, Run: seen.Run, How: seen.How}
		if gone {
			seen.Run++
		}
	}
	return seen
}

// seen is u as the gate of a rolling operation sees it.
func (u *unit) seen() operation.Seen {
	seen := operation.Seen{
		InService: u.state.Phase == machine.Running && !u.life.Turn().Stops() && u.state.Health != machine.Unhealthy,
		Run:       u.state.LastID,
		Unhealthy: u.unhealthy(),
		Wanted:    u.state.Want == machine.WantUp,
		Down:      !u.active() && u.state.Phase != machine.Backoff,
		How:       u.plight(),
	}
	switch u.state.Phase {
	case machine.Running:
		seen.For = time.Duration(boottime() - u.state.ReadyAt)
	case machine.Exited:
		if u.state.Satisfies(u.policy()) { // a oneshot that is done
			seen.InService, seen.For = !u.life.Turn().Stops(), time.Duration(1<<62)
		} else {
			seen.Ended, seen.Hopeless = true, true
		}
	case machine.Failed, machine.Parked, machine.Stopped, machine.Gone:
		seen.Ended, seen.Hopeless = true, true
	case machine.Backoff:
		seen.Ended = true
	case machine.Waiting:
		seen.Hopeless = u.life.Stuck()
		seen.Ended, seen.Stuck = u.life.Stuck(), u.life.Stuck()
	}
	return seen
}
