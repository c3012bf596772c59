package supervise

import (
	"slices"
	"testing"

	"rlminit/supervise/core"
)

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
