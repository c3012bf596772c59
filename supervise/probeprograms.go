package supervise

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// probePrograms runs the programs of probes, as children of tier 1 like any other: it is
// their Owner.
type probePrograms struct {
	loop  *mailbox
	tier1 *tier1
	prep  *preparer
	runs  map[uint64]*probeRun // by spawn id; the loop's
}

// probeRun is a program that runs as a probe.
type probeRun struct {
	ended     chan error // takes one without blocking
	abandoned bool       // nobody waits for it: the loop's
}

// probeLabel marks a child that is a probe, for our successor.
const probeLabel = "probe"

// of runs programs as a service, with its tag and its limits: they can do no more than the
// service itself. Only the loop calls it, for a probe that begins.
func (p *probePrograms) of(u *unit, by machine.Probe) func(ctx context.Context, argv []string) error {
	definition, tag, held := u.definition, u.tag, "" // under which tier 1 has the program
	if p.prep.privileged(u) {
		held = wire.HealthProbe(u.name)
		if by == machine.ProbeReady {
			held = wire.ReadyProbe(u.name)
		}
	}
	return func(ctx context.Context, argv []string) error { return p.run(ctx, definition, tag, held, argv) }
}

func (p *probePrograms) run(ctx context.Context, of *service.Definition, tag uint32, held string, argv []string) error {
	spawn, walls, err := p.prep.probe(of, argv, held != "")
	if err != nil {
		return err
	}
	defer walls.Close()
	if held != "" {
		spawn.Name = held
	}
	spawn.Tag, spawn.Targets, spawn.Label = tag, []int32{0, 1, 2}, []byte(probeLabel)
	run := &probeRun{ended: make(chan error, 1)}
	p.loop.ask(func() {
		var fds []int
		if fds, err = walls.Fill(spawn); err == nil {
			spawn.ID = p.tier1.NewID(p)
			p.runs[spawn.ID] = run
			p.tier1.link.Send(spawn, append([]int{p.prep.null, p.prep.null, p.prep.null}, fds...), fds)
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
		p.loop.ask(func() {
			run.abandoned = true
			p.kill(spawn.ID)
		})
		return fmt.Errorf("%s did not end in time", argv[0])
	}
}

func (p *probePrograms) kill(id uint64) {
	p.tier1.link.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeGroup}, nil, nil)
}

// Takes is Owner's: nobody waits for a probe of a predecessor.
func (p *probePrograms) Takes(c wire.Child) bool {
	if string(c.Label) != probeLabel {
		return false
	}
	p.runs[c.ID] = &probeRun{ended: make(chan error, 1), abandoned: true}
	switch c.State {
	case wire.ChildExited, wire.ChildFailed:
		p.end(c.ID, nil)
	default:
		p.kill(c.ID)
	}
	return true
}

// Hear is Owner's.
func (p *probePrograms) Hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.Spawned:
		if run := p.runs[m.ID]; run != nil && run.abandoned {
			p.kill(m.ID) // it could not be signalled before
		}
	case *wire.SpawnFailed:
		p.end(m.ID, errors.New("cannot be started"))
	case *wire.Exited:
		var err error
		switch {
		case m.Exit.Signal != 0:
			err = fmt.Errorf("killed by %s", service.SignalName(unix.Signal(m.Exit.Signal)))
		case m.Exit.Code != 0:
			err = fmt.Errorf("exited with code %d", m.Exit.Code)
		}
		p.end(m.ID, err)
	}
}

// end tells whoever waits how a run has ended, and tier 1 that this is known.
func (p *probePrograms) end(id uint64, err error) {
	if run := p.runs[id]; run != nil {
		run.ended <- err
		delete(p.runs, id)
	}
	p.tier1.Disown(id)
	p.tier1.link.Send(&wire.Acknowledge{ID: id}, nil, nil)
}
