package programs

import (
	"encoding/json"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// transitions are the numbers of the first event of each service and state.
func transitions(b *box.Box) map[string]uint64 {
	b.Helper()
	first := map[string]uint64{}
	for line := range strings.Lines(b.Must("events", "--json")) {
		var e control.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.Fatalf("%v in %q", err, line)
		}
		if key := e.Service + " " + e.To; first[key] == 0 {
			first[key] = e.Seq
		}
	}
	return first
}

// What is required starts first, what is independent starts side by side, and
// everything stops in reverse. The two in the middle wait for one another: if
// one were started after the other, neither would ever be ready.
func TestOrderAndParallelStart(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	meet := func(mine, other string) string {
		return script(`>"$RLMINIT_HOME/`+mine+`"; until [ -e "$RLMINIT_HOME/`+other+`" ]; do sleep 0.02; done; systemd-notify --ready; exec sleep infinity`) +
			`, environment: {RLMINIT_HOME: "${RLMINIT_HOME}"}, ready: {notify: true}, enabled: false`
	}
	b := services(t,
		`top: {command: [sleep, infinity], requires: [left], wants: [right], enabled: false}`,
		`left: {requires: [base], `+meet("left", "right")+`}`,
		`right: {after: [base], `+meet("right", "left")+`}`,
		`base: {command: [sleep, infinity], enabled: false}`)
	b.Must("start", "top", "--timeout", "20s")
	for name, s := range b.Status() {
		if s.State != "running" || s.Desired != "running" {
			t.Errorf("start of the top left %s: %s", name, box.Describe(s))
		}
	}
	b.Must("stop", "--all")
	at := transitions(b)
	for _, pair := range [][2]string{
		{"base running", "left starting"},
		{"left running", "top starting"},
		{"right running", "top starting"},
		{"top stopped", "left stopping"},
		{"top stopped", "right stopping"},
		{"left stopped", "base stopping"},
		{"right stopped", "base stopping"},
	} {
		if at[pair[0]] == 0 || at[pair[0]] > at[pair[1]] {
			t.Errorf("%s is event %d, %s is event %d", pair[0], at[pair[0]], pair[1], at[pair[1]])
		}
	}
}

// What depends on a failed service waits, says for what, and recovers by
// itself; a wish is no requirement.
func TestFailedDependency(t *testing.T) {
	t.Parallel()
	b := services(t,
		`app: {command: [sleep, infinity], requires: [middle]}`,
		`middle: {command: [sleep, infinity], requires: [db]}`,
		`hopeful: {command: [sleep, infinity], wants: [db]}`,
		`db: {`+script(`[ -e "$RLMINIT_HOME/mended" ] || exit 78; exec sleep infinity`)+`, environment: {RLMINIT_HOME: "${RLMINIT_HOME}"}, ready: {exec: [test, -e, "${RLMINIT_HOME}/mended"]}}`)
	b.Await("db", "failed")
	b.Await("hopeful", "running")
	for name, want := range map[string]string{
		"middle": "requires db, which is failed (exit 78, a fatal exit code)",
		"app":    "requires middle, which is waiting (requires db, which is failed (exit 78, a fatal exit code))",
	} {
		if s := b.Await(name, "waiting"); reason(s) != want {
			t.Errorf("%s: reason %q, want %q", name, reason(s), want)
		}
	}
	b.Shell(box.Service, `>"`+b.Home()+`/mended"`)
	b.Must("start", "--failed", "--all")
	b.Await("app", "running")
	b.Await("middle", "running")

	// The crash of what is required takes nobody along.
	pids := b.Status()
	b.As(box.Service, "kill", "-9", strings.TrimSpace(string(must(json.Marshal(*pids["db"].PID)))))
	another(b, "db", *pids["db"].PID)
	for _, name := range []string{"app", "middle", "hopeful"} {
		if s := b.Status()[name]; s.State != "running" || *s.PID != *pids[name].PID {
			t.Errorf("after a crash of db: %s", box.Describe(s))
		}
	}
	// Its stop stops what requires it before, and a start brings them back.
	b.Must("stop", "db")
	if s := b.Status()["app"]; s.State != "waiting" || s.Desired != "running" {
		t.Errorf("after stop of db: %s", box.Describe(s))
	}
	b.Must("start", "db")
	b.Await("app", "running")
}

func must(v []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return v
}

