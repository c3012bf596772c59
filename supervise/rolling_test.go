package supervise

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/remember"
	"rlminit/supervise/serve"
	"rlminit/wire"
)

const trio = pair + "  zed: {command: [zed]}\n"

// running is a place in which what is configured was booted, and the named run.
func running(t *testing.T, config string, names ...string) *place {
	p := newPlace(t, config)
	p.bootAll()
	for _, name := range names {
		p.await(name, "running")
	}
	return p
}

// begin begins an operation by root.
func (p *place) begin(how control.BeginOperation) control.Operation {
	p.Helper()
	begun, err := p.now.backend.BeginOperation(p.Context(), how, control.Actor{})
	if err != nil {
		p.Fatal(err)
	}
	return begun
}

// awaitEnd waits until an operation is over, and returns the states of its members.
func (p *place) awaitEnd(id uint64) (state string, members map[string]string) {
	p.Helper()
	p.eventually("the operation is over", func() (bool, any) {
		o, err := p.now.backend.Operation(id)
		if err != nil {
			p.Fatal(err)
		}
		state, members = o.State, map[string]string{}
		for _, m := range o.Members {
			members[m.Name] = m.State
		}
		return o.Over(), o
	})
	return state, members
}

// A rolling operation of which members are removed goes on with the others, and ends:
// whether it has taken them or not.
func TestRollingWithoutMembersThatAreRemoved(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	for _, name := range []string{"a", "b", "c"} {
		p.put(name)
		if u := p.unit(name); u == nil {
			t.Fatal(name)
		}
		operate(p.now, "start", []*serve.View{p.unit(name)}, false, 0, &control.Wait{})
	}
	begun := p.begin(control.BeginOperation{Verb: "restart", Names: []string{"a", "b", "c"}, Rolling: 1, SteadyMS: 500})
	p.eventually("a is taken", func() (bool, any) { return p.spawned("a") == 2, p.spawned("a") })
	p.takeOut("b")
	p.takeOut("a")
	state, members := p.awaitEnd(begun.ID)
	if state != "failed" || members["a"] != "failed" || members["b"] != "failed" || members["c"] != "done" {
		o, _ := p.now.backend.Operation(begun.ID)
		t.Errorf("%s, %v: %s", state, members, o.Reason)
	}
	if p.spawned("c") != 2 {
		t.Errorf("c was started %d times", p.spawned("c"))
	}
}

// A command that was given to a service when it was there, and comes to it when it is
// gone, reaches nobody else, and says so.
func TestCommandOnWhatIsGone(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	p.put("a")
	gone := p.unit("a")
	p.takeOut("a")
	p.put("b")
	operate(p.now, "start", []*serve.View{p.unit("b")}, false, 0, &control.Wait{})
	for _, v := range []string{"start", "restart", "stop"} {
		outcome := operate(p.now, v, []*serve.View{gone}, true, 0, &control.Wait{})[0]
		if (outcome.Problem == nil) != (v == "stop") {
			t.Errorf("%s: %v", v, outcome.Problem)
		}
	}
	if state, _ := p.state("b"); p.spawned("b") != 1 || state != "running" {
		t.Errorf("b was started %d times, and is %s", p.spawned("b"), state)
	}
	p.kill()
	p.supervise()
	p.open()
	if state, there := p.state("a"); there {
		t.Errorf("a successor has a, which is %s", state)
	}
}

