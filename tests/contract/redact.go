package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"rlminit/control"
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

// SecretsInCommands: the value of a profile's secret on the command line of a job, and what is
// secret by its name in a plan or a definition, is shown to nobody who may only look, and is
// not in the journal or on the container's stdout; also after the supervisor was killed.
func SecretsInCommands(t *testing.T, start New) {
	const secret = "h1dden-value"
	b := start(t, box.Spec{Config: Services(
		`asks: {control: read, ` + bash(`while [ ! -e /tmp/asked ]; do sleep 0.1; done; . /tmp/asked; echo "requests: answered"; exec sleep infinity`) + `}`)})
	b.Await("asks", "running")
	b.Write(box.Service, b.Home()+"/secret", secret)
	b.Must("profile", "create", "alice", "--secret", "KEPT="+b.Home()+"/secret", "--env", "A=x-"+secret)
	b.Await("gateway-alice", "running")

	job := []string{"run", "--profile", "alice", "--"}
	b.Must(append(job, "bash", "-c", "exit 0; "+secret)...)
	b.Must(append(job, "bash", "-c", `(exec -a "$0" sleep 300) & disown; sleep 0.2`, secret)...) // leaves a process
	b.Run(append(job, "/"+secret+"/none")...)
	b.Fails(10, "above what is allowed", "run", "--profile", "alice", "--limit", "memory=900TiB", "--", secret)
	b.Must("run", "--profile", "alice", "--env", "MY_PASS=own-"+secret, "--", "bash", "-c", "exit 0; own-"+secret)
	if r := b.Run("run", "--dry-run", "--profile", "alice", "--", "x"+secret); strings.Contains(r.Out+r.Err, secret) {
		t.Errorf("a dry run shows it: %s", r)
	}
	b.Fails(2, "a job with retry has its command on the volume", "run", "--profile", "alice", "--retry", "--detach", "--", "x"+secret)
	id := strings.TrimSpace(b.Must("run", "--detach", "--profile", "alice", "--", "bash", "-c", "sleep 300; "+secret))
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)

	file := b.Home() + "/set.yaml"
	b.Write(box.Service, file, fmt.Sprintf("version: 1\nprofiles:\n  bob: {environment: {DB_PASS: %[1]s, B: \"x %[1]s\"}, schedules: {night: {cron: \"0 3 * * *\", command: [x, --password, %[1]s, -H, \"Authorization: Bearer %[1]s\"]}}}\n", secret))
	b.Must("plan", "-f", file, "--scope", "profile/bob", "--propose")
	proposed := func() string {
		t.Helper()
		var plans []control.ProposedPlan
		if err := json.Unmarshal([]byte(b.Must("plan", "proposed", "--json")), &plans); err != nil || len(plans) != 1 {
			t.Fatal(err, plans)
		}
		return plans[0].Hash
	}
	asked := []string{
		"GET /v1/jobs", "GET /v1/events", "GET /v1/services", "GET /v1/services/alice/definition", "GET /v1/profiles", "GET /v1/profiles/alice",
		"GET /v1/plans", "GET /v1/hooks", "GET /v1/operations", "GET /v1/logs/all",
	}
	for i := 1; i <= 6; i++ {
		asked = append(asked, fmt.Sprintf("GET /v1/jobs/%d", i))
	}
	b.Must("apply", "--approve", proposed(), "--steady", "200ms", "--exit-zero")
	if out := b.Shell(box.Root, "cat "+b.Home()+"/profiles/bob/profile.yaml"); strings.Count(out, secret) != 4 {
		t.Errorf("the apply wrote %s", out)
	}
	b.Must("plan", "-f", file, "--scope", "profile/bob") // nothing is to be done
	b.Shell(box.Service, "echo '# changed' >> "+b.Home()+"/profiles/bob/profile.yaml && sed -i 's/"+secret+"/new-"+secret+"/' "+b.Home()+"/profiles/bob/profile.yaml")
	b.Must("plan", "-f", file, "--scope", "profile/bob", "--propose")
	asked = append(asked, "GET /v1/plans/"+proposed(), "GET /v1/services/bob/definition", "GET /v1/revisions", "GET /v1/revisions/1", "GET /v1/drift")
	script := "nasty requests /run/rlminit/control.sock " + secret
	for _, one := range asked {
		script += " '" + one + "'"
	}
	b.Write(box.Service, "/tmp/asked", script+"\n")
	logged(b, "asks", "requests: answered")
	out := b.Must("logs", "asks", "-n", "1000")
	for _, one := range asked {
		line := regexp.MustCompile("(?m)request: " + regexp.QuoteMeta(one) + ` (\d+) (\S.*)$`).FindStringSubmatch(out)
		if line == nil || line[2] != "-" || line[1] != "200" {
			t.Errorf("%s: %q", one, line)
		}
	}
	b.Must("job", "cancel", id)
	if found := b.Shell(box.Root, "grep -rl "+secret+" "+b.Home()+"/.rlminit/journal || true"); found != "" {
		t.Errorf("it is in %s", found)
	}
	if said := b.Printed(); strings.Contains(said, secret) {
		t.Errorf("stdout has %s", said)
	}
}
