package supervise

import (
	"context"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/process"
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
		if len(p.Exec) == 0 {
			return s.prober.network(ctx, p)
		}
		held := wire.HealthProbe(name)
		if a.Probe == machine.ProbeReady {
			held = wire.ReadyProbe(name)
		}
		return s.prober.run(ctx, name, held, p.Exec)
	}
	tell := func(passed, failed machine.EventKind) func(process.Answer) {
		return func(answer process.Answer) {
			e := machine.Event{Kind: passed, ID: a.ID}
			if answer.Err != nil {
				e.Kind, e.Reason = failed, answer.Err.Error()
			}
			s.do(func() {
				if ctx.Err() == nil {
					u.answers.count(a.Probe, answer)
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

// probed is the service whose probe is to be run. Only the loop calls it.
func (s *Supervisor) probed(name string) (of probed) {
	if u := s.units[name]; u != nil {
		of = probed{u.definition, u.tag, s.privileged(u)}
	}
	return of
}