// Who is stopped while restart --all waits to be recorded stays stopped.
func TestStoppedBeforeAllIsRestarted(t *testing.T) {
	p := running(t, trio, "one", "two", "zed")
	begin := func(how control.BeginOperation) <-chan control.Operation {
		begun := make(chan control.Operation, 1)
		go func() { begun <- p.begin(how) }()
		return begun
	}
	wait := func(what string, until func(*core.Set) bool) {
		p.eventually(what, func() (is bool, _ any) {
			p.now.loop.Commands.Read(func(now serve.Services) { is = until(now.Core()) })
			return is, nil
		})
	}
	var last uint64
	p.now.loop.Commands.Read(func(now serve.Services) { last = now.Core().Operations.Last() })
	p.slow.Lock()
	begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}}) // which is being recorded
	wait("it is stopped", func(set *core.Set) bool { return set.Operations.Last() > last })
	begun := begin(control.BeginOperation{Verb: "restart"})
	wait("it waits", func(set *core.Set) bool { return set.Operations.Waiting() == 1 })
	p.slow.Unlock()
	_, members := p.awaitEnd((<-begun).ID)
	if _, also := members["two"]; also || len(members) != 2 {
		t.Errorf("members: %v", members)
	}
	if state, _ := p.state("two"); state != "stopped" || p.recordedAs("two") != service.Stopped {
		t.Errorf("two is %s, and recorded as %s", state, p.recordedAs("two"))
	}
}

// A rolling start records a member as it comes to it: the members that it has not come to
// when the supervisor is killed stay stopped.
func TestRollingStartWithASupervisorThatIsKilled(t *testing.T) {
	p := newPlace(t, trio)
	p.bootAll()
	p.begin(control.BeginOperation{Verb: "stop"})
	for _, name := range []string{"one", "two", "zed"} {
		p.await(name, "stopped")
	}
	begun := p.begin(control.BeginOperation{Verb: "start", Rolling: 1, SteadyMS: time.Hour.Milliseconds()})
	p.await("one", "running")
	p.kill()
	p.supervise()
	p.bootAll()
	if state, _ := p.awaitEnd(begun.ID); state != "interrupted" {
		t.Errorf("it is %s", state)
	}
	p.await("one", "running")
	for _, name := range []string{"two", "zed"} {
		if state, _ := p.state(name); state != "stopped" || p.recordedAs(name) != service.Stopped {
			t.Errorf("%s is %s, and recorded as %s", name, state, p.recordedAs(name))
		}
	}
}

// What was recorded a moment before the container was told to stop gives nothing a
// process any more, nor does what goes along with it.
func TestCommandsThatTheContainersEndOvertakes(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], requires: [one]}\n", "one", "two", "zed", "above")
	give := func(turn order.Turn, kind machine.EventKind, name string) {
		in := core.Input{Kind: core.Give, Turn: turn, Event: machine.Event{Kind: kind, Cause: "commanded"}}
		p.now.loop.Commands.Read(func(now serve.Services) {
			in.Nodes = []order.Node{now.Named(name).Life.Node()}
			if turn.Stops() {
				in.Along = now.Core().StopAlong(turn, in.Nodes)
			}
		})
		p.now.loop.Commands.Tell(in)
		p.now.loop.Services.Withdraw(nil) // after that
	}
	p.mu.Lock()
	p.deaf["one"], p.deaf["two"], p.deaf["zed"], p.deaf["above"] = true, true, true, true // until all are told
	p.mu.Unlock()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	p.now.loop.Hear(&wire.Shutdown{Deadline: now.Nano() + int64(time.Minute)}, nil)
	p.now.loop.Services.Withdraw(nil) // after that
	give(order.Restart, machine.Restart, "two")
	give(order.Stop, machine.Stop, "one")
	give(order.Start, machine.Start, "zed")
	for _, name := range []string{"above", "two", "zed", "one"} {
		p.await(name, "stopping")
		p.exit(name)
	}
	for _, name := range []string{"one", "two", "zed", "above"} {
		p.await(name, "stopped")
		if n := p.spawned(name); n != 1 {
			t.Errorf("%s was started %d times", name, n)
		}
	}
}

