package screen

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"rlminit/beside/top/table"
	"rlminit/control"
)

func ptr[T any](v T) *T { return &v }

var start = time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)

// user is a person before a screen.
type user struct {
	*testing.T
	m    Model
	next time.Duration
}

// sits makes one, with services before the eyes.
func sits(t *testing.T, width, height int, services ...control.Service) *user {
	t.Helper()
	u := &user{T: t}
	u.m.Step(Size{width, height})
	u.sees(services...)
	return u
}

// sees has the screen show other services, a second later.
func (u *user) sees(services ...control.Service) []Effect {
	u.next += time.Second
	return u.m.Step(Fresh{table.Snapshot{At: start.Add(u.next), Services: services}})
}

// presses presses keys, and returns what the last one is to do.
func (u *user) presses(keys ...string) (effects []Effect) {
	for _, key := range keys {
		k := Key{Name: key}
		if len([]rune(key)) == 1 {
			k.Text = key
		} else if key == "space" {
			k.Text = " "
		}
		effects = u.m.Step(k)
	}
	return effects
}

// screen is what is on the screen, without colours.
func (u *user) screen() string { return ansi.Strip(u.m.Draw()) }

// reads checks that there are words on the screen.
func (u *user) reads(words ...string) {
	u.Helper()
	for _, word := range words {
		if !strings.Contains(u.screen(), word) {
			u.Errorf("there is no %q on the screen:\n%s", word, u.screen())
		}
	}
}

// misses checks that there are none.
func (u *user) misses(words ...string) {
	u.Helper()
	for _, word := range words {
		if strings.Contains(u.screen(), word) {
			u.Errorf("there is %q on the screen:\n%s", word, u.screen())
		}
	}
}

func (u *user) wants(effects []Effect, want ...Effect) {
	u.Helper()
	if len(effects)+len(want) > 0 && !reflect.DeepEqual(effects, want) {
		u.Errorf("it is to do %#v, not %#v", effects, want)
	}
}

func serviceIn(name, state, reason string) control.Service {
	s := control.Service{Name: name, State: state, Since: ptr(start), Desired: "running"}
	if reason != "" {
		s.Reason = &reason
	}
	return s
}

func gateway(name, state string) control.Service {
	s := serviceIn("gateway-"+name, state, "")
	s.Profile = &name
	return s
}

// crowd is a thousand services.
func crowd() (all []control.Service) {
	for i := range 1000 {
		all = append(all, serviceIn(fmt.Sprintf("svc-%04d", i), "running", ""))
	}
	return all
}

func TestListAndCursor(t *testing.T) {
	u := sits(t, 80, 24, serviceIn("db", "running", ""), serviceIn("api", "failed", "exit 1"), gateway("alice", "running"))
	u.reads("3 services: 1 failed, 2 running", "> api", "  alice", "api: exit 1", "? help", "q quit", "/ filter")
	u.presses("down")
	u.reads("> alice", "  api")
	u.wants(u.presses("q"), Quit{})
	u.wants(u.presses("ctrl+c"), Quit{})
	u.wants(u.presses("ctrl+l"), Redraw{})
	u.wants(u.presses("ctrl+z"), Suspend{})
	u.presses("?")
	u.reads("what the keys do", "start (up), stop (down), restart")
	u.wants(u.presses("q"))
	u.misses("what the keys do")

	u.m.Step(Size{40, 10})
	u.presses("?")
	u.reads("any other key")
	u.misses("> is the cursor")
	u.presses("end")
	u.reads("> is the cursor")
	u.presses("esc")
	u.reads("> alice")

	empty := sits(t, 80, 24)
	empty.reads("0 services", "rlminit profile create NAME")
	for _, key := range []string{"enter", "d", "space", "a", "c", "end", "o"} {
		empty.presses(key)
	}
}

func TestThousandServicesScroll(t *testing.T) {
	u := sits(t, 80, 24, crowd()...)
	u.presses("end")
	u.reads("> svc-0999", "svc-0982")
	u.misses("svc-0981")
	u.presses("up", "up")
	u.reads("> svc-0997", "svc-0999")
	u.presses("home", "pgdown")
	u.reads("> svc-0017")
	u.presses("pgdown")
	u.reads("> svc-0034")
	u.m.Step(Size{80, 12})
	u.reads("> svc-0034")
	began := time.Now()
	for range 100 {
		u.sees(crowd()...)
		u.m.Draw()
	}
	if took := time.Since(began) / 100; took > 100*time.Millisecond {
		t.Errorf("to show a thousand services anew takes %s", took)
	}
}

