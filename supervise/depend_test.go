package supervise

import (
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/serve"
)

// put publishes a definition as anybody may, and has it noticed.
func (p *place) put(name string, requires ...string) {
	p.Helper()
	d := service.Default(name)
	d.Command, d.Requires = []string{name}, requires
	if _, err := p.now.slots.Publish(name, service.Encode(d)); err != nil {
		p.Fatal(err)
	}
	p.now.Registry.Notice(name)
}

// takeOut takes a slot away as anybody may.
func (p *place) takeOut(name string) {
	p.Helper()
	if err := p.now.slots.Withdraw(name); err != nil {
		p.Fatal(err)
	}
	p.now.Registry.Notice(name)
	p.await(name, "")
}

// awaitReason waits until a service waits, and says why.
func (p *place) awaitReason(name, why string) {
	p.Helper()
	p.eventually(name+" says "+why, func() (bool, any) {
		reason := ""
		p.now.loop.Commands.Read(func(now serve.Services) {
			if u := now.Named(name); u != nil && u.State.Public() == "waiting" {
				reason = u.State.Reason
			}
		})
		return strings.Contains(reason, why), reason
	})
}

// Slots that require each other in a circle, each of them good in itself, wait
// and name the way; what requires one of them waits too. When one is changed or
// taken out, the others are free.
func TestCircleOfSlots(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	p.put("a", "b")
	p.put("b", "c")
	p.put("outside", "a")
	p.awaitReason("a", "requires b, which is waiting (requires c, which does not exist)")
	p.put("c", "lone", "a")
	p.put("lone")
	p.await("lone", "running")
	p.awaitReason("a", "requires itself: a → b → c → a;")
	p.awaitReason("b", "requires itself: b → c → a → b;")
	p.awaitReason("c", "requires itself: c → a → b → c;")
	p.awaitReason("outside", "requires a, which is waiting (requires itself: a → b → c → a;")

	// A start of one of them, and a stop, come to an end.
	u := p.unit("a")
	start := operate(p.now, "start", []*serve.View{u}, false, 0, nil)
	if start[0].Problem != nil {
		t.Errorf("start: %v", start[0].Problem)
	}
	var over bool
	p.now.loop.Commands.Read(func(now serve.Services) {
		o := now.Core().Operations.List()
		over = o[len(o)-1].Over()
	})
	if !over {
		t.Error("whoever starts it waits for ever")
	}

	p.takeOut("c")
	p.awaitReason("b", "requires c, which does not exist")
	p.awaitReason("a", "requires b, which is waiting (requires c, which does not exist)")
	p.put("c", "lone")
	for _, name := range []string{"a", "b", "c", "outside"} {
		p.await(name, "running")
	}

	// A circle that is closed behind running services stops none of them.
	p.put("lone", "outside")
	if state, _ := p.state("a"); state != "running" {
		t.Errorf("a is %s", state)
	}
}

// A slot that is taken out and put back at once is supervised again, wherever
// the supervisor is in letting go of it.
func TestTakenOutAndPutBack(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	for range 100 {
		p.put("a")
		p.await("a", "running")
		p.takeOut("a")
	}
}

// A weaker bond back is no circle: it is not waited for, and a start does not
// fail for it.
func TestWeakBondClosesNoCircle(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	b := service.Default("b")
	b.Command, b.After = []string{"b"}, []string{"a"}
	b.Ready = &service.Probe{Exec: []string{"never"}, Timeout: 1 << 40}
	if _, err := p.now.slots.Publish("b", service.Encode(b)); err != nil {
		t.Fatal(err)
	}
	p.put("a", "b")
	p.now.Registry.Notice("b")
	p.awaitReason("a", "requires b, which is starting")
	p.now.loop.Commands.Read(func(now serve.Services) {
		if a := now.Named("a"); a.Life.Stuck() {
			t.Error("a start of a would fail, and b is on its way")
		}
	})
}

// A service may require a profile's gateway that is made later, deleted and made
// again. What runs already is left running.
func TestServiceRequiresAGateway(t *testing.T) {
	p := newPlace(t, gateways+"services: {app: {command: [app], requires: [gateway-alice]}}\n")
	p.open()
	p.now.Registry.TakeUp()
	app := p.unit("app")
	for round := 1; round <= 2; round++ {
		p.awaitReason("app", "requires gateway-alice, which does not exist")
		created(p, "alice", "")
		p.await("app", "running")
		if _, err := p.now.Registry.Profiles.Delete(t.Context(), "alice", control.Deletion{}, control.Actor{}); err != nil {
			t.Fatal(err)
		}
		if state, _ := p.state("app"); state != "running" || p.spawned("app") != round {
			t.Errorf("round %d: app is %s, started %d times", round, state, p.spawned("app"))
		}
		operate(p.now, "restart", []*serve.View{app}, false, 0, nil)
	}
	p.awaitReason("app", "requires gateway-alice, which does not exist")
	created(p, "alice", `,"stopped":true`)
	p.awaitReason("app", "requires gateway-alice, which is stopped")
}
