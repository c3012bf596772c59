package view

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/service"
)

// A record names who asked for it by a uid, or by an object that has one; who has asked for
// it on this page is named, and for nothing else.
func TestActor(t *testing.T) {
	page := os.Geteuid()
	a := new(askers)
	a.note(7, "anne")
	a.note(8, "page") // by somebody without a name
	record := func(operation, uid int) control.Event {
		return control.Event{Type: "operation", Raw: fmt.Appendf(nil, `{"type":"operation","operation":%d,"verb":"stop","services":["web"],"actor":{"uid":%d,"pid":3}}`, operation, uid)}
	}
	for _, of := range []struct {
		e    control.Event
		want string
	}{
		{record(7, page), "anne on this page"},
		{record(8, page), "this page"},
		{record(9, page), "this page"},
		{record(7, page+1), fmt.Sprint("uid ", page+1)}, // an id that is another's
		{control.Event{Type: "profile_created", Raw: json.RawMessage(`{"actor":4711}`)}, "uid 4711"},
		{control.Event{Type: "booted", Raw: json.RawMessage(`{"actor":null}`)}, ""},
		{control.Event{Type: "booted", Raw: json.RawMessage(`{}`)}, ""},
	} {
		if b, _ := a.body(of.e); b.By != of.want {
			t.Errorf("%s is by %q, and not by %q", of.e.Raw, b.By, of.want)
		}
	}
	if b, _ := a.body(record(7, page)); b.Words != "operation 7, stop, web" {
		t.Errorf("an operation is shown as %q", b.Words)
	}
	uid, root := uint32(page), uint32(page)+1
	bodies := a.bodies([]control.Event{
		record(7, page),
		{Service: "web", From: "running", To: "stopping", Cause: fmt.Sprint("stop by uid ", page), Actor: &uid},
		{Service: "other", From: "running", To: "stopping", Cause: "stop", Actor: &uid},
		{Service: "web", From: "stopping", To: "stopped", Cause: "exit 0"},
		{Service: "web", From: "stopped", To: "starting", Cause: "start", Actor: &root},
	})
	var by []string
	for _, b := range bodies {
		by = append(by, b.By)
	}
	if got, want := strings.Join(by, "; "), fmt.Sprintf("uid %d; ; this page; anne on this page; anne on this page", root); got != want {
		t.Errorf("they are by %s, and not by %s", got, want)
	}
	if bodies[3].Words != "running → stopping: stop" {
		t.Errorf("who it was is said twice: %q", bodies[3].Words)
	}
	if got := stoppedBy(bodies[1:]); got != "this page" {
		t.Errorf("it was stopped by %q", got)
	}
	if got := stoppedBy(bodies); got != "" {
		t.Errorf("what is started was stopped by %q", got)
	}
	for i := range 3 * askersKept {
		a.note(uint64(100+i), "bob")
	}
	if len(a.names) != askersKept || a.of(uint64(99+3*askersKept), uid) != "bob on this page" {
		t.Errorf("%d names are kept", len(a.names))
	}
}

// Restarts that follow one another are one entry; what somebody has asked for, what failed,
// and a single restart, are entries of their own.
func TestFolded(t *testing.T) {
	at := time.Date(2026, 5, 24, 12, 0, 0, 0, time.UTC)
	uid := uint32(4711)
	var events []control.Event
	add := func(from, to, cause string, actor *uint32) {
		at = at.Add(time.Second)
		events = append(events, control.Event{Seq: uint64(len(events) + 1), At: at, Service: "a", From: from, To: to, Cause: cause, Actor: actor})
	}
	shown := func() (all []string) {
		for _, b := range folded(events, new(askers).bodies(events)) {
			all = append(all, b.Words)
		}
		return all
	}
	add("stopped", "starting", "boot", nil)
	add("starting", "running", "its process is there", nil)
	add("running", "backoff", "exit 1", nil)
	add("backoff", "starting", "back-off is over: exit 1", nil)
	add("starting", "running", "its process is there", nil)
	if got := shown(); len(got) != len(events) {
		t.Errorf("one restart is shown as %q", got)
	}
	add("running", "starting", "exit 2", nil) // at once
	add("starting", "running", "its process is there", nil)
	add("running", "backoff", "exit 3", nil)
	add("backoff", "ill", "backoff", nil)
	add("backoff", "starting", "back-off is over: exit 3", nil)
	add("starting", "running", "its process is there", nil)
	add("running", "well", "running", nil)
	add("running", "failed", "3 starts in 10s, last exit 4", nil)
	add("failed", "starting", "restart", &uid)
	want := []string{
		"failed → starting: restart",
		"running → failed: 3 starts in 10s, last exit 4",
		"restarted 3 times between 2026-05-24 12:00:03 and 2026-05-24 12:00:12, last after exit 3",
		"starting → running: its process is there",
		"stopped → starting: boot",
	}
	if got := shown(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it is shown as %s", strings.Join(got, "\n"))
	}
}

