package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// purpose is what this container's arguments came to, and the service, if any,
// that the container lives and dies with.
type purpose struct {
	run   config.Run
	flags map[string]string // of the command line: a reload keeps them
	args  []string

	with    string // service or profile; "": the main command, or nothing
	keep    bool   // a person who stops it does not end the container
	settled bool   // PID 1 knows the exit code
}

// purposeOf reads it from the configuration that the container was started with.
func purposeOf(c *config.Config, b config.Bundle) purpose {
	p := purpose{run: b.Run, flags: b.Flags, args: b.Args}
	p.with = b.Run.LivesWith(c.Main.ExitOn)
	p.keep = b.Run.Wait && b.Run.Start != ""
	if p.with == "" && !b.Run.Wait && c.Main.Supervised() {
		p.with = config.MainService
	}
	return p
}

// names are the services or profiles that a container is for.
func (p purpose) names() []string {
	var names []string
	for _, name := range []string{p.run.Start, p.with} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// isFor tells whether the container is for a service.
func (p purpose) isFor(service string) bool {
	return slices.ContainsFunc(p.names(), func(name string) bool { return name == service || profiles.GatewayName(name) == service })
}

// fulfil starts, once a boot, what the arguments ask for and what the container
// lives with, whatever was recorded of them. Nobody's intent changes by that.
func (s *Supervisor) fulfil() {
	if !s.work.Done(handover.Fulfilled) {
		for _, name := range s.purpose.names() {
			if code, err := s.startFor(name); err != nil {
				slog.Error("cannot start what the container is for: " + err.Error())
				s.link.Send(&wire.End{Code: code}, nil, nil)
				break
			}
		}
		s.work.Finish(handover.Fulfilled)
	}
	s.ask(func() {
		// It may have ended while there was nobody to tell PID 1.
		if u := s.find(s.purpose.with); u != nil && u.state.LastID > 0 {
			s.outlived(u)
		}
	})
}

// startFor starts one of them, and what goes along with it. What has been started
// in this boot already is not, though it may have ended: by a predecessor that
// died while it was at it, say.
func (s *Supervisor) startFor(name string) (code int32, err error) {
	u, err := s.directory.lookUp(name)
	if err != nil {
		return control.ExitNoSuchName, err
	}
	started := func(u *unit) bool { return u.state.LastID > 0 }
	var units, along []*unit
	s.ask(func() {
		if u.fault != "" {
			err = fmt.Errorf("%s: %s", name, u.fault)
			return
		}
		u.desired = service.Running
		s.records.keepState(u)
		units = slices.DeleteFunc([]*unit{u}, started)
		along = slices.DeleteFunc(s.along(u), started)
	})
	if err != nil {
		return control.ExitFailed, err
	}
	start := verbStart
	start.intent = service.IntentNone
	s.commands.operate(context.Background(), start, units, along, s.policy.User.UID, nil)
	return 0, nil
}

// outlived ends the container with u if that is the service it lives with, and
// u has come to an end that is not followed by another start.
func (s *Supervisor) outlived(u *unit) {
	if s.purpose.with == "" || s.find(s.purpose.with) != u || s.stopping || s.purpose.settled {
		return
	}
	switch u.state.Phase {
	case machine.Exited, machine.Failed:
	case machine.Stopped, machine.Gone:
		if s.purpose.keep {
			return
		}
	default:
		return
	}
	code := exitCodeOf(u)
	if u.unrunnable != 0 {
		slog.Error(u.name + ": " + u.state.Reason)
	}
	slog.Info("the container ends with its service", "service", u.name, "state", u.state.Public(), "code", code)
	s.purpose.settled = true
	s.link.Send(&wire.End{Code: code}, nil, nil)
}

// tellCode tells PID 1, at the end of a container that was stopped, how the
// service that it lived with has ended.
func (s *Supervisor) tellCode() {
	if u := s.find(s.purpose.with); s.purpose.with != "" && u != nil && !s.purpose.settled {
		s.link.Send(&wire.End{Code: exitCodeOf(u)}, nil, nil)
	}
}

// exitCodeOf is how u's last process ended, as an exit code; that of a failure
// is never 0. Of the main command, one that counts as success is.
func exitCodeOf(u *unit) int32 {
	if u.state.Phase == machine.Failed && u.unrunnable != 0 {
		return u.unrunnable
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
