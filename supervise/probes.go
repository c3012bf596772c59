package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/probe"
	"rlminit/wire"
)

// How often a service is asked whether it is ready: quickly at first, for most
// are ready soon.
const (
	readyFirst  = 20 * time.Millisecond
	readyLatest = time.Second
	readyCheck  = 3 * time.Second // for one answer; the machine bounds them all
)

// startProbe asks the service again and again, beside the loop, until the
// machine stops it.
func (s *Supervisor) startProbe(u *unit, a machine.Action) {
	s.stopProbe(u, a.Probe)
	ctx, cancel := context.WithCancel(context.Background())
	u.probes[a.Probe] = cancel
	tell := func(kind machine.EventKind, reason string) {
		s.do(func() {
			if ctx.Err() == nil {
				s.step(u, machine.Event{Kind: kind, ID: a.ID, Reason: reason})
			}
		})
	}
	if a.Probe == machine.ProbeReady {
		go s.untilReady(ctx, u.name, *u.definition.Ready, tell)
		return
	}
	go s.whileHealthy(ctx, u.name, *u.definition.Health, tell)
}

func (s *Supervisor) stopProbe(u *unit, kind machine.Probe) {
	if cancel := u.probes[kind]; cancel != nil {
		cancel()
		delete(u.probes, kind)
	}
}

func (s *Supervisor) untilReady(ctx context.Context, name string, p service.Probe, tell func(machine.EventKind, string)) {
	for pause := readyFirst; ; pause = min(2*pause, readyLatest) {
		err := s.check(ctx, name, p, readyCheck)
		if err == nil {
			tell(machine.ProbePassed, "")
			return
		}
		tell(machine.ProbeFailed, err.Error())
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (s *Supervisor) whileHealthy(ctx context.Context, name string, h service.Health, tell func(machine.EventKind, string)) {
	for sleep(ctx, h.Interval) {
		if err := s.check(ctx, name, h.Probe, h.Timeout); err != nil {
			tell(machine.HealthFailed, err.Error())
		} else {
			tell(machine.HealthPassed, "")
		}
	}
}

// sleep pauses for d, and tells whether ctx still wants what comes after.
func sleep(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// check asks once; nil means well.
func (s *Supervisor) check(ctx context.Context, name string, p service.Probe, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if len(p.Exec) > 0 {
		return s.checkExec(ctx, name, p.Exec)
	}
	return s.network(ctx, p)
}

func askNetwork(ctx context.Context, p service.Probe) error {
	if p.TCP != "" {
		return probe.TCP(ctx, p.TCP)
	}
	return probe.HTTP(ctx, p.HTTP)
}

// probeRun is a program that runs as a probe, as a child of tier 1 like any
// other.
type probeRun struct {
	ended     chan error // takes one without blocking
	abandoned bool       // nobody waits for it: the loop's
}

// checkExec runs a probe's program as the service's user, with its tag and its
// limits: it can do no more than the service itself.
func (s *Supervisor) checkExec(ctx context.Context, name string, argv []string) error {
	var d service.Definition
	var tag uint32
	s.ask(func() {
		if u := s.units[name]; u != nil {
			d, tag = u.definition, u.tag
		}
	})
	if d.Name == "" {
		return errors.New("the service is gone")
	}
	env, err := s.environment(d)
	if err != nil {
		return err
	}
	dir, err := workingDir(d)
	if err != nil {
		return err
	}
	path, err := lookPath(argv[0], dir, env)
	if err != nil {
		return err
	}
	run := &probeRun{ended: make(chan error, 1)}
	var id uint64
	s.ask(func() {
		id = s.nextID
		s.nextID++
		s.probeRuns[id] = run
		s.link.send(&wire.Spawn{
			ID: id, Name: name, Path: path, Argv: argv, Env: env, Dir: dir, Umask: d.Umask,
			Rlimits: config.Rlimits(d.Limits), Tag: tag, Targets: []int32{0, 1, 2}, NoNewPrivs: true, Label: []byte(probeLabel),
		}, []int{s.null, s.null, s.null}, nil)
	})
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
	s.link.send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeGroup}, nil, nil)
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
	s.link.send(&wire.Acknowledge{ID: id}, nil, nil)
	return true
}