// A rolling restart for which too many are out of service from the start is refused,
// and what was stopped is not wanted by it.
func TestRollingThatCannotBegin(t *testing.T) {
	p := newPlace(t, trio)
	p.bootAll()
	p.await("zed", "running")
	stop := p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}})
	p.awaitEnd(stop.ID)
	_, err := p.now.backend.BeginOperation(t.Context(), control.BeginOperation{Verb: "restart", Names: []string{"one", "two", "zed"}, Rolling: 1}, control.Actor{})
	var problem *control.Problem
	if !errors.As(err, &problem) || problem.ExitCode != control.ExitUnhealthy || !strings.Contains(problem.Detail, "stopped at two: it is stopped") {
		t.Errorf("refused with %v", err)
	}
	if state, _ := p.state("two"); state != "stopped" || p.recordedAs("two") != service.Stopped || p.spawned("one") != 1 {
		t.Errorf("two is %s, and recorded as %s", state, p.recordedAs("two"))
	}
	begun := p.begin(control.BeginOperation{Verb: "restart", Names: []string{"one", "two", "zed"}, Rolling: 2})
	if state, members := p.awaitEnd(begun.ID); state != "done" {
		t.Errorf("with one that may be: %s, %v", state, members)
	}
}

// deafAbove is a place in which all of trio runs, and above, which requires one and
// does not end when it is told to.
func deafAbove(t *testing.T) *place {
	p := running(t, trio+"  above: {command: [above], requires: [one], stop: {timeout: 1h}}\n", "one", "two", "zed", "above")
	p.mu.Lock()
	p.deaf["above"] = true
	p.mu.Unlock()
	return p
}

// A rolling start of what waits for its turn to be restarted takes that back, as a
// start does, and ends.
func TestRollingStartOfWhatWasToBeRestarted(t *testing.T) {
	p := deafAbove(t)
	p.begin(control.BeginOperation{Verb: "restart", Names: []string{"one"}})
	p.await("above", "stopping")
	begun := p.begin(control.BeginOperation{Verb: "start", Names: []string{"one", "two"}, Rolling: 2})
	if state, members := p.awaitEnd(begun.ID); state != "done" || p.spawned("one") != 1 {
		t.Errorf("%s, %v; one was started %d times", state, members, p.spawned("one"))
	}
}

// What was stopped after a rolling start had taken it along stays so with the next
// supervisor, whatever wants it; and so does what has another definition by then.
func TestStoppedBeforeASupervisorThatIsKilled(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], wants: [two]}\n", "one", "two", "zed", "above")
	p.begin(control.BeginOperation{Verb: "stop"})
	for _, name := range []string{"one", "two", "zed", "above"} {
		p.await(name, "stopped")
	}
	begun := p.begin(control.BeginOperation{Verb: "start", Names: []string{"one", "above"}, Rolling: 1, SteadyMS: time.Hour.Milliseconds()})
	p.eventually("one of them is taken", func() (bool, any) { n := p.spawned("one") + p.spawned("above"); return n == 3, n })
	stop := p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}})
	p.awaitEnd(stop.ID)
	p.kill()
	p.supervise()
	p.bootAll()
	p.awaitEnd(begun.ID)
	p.await("one", "running")
	for _, name := range []string{"two", "above"} { // the start had not come to above
		if state, _ := p.state(name); state != "stopped" {
			t.Errorf("%s is %s, and recorded as %s", name, state, p.recordedAs(name))
		}
	}
}

// A stop that waits for its turn when the supervisor is killed is carried out by the
// next one, though the definition has changed too.
func TestStopWithAChangedDefinition(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\nservices:\n  one: {command: [one]}\n  above: {command: [above], requires: [one], stop: {timeout: 1h}}\n")
	p.bootAll()
	p.await("one", "running")
	p.await("above", "running")
	p.mu.Lock()
	p.deaf["above"] = true
	p.mu.Unlock()
	p.begin(control.BeginOperation{Verb: "stop", Names: []string{"one", "above"}})
	p.await("above", "stopping")
	p.kill()
	p.configure(p.home, "version: 1\nuser: app\nservices:\n  one: {command: [one, new]}\n  above: {command: [above, new], requires: [one], stop: {timeout: 1h}}\n")
	p.supervise()
	p.bootAll()
	p.exit("above")
	p.await("above", "stopped")
	p.await("one", "stopped")
	if p.spawned("one") != 1 || p.spawned("above") != 1 {
		t.Errorf("started %d and %d times", p.spawned("one"), p.spawned("above"))
	}
}

