package supervise

import (
	"context"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// probes is how one unit is asked how it is.
type probes struct {
	running map[machine.Probe]context.CancelFunc // Invariant: those that the machine has started and not stopped
	answers answers
}

// startProbe asks the service again and again, beside the loop, until the
// machine stops it.
func (p *prober) startProbe(u *unit, a machine.Action) {
	p.stopProbe(u, a.Probe)
	ctx, cancel := context.WithCancel(context.Background())
	if u.probes.running == nil { // few services have probes
		u.probes.running = map[machine.Probe]context.CancelFunc{}
	}
	u.probes.running[a.Probe] = cancel
	name := u.name
	ask := func(ctx context.Context, of service.Probe) error {
		if len(of.Exec) == 0 {
			return p.network(ctx, of)
		}
		held := wire.HealthProbe(name)
		if a.Probe == machine.ProbeReady {
			held = wire.ReadyProbe(name)
		}
		return p.run(ctx, name, held, of.Exec)
	}
	tell := func(passed, failed machine.EventKind) func(process.Answer) {
		return func(answer process.Answer) {
			e := machine.Event{Kind: passed, ID: a.ID}
			if answer.Err != nil {
				e.Kind, e.Reason = failed, answer.Err.Error()
			}
			p.loop.do(func() {
				if ctx.Err() == nil {
					u.probes.answers.count(a.Probe, answer)
					p.step(u, e)
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

func (p *prober) stopProbe(u *unit, kind machine.Probe) {
	if cancel := u.probes.running[kind]; cancel != nil {
		cancel()
		delete(u.probes.running, kind)
	}
}

// probed is the service whose probe is to be run. Only the loop calls it.
func (p *prober) probed(name string) (of probed) {
	if u := p.fleet.units[name]; u != nil {
		of = probed{u.definition, u.tag, p.prep.privileged(u)}
	}
	return of
}
