package supervise

import (
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/logs"
	"rlminit/service"
	"rlminit/supervise/api"
	"rlminit/supervise/core"
	"rlminit/supervise/open"
	"rlminit/supervise/operation"
	"rlminit/supervise/probe"
	"rlminit/supervise/registry"
	"rlminit/supervise/revision"
	"rlminit/supervise/spawn"
	"rlminit/supervise/volume"
	"rlminit/wire"
)

// backend is the supervisor as those know it who ask over the control socket: what
// package api wants of it. Its methods may be called by any goroutine but the
// loop.
type backend struct {
	loop      *mailbox
	tier1     *spawn.Tier1
	prep      *preparer
	fleet     *fleet
	logging   *logging
	records   *records
	directory *directory
	commands  *commands
	services  *services
	jobs      *jobHost
	probes    *probe.Driver
	opened    *open.Driver
}

// Supervisor names the two tiers.
func (s *backend) Supervisor() control.Supervisor {
	return control.Supervisor{Name: "rlminit", Version: cmp.Or(s.records.version, "devel"), PID: os.Getpid(), InitPID: os.Getppid()}
}

func (s *Supervisor) backend() *backend {
	return &backend{
		loop: &s.loop, tier1: s.tier1, prep: &s.prep, fleet: &s.fleet, logging: &s.logging, records: &s.records,
		directory: &s.directory, commands: &s.commands, services: &s.services, jobs: &s.jobs, probes: s.probes, opened: s.opened,
	}
}

// server is every request that the control socket answers.
func (s *Supervisor) server() *api.Server {
	d := s.backend()
	server := api.NewServer(s.prep.Policy, d)
	s.registry.Profiles.Heed(func() registry.Claims { return s.prep.volume.Revisions() })
	server.Add(d, s.registry.Profiles, d, d)
	server.AddOperations(&s.commands)
	if s.jobs.runner != nil {
		s.jobs.runner.Add(server)
	}
	revision.Add(server, s.prep.volume.Revisions, s.directory.unrevised)
	d.addDescriptions(server)
	return server
}

// Caller is the service with a tag, whether it may command, and whether name
// means it.
func (s *backend) Caller(tag uint32, name string) (service string, commands, itself bool) {
	s.loop.read(func() {
		if u := s.fleet.units[s.tier1.Tags.Owner(tag)]; u != nil {
			service, commands = u.name, u.ours && u.definition.Control
			itself = name != "" && s.fleet.find(name) == u
		}
	})
	return service, commands, itself
}

// ReadAll tells whether anybody may see every status.
func (s *backend) ReadAll() bool { return s.prep.Config().ReadAll }

// Environment is what `rlminit exec` needs to be like a service.
func (s *backend) Environment(name string) (control.Environment, error) {
	return s.directory.Environment(name)
}

// Services is every service, by name.
func (s *backend) Services() []control.Service {
	list := []control.Service{}
	s.loop.read(func() {
		units, now := s.fleet.all(), boottime()
		list = slices.Grow(list, len(units))
		for _, u := range units {
			list = append(list, u.statusAt(now))
		}
	})
	list = s.withAtRest(list)
	s.jobs.tellSchedules(list)
	return list
}

