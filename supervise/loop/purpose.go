package loop

import (
	"log/slog"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/supervise/machine"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// Purpose is what this container's arguments came to, and the service, if any, that the
// container lives and dies with.
type Purpose struct {
	Start string // service or profile that is started; "": none
	With  string // service or profile; "": the main command, or nothing
	Keep  bool   // a person who stops it does not end the container
}

// PurposeOf is that of the configuration that the container was started with.
func PurposeOf(c *config.Config, b config.Bundle) Purpose {
	p := Purpose{Start: b.Run.Start, With: b.Run.LivesWith(c.Main.ExitOn), Keep: b.Run.Wait && b.Run.Start != ""}
	if p.With == "" && !b.Run.Wait && c.Main.Supervised() {
		p.With = config.MainService
	}
	return p
}

// Names are the services or profiles that a container is for.
func (p Purpose) Names() []string {
	return slices.Compact(slices.DeleteFunc([]string{p.Start, p.With}, func(name string) bool { return name == "" }))
}

// isFor tells whether the container is for a service.
func (p Purpose) isFor(service string) bool {
	return slices.ContainsFunc(p.Names(), func(name string) bool { return name == service || profiles.GatewayName(name) == service })
}

// ending tells PID 1 when the container is to end with the service that it lives with.
type ending struct {
	Purpose
	tier1   *spawn.Tier1
	fleet   *fleet
	records *Records

	settled bool // PID 1 knows the exit code
}

// Fulfilled tells that what the container is for was started. It may have ended while
// there was nobody to tell PID 1.
func (l *Loop) Fulfilled() {
	l.ask(func() {
		if u := l.fleet.find(l.ending.With); u != nil && u.state.LastID > 0 {
			l.ending.outlived(u)
		}
	})
}

// outlived ends the container with u if that is the service it lives with, and
// u has come to an end that is not followed by another start.
func (e *ending) outlived(u *unit) {
	if e.With == "" || e.fleet.find(e.With) != u || e.fleet.set.Stopping() || e.settled {
		return
	}
	switch u.state.Phase {
	case machine.Exited, machine.Failed:
	case machine.Stopped, machine.Gone:
		if e.Keep {
			return
		}
	default:
		return
	}
	code := exitCodeOf(u)
	if u.process.launch.Unrunnable != 0 {
		slog.Error(u.name + ": " + u.state.Reason)
	}
	slog.Info("the container ends with its service", "service", u.name, "state", u.state.Public(), "code", code)
	e.settled = true
	if exit := u.state.LastExit; exit != nil {
		e.records.volume.Journal.Fatal.Store(exit.Memory != "")
	}
	e.tier1.Send(&wire.End{Code: code}, nil, nil)
}

// tellCode tells PID 1, at the end of a container that was stopped, how the
// service that it lived with has ended.
func (e *ending) tellCode() {
	if u := e.fleet.find(e.With); e.With != "" && u != nil && !e.settled {
		e.tier1.Send(&wire.End{Code: exitCodeOf(u)}, nil, nil)
	}
}

// exitCodeOf is how u's last process ended, as an exit code; that of a failure
// is never 0. Of the main command, one that counts as success is.
func exitCodeOf(u *unit) int32 {
	if u.state.Phase == machine.Failed && u.process.launch.Unrunnable != 0 {
		return u.process.launch.Unrunnable
	}
	code := int32(0)
	if e := u.state.LastExit; e != nil {
		code = int32(e.Code)
		if e.Signal != 0 {
			code = 128 + int32(e.Signal)
		}
	}
	switch {
	case u.state.Phase == machine.Failed && code <= 0:
		return control.ExitFailed
	case u.name == config.MainService && slices.Contains(u.definition.Exits.Success, int(code)):
		return 0
	}
	return max(code, 0)
}
