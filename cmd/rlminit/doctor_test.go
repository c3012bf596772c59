package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/doctor"
)

// What the supervisor tells goes into what is examined, and a failed service
// makes the exit code 1.
func TestDoctor(t *testing.T) {
	home := t.TempDir()
	failed := bob()
	failed.Desired, failed.State, failed.Verdict = "running", "failed", "ill"
	for name, c := range map[string]struct {
		services []control.Service
		state    string
		code     int
	}{
		"well":           {[]control.Service{alice()}, doctor.OK, 0},
		"one has failed": {[]control.Service{alice(), failed}, doctor.Fail, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, map[string]any{"GET /v1/services": c.services, "GET /v1/environment": control.Environment{Home: "/nonexistent", Environment: []string{"RLMINIT_HOME=" + home}}})
			r := b.rlminit(t, "doctor", "--json")
			var findings []doctor.Finding
			if err := json.Unmarshal([]byte(r.out), &findings); err != nil {
				t.Fatalf("%v in %q", err, r.out)
			}
			state := ""
			for _, f := range findings {
				if f.Check == "services" {
					state = f.State
				}
			}
			if findings[0] != (doctor.Finding{Check: "supervisor", State: doctor.OK, What: "the supervisor answers"}) || state != c.state {
				t.Errorf("%+v", findings)
			}
			if (doctor.Worst(findings) == doctor.Fail) != (r.code == 1) || c.code > r.code {
				t.Errorf("exit code %d", r.code)
			}
			if !strings.Contains(r.out, home) {
				t.Errorf("the volume is not the supervisor's, %s: %s", home, r.out)
			}
			text := b.rlminit(t, "doctor")
			if !strings.Contains(text.out, "supervisor") || strings.Contains(text.out, "\x1b") || text.err != "" {
				t.Errorf("%q %q", text.out, text.err)
			}
		})
	}
}

// Who may not ask is told how to be somebody else, not to look into a log.
func TestDoctorOfAnotherUser(t *testing.T) {
	b := newBox(t, map[string]any{"GET /v1/services": control.WrongUser(1234, 1000)})
	r := b.rlminit(t, "doctor", "--json")
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(r.out), &findings); err != nil {
		t.Fatalf("%v in %q", err, r.out)
	}
	want := doctor.Finding{
		Check: "supervisor", State: doctor.Fail, What: "permission denied: you are uid 1234, services run as 1000; use docker exec without -u, or with -u 1000",
		Remedy: "run it by docker exec without -u, or as the user that services run as",
	}
	if r.code != 1 || findings[0] != want {
		t.Errorf("%d %+v", r.code, findings[0])
	}
}

// Where nobody answers the place is examined all the same.
func TestDoctorWithoutSupervisor(t *testing.T) {
	cmd := (*box)(nil).command("doctor")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "RLMINIT_RUNTIME_DIR="+dir)
	r := outcomeOf(t, cmd)
	if r.code != 1 || !strings.HasPrefix(r.out, "fail     supervisor") || !strings.Contains(r.out, "\nok       kernel") && !strings.Contains(r.out, "kernel ") {
		t.Errorf("%d\n%s%s", r.code, r.out, r.err)
	}
}
