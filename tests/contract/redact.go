package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// RedactMasksEverywhere: what is secret is in no log, not on the container's stdout and in
// no output of a job, over a supervisor that is killed and patterns that change; and a
// profile can have more masked, but not less, and have its log sent nowhere.
func RedactMasksEverywhere(t *testing.T, start New) {
	const hidden = "h1dden"
	talk := fmt.Sprintf(`i=0; while :; do i=$((i+1)); echo "line $i token=%s card 4111"; sleep 0.01; done`, hidden)
	config := strings.Replace(Services(`talker: {`+bash(talk)+`, log: {redact: [secrets]}}`), "gateway:\n", "gateway:\n  log: {redact: [secrets]}\n", 1)
	b := start(t, box.Spec{Config: config})
	b.Await("talker", "running")
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)

	b.Write(box.Root, strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`)), strings.Replace(config, "redact: [secrets]}}", `redact: [secrets, "card ([0-9]+)"]}}`, 1))
	pid := *b.Status()["talker"].PID
	b.Must("reload")
	box.Eventually(b, long, "the new pattern", func() (bool, any) {
		out := b.Must("logs", "talker", "-n", "5")
		return strings.Contains(out, "token=*** card ***"), out
	})
	if now := b.Status()["talker"]; now.PID == nil || *now.PID != pid {
		t.Errorf("a pattern that changes restarts the service: %s", box.Describe(now))
	}

	b.Must("profile", "create", "alice")
	profile := b.Home() + "/profiles/alice/profile.yaml"
	b.Write(box.Service, profile, `log: {redact: ["sk-([a-z]+)"]}`+"\n")
	b.Must("reload")
	shout := `echo "password: ` + hidden + `, and sk-abcdef"; echo "` + hidden + `" | sed 's/^/Bearer /' >&2`
	got, code := ran(b, "--profile", "alice", "--", "bash", "-c", shout)
	if want := "password: ***, and sk-***\n"; code != 0 || got.Stdout != want || got.Stderr != "Bearer ***\n" {
		t.Errorf("a job wrote %q and %q, not %q (exit code %d)", got.Stdout, got.Stderr, want, code)
	}
	if got, _ := ran(b, "--", "echo", "password="+hidden); got.Stdout != "password="+hidden+"\n" {
		t.Errorf("a job of nobody wrote %q", got.Stdout)
	}
	id := strings.TrimSpace(b.Must("run", "--detach", "--profile", "alice", "--", "bash", "-c", talk+" & sleep 5"))
	old = b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	b.Run("job", "wait", id)
	out := b.Run("job", "logs", id).Out
	if strings.Contains(out, hidden) || !strings.Contains(out, "line 50 token=***") {
		t.Errorf("a job over a killed supervisor wrote %.500q", out)
	}
	for i := 1; i < strings.Count(out, "\n"); i++ {
		if n := strings.Count(out, fmt.Sprintf("line %d ", i)); n != 1 {
			t.Errorf("line %d of the job is there %d times", i, n)
		}
	}

	b.Write(box.Service, profile, "log: {forward: {to: stdout}, redact: []}\n")
	if r := b.Run("reload"); r.Code != 1 || !strings.Contains(r.Out, "profile.yaml:1: log.forward: a profile may not say where its log goes; it belongs in rlminit.yaml") {
		t.Errorf("a profile that sends its log elsewhere: %s", r)
	}
	if found := b.Shell(box.Root, "grep -rl token="+hidden+" "+b.Home()+"/logs || true"); found != "" {
		t.Errorf("the secret is in %s", found)
	}
	if said := b.Printed(); strings.Contains(said, hidden) || !strings.Contains(said, "token=***") {
		t.Errorf("stdout has %.500q", said)
	}
}
