package supervise

import (
	"context"
	"log/slog"

	"rlminit/config"
	"rlminit/control"
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
	switch {
	case b.Run.Wait:
		p.with, p.keep = b.Run.Start, true
	case c.Main.ExitOn != "":
		p.with = c.Main.ExitOn
	case c.Main.Supervised():
		p.with = config.MainService
	}
	return p
}

// fulfil starts what the arguments ask for, and what the container lives with,
// whatever was recorded of them. Nobody's intent changes by that.
func (s *Supervisor) fulfil() {
	var names []string
	for _, name := range []string{s.purpose.run.Start, s.purpose.with} {
		if name != "" && (len(names) == 0 || names[0] != name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		u, err := s.lookUp(name)
		if err != nil {
			slog.Error("cannot start what the container is for: " + err.Error())
			s.link.send(&wire.End{Code: control.ExitNoSuchName}, nil, nil)
			return
		}
		start := verbStart
		start.intent = ""
		var along []*unit
		fault := ""
		s.ask(func() {
			fault = u.fault
			u.desired = "running"
			along = s.along(u)
		})
		if fault != "" {
			slog.Error("cannot start what the container is for", "service", name, "err", fault)
			s.link.send(&wire.End{Code: control.ExitFailed}, nil, nil)
			return
		}
		s.operate(context.Background(), start, []*unit{u}, along, s.policy.User.UID, nil)
	}
}

// outlived ends the container with u if that is the service it lives with, and
// u has come to an end that is not followed by another start.
func (s *Supervisor) outlived(u *unit) {
	if s.purpose.with == "" || s.find(s.purpose.with) != u || s.stopping {
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
	slog.Info("the container ends with its service", "service", u.name, "state", u.state.Public(), "code", code)
	s.purpose.settled = true
	s.link.send(&wire.End{Code: code}, nil, nil)
}

// tellCode tells PID 1, at the end of a container that was stopped, how the
// service that it lived with has ended.
func (s *Supervisor) tellCode() {
	if u := s.find(s.purpose.with); s.purpose.with != "" && u != nil && !s.purpose.settled {
		s.link.send(&wire.End{Code: exitCodeOf(u)}, nil, nil)
	}
}

// exitCodeOf is how u's last process ended, as an exit code; that of a failure
// is never 0.
func exitCodeOf(u *unit) int32 {
	code := int32(0)
	if e := u.state.LastExit; e != nil {
		code = int32(e.Code)
		if e.Signal != 0 {
			code = 128 + int32(e.Signal)
		}
	}
	if u.state.Phase == machine.Failed && code <= 0 {
		code = control.ExitFailed
	}
	return max(code, 0)
}
