package probe

import (
	"context"
	"sync"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// Driver carries out StartProbe and StopProbe: it asks services how they are, beside the
// loop, and answers with an input for each time that it has asked. Anybody may call it.
type Driver struct {
	// Answer takes an input to the core, unless ctx has ended when its turn comes.
	Answer func(ctx context.Context, in core.Input)
	// Network asks by tcp or http. It is Network; a simulation has its own.
	Network Asker

	mu     sync.Mutex
	asking map[subject]context.CancelFunc // Invariant: those that were started and not stopped
	counts map[subject]control.ProbeCounts
}

// subject is a service, by one of its probes.
type subject struct {
	node order.Node
	by   machine.Probe
}

// New is a Driver that asks nobody yet.
func New(answer func(context.Context, core.Input)) *Driver {
	return &Driver{Answer: answer, Network: Network, asking: map[subject]context.CancelFunc{}, counts: map[subject]control.ProbeCounts{}}
}

// Start asks the service of a node, whose definition is d, again and again until Stop is
// called. A probe that is a program is run by exec.
func (p *Driver) Start(node order.Node, a machine.Action, d *service.Definition, exec func(ctx context.Context, argv []string) error) {
	p.Stop(node, a.Probe)
	of := subject{node, a.Probe}
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.asking[of] = cancel
	p.mu.Unlock()
	ask := func(ctx context.Context, by service.Probe) error {
		if len(by.Exec) == 0 {
			return p.Network(ctx, by)
		}
		return exec(ctx, by.Exec)
	}
	tell := func(is answer) {
		e := machine.Event{Kind: kinds[a.Probe][is.err == nil], ID: a.ID}
		if is.err != nil {
			e.Reason = is.err.Error()
		}
		if ctx.Err() == nil {
			p.count(of, is)
			p.Answer(ctx, core.Input{Kind: core.Happened, Node: node, Event: e})
		}
	}
	if a.Probe == machine.ProbeReady {
		go untilReady(ctx, *d.Ready, ask, tell)
		return
	}
	go whileHealthy(ctx, *d.Health, ask, tell)
}

// kinds are the events of an answer, by probe and whether it is well.
var kinds = map[machine.Probe]map[bool]machine.EventKind{
	machine.ProbeReady:  {true: machine.ProbePassed, false: machine.ProbeFailed},
	machine.ProbeHealth: {true: machine.HealthPassed, false: machine.HealthFailed},
}

// Stop has a service asked no more.
func (p *Driver) Stop(node order.Node, by machine.Probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := subject{node, by}
	if cancel := p.asking[of]; cancel != nil {
		cancel()
		delete(p.asking, of)
	}
}

// Forget lets go of what is known of a service that is gone.
func (p *Driver) Forget(node order.Node) {
	for by := range kinds {
		p.Stop(node, by)
		p.mu.Lock()
		delete(p.counts, subject{node, by})
		p.mu.Unlock()
	}
}

func (p *Driver) count(of subject, is answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts[of]
	c.Asked++
	if is.err != nil {
		c.Failed++
	}
	c.LastS, c.Passed = is.took.Seconds(), is.err == nil
	c.TookS += c.LastS
	p.counts[of] = c
}

// Counts is what has come of asking a service; nil: nothing yet.
func (p *Driver) Counts(node order.Node, by machine.Probe) *control.ProbeCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, asked := p.counts[subject{node, by}]; asked {
		return &c
	}
	return nil
}
