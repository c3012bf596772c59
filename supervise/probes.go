package supervise

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/process"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// startProbe asks the service again and again, beside the loop, until the
// machine stops it.
func (s *Supervisor) startProbe(u *unit, a machine.Action) {
	s.stopProbe(u, a.Probe)
	ctx, cancel := context.WithCancel(context.Background())
	u.probes[a.Probe] = cancel
	name := u.name
	ask := func(ctx context.Context, p service.Probe) error {
		if len(p.Exec) > 0 {
			held := wire.HealthProbe(name)
			if a.Probe == machine.ProbeReady {
				held = wire.ReadyProbe(name)
			}
			return s.checkExec(ctx, name, held, p.Exec)
		}
		return s.network(ctx, p)
	}
	tell := func(passed, failed machine.EventKind) func(error) {
		return func(err error) {
			e := machine.Event{Kind: passed, ID: a.ID}
			if err != nil {
				e.Kind, e.Reason = failed, err.Error()
			}
			s.do(func() {
				if ctx.Err() == nil {
					s.step(u, e)
				}
			})
		}
	}
	if a.Probe == machine.ProbeReady {
		go process.UntilReady(ctx, *u.definition.Ready, ask, tell(machine.ProbePassed, machine.ProbeFailed))
		return
	}
	go process.WhileHealthy(ctx, *u.definition.Health, ask, tell(machine.HealthPassed, machine.HealthFailed))
}

func (s *Supervisor) stopProbe(u *unit, kind machine.Probe) {
	if cancel := u.probes[kind]; cancel != nil {
		cancel()
		delete(u.probes, kind)
	}
}

// probeRun is a program that runs as a probe, as a child of tier 1 like any
// other.
type probeRun struct {
	ended     chan error // takes one without blocking
	abandoned bool       // nobody waits for it: the loop's
}

// checkExec runs a probe's program as the service, with its tag and its limits: it
// can do no more than the service itself. held is the name under which tier 1 has
// the program, if the service is one of those that it holds.
func (s *Supervisor) checkExec(ctx context.Context, name, held string, argv []string) error {
	var d service.Definition
	var tag uint32
	var privileged bool
	s.ask(func() {
		if u := s.units[name]; u != nil {
			d, tag, privileged = u.definition, u.tag, s.privileged(u)
		}
	})
	if d.Name == "" {
		return errors.New("the service is gone")
	}
	spawn, fill, err := s.probeSpawn(d, argv, privileged)
	if err != nil {
		return err
	}
	defer fill.Close()
	if privileged {
		spawn.Name = held
	}
	spawn.Tag, spawn.Targets, spawn.Label = tag, []int32{0, 1, 2}, []byte(probeLabel)
	run := &probeRun{ended: make(chan error, 1)}
	var id uint64
	s.ask(func() {
		id = s.nextID
		s.nextID++
		s.probeRuns[id] = run
		spawn.ID = id
		var fds []int
		if fds, err = fill.Fill(spawn); err == nil {
			s.link.Send(spawn, append([]int{s.null, s.null, s.null}, fds...), fds)
		} else {
			delete(s.probeRuns, id)
		}
	})
	if err != nil {
		return err
	}
	select {
	case err := <-run.ended:
		return err
	case <-ctx.Done():
		// The run stays in the table until tier 1 tells of its end.
		s.ask(func() {
			run.abandoned = true
			s.killProbe(id)
		})
		return fmt.Errorf("%s did not end in time", argv[0])
	}
}

func (s *Supervisor) killProbe(id uint64) {
	s.link.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeGroup}, nil, nil)
}

// probeLabel marks a child that is a probe, for our successor.
const probeLabel = "probe"

// aboutProbe takes what tier 1 says of a probe, and tells whether it was one.
func (s *Supervisor) aboutProbe(id uint64, e machine.Event) bool {
	run := s.probeRuns[id]
	if run == nil {
		return false
	}
	var err error
	switch {
	case e.Kind == machine.SpawnFailed:
		err = errors.New(e.Reason)
	case e.Kind == machine.Spawned && run.abandoned:
		s.killProbe(id) // it could not be signalled before
		return true
	case e.Kind != machine.ExitedEvent:
		return true
	case e.Signal != 0:
		err = fmt.Errorf("killed by %s", service.SignalName(e.Signal))
	case e.Code != 0:
		err = fmt.Errorf("exited with code %d", e.Code)
	}
	run.ended <- err
	delete(s.probeRuns, id)
	s.link.Send(&wire.Acknowledge{ID: id}, nil, nil)
	return true
}

// probeSpawn makes ready the spawn of a probe's program.
func (s *Supervisor) probeSpawn(d service.Definition, argv []string, privileged bool) (*wire.Spawn, walls.Walls, error) {
	if privileged { // tier 1 holds it, from argv to directory
		built, err := s.build(d, nil, false)
		return &wire.Spawn{Privileged: true, Env: built.Environment}, built, err
	}
	env, err := s.environment(d)
	if err != nil {
		return nil, walls.Walls{}, err
	}
	built, err := s.build(d, env, false)
	if err != nil {
		return nil, built, err
	}
	p := process.Prepare(d, argv, built.Environment)
	if p.Err != nil {
		built.Close()
		return nil, built, p.Err
	}
	return &wire.Spawn{
		Name: d.Name, Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir, Umask: d.Umask,
		Rlimits: config.Rlimits(d.Limits), NoNewPrivs: true,
	}, built, nil
}