func TestFilterAndSort(t *testing.T) {
	u := sits(t, 80, 24, serviceIn("api", "running", ""), serviceIn("db", "failed", ""), serviceIn("web", "running", ""))
	u.presses("/", "w", "e")
	u.reads("filter by name, state or kind: we█", "> web", `[filter "we" shows 1]`)
	u.misses("  api")
	u.presses("backspace", "backspace", "q")
	u.reads(`none of 3 services matches "q"`)
	u.presses("ctrl+u")
	u.m.Step(Pasted{"run\x1b[2J\nn"})
	u.reads("run[2Jn█") // what cannot be seen is left out, and nothing is obeyed
	u.presses("esc")
	u.misses("filter by", "shows")
	u.presses("/", "d", "b", "enter", "esc")
	u.misses("filter by", "shows")
	u.reads("api", "web")

	u.reads("STATE↓")
	u.presses("s")
	u.reads("NAME↓", "> api")
	u.presses("S")
	u.reads("NAME↑")
	if lines := strings.Split(u.screen(), "\n"); !strings.Contains(lines[3], "web") {
		t.Errorf("turned round, the first is %q", lines[3])
	}
	u.m.Step(Pasted{"d\ny"}) // no command
	if u.m.question != nil {
		t.Error("pasted text asked a question")
	}
}

// TestStopIsAsked goes through a stop: the question, what it will do, progress, the end.
func TestStopIsAsked(t *testing.T) {
	u := sits(t, 80, 24, gateway("alice", "running"), serviceIn("db", "running", ""))
	u.wants(u.presses("d"), AskDepends{1})
	u.reads("stop alice? y/n", "Asking what depends on it")
	u.wants(u.presses("y")) // not before it says what it will do
	u.reads("stop alice? y/n")
	u.m.Step(Depends{Of: 0, All: nil}) // of an older question
	u.reads("Asking what depends on it")
	u.m.Step(Depends{Of: 1, All: []control.Dependencies{
		{Service: "api", State: "running", Requires: []string{"gateway-alice"}},
		{Service: "web", State: "running", Requires: []string{"api"}},
		{Service: "off", State: "stopped", Requires: []string{"api"}},
	}})
	u.reads("What requires it is stopped first: api, web.")
	u.presses("n")
	u.reads("nothing was done")

	u.presses("d")
	u.m.Step(Depends{Of: 2})
	u.reads("It stays stopped, also after a restart of the container.")
	u.wants(u.presses("y"), Begin{2, control.BeginOperation{Verb: "stop", Names: []string{"gateway-alice"}}})
	u.reads("stop: asking the supervisor")
	o := control.Operation{ID: 7, Verb: "stop", State: "running", Members: []control.OperationMember{{Name: "gateway-alice", State: "running", Reason: "waits for its end"}}}
	u.m.Step(Operated{Of: 2, Operation: o})
	u.reads("stop of alice: 0 of 1 done, 1 running (c cancels); alice waits for its end")
	if u.m.Unfinished() != 7 {
		t.Errorf("the unfinished operation is %d", u.m.Unfinished())
	}
	u.presses("c")
	u.reads("cancel stop of alice (operation 7)? y/n")
	u.wants(u.presses("y"), CancelOperation{7})
	o.State, o.Members[0].State = "done", "done"
	u.m.Step(Operated{Of: 2, Operation: o})
	u.reads("stop of alice (operation 7): done")
	if u.m.Unfinished() != 0 {
		t.Errorf("the unfinished operation is %d", u.m.Unfinished())
	}
	for range 10 {
		u.sees(gateway("alice", "stopped"), serviceIn("db", "running", ""))
	}
	u.misses("operation 7")
}