// To cancel an operation takes nothing from a later one, which has one of its members
// now.
func TestCancelOfWhatALaterOperationHas(t *testing.T) {
	p := deafAbove(t)
	first := p.begin(control.BeginOperation{Verb: "restart", Names: []string{"one", "above"}})
	p.await("above", "stopping")
	later := p.begin(control.BeginOperation{Verb: "restart", Names: []string{"one"}})
	if _, err := p.now.backend.CancelOperation(first.ID); err != nil {
		t.Fatal(err)
	}
	p.exit("above")
	if state, members := p.awaitEnd(later.ID); state != "done" || p.spawned("one") != 2 {
		t.Errorf("%s, %v; one was started %d times", state, members, p.spawned("one"))
	}
}

// What a rolling operation has recorded as wanted, and does not come to, is as it was
// before, for a successor too. Who has it since, has it.
func TestWhatARollingStartDoesNotComeTo(t *testing.T) {
	p := newPlace(t, trio)
	p.bootAll()
	names := []string{"one", "two", "zed"}
	for _, name := range names {
		p.await(name, "running")
	}
	for _, end := range []string{"cancelled", "failed"} {
		operate(p.now, "stop", []*serve.View{p.unit("one"), p.unit("two"), p.unit("zed")}, false, 0, &control.Wait{})
		begun := p.begin(control.BeginOperation{Verb: "start", Names: names, Rolling: 1, SteadyMS: 60_000})
		first := ""
		p.eventually("one is taken", func() (bool, any) {
			for _, name := range names {
				if state, _ := p.state(name); state == "running" {
					first = name
				}
			}
			return first != "", first
		})
		rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == first })
		if end == "failed" {
			p.exit(first)
		} else if _, err := p.now.backend.CancelOperation(begun.ID); err != nil {
			t.Fatal(err)
		}
		if state, members := p.awaitEnd(begun.ID); state != end {
			t.Fatalf("%s, %v", state, members)
		}
		operate(p.now, "start", []*serve.View{p.unit(rest[1])}, false, 0, &control.Wait{})
		desired := func(name string) (is string) {
			is = string(p.unit(name).Desired)
			return is
		}
		p.eventually("what was not come to is wanted no more", func() (bool, any) { return desired(rest[0]) == "stopped", desired(rest[0]) })
		if is := p.recordedAs(rest[0]); is != service.Stopped {
			t.Errorf("%s: %s is recorded as %s", end, rest[0], is)
		}
		p.await(rest[1], "running")
		if desired(rest[1]) != "running" || desired(first) != "running" {
			t.Errorf("%s: %s is %s, %s is %s", end, first, desired(first), rest[1], desired(rest[1]))
		}
		p.await(first, "running")
		p.kill()
		p.supervise()
		p.open()
		if state, _ := p.state(rest[0]); state != "stopped" {
			t.Errorf("%s: for a successor %s is %s", end, rest[0], state)
		}
	}
}

// So it is with what goes along with them, and when the supervisor is killed as soon as
// whoever cancelled it was answered.
func TestWhatGoesAlongWithARollingStartThatIsCancelled(t *testing.T) {
	for _, killed := range []bool{false, true} {
		p := newPlace(t, trio+"  above: {command: [above], wants: [two]}\n")
		p.bootAll()
		for _, name := range []string{"one", "two", "above"} {
			p.await(name, "running")
		}
		p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop"}).ID)
		begun := p.begin(control.BeginOperation{Verb: "start", Names: []string{"one", "above"}, Rolling: 1, SteadyMS: time.Hour.Milliseconds()})
		p.eventually("the first is taken", func() (bool, any) {
			one, above := p.spawned("one"), p.spawned("above")
			return one+above == 3, one + above
		})
		wanted := map[string]service.Intent{"one": service.Running, "above": service.Stopped, "two": service.Stopped}
		if p.spawned("above") == 2 {
			wanted = map[string]service.Intent{"one": service.Stopped, "above": service.Running, "two": service.Running}
		}
		if _, err := p.now.backend.CancelOperation(begun.ID); err != nil {
			t.Fatal(err)
		}
		if killed {
			p.kill()
			p.supervise()
			p.bootAll()
		}
		for name, is := range wanted {
			if got := p.recordedAs(name); got != is {
				t.Errorf("killed: %v: %s is recorded as %s, want %s", killed, name, got, is)
			}
			if u := p.unit(name); u.Desired != is {
				t.Errorf("killed: %v: %s is to be %s, want %s", killed, name, u.Desired, is)
			}
		}
	}
}

