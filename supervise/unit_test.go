package supervise

import (
	"testing"
	"time"

	"rlminit/supervise/core"
	"rlminit/supervise/machine"
)

// What a service reported of its failure is in its status until a run has been
// good again, though it is started at once.
func TestLastWordsOutlastAnImmediateRestart(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\nservices:\n  web: {command: [web], restart: {policy: always, reset_after: 1h}}\n")
	p.bootAll()
	p.await("web", "running")
	goodRun := func() {
		p.now.loop.ask(func() { p.now.fleet.units["web"].state.ReadyAt -= int64(2 * time.Hour) })
	}
	reason := func() (text string) {
		p.now.loop.ask(func() {
			if why := p.now.fleet.units["web"].view().Status().Reason; why != nil {
				text = *why
			}
		})
		return text
	}
	again := func() {
		goodRun()
		before := p.spawned("web")
		p.exit("web")
		p.eventually("it is started again", func() (bool, any) { return p.spawned("web") > before, nil })
		p.await("web", "running")
	}
	p.now.loop.ask(func() {
		u := p.now.fleet.units["web"]
		p.now.apply(core.Input{Kind: core.Happened, Node: u.life.Node(), Event: machine.Event{Kind: machine.Trouble, ID: u.state.ID, Errno: 2}})
	})
	again()
	if got, want := reason(), "before: exit 0: it reported errno 2 (no such file or directory)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	goodRun()
	if got := reason(); got != "" {
		t.Errorf("after a good run: %q", got)
	}
	again() // and says nothing
	if got := reason(); got != "" {
		t.Errorf("after an exit without a word: %q", got)
	}
}
