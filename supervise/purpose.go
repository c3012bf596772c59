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
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/serve"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// purpose is what this container's arguments came to, and the service, if any,
// that the container lives and dies with. It is fulfilled once a boot, and then tells
// PID 1 when the container is to end with that service.
type purpose struct {
	loop    *mailbox
	tier1   *spawn.Tier1
	fleet   *fleet
	records *records
	backend *serve.Backend

	run config.Run

	with    string // service or profile; "": the main command, or nothing
	keep    bool   // a person who stops it does not end the container
	settled bool   // PID 1 knows the exit code; the loop's
}

// read takes it from the configuration that the container was started with.
func (p *purpose) read(c *config.Config, b config.Bundle) {
	p.run = b.Run
	p.with = b.Run.LivesWith(c.Main.ExitOn)
	p.keep = b.Run.Wait && b.Run.Start != ""
	if p.with == "" && !b.Run.Wait && c.Main.Supervised() {
		p.with = config.MainService
	}
}

// names are the services or profiles that a container is for.
func (p *purpose) names() []string {
	names := slices.DeleteFunc([]string{p.run.Start, p.with}, func(name string) bool { return name == "" })
	return slices.Compact(names)
}

// isFor tells whether the container is for a service.
func (p *purpose) isFor(service string) bool {
	return slices.ContainsFunc(p.names(), func(name string) bool { return name == service || profiles.GatewayName(name) == service })
}

// fulfil starts, once a boot, what the arguments ask for and what the container
// lives with, whatever was recorded of them. Nobody's intent changes by that.
func (p *purpose) fulfil() {
	if !p.records.memory.Done(handover.Fulfilled) {
		for _, name := range p.names() {
			if code, err := p.startFor(name); err != nil {
				slog.Error("cannot start what the container is for: " + err.Error())
				p.tier1.Send(&wire.End{Code: code}, nil, nil)
				break
			}
		}
		p.records.memory.Finish(handover.Fulfilled)
	}
	p.loop.ask(func() {
		// It may have ended while there was nobody to tell PID 1.
		if u := p.fleet.find(p.with); u != nil && u.state.LastID > 0 {
			p.outlived(u)
		}
	})
}

// startFor starts one of them, and what goes along with it. What has been started
// in this boot already is not, though it may have ended: by a predecessor that
// died while it was at it, say.
func (p *purpose) startFor(name string) (code int32, err error) {
	u, err := p.backend.LookUp(name)
	if err != nil {
		return control.ExitNoSuchName, err
	}
	if u.Fault != "" {
		return control.ExitFailed, fmt.Errorf("%s: %s", name, u.Fault)
	}
	p.loop.ask(func() {
		p.fleet.apply(core.Input{Kind: core.Want, Node: u.Life.Node(), Wants: core.Wants{Desired: service.Running}})
	})
	units := []*serve.View{u}
	cmd := serve.CommandOf(core.VerbStart, units, control.Actor{UID: p.backend.Policy.User.UID})
	cmd.Want, cmd.Only.Fresh = service.IntentNone, true
	p.backend.Give(context.Background(), cmd, units, nil)
	return 0, nil
}

// outlived ends the container with u if that is the service it lives with, and
// u has come to an end that is not followed by another start.
func (p *purpose) outlived(u *unit) {
	if p.with == "" || p.fleet.find(p.with) != u || p.fleet.set.Stopping() || p.settled {
		return
	}
	switch u.state.Phase {
	case machine.Exited, machine.Failed:
	case machine.Stopped, machine.Gone:
		if p.keep {
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
	p.settled = true
	if e := u.state.LastExit; e != nil {
		p.records.volume.Journal.Fatal.Store(e.Memory != "")
	}
	p.tier1.Send(&wire.End{Code: code}, nil, nil)
}

// tellCode tells PID 1, at the end of a container that was stopped, how the
// service that it lived with has ended.
func (p *purpose) tellCode() {
	if u := p.fleet.find(p.with); p.with != "" && u != nil && !p.settled {
		p.tier1.Send(&wire.End{Code: exitCodeOf(u)}, nil, nil)
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
