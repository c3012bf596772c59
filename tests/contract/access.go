package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// AccessIsDecidedByUid: root and the service user do anything, another uid
// nothing, and is told what would help.
func AccessIsDecidedByUid(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.FailsAs(box.Stranger, 5, "you are uid 10000, services run as 1000", "stop", "alice")
	b.FailsAs(box.Stranger, 5, "permission denied", "status")
	b.FailsAs(box.Stranger, 5, "permission denied", "profile", "create", "mallory")
	if now := b.Status(); len(now) != 1 || *now["gateway-alice"].PID != *s.PID {
		t.Error("a stranger changed something")
	}
	if r := b.As(box.Root, "rlminit", "restart", "alice"); r.Code != 0 {
		t.Errorf("root: %s", r)
	}

	readable, _ := alice(t, start, Config("access: {read: all}\n"))
	if r := readable.As(box.Stranger, "rlminit", "status"); r.Code != 0 || !strings.Contains(r.Out, "alice") {
		t.Errorf("status with access.read: %s", r)
	}
	readable.FailsAs(box.Stranger, 5, "permission denied", "stop", "alice")
}

// GatewayCannotControl: a service may not command rlminit though it has the
// service user's uid, not from a double-forked child either, unless its
// definition says so.
func GatewayCannotControl(t *testing.T, start New) {
	try := `rlminit stop victim; echo "stop: $?"; exec sleep infinity`
	b := start(t, box.Spec{Config: Services(
		`victim: {command: [sleep, infinity]}`,
		`thief: {after: [victim], `+bash(try)+`}`,
		`escaped: {after: [victim], `+bash(`(setsid env -i PATH="$PATH" bash -c 'rlminit stop victim; echo "stop: $?"' &); exec sleep infinity`)+`}`,
	)})
	b.Await("victim", "running")
	for _, name := range []string{"thief", "escaped"} {
		logged(b, name, "stop: ")
		if out := b.Must("logs", name); !strings.Contains(out, "stop: 5") || !strings.Contains(out, "rlminit: ") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if s := b.Status()["victim"]; s.State != "running" {
		t.Errorf("the victim is %s", box.Describe(s))
	}

	allowed := start(t, box.Spec{Config: Services(
		`victim: {command: [sleep, infinity]}`,
		`operator: {control: true, after: [victim], `+bash(try)+`}`,
	)})
	allowed.Await("victim", "stopped")
}

// LevelsOfControl: a service may ask of the control socket what its level allows, of all that
// there is to ask, and is shown no secret.
func LevelsOfControl(t *testing.T, start New) {
	allowed := map[string][]string{} // by level, as docs/control.md says
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/control.md"))
	if err != nil {
		t.Fatal(err)
	}
	var below []string
	for _, level := range []string{"false", "read", "operate", "approve"} {
		row := regexp.MustCompile("(?m)^\\| `" + level + "` \\|.*$").FindString(string(page))
		for _, r := range regexp.MustCompile("`([A-Z]+ /v1/[^`]*)`").FindAllStringSubmatch(row, -1) {
			below = append(below, r[1])
		}
		allowed[level] = slices.Clone(below)
	}
	var all []string
	for _, r := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)` \\|").FindAllStringSubmatch(string(page), -1) {
		all = append(all, r[1])
	}
	if len(all) < 50 || len(allowed["read"]) < 20 {
		t.Fatalf("docs/control.md has %d requests, %d to read", len(all), len(allowed["read"]))
	}
	const secret, everyLog, ofItsOwn = "hunter2-of-the-victim", "GET /v1/logs/all", "POST /v1/apply?own"
	filled := strings.NewReplacer("{name}", "victim", "{id}", "1", "{hash}", "sha256:00", "{number}", "1", "{entry}", "victim")
	asks := func(level string) string {
		words := []string{"nasty", "requests", "/run/rlminit/control.sock", secret}
		for _, r := range all {
			words = append(words, filled.Replace(r))
		}
		command, err := json.Marshal(append(words, everyLog, ofItsOwn+` {"plan": "{}", "approve": "x", "request": "r"}`))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("asks-%s: {control: %s, after: [victim], restart: {policy: no}, command: %s}", level, level, command)
	}
	services := []string{`victim: {environment: {API_TOKEN: ` + secret + `}, ready: {exec: [test, -e, /tmp/said]}, ` + bash(`echo "my token is $API_TOKEN, password=$API_TOKEN"; touch /tmp/said; exec sleep infinity`) + `}`}
	for level := range allowed {
		services = append(services, asks(level))
	}
	b := start(t, box.Spec{Config: Services(services...)})
	for level, may := range allowed {
		name := "asks-" + level
		logged(b, name, "requests: over")
		answers := map[string][]string{}
		for _, m := range regexp.MustCompile(`request: (\S+ \S+) (\d+) (.*)`).FindAllStringSubmatch(b.Must("logs", name), -1) {
			answers[m[1]] = m[2:]
		}
		for _, r := range all {
			answer := answers[filled.Replace(r)]
			if len(answer) == 0 {
				t.Errorf("%s was not made with %s", r, level)
				continue
			}
			if granted := answer[0] != "403"; granted != slices.Contains(may, r) {
				t.Errorf("%s with control: %s is answered %s", r, level, answer[0])
			}
			if answer[1] != "-" {
				t.Errorf("%s with control: %s shows a secret", r, level)
			}
		}
		if answer := answers[everyLog]; len(answer) == 0 || answer[1] != "-" || (answer[0] == "200") != (level != "false") {
			t.Errorf("all logs with control: %s: %q", level, answer)
		}
		if answer := answers[ofItsOwn]; len(answer) == 0 || answer[0] != "403" {
			t.Errorf("a plan of its own with control: %s: %q", level, answer)
		}
	}
}

// ExecIsTheService: for root, `rlminit exec` runs a command as the service
// user, with a profile's environment, and passes its exit code.
func ExecIsTheService(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	r := b.As(box.Root, "rlminit", "exec", "--profile", "alice", "--", "bash", "-c", `echo "$(id -u) $(id -G) $PROFILE $PORT"; exit 9`)
	s := b.Status()["gateway-alice"]
	fields := strings.Fields(r.Out)
	if r.Code != 9 || len(fields) < 4 || fields[0] != "1000" || fields[len(fields)-2] != "alice" || fields[len(fields)-1] != fmt.Sprint(*s.Port) {
		t.Errorf("exec: %s", r)
	}
	if strings.Contains(" "+strings.Join(fields[1:len(fields)-2], " ")+" ", " 0 ") {
		t.Errorf("exec kept root's group: %s", r)
	}
	b.FailsAs(box.Stranger, 5, "you are uid 10000, services run as 1000", "exec", "--", "id")
	if r := b.Run("exec", "--", "id", "-u"); r.Code != 0 || r.Out != "1000\n" {
		t.Errorf("exec as the service user: %s", r)
	}
}