// A oneshot that did its work satisfies what requires it; one that failed does
// not.
func TestOneshotIsRequired(t *testing.T) {
	t.Parallel()
	b := services(t,
		`app: {command: [sleep, infinity], requires: [migrate]}`,
		`migrate: {type: oneshot, `+script(`[ -e "$RLMINIT_HOME/mended" ] || exit 1; echo migrated`)+`, environment: {RLMINIT_HOME: "${RLMINIT_HOME}"}, restart: no}`)
	b.Await("migrate", "failed")
	if s := b.Await("app", "waiting"); reason(s) != "requires migrate, which is failed (exit 1)" {
		t.Errorf("reason %q", reason(s))
	}
	b.Shell(box.Service, `>"`+b.Home()+`/mended"`)
	b.Must("start", "migrate")
	if s := b.Status()["migrate"]; s.State != "exited" {
		t.Errorf("started, and %s", box.Describe(s))
	}
	b.Await("app", "running")
	b.Must("health", "--level", "ready")
}

// The start of a oneshot has the outcome of its work, as with systemctl start.
func TestStartOfAOneshot(t *testing.T) {
	t.Parallel()
	b := services(t,
		`good: {type: oneshot, enabled: false, `+script(`sleep 0.3`)+`}`,
		`bad: {type: oneshot, enabled: false, `+script(`sleep 0.3; echo no database; exit 3`)+`, restart: no}`,
		`long: {type: oneshot, enabled: false, command: [sleep, infinity]}`)
	for _, verb := range []string{"start", "restart"} {
		b.Must(verb, "good")
		if s := b.Status()["good"]; s.State != "exited" {
			t.Errorf("after %s: %s", verb, box.Describe(s))
		}
		b.Fails(1, `bad failed: exit 3, "no database"`, verb, "bad")
	}
	b.Fails(7, "long: still running after", "start", "long", "--timeout", "3s")
	b.Must("start", "long", "--no-wait")
	b.Must("stop", "long")
}

// A cycle, a name that nobody has and a service that requires itself are
// refused, with the path.
func TestCyclesAreRefused(t *testing.T) {
	t.Parallel()
	b := services(t, `one: {command: [sleep, infinity]}`)
	for _, c := range []struct{ services, want string }{
		{"a: {command: [x], requires: [b]}\n  b: {command: [x], wants: [c]}\n  c: {command: [x], after: [a]}", "a → b → c → a"},
		{"a: {command: [x], requires: [a]}", "a → a"},
		{"web: {command: [x], requires: [wep]}", `"wep"`},
	} {
		path := b.Home() + "/check.yaml"
		b.Write(box.Service, path, "version: 1\nuser: \"1000:1000\"\nservices:\n  "+c.services+"\n")
		if r := b.Run("check", path); r.Code == 0 || !strings.Contains(r.Err, c.want) {
			t.Errorf("%s\n%s; want %q", c.services, r, c.want)
		}
	}
}

// A port that the service's user may not have, and one that is taken, make the
// service failed, and the reason says what to do.
func TestSocketsThatCannotBe(t *testing.T) {
	t.Parallel()
	b := services(t,
		`low: {command: [gateway], enabled: false, sockets: [{listen: "tcp:127.0.0.1:80"}]}`,
		`first: {command: [gateway, --port, "8074"], ready: {tcp: "127.0.0.1:8074"}}`,
		`second: {command: [gateway], enabled: false, sockets: [{listen: "tcp:127.0.0.1:8074"}]}`,
		`third: {command: [gateway], enabled: false, sockets: [{listen: "tcp:127.0.0.1:8079"}]}`,
		`fourth: {command: [gateway], enabled: false, sockets: [{listen: "tcp:0.0.0.0:8079"}]}`)
	b.Fails(1, "low failed: cannot listen on tcp:127.0.0.1:80: the port is below what an unprivileged user may use; run the container with --sysctl net.ipv4.ip_unprivileged_port_start=0", "start", "low")
	if s := b.Status()["low"]; s.State != "failed" || !strings.Contains(reason(s), "ip_unprivileged_port_start") {
		t.Errorf("a low port: %s", box.Describe(s))
	}
	b.Await("first", "running")
	b.Fails(1, "second failed: cannot listen on tcp:127.0.0.1:8074: the address is in use by another process", "start", "second")
	b.Must("stop", "first")
	b.Must("start", "second")
	b.Must("start", "third")
	b.Fails(1, "fourth failed: cannot listen on tcp:0.0.0.0:8079: rlminit holds that address for third; give one of the two another", "start", "fourth")
	b.Must("stop", "third")
	b.Must("start", "fourth")
}
