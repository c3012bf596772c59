package supervise

import (
	"testing"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/serve"
)

// Two containers have a volume, one after the other: what was recorded of services by
// the first counts in the second from the moment that it takes over, and what was
// commanded in that one before is recorded then, whichever supervisor was told.
func TestServicesFollowTheVolumeThatIsTakenOver(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\nservices:\n"+
		"  asis: {command: [asis]}\n"+
		"  down: {command: [down]}\n"+
		"  up: {command: [up], enabled: no}\n"+
		"  here: {command: [here]}\n"+
		"  back: {command: [back]}\n"+
		"  tick: {type: oneshot, command: [tick], schedule: {cron: '0 3 * * *'}}\n")
	p.open()
	p.now.Registry.TakeUp()
	operate := func(verb, name string) {
		t.Helper()
		if outcomes, _, err := p.now.backend.Operate(t.Context(), verb, name, control.Operate{Wait: &control.Wait{}}, control.Actor{}); err != nil || outcomes[0].Problem != nil {
			t.Fatalf("%s %s: %+v, %v", verb, name, outcomes, err)
		}
	}
	operate("stop", "down")
	operate("start", "up")
	operate("stop", "back")
	p.copied(1e9)

	// The other container, which has no volume yet.
	p.kill()
	for _, giveBack := range p.locks {
		giveBack()
	}
	p.mu.Lock()
	p.locks, p.held, p.alive = nil, map[string][]int{}, map[uint64]string{}
	p.mu.Unlock()
	restart := func(takeOver bool) {
		p.supervise()
		if takeOver {
			p.now.Volume.Take()
		}
		p.now.loop.TakeOver()
		p.now.Registry.Start(func() {})
		p.now.Registry.TakeUp()
	}
	restart(false)
	p.await("down", "running")
	p.await("up", "stopped")
	operate("stop", "here")
	operate("stop", "back")
	operate("start", "back")
	p.kill() // a successor knows of what was commanded
	restart(false)
	p.await("back", "running")

	p.now.Volume.Take()
	p.now.Registry.TakeUp()
	check := func() {
		t.Helper()
		for name, want := range map[string]string{"asis": "running", "down": "stopped", "up": "running", "here": "stopped", "back": "running", "tick": "stopped"} {
			p.await(name, want)
			p.now.loop.Commands.Read(func(now serve.Services) {
				u := now.Named(name)
				if is := map[service.Intent]string{service.Running: "running", service.Stopped: "stopped"}[u.Desired]; is != want || p.remembered(name).Commanded {
					t.Errorf("%s is wanted %s, not %s", name, is, want)
				}
			})
		}
		p.copied(1e9)
		for name, want := range map[string]string{"down": "stopped", "up": "running", "here": "stopped", "back": "running"} {
			if is := p.now.Volume.Store().Records.LoadService(name).Desired; string(is) != want {
				t.Errorf("of %s is recorded %s, want %s", name, is, want)
			}
		}
	}
	check()
	operate("start", "down")
	operate("stop", "down")
	p.kill()
	restart(true)
	check()
}