// What a reason says for a terminal, and of a moment that is over, is not shown.
func TestReason(t *testing.T) {
	for text, want := range map[string]reason{
		"": {},
		`dave is not up: exit 3, "no; such"; it is tried again in 90ms; see rlminit logs dave`:           {`dave is not up: exit 3, "no; such"; it was to be started again`, "dave"},
		"dave ended as soon as it was started: exit 3; it is started again, see rlminit logs dave":       {"dave ended as soon as it was started: exit 3; it was to be started again", "dave"},
		"dave failed: 3 starts in 1s, last exit 3; see rlminit logs dave, then rlminit start dave":       {"dave failed: 3 starts in 1s, last exit 3", "dave"},
		"dave is not up: exit 3; it has been tried again, and is failed; see rlminit logs dave":          {"dave is not up: exit 3; it has been tried again, and is failed", "dave"},
		`dave failed: exit 3, "; see rlminit logs evil"; see rlminit logs dave, then rlminit start dave`: {`dave failed: exit 3, "; see rlminit logs evil"`, "dave"},
		"waits for db to stop": {"waits for db to stop", ""},
		"x \x1b[2J":            {"x ␛[2J", ""},
	} {
		if got := reasonOf(text); got != want {
			t.Errorf("%q is shown as %+v", text, got)
		}
	}
}

// Of a service that failed it is said when it is tried again, or that it is not.
func TestRetry(t *testing.T) {
	since := time.Date(2026, 5, 24, 12, 0, 0, 0, time.UTC)
	fatal := "exit 78, a fatal exit code"
	for _, of := range []struct {
		after, policy, fault string
		reason               *string
		want                 string
	}{
		{"10m0s", "always", "", nil, "at 2026-05-24 12:10:00 UTC, after retry_failed (10 min)"},
		{"0s", "always", "", nil, "not by itself"},
		{"", "always", "", nil, "not by itself"},
		{"10m0s", "no", "", nil, "not by itself"},
		{"10m0s", "always", "", &fatal, "not by itself"},
		{"10m0s", "always", "no such user", nil, "when its definition is mended"},
	} {
		d := control.Definition{Fault: of.fault, Fields: []service.Field{{Field: "restart.policy", Value: of.policy}, {Field: "restart.retry_failed", Value: of.after}}}
		if got := retryOf(control.Service{State: "failed", Since: &since, Reason: of.reason}, d); got != of.want {
			t.Errorf("%+v: %q", of, got)
		}
	}
}

// A service that has crashed of late comes before those that have not, and says so.
func TestCrashed(t *testing.T) {
	pid, code := 7, 1
	crash := func(ago time.Duration, restarts int) row {
		return rowOf(control.Service{Name: "z", State: "running", PID: &pid, Restarts: restarts, LastExit: &control.Exit{Code: &code, At: time.Now().Add(-ago)}})
	}
	calm := rowOf(control.Service{Name: "a", State: "running", PID: &pid})
	if r := crash(time.Minute, 7); !r.Crashed() || r.Again() != "restarted 7 times" || r.Key() > calm.Key() || !strings.Contains(r.Find(), "restarted") {
		t.Errorf("it is %q: %q", r.Key(), r.Again())
	}
	for _, r := range []row{crash(2*lately, 7), crash(time.Minute, 0), calm} {
		if r.Crashed() || r.Key() < calm.Key() {
			t.Errorf("it is pointed out: %q", r.Key())
		}
	}
	code = 0
	for want, s := range map[string]control.Service{
		"last exit: exit code 0":                     {State: "stopped", LastExit: &control.Exit{Code: &code}},
		"it has not run since the container started": {State: "stopped"},
		"": {State: "running"},
	} {
		if got := why(s); got != want {
			t.Errorf("%s: why is %q", s.State, got)
		}
	}
}

// What is no number of seconds, or no revision, is refused and not guessed at.
func TestNumbersOfForms(t *testing.T) {
	for steady, ms := range map[string]int64{"": 30_000, "0": 0, "3600": 3_600_000, "-5": -1, "3601": -1, "x": -1, "1.5": -1, "1e3": -1} {
		g, wrong := gatingOf(url.Values{"steady": {steady}})
		if (wrong == "") != (ms >= 0) || wrong == "" && g.SteadyMS != ms || strings.Contains(wrong, "\n") {
			t.Errorf("steady=%s: %d ms, %q", steady, g.SteadyMS, wrong)
		}
	}
	for to, is := range map[string]int{"": -1, "0": 0, "3": 3} {
		if n, wrong := rollbackOf(to); wrong != "" || (n == nil) != (is < 0) || n != nil && *n != is {
			t.Errorf("to=%s: %v %q", to, n, wrong)
		}
	}
	for _, to := range []string{"-1", "last", "1 "} {
		if _, wrong := rollbackOf(to); wrong == "" {
			t.Errorf("to=%s is taken", to)
		}
	}
}