// A rolling restart of what requires a service that has ended says so, and ends.
func TestRollingRestartOfWhatCannotStart(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\nservices:\n  one: {command: [one], restart: {policy: no}}\n  above: {command: [above], requires: [one]}\n")
	p.bootAll()
	p.await("above", "running")
	p.exit("one")
	p.await("one", "exited")
	begun := p.begin(control.BeginOperation{Verb: "restart", Names: []string{"above"}, Rolling: 1})
	state, _ := p.awaitEnd(begun.ID)
	if o, _ := p.now.backend.Operation(begun.ID); state != "failed" || !strings.Contains(o.Reason, "requires one, which is exited") {
		t.Errorf("%s: %s", state, o.Reason)
	}
}

// rollingStop is a place in which a trio is stopped one by one, and the first of them
// does not hear it.
func rollingStop(t *testing.T) (p *place, begun control.Operation) {
	p = running(t, trio, "one", "two", "zed")
	p.mu.Lock()
	p.deaf["one"] = true
	p.mu.Unlock()
	begun = p.begin(control.BeginOperation{Verb: "stop", Names: []string{"one", "two", "zed"}, Rolling: 1})
	p.await("one", "stopping")
	return p, begun
}

// A rolling stop goes on when one of its members is started meanwhile.
func TestRollingStopOfWhatIsStartedAgain(t *testing.T) {
	p, begun := rollingStop(t)
	p.begin(control.BeginOperation{Verb: "start", Names: []string{"one"}})
	p.exit("one")
	state, members := p.awaitEnd(begun.ID)
	if state != "done" || members["one"] != "superseded" || members["two"] != "done" || members["zed"] != "done" {
		t.Errorf("%s, %v", state, members)
	}
	p.await("one", "running")
}

// What a service wants that runs already is started with it by a rolling start, as it is
// by a start.
func TestRollingStartOfWhatRunsAlready(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], wants: [two]}\n", "two", "above")
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}}).ID)
	begun := p.begin(control.BeginOperation{Verb: "start", Names: []string{"above"}, Rolling: 1})
	if state, members := p.awaitEnd(begun.ID); state != "done" || p.spawned("above") != 1 {
		t.Errorf("%s, %v; above was started %d times", state, members, p.spawned("above"))
	}
	p.await("two", "running")
}

// Who was stopped since a rolling start began is not started along with a member that
// it takes later.
func TestStoppedBeforeARollingStartComesToIt(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], wants: [two]}\n", "one", "two", "above")
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop"}).ID)
	begun := p.begin(control.BeginOperation{Verb: "start", Names: []string{"one", "above"}, Rolling: 1, SteadyMS: 1000})
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}}).ID)
	if state, members := p.awaitEnd(begun.ID); state != "done" {
		t.Errorf("%s, %v", state, members)
	}
	p.await("above", "running")
	if state, _ := p.state("two"); state != "stopped" || p.recordedAs("two") != service.Stopped {
		t.Errorf("two is %s, and recorded as %s", state, p.recordedAs("two"))
	}
}

// What was to go along with members that somebody has stopped since is wanted as before,
// though nobody has cancelled the rolling start.
func TestWhatGoesAlongWithWhatSomebodyStopped(t *testing.T) {
	for _, killed := range []bool{false, true} {
		p := newPlace(t, trio+"  above: {command: [above], wants: [two]}\n")
		p.bootAll()
		for _, name := range []string{"one", "two", "above"} {
			p.await(name, "running")
		}
		p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop"}).ID)
		begun := p.begin(control.BeginOperation{Verb: "start", Names: []string{"one", "above"}, Rolling: 1, SteadyMS: time.Hour.Milliseconds()})
		p.await("one", "running")
		p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop", Names: []string{"above"}}).ID)
		if killed { // before it has come to above, so that nothing of that is recorded
			p.kill()
			p.supervise()
			p.bootAll()
			p.await("one", "running")
			if is := p.recordedAs("two"); is != service.Stopped {
				t.Errorf("two is recorded as %s", is)
			}
			continue
		}
		p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop", Names: []string{"one"}}).ID)
		if state, members := p.awaitEnd(begun.ID); state != "superseded" {
			t.Errorf("%s, %v", state, members)
		}
		p.eventually("two is wanted as before", func() (bool, any) { is := p.recordedAs("two"); return is == service.Stopped, is })
	}
}