// withAtRest adds the profiles at rest. One that has come to have a service since
// list was made is in it, or will be in the next.
func (s *backend) withAtRest(list []control.Service) []control.Service {
	resting := s.directory.registry.AtRest.List()
	if len(resting) == 0 {
		return list
	}
	there := make(map[string]bool, len(list))
	for _, st := range list {
		there[st.Name] = true
	}
	for _, st := range resting {
		if !there[st.Name] {
			list = append(list, st)
		}
	}
	slices.SortStableFunc(list, func(a, b control.Service) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Service is one of them.
func (s *backend) Service(name string) (st control.Service, err error) {
	u, err := s.directory.lookUp(name)
	if err == nil {
		one := make([]control.Service, 1)
		s.loop.read(func() { one[0] = u.status() })
		s.jobs.tellSchedules(one)
		st = one[0]
	}
	return st, err
}

// Operate carries out start, stop or restart of one service, or of "all", or of
// those of all that how says.
func (s *backend) Operate(ctx context.Context, name, of string, how control.Operate, actor control.Actor) ([]control.Outcome, uint64, error) {
	if how.Runtime && name != core.VerbStop {
		return nil, 0, control.BadRequest("cannot %s: runtime goes with stop alone", name)
	}
	if how.Failed && name != core.VerbStart {
		return nil, 0, control.BadRequest("cannot %s: failed goes with start alone", name)
	}
	if err := control.CheckState(how.State); err != nil {
		return nil, 0, err
	}
	names := how.Names
	if of != "all" {
		if len(names) > 0 || how.State != "" {
			return nil, 0, control.BadRequest("cannot %s %s: names and state go with all", name, of)
		}
		if _, err := s.directory.lookUp(of); err != nil {
			return nil, 0, err
		}
		names = []string{of}
	}
	units, only, problems := s.directory.choose(names, how.State, name, how.Failed)
	var outcomes []control.Outcome
	var id uint64
	if len(units) > 0 { // a command on nothing is no operation
		cmd := commandOf(name, units, actor)
		if cmd.Only = only; how.Runtime {
			cmd.Want = service.IntentNone
		}
		outcomes, id, _ = s.commands.operate(ctx, cmd, units, how.Wait)
	}
	said := slices.Clone(names) // and what a pattern has matched that cannot be read now
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		if !slices.Contains(names, name) {
			said = append(said, name)
		}
	}
	for _, name := range said {
		if problem := problems[name]; problem != nil {
			outcomes = append(outcomes, control.Outcome{Service: control.Service{Name: name}, Problem: problem})
		}
	}
	return outcomes, id, nil
}

// Signal sends a signal to the main process of a service.
func (s *backend) Signal(name string, signal syscall.Signal) (st control.Service, err error) {
	u, err := s.directory.lookUp(name)
	if err != nil {
		return st, err
	}
	s.loop.read(func() {
		if !u.state.Alive() {
			err = control.NotRunning(u.title())
			return
		}
		st = u.status()
		s.tier1.Send(&wire.Signal{ID: u.state.ID, Signal: int32(signal), Scope: wire.ScopeMain}, nil, nil)
	})
	return st, err
}

// Wait waits until a service runs, or has stopped.
func (s *backend) Wait(ctx context.Context, name string, what control.WaitFor) (st control.Service, err error) {
	u, err := s.directory.lookUp(name)
	if err != nil {
		return st, err
	}
	gate := operation.Gate{Patient: true}
	switch what.For {
	case "running":
	case "stopped":
		gate.Down = true
	default:
		return st, control.BadRequest("cannot wait for %q; write running or stopped", what.For)
	}
	outcome := s.commands.outcome(ctx, u, gate, &control.Wait{TimeoutMS: what.TimeoutMS})
	if outcome.Problem != nil {
		return st, outcome.Problem
	}
	return outcome.Service, nil
}

// Shutdown ends the container.
func (s *backend) Shutdown() {
	s.tier1.Send(&wire.End{Code: -1}, nil, nil)
}

// ReadLog writes the log of a service, or of all merged.
func (s *backend) ReadLog(ctx context.Context, w io.Writer, name string, query logs.Query) error {
	if name == "all" {
		query.Prefix, query.All = true, true
		s.loop.read(func() {
			for _, u := range s.fleet.all() {
				if u.output.slot != nil {
					continue // All has it
				}
				query.Sources = append(query.Sources, source(u))
			}
		})
		for _, st := range s.directory.registry.AtRest.List() {
			query.Sources = append(query.Sources, logs.Source{Name: st.Name, Dir: volume.LogDir(st.Name, *st.Profile)})
		}
	} else {
		u, err := s.directory.lookUp(name)
		if err != nil {
			return err
		}
		s.loop.read(func() { query.Sources = []logs.Source{source(u)} })
	}
	if err := s.logging.logs.Read(ctx, w, query); err != nil {
		return control.Failed("cannot read the log: %v", err)
	}
	return nil
}

func source(u *unit) logs.Source {
	return logs.Source{Name: u.name, Dir: volume.LogDir(u.name, u.definition.Profile)}
}

// Redacted takes what a service was given as secrets out of the lines that are
// written to it.
func (s *backend) Redacted(w io.Writer, name string) (io.Writer, error) {
	u, err := s.directory.lookUp(name)
	if err != nil {
		return nil, err
	}
	var secrets redact.Set
	s.loop.read(func() { secrets = u.process.secrets })
	return redacting{w, secrets}, nil
}

// redacting takes secrets out of what is written to it, which are whole lines.
type redacting struct {
	io.Writer
	secrets redact.Set
}

func (r redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.Writer, r.secrets.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
