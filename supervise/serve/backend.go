package serve

import (
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/journal"
	"rlminit/logs"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/api"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/supervise/revision"
	"rlminit/supervise/settings"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Backend is the supervisor as those know it who ask over the control socket: what
// package api wants of it.
type Backend struct{ *Commands }

// Given is what the backend is given of what is beside it.
type Given struct {
	Version  string
	Policy   *wire.Policy
	Settings *settings.Settings
	Registry *registry.Registry
	Volume   Volume
	Users    Users
	Walls    func() *walls.Place
	Tags     *handover.Tags
	Tagged   bool // processes bear tags here
	Leaves   cgroup.Leaves

	Spawns  Spawns
	Copies  Copies
	Journal func() *journal.Journal                                                                              // nil: there is none
	Events  func(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error // there, what happened lately
	Counts  func(order.Node, machine.Probe) *control.ProbeCounts
	Log     Logs
	Stored  func(order.Node) *control.Stored               // what a service has stored of descriptors; nil: it can store none
	Place   func(ctx context.Context, digest string) error // puts a configuration in place
	Remake  func() error                                   // makes the supervisor's directories on the volume again; nil: nobody does
}

// Logs are what services write.
type Logs interface {
	Read(ctx context.Context, w io.Writer, query logs.Query) error
	// Pipes are those of a service's log, which is opened; done gives them back.
	Pipes(service string) (pipes [2]int, done func(), err error)
	Unsent() []string // where it cannot be sent on to now, a sentence each
}

// Volume is the volume, as long as it is ours.
type Volume interface {
	Store() *profiles.Store // nil: it is not
	Absent() string         // why
	ReadOnly() bool
	Revisions() *revision.Revisions
}

// Users says as whom services run.
type Users interface {
	OwnUser(*service.Definition) (uint32, *rights.User, error)
	RecordedUser(*service.Definition) (uint32, *rights.User)
	Secrets(*service.Definition) redact.Set // what its texts may have in them
	Identity(uid uint32, of *service.Definition) wire.Identity
	Environment(of *service.Definition, uid uint32) ([]string, error)
}

// Spawns is the way to tier 1, and the ids of spawns of jobs.
type Spawns interface {
	Send(m wire.Message, fds, after []int)
	NewID(owner interface {
		Takes(wire.Child) bool
		Hear(wire.Message)
	}) uint64
	Disown(id uint64)
}

// Copies are those of what happened: status files, and files of profiles.
type Copies interface {
	Shown()               // returns when all say so, or the answer to a caller has waited long enough
	Copied()              // returns when those of profiles say what was commanded, likewise
	Recorded(name string) // has what was seen of a service written again
}

// New is the backend of a loop. What is given may come later, but before anybody asks.
func New(loop Loop, given *Given) *Backend {
	directory := &Directory{given, loop}
	return &Backend{&Commands{directory, &JobHost{Directory: directory}}}
}

// Supervisor names the two tiers.
func (s *Backend) Supervisor() control.Supervisor {
	return control.Supervisor{Name: "rlminit", Version: cmp.Or(s.Version, "devel"), PID: os.Getpid(), InitPID: os.Getppid()}
}

// Server is every request that the control socket answers.
func (s *Backend) Server() *api.Server {
	server := api.NewServer(s.Policy, s)
	s.Registry.Profiles.Heed(func() registry.Claims { return s.Volume.Revisions() })
	server.Add(s, s.Registry.Profiles, s, s)
	server.AddOperations(s)
	if s.Jobs.runner != nil {
		s.Jobs.runner.Add(server)
	}
	revision.Add(server, s.Volume.Revisions, s.Registry.Profiles, s.unrevised)
	s.addDescriptions(server)
	return server
}

// Commander tells whether a tag, or the page's uid, is that of a service that may command.
// It waits for nothing, since it is asked of each connection.
func (s *Backend) Commander(uid, tag uint32) bool { return s.loop.Commander(s.taggedService(uid, tag)) }

// taggedService is the name of the service with a tag; "": there is none.
func (s *Backend) taggedService(uid, tag uint32) string {
	if tag == 0 && uid == s.Policy.Profiles.Page {
		return config.PageService
	}
	return s.Tags.Owner(tag)
}

// Caller is the service with a tag, what it may ask, and whether name means it. The page
// is known by its uid, too.
func (s *Backend) Caller(uid, tag uint32, name string) (service string, may service.Control, itself bool) {
	of := s.taggedService(uid, tag)
	s.loop.Read(func(now Services) {
		if u := now.Named(of); u != nil {
			if service = u.Name; u.Ours {
				may = u.Definition.Control
			}
			found := now.Find(name)
			itself = name != "" && found != nil && found.Life == u.Life
		}
	})
	return service, may, itself
}

// ReadAll tells whether anybody may see every status.
func (s *Backend) ReadAll() bool { return s.Settings.Current().ReadAll }

// Services is every service, by name.
func (s *Backend) Services() []control.Service {
	list := []control.Service{}
	s.loop.Read(func(now Services) {
		for u := range now.All() {
			list = append(list, u.Status())
		}
	})
	list = s.withAtRest(list)
	s.Jobs.tellSchedules(list)
	return list
}

// withAtRest adds the profiles at rest. One that has come to have a service since
// list was made is in it, or will be in the next.
func (s *Backend) withAtRest(list []control.Service) []control.Service {
	resting := s.Registry.AtRest.List()
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
func (s *Backend) Service(name string) (st control.Service, err error) {
	u, err := s.LookUp(name)
	if err == nil {
		one := []control.Service{u.Status()}
		s.Jobs.tellSchedules(one)
		st = one[0]
	}
	return st, err
}

// Operate carries out start, stop or restart of one service, or of "all", or of
// those of all that how says.
func (s *Backend) Operate(ctx context.Context, name, of string, how control.Operate, actor control.Actor) ([]control.Outcome, uint64, error) {
	if how.Runtime && name != core.VerbStop {
		return nil, 0, control.BadRequest("cannot %s: runtime goes with stop alone", name)
	}
	if how.Failed && name != core.VerbStart {
		return nil, 0, control.BadRequest("cannot %s: failed goes with start alone", name)
	}
	if how.Claimed {
		gateway, err := s.claimed(name, of)
		if err != nil {
			return nil, 0, err
		}
		of = gateway
	}
	names := how.Names
	if of != "all" {
		if len(names) > 0 || how.State != "" || how.Kind != "" {
			return nil, 0, control.BadRequest("cannot %s %s: names, state and kind go with all", name, of)
		}
		if _, err := s.LookUp(of); err != nil {
			return nil, 0, err
		}
		names = []string{of}
	}
	meant := set{names: names, state: how.State, kind: how.Kind, failed: how.Failed}
	if err := s.check(meant); err != nil {
		return nil, 0, err
	}
	is := s.choose(meant, name)
	units, problems := is.units, is.problems
	var outcomes []control.Outcome
	var id uint64
	lease, err := leaseFor(units, name, of, how.Deadline)
	if err != nil {
		return nil, 0, err
	}
	if len(units) > 0 { // a command on nothing is no operation
		cmd := CommandOf(name, units, actor)
		cmd.Event.Lease, cmd.Claimed = lease, how.Claimed
		if cmd.Only = is.only; how.Runtime {
			cmd.Want = service.IntentNone
		}
		outcomes, id, _ = s.Give(ctx, cmd, units, how.Wait)
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
	for _, u := range is.left {
		outcomes = append(outcomes, control.Outcome{Service: u.Status(), Left: u.Left})
	}
	return outcomes, id, nil
}

// Signal sends a signal to the main process of a service.
func (s *Backend) Signal(name string, signal syscall.Signal) (st control.Service, err error) {
	u, err := s.LookUp(name)
	switch {
	case err != nil:
		return st, err
	case !u.State.Alive():
		return st, control.NotRunning(u.Title)
	}
	s.Spawns.Send(&wire.Signal{ID: u.State.ID, Signal: int32(signal), Scope: wire.ScopeMain}, nil, nil)
	return u.Status(), nil
}

// Wait waits until a service runs, or has stopped.
func (s *Backend) Wait(ctx context.Context, name string, what control.WaitFor) (st control.Service, err error) {
	u, err := s.LookUp(name)
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
	outcome := s.Outcome(ctx, u, gate, &control.Wait{TimeoutMS: what.TimeoutMS})
	if outcome.Problem != nil {
		return st, outcome.Problem
	}
	return outcome.Service, nil
}

// Shutdown ends the container.
func (s *Backend) Shutdown() {
	s.Spawns.Send(&wire.End{Code: -1}, nil, nil)
}

// ReadLog writes the log of a service, or of all merged.
func (s *Backend) ReadLog(ctx context.Context, w io.Writer, name string, query logs.Query) error {
	if name == "all" {
		query.Prefix, query.All = true, true
		s.loop.Read(func(now Services) {
			for u := range now.All() {
				if !u.Logged { // else All has it
					query.Sources = append(query.Sources, source(u))
				}
			}
		})
		for _, st := range s.Registry.AtRest.List() {
			query.Sources = append(query.Sources, logs.Source{Name: st.Name, Dir: logs.Dir(st.Name, *st.Profile)})
		}
	} else {
		u, err := s.LookUp(name)
		if err != nil {
			return err
		}
		query.Sources = []logs.Source{source(u)}
	}
	if err := s.Log.Read(ctx, w, query); err != nil {
		return control.Failed("cannot read the log: %v", err)
	}
	return nil
}

func source(u *View) logs.Source {
	return logs.Source{Name: u.Name, Dir: logs.Dir(u.Name, u.Definition.Profile)}
}