// What two rolling starts were to come to is as before when neither does.
func TestWhatTwoRollingStartsDoNotComeTo(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], wants: [two]}\n  over: {command: [over], wants: [two]}\n", "one", "two", "zed", "above", "over")
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop"}).ID)
	var begun []uint64
	for _, names := range [][]string{{"one", "above"}, {"zed", "over"}} {
		begun = append(begun, p.begin(control.BeginOperation{Verb: "start", Names: names, Rolling: 1, SteadyMS: time.Hour.Milliseconds()}).ID)
		p.await(names[0], "running")
	}
	for i := range begun {
		if _, err := p.now.backend.CancelOperation(begun[i]); err != nil {
			t.Fatal(err)
		}
		if is := p.recordedAs("two"); is != service.Stopped {
			t.Errorf("with %d of them cancelled two is recorded as %s", i+1, is)
		}
	}
}

// Whom a rolling stop that is cancelled has not come to is wanted as before, for a
// successor too.
func TestWhatARollingStopDoesNotComeTo(t *testing.T) {
	p, begun := rollingStop(t)
	if _, err := p.now.backend.CancelOperation(begun.ID); err != nil {
		t.Fatal(err)
	}
	p.kill()
	p.supervise()
	p.bootAll()
	for name, is := range map[string]service.Intent{"one": service.Stopped, "two": service.Running, "zed": service.Running} {
		recorded := is
		if is == service.Running {
			recorded = service.IntentNone // nobody has commanded it
		}
		if got := p.recordedAs(name); got != recorded || p.unit(name).Desired != is {
			t.Errorf("%s is recorded as %q, and is to be %s; want %q and %s", name, got, p.unit(name).Desired, recorded, is)
		}
	}
	for _, name := range []string{"two", "zed"} {
		if state, _ := p.state(name); state != "running" {
			t.Errorf("%s is %s", name, state)
		}
	}
}

// What is stopped for now before a rolling start comes to it stays so with the next
// supervisor.
func TestStoppedForNowBeforeASupervisorThatIsKilled(t *testing.T) {
	p := running(t, trio, "one", "two", "zed")
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop"}).ID)
	p.begin(control.BeginOperation{Verb: "start", Names: []string{"one", "two", "zed"}, Rolling: 1, SteadyMS: time.Hour.Milliseconds()})
	p.await("one", "running")
	p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}, Runtime: true})
	p.kill()
	p.supervise()
	p.bootAll()
	p.await("one", "running")
	for _, name := range []string{"two", "zed"} {
		if state, _ := p.state(name); state != "stopped" {
			t.Errorf("%s is %s", name, state)
		}
	}
}

// An operation that stops services and cannot be recorded is carried out, and says so.
func TestStopsThatCannotBeRecorded(t *testing.T) {
	p := running(t, trio, "one", "two")
	p.full.Store(true)
	_, err := p.now.backend.BeginOperation(t.Context(), control.BeginOperation{Verb: "stop", Names: []string{"one"}}, control.Actor{})
	if err == nil || !strings.Contains(err.Error(), "as with --runtime") {
		t.Errorf("one: %v", err)
	}
	p.await("one", "stopped")
	// A rolling one records each member as it comes to it, and says so at its end.
	begun := p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}, Rolling: 1})
	if state, members := p.awaitEnd(begun.ID); state != "failed" {
		t.Errorf("two: %s, %v", state, members)
	}
	p.await("two", "stopped")
	p.full.Store(false)
}