func TestFailuresAreTold(t *testing.T) {
	u := sits(t, 80, 24, gateway("alice", "stopped"), serviceIn("db", "failed", ""))
	began := 0
	try := func(in Operated, want string) {
		t.Helper()
		u.presses("u")
		began++
		u.m.Step(Depends{Of: began})
		u.presses("y")
		in.Of = began
		u.m.Step(in)
		u.reads(want)
	}
	failed := control.Operation{ID: 3, Verb: "start", State: "failed", Reason: "db: exit 1", Members: []control.OperationMember{{Name: "db", State: "failed", Reason: "exit 1"}}}
	try(Operated{Operation: failed}, "cannot start db: exit 1")
	try(Operated{Why: "permission denied: you are\x1b[2J uid 7"}, "permission denied: you are�[2J uid 7")
	failed.Members[0].Reason = ""
	try(Operated{Operation: failed}, "cannot start db: exit 1")
	failed.State, failed.Members[0].Reason = "superseded", "a later stop has it"
	try(Operated{Operation: failed}, "start of db (operation 3) is superseded: a later stop has it")
	for range 20 {
		u.sees(gateway("alice", "stopped"), serviceIn("db", "failed", ""))
	}
	u.reads("superseded")
	u.presses("esc")
	u.misses("superseded")
	u.presses("c")
	u.reads("there is no operation to cancel")
}

// TestMarkedAreOperatedOn: also those that the filter hides, and the question names them.
func TestMarkedAreOperatedOn(t *testing.T) {
	u := sits(t, 80, 24, gateway("alice", "running"), gateway("bob", "running"), serviceIn("db", "running", ""))
	u.presses("space", "space")
	u.reads(" *alice", " *bob", "> db", "[2 marked]")
	u.presses("/", "d", "b", "enter")
	u.presses("r")
	u.m.Step(Depends{Of: 1, All: []control.Dependencies{{Service: "web", State: "running", Requires: []string{"gateway-bob"}}}})
	u.reads("restart 2 services? y/n", "alice, bob. What requires them is stopped too, and started again: web.", "o one after the other")
	u.wants(u.presses("o"), Begin{1, control.BeginOperation{Verb: "restart", Names: []string{"gateway-alice", "gateway-bob"}, Rolling: 1, SteadyMS: steadyMS}})
	u.misses("marked")
	u.presses("esc", "a", "d")
	u.m.Step(Depends{Of: 2, Why: "no rlminit answers"})
	u.reads("stop 3 services?", "What depends on them cannot be told: no rlminit answers", "y yes   n no")
	u.wants(u.presses("enter")) // anything but a yes is a no
	u.reads("nothing was done", "[3 marked]")
	u.presses("esc")
	u.misses("marked")
	u.presses("d")
	u.m.Step(Depends{Of: 3, Why: "permission denied", Refused: true})
	u.reads("cannot stop db: permission denied")
	u.misses("y/n")
}

func TestLogAsItComes(t *testing.T) {
	u := sits(t, 80, 24, gateway("alice", "running"))
	u.wants(u.presses("enter"), OpenLog{1, "gateway-alice"})
	u.reads("alice  running for 1s", "gateway-alice", "log, as it comes", "nothing yet")
	var lines [][]byte
	for i := range 100 {
		lines = append(lines, fmt.Appendf(nil, "2026-05-24T18:05:33.000001Z out line %d", i))
	}
	u.m.Step(Logged{Of: 9, Lines: lines})
	u.reads("nothing yet") // the log of another
	u.m.Step(Logged{Of: 1, Lines: lines})
	at := start.Local().Format("15:04:05")
	u.reads(at+" line 99", at+" line 82")
	u.misses("line 81")
	u.presses("up")
	u.reads("log: 1 line below; G goes to the end", "line 81")
	u.m.Step(Logged{Of: 1, Lines: [][]byte{[]byte("2026-05-24T18:05:34Z err \x1b[31mred"), []byte("bare")}})
	u.reads("log: 3 lines below", "line 81")
	u.presses("G")
	u.reads("log, as it comes", "err ^[[31mred", "bare")

	u.presses("/", "L", "I", "N", "E", " ", "5", "enter")
	u.reads(`"line 5": 11 of 11`, "> "+at+" line 59")
	u.presses("n")
	u.reads(`"line 5": 10 of 11`, "> "+at+" line 58")
	u.presses("N", "N", "N")
	u.reads(`"line 5": 11 of 11`)
	u.presses("esc")
	u.misses(`"line 5"`)
	u.presses("right")
	u.reads("from column 17")
	u.presses("left")
	u.m.Step(Logged{Of: 1, Why: "not permitted"})
	u.reads("log: not permitted")
	u.wants(u.presses("esc"), CloseLog{})
	u.reads("> alice")
	u.wants(u.presses("enter"), OpenLog{2, "gateway-alice"})
	u.reads("nothing yet")
	u.sees(serviceIn("db", "running", ""))
	u.reads("alice", "and is gone now")
	u.wants(u.presses("d"))
}

