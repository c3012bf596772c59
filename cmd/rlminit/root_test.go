package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/document"
)

func TestUsage(t *testing.T) {
	tell(t, nil, []story{
		{args: []string{"statsu"}, code: 2, err: "rlminit: no verb \"statsu\"; did you mean \"status\"?\n"},
		{args: []string{"install"}, code: 2, err: "rlminit: no verb \"install\": " + elsewhere["install"] + "\n"},
		{args: []string{"session", "snapshot", "1"}, code: 2, err: "rlminit: no verb \"snapshot\": " + elsewhere["session snapshot"] + "\n"},
		{args: []string{"frobnicate"}, code: 2, err: "rlminit: no verb \"frobnicate\"; see rlminit help\n"},
		{args: []string{"--frob"}, code: 2, err: "rlminit: no flag --frob; see rlminit help\n"},
		{args: []string{"status", "--frob"}, code: 2, err: "rlminit: no flag --frob; see rlminit help status\n"},
		{args: []string{"status", "-x"}, code: 2, err: "rlminit: no flag -x; see rlminit help status\n"},
		{args: []string{"start", "--timeout", "5", "x"}, code: 2, err: "rlminit: --timeout: \"5\": it has no unit; write 5s; see rlminit help start\n"},
		{args: []string{"start", "--timeout", "soon", "x"}, code: 2, err: "rlminit: --timeout: \"soon\": it is no duration; write 9s, 1m30s or 100ms; see rlminit help start\n"},
		{args: []string{"start", "x", "--timeout"}, code: 2, err: "rlminit: --timeout needs a value; see rlminit help start\n"},
		{args: []string{"start", "--all=maybe"}, code: 2, err: "rlminit: --all: \"maybe\": write true or false; see rlminit help start\n"},
		{args: []string{"version", "x"}, code: 2, err: "rlminit: unexpected argument \"x\"; see rlminit help version\n"},
		{args: []string{"frobnicate", "--help"}, code: 2, err: "rlminit: no verb \"frobnicate\"; see rlminit help\n"},
		{args: []string{"frobnicate", "--all"}, code: 2, err: "rlminit: no verb \"frobnicate\"; see rlminit help\n"},
		{args: []string{"profile", "frobnicate", "--help"}, code: 2, err: "rlminit: no verb \"frobnicate\" of profile; see rlminit help profile\n"},
		{args: []string{"help", "frob"}, code: 2, err: "rlminit: no verb \"frob\"; see rlminit help\n"},
		{args: []string{"completion", "tcsh"}, code: 2, err: "rlminit: no script for \"tcsh\"; there are bash, zsh and fish; see rlminit help completion\n"},
		{args: []string{"exec", "-p", "", "--", "true"}, code: 2, err: "rlminit: --profile takes a profile's name, not \"\"; see rlminit help exec\n"},
		{args: []string{"exec"}, code: 2, err: "rlminit: CMD is missing; see rlminit help exec\n"},
		{args: []string{"try", "--profiles", "1000"}, code: 2, err: "rlminit: --profiles takes 0 to 500, not 1000; see rlminit help try\n"},
	})
}

// Every verb explains itself in both ways, on one screen, with usage, and every
// flag in words.
func TestHelp(t *testing.T) {
	root := newRoot(newTerminal())
	for _, verb := range append(visible(root), visible(childNamed(root, "profile"))...) {
		path := strings.Fields(verbOf(verb))
		t.Run(verb.Name(), func(t *testing.T) {
			t.Parallel()
			want := helpText(verb)
			if !strings.Contains(want, "Usage: rlminit "+verbOf(verb)) || verb.Short == "" {
				t.Errorf("help lacks its usage:\n%s", want)
			}
			if n := strings.Count(want, "\n"); n > 40 {
				t.Errorf("help has %d lines, which is no longer a screen", n)
			}
			for line := range strings.Lines(verb.Long) {
				if len([]rune(line)) > 82 {
					t.Errorf("line too long for a terminal: %q", line)
				}
			}
			for _, args := range [][]string{append([]string{"help"}, path...), append(path, "--help")} {
				if verb.Name() == "init" && args[0] != "help" {
					continue // tier 1 answers that one
				}
				if r := (*box)(nil).rlminit(t, args...); r.code != 0 || r.out != want || r.err != "" {
					t.Errorf("rlminit %q: exit %d, stderr %q, stdout:\n%s", args, r.code, r.err, r.out)
				}
			}
		})
	}
}