// writes is a file that is written by another function.
type writes struct {
	handover.File
	write func(b []byte, at int64) (int, error)
}

func (w writes) WriteAt(b []byte, at int64) (int, error) { return w.write(b, at) }

// A supervisor that is killed as it tells of the first step of a start, which is that the
// service waits, has a successor that starts it.
func TestStartOfWhichASuccessorHasTheFirstStepAlone(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], requires: [one]}\n", "one", "above")
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop"}).ID)
	var told, over bool // the loop's
	p.now.loop.Commands.Read(func(now serve.Services) {
		p.now.Memory.Through(func(f handover.File) handover.File {
			return writes{f, func(b []byte, at int64) (int, error) {
				if over {
					return len(b), nil // nobody is there to write
				}
				over = bytes.Contains(b, []byte("above")) && bytes.Contains(b, []byte(`"desired":"running"`))
				told = told || over && !bytes.Contains(b, []byte(`"want":"up"`))
				return f.WriteAt(b, at)
			}}
		})
	})
	p.begin(control.BeginOperation{Verb: "start", Names: []string{"above", "one"}})
	p.now.loop.Commands.Read(func(now serve.Services) {
		if !over || !told {
			t.Errorf("the first step of above was told: %v, and had not begun it: %v", over, told)
		}
	})
	p.kill()
	p.supervise()
	p.bootAll()
	p.await("above", "running")
}

// A rolling stop of which a member is started along with another service goes on with the
// others, and ends.
func TestRollingStopOfWhatIsStartedAlong(t *testing.T) {
	p := deafAbove(t)
	p.awaitEnd(p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}}).ID)
	begun := p.begin(control.BeginOperation{Verb: "stop", Names: []string{"one", "zed"}, Rolling: 1})
	p.await("above", "stopping") // and one waits for it
	p.begin(control.BeginOperation{Verb: "start", Names: []string{"above"}})
	p.exit("above")
	state, members := p.awaitEnd(begun.ID)
	if state != "done" || members["one"] != "superseded" || members["zed"] != "done" {
		t.Errorf("%s, %v", state, members)
	}
	p.await("above", "running")
}

// Whom a later command has started along with another service a rolling stop, which was
// yet to come to it, does not stop any more.
func TestRollingStopThatIsYetToComeToWhatIsStartedAlong(t *testing.T) {
	p := running(t, trio+"  above: {command: [above], enabled: false, requires: [two]}\n", "one", "two", "zed")
	p.mu.Lock()
	p.deaf["one"], p.deaf["two"] = true, true
	p.mu.Unlock()
	p.begin(control.BeginOperation{Verb: "stop", Names: []string{"two"}, Runtime: true})
	p.await("two", "stopping") // so it is not wanted, and yet there to be stopped
	begun := p.begin(control.BeginOperation{Verb: "stop", Names: []string{"one", "two"}, Rolling: 1})
	p.await("one", "stopping")
	p.begin(control.BeginOperation{Verb: "start", Names: []string{"above"}})
	p.exit("one")
	if state, members := p.awaitEnd(begun.ID); state != "done" || members["one"] != "done" || members["two"] != "superseded" {
		t.Errorf("%s, %v", state, members)
	}
	p.exit("two")
	p.await("above", "running")
	if is := p.recordedAs("two"); is != service.Running {
		t.Errorf("two is recorded as %s", is)
	}
}

// Of a member that is gone before a rolling stop comes to it a successor knows nothing.
func TestRollingStopOfWhatIsGone(t *testing.T) {
	p, begun := rollingStop(t)
	p.now.Registry.Drop("two")
	p.eventually("two is gone, and so is its slot", func() (bool, any) {
		_, known := p.now.Memory.Services()["two"]
		return !known, nil
	})
	p.exit("one")
	p.awaitEnd(begun.ID)
	p.kill()
	p.supervise()
	known := map[string]remember.Service{}
	p.now.loop.Commands.Read(func(now serve.Services) { known = p.now.Memory.Services() })
	if two, still := known["two"]; still {
		t.Errorf("it knows of %v", two.Machine)
	}
}
