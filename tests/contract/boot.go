package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// threeIntents makes one profile that runs, one that was stopped, and one that
// never ran.
func threeIntents(t *testing.T, start New) *box.Box {
	t.Helper()
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "runs")
	b.Must("profile", "create", "stops")
	b.Await("gateway-runs", "running")
	b.Await("gateway-stops", "running")
	b.Must("stop", "stops")
	b.Must("profile", "create", "never", "--stopped")
	return b
}

// asIntended checks them after a boot.
func asIntended(t *testing.T, b *box.Box) {
	t.Helper()
	b.Await("gateway-runs", "running")
	s := b.Status()
	for name, want := range map[string]string{"gateway-runs": "running", "gateway-stops": "stopped", "gateway-never": "stopped"} {
		if s[name].State != want || s[name].Desired != want {
			t.Errorf("%s: %s, want %s", name, box.Describe(s[name]), want)
		}
	}
}

// IntentSurvivesStop: what ran before the box was stopped runs again, what was
// stopped stays so.
func IntentSurvivesStop(t *testing.T, start New) {
	b := threeIntents(t, start)
	for range 2 {
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
		asIntended(t, b)
	}
}

// IntentSurvivesKill: the same when PID 1 is killed.
func IntentSurvivesKill(t *testing.T, start New) {
	b := threeIntents(t, start)
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	asIntended(t, b)

	// What was acknowledged right before the kill counts.
	b.Must("start", "stops")
	b.Must("stop", "runs")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-stops", "running")
	b.Await("gateway-runs", "stopped")
}

// BootIsRecorded: each boot writes a line a profile, and the state file tells
// intent and what was seen.
func BootIsRecorded(t *testing.T, start New) {
	b := threeIntents(t, start)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	asIntended(t, b)
	log := b.Shell(box.Service, `cat "`+b.Home()+`/logs/container-boot.log"`)
	for _, want := range []string{
		`profile=runs prior_state=\S+ action=started`,
		`profile=stops prior_state=stopped action=registered`,
		`profile=never prior_state=\S+ action=registered`,
	} {
		if !regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000 ` + want + ` prior_exit=clean$`).MatchString(log) {
			t.Errorf("no line %s in:\n%s", want, log)
		}
	}
	var state struct {
		Version   int
		Profile   string
		Desired   string `json:"desired_state"`
		State     string `json:"gateway_state"`
		PID, Port int
		Start     uint64 `json:"start_time"`
		Updated   string `json:"updated_at"`
	}
	s := b.Status()["gateway-runs"]
	// What was seen is written when the disk has time for it.
	box.Eventually(b, long, "the state file says what is", func() (bool, any) {
		text := b.Shell(box.Service, `cat "`+b.Home()+`/profiles/runs/gateway_state.json"`)
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		return state.Version == 1 && state.Profile == "runs" && state.Desired == "running" && state.State == "running" &&
			state.PID == *s.PID && state.Port == *s.Port && state.Start != 0 && strings.HasSuffix(state.Updated, "Z"), text
	})
}

// StateIsWhatIsSeen: the state file says of a gateway what is true of it, also
// where a dead container left something else, and where only its health changed.
func StateIsWhatIsSeen(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config(`  health: {exec: [test, "!", -e, "${PROFILE_DIR}/sick"], interval: 50ms, retries: 1, action: none}` + "\n")})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "--stopped", "bob")
	says := func(name, state string) {
		t.Helper()
		box.Eventually(b, long, name+" is recorded as "+state, func() (bool, any) {
			text := b.Shell(box.Service, `cat "`+b.Home()+`/profiles/`+name+`/gateway_state.json"`)
			return strings.Contains(text, `"gateway_state":"`+state+`"`), text
		})
	}
	says("alice", "running")
	b.Shell(box.Service, `touch "`+b.Home()+`/profiles/alice/sick"`)
	says("alice", "degraded")
	b.Shell(box.Service, `rm "`+b.Home()+`/profiles/alice/sick"`)
	says("alice", "running")
	b.Write(box.Service, b.Home()+"/profiles/bob/gateway_state.json",
		`{"version":1,"profile":"bob","desired_state":"stopped","gateway_state":"draining","pid":4711,"start_time":1}`)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	says("bob", "stopped")
}

// BootSurvivesItsSupervisor: one that is killed at any moment of the boot has a
// successor that finishes it. Each profile has one line of the boot and has lost
// what must not outlive one, and no gateway that runs loses anything.
func BootSurvivesItsSupervisor(t *testing.T, start New) {
	const profiles, boots = 12, 6
	// The main command kills the first supervisor that it sees, each time a
	// little later.
	killer := `n=$(cat "$0" || echo 0); echo $((n+1)) >"$0"
		while :; do
			for p in /proc/[0-9]*; do
				{ IFS= read -rd '' a && IFS= read -rd '' b; } <$p/cmdline || continue
				[ "$b" = supervise ] || continue
				for ((i = 0; i < n*500; i++)); do :; done
				kill -9 ${p#/proc/} && echo "killed in boot $n." >&3
				exec nasty sleep
			done
		done`
	b := start(t, box.Spec{
		Config: `version: 1
user: "1000:1000"
environment: {RECORD: "${RLMINIT_HOME}/boots"}
main: {user: root}
gateway:
  command: [bash, -c, 'echo $$$$ >"$PROFILE_DIR/gateway.pid"; exec nasty sleep']
  remove_at_boot: [gateway.pid]
`,
		Main: []string{"bash", "-c", `exec 3>&1 2>/dev/null; exec bash -c "$0" "$RECORD"`, killer},
	})
	name := func(i int) string { return fmt.Sprintf("p%d", i) }
	printed(b, "killed in boot 0.") // who was asked by then could not tell what it did
	for i := range profiles {
		create := []string{"profile", "create", name(i)}
		if i%2 == 1 {
			create = append(create, "--stopped")
		}
		b.Must(create...)
	}
	for boot := 1; boot <= boots; boot++ {
		b.Shell(box.Service, `for p in "`+b.Home()+`"/profiles/*; do echo stale >$p/gateway.pid; done`)
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
		printed(b, fmt.Sprintf("killed in boot %d.", boot))
		b.AwaitReady()
		for i := range profiles {
			if i%2 == 1 {
				continue
			}
			s := b.Await("gateway-"+name(i), "running")
			file := b.Home() + "/profiles/" + name(i) + "/gateway.pid"
			box.Eventually(b, long, "the gateway's pid is in "+file, func() (bool, any) {
				r := b.As(box.Service, "cat", file)
				return r.Out == fmt.Sprintln(*s.PID), r
			})
		}
		if left := b.Shell(box.Service, `cd "`+b.Home()+`/profiles" && grep -l stale */gateway.pid || true`); left != "" {
			t.Errorf("boot %d left %q", boot, left)
		}
		log := b.Shell(box.Service, `cat "`+b.Home()+`/logs/container-boot.log"`)
		for i := range profiles {
			if n := strings.Count(log, " profile="+name(i)+" "); n != boot {
				t.Errorf("after %d boots there are %d lines of %s in:\n%s", boot, n, name(i), log)
			}
		}
	}
}