// What is printed when nothing else is asked for.
func TestBareCommand(t *testing.T) {
	r := (*box)(nil).rlminit(t)
	if r.code != 0 || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "status show how services are") || !strings.Contains(r.out, "17  exists already") {
		t.Errorf("exit %d:\n%s%s", r.code, r.out, r.err)
	}
	for _, hidden := range []string{"try-gateway", "__complete"} {
		if strings.Contains(r.out, hidden) {
			t.Errorf("help speaks of %s", hidden)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		r := (*box)(nil).rlminit(t, args...)
		if r.code != 0 || !strings.HasPrefix(r.out, "rlminit ") || !strings.Contains(r.out, "linux/") || strings.Count(r.out, "\n") != 1 {
			t.Errorf("%q: exit %d, %q", args, r.code, r.out)
		}
	}
	var v versionParts
	r := (*box)(nil).rlminit(t, "version", "--json")
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.Version == "" || v.Go != runtime.Version() || v.OS != "linux" || v.Arch != runtime.GOARCH {
		t.Errorf("%v: %q", err, r.out)
	}
}

// dockerd says of an --init-path whose version it cannot read that it is N/A.
func TestVersionForDocker(t *testing.T) {
	r := (*box)(nil).rlminit(t, "--version")
	_, after, found := strings.Cut(strings.TrimSpace(r.out), " - ")
	if parts := strings.Split(after, "."); !found || len(parts) != 2 || parts[0] != "git" || parts[1] == "" {
		t.Errorf("%q", r.out)
	}
}

// The shell's scripts are made, and ask the box for the names that there are.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := (*box)(nil).rlminit(t, "completion", shell); r.code != 0 || !strings.Contains(r.out, "rlminit") {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, r.code, len(r.out), r.err)
		}
	}
	b := newBox(t, everyService)
	r := b.rlminit(t, "__complete", "stop", "alice", "")
	if !strings.HasPrefix(r.out, "bob\nseed\nweb\n:4\n") {
		t.Errorf("offered:\n%s", r.out)
	}
	if r := (*box)(nil).rlminit(t, "__complete", "sta"); !strings.Contains(r.out, "start\t") || !strings.Contains(r.out, "status\t") {
		t.Errorf("offered:\n%s", r.out)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good/rlminit.yaml", "version: 1\nuser: \"1000\"\ngateway:\n  command: [agent]\n")
	bad := write("bad/rlminit.yaml", "version: 1\nservices:\n  web:\n    command: agent serve\n    enviroment: {}\n")
	unit := write("good/services.d/web.yaml", "command: [web]\n")
	badUnit := write("bad/services.d/web.yaml", "command: web\n")
	profile := write("good/profiles/alice/profile.yaml", "environment: {A: b}\n")
	badProfile := write("good/profiles/bob/profile.yaml", "user: root\n")
	run := func(wantCode int, args ...string) result {
		t.Helper()
		cmd := (*box)(nil).command(append([]string{"check"}, args...)...)
		cmd.Env = append(cmd.Env, "RLMINIT_CONFIG="+good)
		r := outcomeOf(t, cmd)
		if r.code != wantCode {
			t.Errorf("check %q: exit %d, want %d\n%s%s", args, r.code, wantCode, r.out, r.err)
		}
		return r
	}
	if r := run(0, good, unit, profile); r.out != good+": valid\n"+unit+": valid\n"+profile+": valid\n" {
		t.Errorf("stdout:\n%s", r.out)
	}
	r := run(1, bad, badUnit, badProfile, good)
	for _, want := range []string{
		"rlminit: " + bad + `:4: services.web.command: "agent serve" is a string; write [agent, serve]` + "\n",
		"rlminit: " + bad + `:5: services.web: unknown key "enviroment"; did you mean "environment"?` + "\n",
		"rlminit: " + badUnit + `:1: command: "web" is a string; write [web]` + "\n",
		"rlminit: " + badProfile + ":1: ",
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr lacks %q:\n%s", want, r.err)
		}
	}
	if r.out != good+": valid\n" {
		t.Errorf("stdout:\n%s", r.out)
	}
	if r := run(1, bad, good, "--json"); r.err != "" {
		t.Errorf("stderr:\n%s", r.err)
	} else {
		var all []checked
		err := json.Unmarshal([]byte(r.out), &all)
		if err != nil || len(all) != 2 || all[0].Valid || len(all[0].Faults) != 3 || !all[1].Valid || len(all[1].Faults) != 0 ||
			all[0].Faults[0] != (checkFault{File: bad, Line: 4, Field: "services.web.command", Text: `"agent serve" is a string; write [agent, serve]`}) {
			t.Errorf("%+v %v", all, err)
		}
	}
	if r := run(1, filepath.Join(dir, "none.yaml")); !strings.Contains(r.err, "none.yaml") || countLines(r.err) != 1 {
		t.Errorf("stderr:\n%s", r.err)
	}
	// What init would refuse is not called valid.
	for user, want := range map[string]string{"root": "services never run as root", `"0"`: "services never run as root"} {
		file := write("user.yaml", "version: 1\nuser: "+user+"\n")
		if r := run(1, file); !strings.Contains(r.err, want) {
			t.Errorf("user %s: %s", user, r.err)
		}
	}
	if r := run(1, write("user.yaml", "version: 1\n")); !strings.Contains(r.err, "running as root and no user is set; add \"user: app\"") {
		t.Errorf("no user: %s", r.err)
	}
	if r := run(1, write("user.yaml", "version: 1\nuser: \"1000\"\nservices: {web: {command: [x], groups: [\"0\"]}}\n")); !strings.Contains(r.err, `:3: services.web.groups[0]: group "0" is root's`) {
		t.Errorf("root's group: %s", r.err)
	}
	if r := run(0, write("user.yaml", "version: 1\nuser: nobody-of-that-name\n")); !strings.Contains(r.out, `valid; but in this place user "nobody-of-that-name"`) {
		t.Errorf("%s", r.out)
	}
	// A limit that cannot be reached is said.
	if r := run(0, write("limit.yaml", "version: 1\nuser: \"1000\"\nservices: {web: {command: [sleep], ready: {exec: [\"true\"]}, restart: {delay: 20s, limit: 5, window: 1m, reset_after: 30s}}}\n")); !strings.Contains(r.out,
		"valid; but services.web.restart: 5 restarts take 1m54s at the least, so limit is never reached within a window of 1m0s by runs that were ready") {
		t.Errorf("%s", r.out)
	}
	// Nor what a gateway of this volume would not find.
	good = write("home/rlminit.yaml", "version: 1\nhome: "+dir+"\nuser: \"1000\"\ngateway:\n  command: [sh]\n")
	for name, want := range map[string]string{
		"environment: {TOKEN: {file: /nonexistent}}": "TOKEN", "command: [no-such-program]": "no-such-program", "command: [sh]": "",
	} {
		file, code := write("profiles/carl/profile.yaml", name+"\n"), 1
		if want == "" {
			code = 0
		}
		if r := run(code, file); !strings.Contains(r.err, want) {
			t.Errorf("%s: %s", name, r.err)
		}
	}
	if r := run(1, write("profiles/Carl/profile.yaml", "")); !strings.Contains(r.err, "no profile") {
		t.Errorf("%s", r.err)
	}
	// What a service has put in a file's place holds up nobody.
	for _, file := range []string{"profiles/eve/profile.yaml", "services.d/eve.yaml", "eve/service.yaml"} {
		file = write("good/"+file, "")
		if err := errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)); err != nil {
			t.Fatal(err)
		}
		if r := run(1, file); !strings.Contains(r.err, file+": it is no regular file") || countLines(r.err) != 1 {
			t.Errorf("stderr:\n%s", r.err)
		}
	}
}

