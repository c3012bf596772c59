package contract

import (
	"encoding/json"
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
		if !regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000 ` + want + `$`).MatchString(log) {
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
