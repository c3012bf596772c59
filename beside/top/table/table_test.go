package table

import (
	"strings"
	"testing"
	"time"

	"rlminit/control"
)

func ptr[T any](v T) *T { return &v }

var start = time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)

// running is a service that runs with a pid, and has used so much.
func running(name string, pid int, memory int64, cpu float64) control.Service {
	return control.Service{Name: name, State: "running", Verdict: "ok", PID: &pid, Since: ptr(start), Usage: &control.Usage{MemoryBytes: memory, CPUS: cpu, Processes: 1}}
}

func in(name, state string) control.Service {
	verdict := map[string]string{"failed": "ill", "backoff": "ill", "running": "ok", "starting": "pending", "stopped": "off", "exited": "ok"}[state]
	return control.Service{Name: name, State: state, Verdict: verdict}
}

// names are those that are shown, the one under the cursor in brackets.
func names(t *Table) string {
	_, at := t.Cursor()
	var all []string
	for i, r := range t.Shown() {
		name := r.Name
		if t.Marked(r) {
			name = "*" + name
		}
		if i == at {
			name = "[" + name + "]"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func expect(t *testing.T, table *Table, want string) {
	t.Helper()
	if is := names(table); is != want {
		t.Errorf("the table shows %s, not %s", is, want)
	}
}

func TestOrders(t *testing.T) {
	table := &Table{held: true}
	at := start.Add(time.Minute)
	sick, young := running("sick", 5, 50, 1), running("young", 6, 10, 1)
	sick.Healthy, sick.Verdict, sick.Restarts, young.Since = ptr(false), "ill", 3, ptr(start.Add(30*time.Second))
	table.Set(Snapshot{At: at, Services: []control.Service{running("big", 3, 900, 5), running("busy", 4, 100, 5), sick, young, in("broken", "failed"), in("off", "stopped")}})
	table.Set(Snapshot{At: at.Add(time.Second), Services: []control.Service{running("big", 3, 900, 5), running("busy", 4, 100, 5.5), sick, young, in("broken", "failed"), in("off", "stopped")}})
	expect(t, table, "[broken] sick big busy young off")
	for _, want := range []struct{ order, shows string }{
		{"name", "big [broken] busy off sick young"},
		{"CPU, most first", "busy big sick young [broken] off"},
		{"memory, most first", "big busy sick young [broken] off"},
		{"restarts, most first", "sick big [broken] busy off young"},
		{"since, latest first", "young big busy sick [broken] off"},
		{"state, ill first", "[broken] sick big busy young off"},
	} {
		table.Sort()
		expect(t, table, want.shows)
		if table.Order() != want.order {
			t.Errorf("the order is %q, not %q", table.Order(), want.order)
		}
	}
	table.Turn()
	expect(t, table, "off big busy young sick [broken]")
	if table.Sort(); table.Order() != "name" {
		t.Errorf("the next order is %q", table.Order())
	}
}

// TestCursorStays: the cursor stays on its service, wherever that goes, and in its place
// if the service is gone.
func TestCursorStays(t *testing.T) {
	table := new(Table)
	table.Set(Snapshot{At: start, Services: []control.Service{in("a", "running"), in("b", "starting"), in("c", "running")}})
	expect(t, table, "[b] a c")
	table.Set(Snapshot{At: start, Services: []control.Service{in("a", "running"), in("b", "running"), in("c", "running")}})
	expect(t, table, "[a] b c") // nobody has moved it
	table.Move(1)
	expect(t, table, "a [b] c")
	table.Set(Snapshot{At: start, Services: []control.Service{in("a", "running"), in("b", "failed"), in("c", "running")}})
	expect(t, table, "[b] a c")
	table.Move(9)
	expect(t, table, "b a [c]")
	table.Set(Snapshot{At: start, Services: []control.Service{in("a", "running"), in("b", "failed")}})
	expect(t, table, "b [a]")
	table.Filter("B")
	expect(t, table, "[b]")
	table.Filter("no such")
	expect(t, table, "")
	if r, _ := table.Cursor(); r != nil {
		t.Errorf("the cursor is on %s where nothing is shown", r.Name)
	}
	table.Move(-1)
	table.Filter("")
	expect(t, table, "[b] a")
}

func TestFilter(t *testing.T) {
	old, web := in("gateway-old", "running"), in("gateway-web", "failed")
	old.Profile, old.Outdated, web.Profile, web.Kind = ptr("old"), true, ptr("web"), ptr("worker")
	table := new(Table)
	table.Set(Snapshot{At: start, Services: []control.Service{old, web, in("db", "running")}})
	for words, want := range map[string]string{"failed": "[web]", "outdated": "[old]", "WORKER": "[web]", "gateway run": "[old]", "": "[web] old db"} {
		fresh := *table
		fresh.cursor, fresh.index = "", 0
		fresh.Filter(words)
		expect(t, &fresh, want)
	}
}

func TestMarks(t *testing.T) {
	table := new(Table)
	all := []control.Service{in("a", "running"), in("b", "running"), in("c", "stopped")}
	table.Set(Snapshot{At: start, Services: all})
	chosen := func() string {
		var names []string
		for _, r := range table.Chosen() {
			names = append(names, r.Name)
		}
		return strings.Join(names, " ")
	}
	if is := chosen(); is != "a" {
		t.Errorf("a command is meant for %q", is)
	}
	table.Move(1)
	table.Mark()
	table.Move(1)
	table.Mark()
	expect(t, table, "a *b [*c]")
	table.Filter("running")
	if is := chosen(); is != "b c" || table.Marks() != 2 {
		t.Errorf("a command is meant for %q", is)
	}
	table.Set(Snapshot{At: start, Services: all[:2]})
	if is := chosen(); is != "b" {
		t.Errorf("after c is gone, a command is meant for %q", is)
	}
	table.MarkShown()
	expect(t, table, "[*a] *b")
	table.MarkShown()
	expect(t, table, "[a] b")
	table.Mark()
	table.Unmark()
	expect(t, table, "[a] b")
}

// TestUse: CPU is what was used between two measurements of one process, and not known
// after another has taken its place.
func TestUse(t *testing.T) {
	table := new(Table)
	look := func(after time.Duration, pid int, cpu float64) *Row {
		table.Set(Snapshot{At: start.Add(after), Services: []control.Service{running("a", pid, 1<<20, cpu)}, Tiers: []control.Service{running("rlminit-init", 1, 2<<20, 0)}})
		return table.Shown()[0]
	}
	if r := look(0, 7, 10); r.CPU != -1 || r.Memory != 1<<20 {
		t.Errorf("at first CPU is %v, memory %v", r.CPU, r.Memory)
	}
	if r := look(2*time.Second, 7, 10.5); r.CPU != 25 {
		t.Errorf("half a second in two is %v%%", r.CPU)
	}
	if r := look(2100*time.Millisecond, 7, 10.6); r.CPU != 25 || len(r.CPUs) != 2 {
		t.Errorf("a moment later it is %v%% in %d samples", r.CPU, len(r.CPUs))
	}
	if r := look(3*time.Second, 7, 10.5); r.CPU != 0 {
		t.Errorf("nothing is %v%%", r.CPU)
	}
	if use := new(Table).Use(); use != "memory -, CPU -" {
		t.Errorf("nothing uses %q", use)
	}
	if use := table.Use(); use != "memory 1.0M, CPU 0%; rlminit 2.0M, 0%" {
		t.Errorf("all use %q", use)
	}
	if r := look(4*time.Second, 8, 0.1); r.CPU != -1 {
		t.Errorf("of another process it is %v%%", r.CPU)
	}
	for i := range 2 * samples {
		look(time.Duration(5+i)*time.Second, 8, float64(i))
	}
	if r := table.Shown()[0]; len(r.CPUs) != samples || len(r.Memories) != samples || r.CPUs[samples-1] != 100 {
		t.Errorf("after many looks %d samples are kept, the last of them %v", len(r.CPUs), r.CPUs[len(r.CPUs)-1])
	}
}

func TestWords(t *testing.T) {
	next := start.Add(time.Hour)
	hostile := in("x\x1b[2J", "fail\x1bed")
	hostile.Profile, hostile.Reason = ptr("p\u202eq"), ptr("a\nb\x9b")
	for _, try := range []struct {
		s                control.Service
		name, state, why string
	}{
		{control.Service{Name: "gateway-a", Profile: ptr("a"), State: "running", Healthy: ptr(false), Reason: ptr("exit 1")}, "a", "unhealthy", "exit 1"},
		{control.Service{Name: "b", State: "running", Outdated: true, OutdatedWhy: "environment changed"}, "b", "running", "outdated: environment changed; restart it"},
		{control.Service{Name: "c", State: "stopped", Schedule: &control.Schedule{Next: &next}}, "c", "scheduled", "runs next at " + next.Local().Format("2006-01-02 15:04:05 MST")},
		{control.Service{Name: "d", State: "exited", LastExit: &control.Exit{Code: ptr(3)}}, "d", "exited", "exit 3"},
		{control.Service{Name: "d", State: "backoff", LastExit: &control.Exit{Signal: ptr("KILL")}}, "d", "backoff", "killed by KILL"},
		{control.Service{Name: "e", State: "running", StatusText: ptr("42 clients"), LastExit: &control.Exit{Code: ptr(3)}}, "e", "running", "42 clients"},
		{control.Service{Name: "f", State: "running", LogLostBytes: 12}, "f", "running", "its log has lost 12 bytes"},
		{hostile, "p\ufffdq", "fail\ufffded", "a b\ufffd"},
	} {
		if name, state, why := Name(try.s), State(try.s), Why(try.s); name != try.name || state != try.state || why != try.why {
			t.Errorf("%q is %q: %q, not %q is %q: %q", name, state, why, try.name, try.state, try.why)
		}
	}
	table := new(Table)
	table.Set(Snapshot{At: start, Services: []control.Service{in("a", "failed"), in("b", "running"), {Name: "c", State: "running", Outdated: true}}})
	if is := table.Counts(); is != "3 services: 1 failed, 2 running, 1 outdated" {
		t.Errorf("it counts %q", is)
	}
}