func TestJSONIsHarmless(t *testing.T) {
	in := "a é\x1b\x7f\u009b31m\u202e\U000e0001\n\""
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	b = document.Harmless(b)
	if want := `"a é\u001b\u007f\u009b31m\u202e\udb40\udc01\n\""`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	var out string
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("it means %q, %v", out, err)
	}
}

// Whoever answers, an intruder in the supervisor too, says nothing to the
// terminal of who asks.
func TestAnswersAreHarmless(t *testing.T) {
	evil := "\x1b[31m\u009bx\u202e"
	s := control.Service{
		Name: evil, Profile: ptr(evil), Type: evil, State: evil, Desired: evil, Reason: ptr(evil), StatusText: ptr(evil),
		LastExit: &control.Exit{Signal: ptr(evil)}, LastLines: []string{evil},
	}
	exited := s
	exited.State, exited.Reason, exited.StatusText = "exited", nil, nil
	profile := control.Profile{Name: evil, Dir: evil, Service: evil, Desired: evil, State: evil, Reason: ptr(evil), Environment: map[string]string{evil: evil}}
	event := control.Event{Service: evil, From: evil, To: evil + "!", Cause: evil}
	b := newBox(t, map[string]any{
		"GET /v1/services":          []control.Service{s, exited},
		"GET /v1/services/a":        s,
		"POST /v1/services/a/start": control.Outcome{Service: s, Changed: true},
		"POST /v1/services/a/stop":  control.Outcome{Service: exited, Changed: true},
		"POST /v1/services/a/wait":  s,
		"GET /v1/events":            event,
		"GET /v1/profiles":          []control.Profile{profile},
		"GET /v1/profiles/a":        profile,
		"GET /v1/health":            control.Health{OK: true, Reasons: []string{evil}},
		"POST /v1/reload":           control.Reloaded{Changes: []control.Change{{Service: evil, Action: evil, Why: evil}}, Notes: []string{evil}},
		"POST /v1/shutdown":         control.NewProblem(control.KindFailed, evil),
		"DELETE /v1/profiles/a":     control.Deleted{Trash: evil},
	})
	for _, args := range []string{
		"status", "status --json", "status a", "start a", "stop a", "wait a --for running", "events", "events --json", "profile list", "profile list --json",
		"profile show a", "profile show a --json", "health", "reload", "reload --json", "shutdown", "profile delete a",
	} {
		r := b.rlminit(t, strings.Fields(args)...)
		if strings.ContainsAny(r.out+r.err, "\x1b\u009b\u202e") || r.out+r.err == "" {
			t.Errorf("%s: exit %d\n%q\n%q", args, r.code, r.out, r.err)
		}
	}
}