// TestLogIsBounded: of a log that goes on for ever only the end is kept, and what a person
// reads stays in its place.
func TestLogIsBounded(t *testing.T) {
	u := sits(t, 80, 24, gateway("alice", "running"))
	u.presses("enter")
	log := &u.m.one.log
	for i := range 40 {
		var lines [][]byte
		for j := range 1000 {
			lines = append(lines, fmt.Appendf(nil, "number %d", i*1000+j))
		}
		u.m.Step(Logged{Of: 1, Lines: lines})
		if i == 38 {
			u.m.Draw()
			u.presses("up")
			u.reads("number 38981")
		}
	}
	u.reads("number 38981")
	if len(log.lines) != logLines {
		t.Errorf("%d lines are kept", len(log.lines))
	}
	u.m.Step(Logged{Of: 1, Lines: [][]byte{[]byte(strings.Repeat("x", 1<<20))}})
	for range 2000 {
		u.m.Step(Logged{Of: 1, Lines: [][]byte{[]byte(strings.Repeat("y", 8<<10))}})
	}
	if log.bytes > logBytes || len(log.lines) < 500 {
		t.Errorf("%d bytes in %d lines are kept", log.bytes, len(log.lines))
	}
	u.m.Draw()
}

func TestSupervisorIsSilent(t *testing.T) {
	u := sits(t, 80, 24, serviceIn("api", "running", ""), serviceIn("db", "running", ""))
	u.presses("down", "/", "d", "b", "enter")
	u.m.Step(Silent{})
	u.reads("the supervisor does not answer; trying again (as of ", "> db")
	u.m.Step(Silent{Why: "permission\ndenied"})
	u.reads("trying again: permission denied")
	u.presses("enter")
	u.reads("the supervisor does not answer")
	u.presses("esc")
	u.sees(serviceIn("api", "failed", ""), serviceIn("db", "running", ""))
	u.misses("does not answer")
	u.reads("2 services: 1 failed, 1 running", "> db", `[filter "db" shows 1]`)
}

func TestOperationsPage(t *testing.T) {
	u := sits(t, 80, 24, gateway("alice", "running"))
	u.wants(u.presses("o"), AskOperations{})
	u.reads("asking the supervisor")
	u.m.Step(Operations{})
	u.reads("nothing was asked of a service yet")
	all := []control.Operation{
		{ID: 1, Verb: "stop", State: "done", At: start, Members: []control.OperationMember{{Name: "gateway-alice", State: "done"}}},
		{ID: 2, Verb: "restart", State: "failed", At: start, Members: []control.OperationMember{{Name: "a", State: "failed", Reason: "exit 1"}, {Name: "b", State: "done"}}},
		{ID: 3, Verb: "restart", State: "running", At: start, Members: []control.OperationMember{{Name: "a", State: "running", Reason: "is stopping"}, {Name: "b", State: "pending"}}},
	}
	u.m.Step(Operations{All: all})
	u.reads("> 3     restart  running", "2 services: 0 of 2 done, 1 running; a is st…", "2 services: a: exit 1", "alice")
	u.presses("down")
	u.reads("> 2")
	u.presses("c")
	u.reads("there is no operation to cancel")
	u.presses("home", "c")
	u.reads("cancel restart of 2 services (operation 3)? y/n")
	u.wants(u.presses("y"), CancelOperation{3})
	all[2].State = "cancelled"
	u.m.Step(Operated{Operation: all[2]})
	u.reads("restart of 2 services (operation 3) is cancelled: 0 of 2 done")
	u.wants(u.sees(gateway("alice", "running")), AskOperations{}) // as long as it is looked at
	u.m.Step(Operations{Why: "no rlminit answers"})
	u.reads("no rlminit answers")
	u.presses("esc", "esc")
	u.reads("> alice")
	u.wants(u.sees(gateway("alice", "running")))
}

// TestHelpFits: a usual terminal shows all of it, and cuts no line.
func TestHelpFits(t *testing.T) {
	u := sits(t, 80, 24)
	u.presses("?")
	u.reads(help...)
}
