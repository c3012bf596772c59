package supervise

import (
	"fmt"
	"slices"
	"testing"

	"rlminit/supervise/core"
	"rlminit/wire"
)

// A probe's program that is given up before it runs could not be signalled: it
// is ended when it is there.
func TestAProbeThatIsGivenUpBeforeItRuns(t *testing.T) {
	p := newPlace(t, gateways)
	p.now.loop.ask(func() {
		p.now.succession.restored = true
		p.now.launcher.probes.runs[7] = &probeRun{ended: make(chan error, 1), abandoned: true}
		p.now.tier1.owned[7] = &p.now.launcher.probes
		p.now.hear(&wire.Spawned{ID: 7, PID: 107}, nil)
	})
	p.now.tier1.link.Flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	if want := fmt.Sprintf("9 to 7, scope %d", wire.ScopeGroup); !slices.Contains(p.sent, want) {
		t.Errorf("sent: %q, want %q", p.sent, want)
	}
}

// What an effect leads to waits until the core has been told all before it, and is told
// before anybody else's turn comes.
func TestAnInputThatAnEffectLeadsTo(t *testing.T) {
	p := newPlace(t, gateways)
	p.now.loop.ask(func() {
		var told []string
		at := true
		p.now.fleet.absent = func(name string) {
			p.now.apply(core.Input{Kind: core.Booted})
			told, at = append(told, name), at && !p.now.fleet.set.Booted()
		}
		p.now.apply(core.Input{Kind: core.Define, Name: "x", Definition: &core.Definition{Wants: []string{"nobody", "none"}}})
		if !at || !p.now.fleet.set.Booted() || !slices.Equal(told, []string{"nobody", "none"}) || len(p.now.fleet.queue) != 0 {
			t.Errorf("told of %q; at once: %v; in the end: %v", told, !at, p.now.fleet.set.Booted())
		}
	})
}
