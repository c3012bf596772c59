package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// kinds is a configuration with gateways of three kinds beside the default.
func kinds(services string) string {
	return `version: 1
user: "1000:1000"
gateway:
  ` + bash(`echo plain; exec sleep 1000000`) + `
gateways:
  web:
    ` + bash(`echo "web $$COLOUR"; [ -z "$$BOOM" ] || exit 78; exec sleep 1000000`) + `
    environment: {COLOUR: red}
    ports: 9400-9499
  worker:
    ` + bash(`echo worker; exec sleep 1000000`) + `
    requires: [db]
    ports: off
  script:
    command: any
    profiles: [team-*]
services:
  db: {command: [sleep, "1000000"]}
` + services
}

// Kinds: a profile is of the kind that its own file names, and of no other: over a
// supervisor that is replaced, a restart of the container, a clone, and a reload that
// changes the kind, or takes it away.
func Kinds(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	b.Must("profile", "create", "plain")
	b.Must("profile", "create", "web1", "web2", "--kind", "web")
	b.Must("profile", "create", "work", "--kind", "worker")
	b.Must("profile", "create", "team-a", "--kind", "script", "--command", "sh", "-c", "echo script $PROFILE; exec sleep 1000000")
	logged(b, "plain", " plain\n")
	logged(b, "web1", " web red\n")
	logged(b, "work", " worker\n")
	logged(b, "team-a", " script team-a\n")
	of := func() string {
		var list []string
		for _, name := range []string{"plain", "web1", "web2", "work", "team-a"} {
			s := b.Await("gateway-"+name, "running")
			port := "-"
			if s.Port != nil {
				port = fmt.Sprint(*s.Port / 100)
			}
			list = append(list, *s.Kind+" "+port)
		}
		return strings.Join(list, ", ")
	}
	if got := of(); !strings.HasPrefix(got, "default 9") || !strings.Contains(got, "web 94, web 94, worker -, script 9") {
		t.Errorf("they are %s", got)
	}
	if s := b.Status()["db"]; s.Kind != nil {
		t.Errorf("a service has the kind %s", *s.Kind)
	}
	for want, args := range map[string][]string{
		`no kind "wep"; did you mean "web"?`:                                                  {"profile", "create", "x", "--kind", "wep"},
		"the kind script is not for it: gateways.script.profiles allows team-*":               {"profile", "create", "x", "--kind", "script", "--command", "true"},
		"the kind script has no command; add --command PROG ARG…":                             {"profile", "create", "team-x", "--kind", "script"},
		"the kind web has a command; one for each profile needs command: any in gateways.web": {"profile", "create", "x", "--kind", "web", "--command", "true"},
		`no kind "webs"; did you mean "web"?`:                                                 {"restart", "--kind", "webs"},
	} {
		b.Fails(2, want, args...)
	}

	// Another kind is another definition: reload takes it up, whoever decides.
	pids := map[string]int{}
	for name, s := range b.Status() {
		pids[name] = *s.PID
	}
	b.Write(box.Service, b.Home()+"/profiles/web2/profile.yaml", "kind: worker\n")
	b.Must("reload")
	s := restarted(b, "gateway-web2", pids["gateway-web2"])
	if *s.Kind != "worker" || s.Port == nil {
		t.Errorf("of another kind: %s", box.Describe(s))
	}
	logged(b, "web2", " worker\n")
	b.Must("restart", "--kind", "worker")
	if restarted(b, "gateway-work", pids["gateway-work"]); *b.Status()["gateway-web1"].PID != pids["gateway-web1"] {
		t.Error("one of another kind was restarted")
	}
	if out := b.Must("status", "--kind", "worker"); !strings.Contains(out, "web2") || strings.Contains(out, "web1") {
		t.Errorf("status --kind:\n%s", out)
	}
	b.Must("profile", "clone", "web1", "web3")
	if s := b.Await("gateway-web3", "running"); *s.Kind != "web" {
		t.Errorf("the clone is of the kind %s", *s.Kind)
	}

	// One that is not there is never another.
	b.Write(box.Service, b.Home()+"/profiles/web2/profile.yaml", "kind: gone\n")
	refused(b, `no kind "gone"; the kinds here are default, script, web, worker`)
	if s := b.Status()["gateway-web2"]; s.State != "running" || *s.Kind != "worker" {
		t.Errorf("what ran before its kind went: %s", box.Describe(s))
	}
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	if s := b.Status()["gateway-web1"]; s.State != "running" || *s.Kind != "web" {
		t.Errorf("after the supervisor was replaced: %s", box.Describe(s))
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	if s := b.Await("gateway-web2", "failed"); s.Reason == nil || !strings.Contains(*s.Reason, `no kind "gone"`) || *s.Kind != "gone" {
		t.Errorf("of a kind that is not there: %s", box.Describe(s))
	}
	b.Await("gateway-web1", "running")
	b.Write(box.Service, b.Home()+"/profiles/web2/profile.yaml", "kind: web\nenvironment: {COLOUR: blue}\n")
	b.Must("reload")
	b.Await("gateway-web2", "running")
	logged(b, "web2", " web blue\n")
}

// OwnDependencies: a profile's own file may say what the profile needs, and switch off
// what its kind says. Two that wait for each other are told so, and lose nothing.
func OwnDependencies(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	b.Must("stop", "db")
	b.Must("profile", "create", "--no-wait", "work", "--kind", "worker")
	b.Must("profile", "create", "a", "b")
	own := func(name, text string) {
		t.Helper()
		b.Write(box.Service, b.Home()+"/profiles/"+name+"/profile.yaml", text)
		b.Must("reload")
	}
	waits(b, "gateway-work", "requires db")
	own("work", "kind: worker\nrequires: none\n")
	b.Await("gateway-work", "running")

	own("a", "requires: [gateway-b]\n")
	own("b", "requires: [gateway-a]\n")
	b.Must("stop", "a", "b")
	b.Must("start", "--no-wait", "a", "b")
	waits(b, "gateway-a", "requires itself: gateway-a → gateway-b → gateway-a")
	own("b", "requires: none\nenv_file: ['${PROFILE_DIR}/own.env']\n")
	b.AwaitThat("gateway-b", "says what it lacks", func(s control.Service) bool {
		return s.Reason != nil && strings.Contains(*s.Reason, "own.env")
	})
	b.Write(box.Service, b.Home()+"/profiles/b/own.env", "OWN=yes\n")
	b.Must("start", "b")
	b.Await("gateway-a", "running")
	if out := b.Must("exec", "--profile", "b", "--", "sh", "-c", "echo own $OWN"); out != "own yes\n" {
		t.Errorf("its environment has %q", out)
	}
	for text, want := range map[string]string{
		"requires: [bd]\n":      `profile.yaml:1: requires: no service "bd"; did you mean "db"?`,
		"requires: {}\n":        "requires: is empty, which changes nothing; write none to switch off what the kind says",
		"after: [gateway-a]\n":  `a service cannot depend on itself; take "gateway-a" out`,
		"env_file: [own.env]\n": `"own.env" is no absolute path`,
		"schedules: {s: {cron: '0 0 30 2 *', command: [x]}}\n": "schedules.s.cron: ",
	} {
		b.Write(box.Service, b.Home()+"/profiles/a/profile.yaml", text)
		refused(b, want)
		if s := b.Status()["gateway-a"]; s.State != "running" {
			t.Errorf("%s: %s", text, box.Describe(s))
		}
	}
}

// ManyAreSet: variables and secrets of many profiles are changed at once. What runs with
// older values is told, over a supervisor that is replaced too. A rolling restart stops at
// the first gateway that fails with them, and a rollback gives all the old ones again.
func ManyAreSet(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("hooks:\n  - {on: [outdated], " + toldIn("told") + "}\n")})
	names := []string{"a", "b", "c", "d"}
	b.Must(append([]string{"profile", "create", "--kind", "web"}, names...)...)
	b.Must("profile", "create", "other")
	outdated := func() string {
		var list []string
		for _, name := range append(names, "other") {
			if s := b.Status()["gateway-"+name]; s.Outdated {
				list = append(list, name)
			}
		}
		return strings.Join(list, " ")
	}
	before := b.Status()
	if out := b.Must("profile", "set", "--kind", "web", "COLOUR=blue", "--dry-run"); !strings.Contains(out, "+ environment.COLOUR: blue") || !strings.Contains(out, "4 to change") {
		t.Errorf("it would do\n%s", out)
	}
	out := b.Must("profile", "set", "--kind", "web", "COLOUR=blue")
	if !strings.Contains(out, "a b c d: changed by revision 1\n") || !strings.HasSuffix(out, "still with the old values, until restarted: a b c d; rlminit restart a b c d\n") {
		t.Errorf("it says\n%s", out)
	}
	if got := outdated(); got != "a b c d" {
		t.Errorf("outdated are %q", got)
	}
	if out := b.Must("status", "a"); !strings.Contains(out, "outdated: environment changed; rlminit restart a") {
		t.Errorf("status:\n%s", out)
	}
	if out := b.Must("events", "--type", "transition", "-n", "all"); strings.Count(out, "→ outdated") != 4 {
		t.Errorf("events:\n%s", out)
	}
	awaitTold(b, "told", func(l hookLine) string { return l.To }, "outdated", "outdated", "outdated", "outdated")
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	if got := outdated(); got != "a b c d" {
		t.Errorf("after the supervisor was replaced outdated are %q", got)
	}
	for _, name := range names {
		if was, is := before["gateway-"+name], b.Status()["gateway-"+name]; *was.PID != *is.PID {
			t.Errorf("%s was restarted", name)
		}
	}
	b.Must("restart", "--state", "outdated")
	if got := outdated(); got != "" {
		t.Errorf("after a restart outdated are %q", got)
	}
	logged(b, "a", " web blue\n")

	// One of them cannot run with the next values.
	token := b.Home() + "/token"
	b.Write(box.Root, token, "s3cret")
	b.Must("profile", "set", "c", "BOOM=")
	r := b.Run("profile", "set", "[abcd]", "BOOM=1", "--secret", "TOKEN="+token, "--rolling", "--steady", "300ms")
	if r.Code != 8 || !strings.Contains(r.Err, "stopped at ") || !strings.Contains(r.Err, "with the new values, and not up: a\n") ||
		!strings.Contains(r.Err, "still with the old values: b c d\n") || !strings.Contains(r.Err, "rlminit rollback gives all of them the old values again") {
		t.Errorf("%s", r)
	}
	b.Must("rollback", "--steady", "300ms", "--exit-zero")
	for _, name := range names {
		b.AwaitThat("gateway-"+name, "runs as before", func(s control.Service) bool { return s.State == "running" && !s.Outdated })
	}
	if out := b.Must("exec", "--profile", "a", "--", "sh", "-c", `echo "$COLOUR-$BOOM-$CREDENTIALS_DIRECTORY"`); out != "blue--\n" {
		t.Errorf("after the rollback a has %q", out)
	}
	b.Fails(2, "PROFILE is what rlminit itself gives the gateway", "profile", "set", "*", "PROFILE=x")
	b.Fails(4, `no profile "nobody*"`, "profile", "set", "nobody*", "A=b")
	if revisions := b.Must("revisions"); strings.Count(revisions, "profile set") != 3 || strings.Count(revisions, " single ") != 1 {
		t.Errorf("revisions:\n%s", revisions)
	}
}

// SchedulesBeside: commands with schedules are run beside a service as jobs, while it is
// to run.
func SchedulesBeside(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("  tick: {command: [sleep, \"1000000\"], schedules: {beat: {cron: \"* * * * *\", " + bash("echo tick") + "}}}\n")})
	b.Must("profile", "create", "a", "b", "--env", "COLOUR=green")
	for _, name := range []string{"a", "b"} {
		b.Write(box.Service, b.Home()+"/profiles/"+name+"/profile.yaml", `environment: {COLOUR: green}
schedules:
  say: {cron: "* * * * *", command: [bash, -c, "echo $$PROFILE $$COLOUR $$PWD"]}
  long: {cron: "* * * * *", command: [sleep, "86400"]}
`)
	}
	b.Must("reload")
	b.Must("stop", "b")
	if s := b.Status()["gateway-a"]; s.Schedules["say"].Next == nil || s.Schedule != nil {
		t.Errorf("status has %+v", s.Schedules)
	}
	if s := b.Status()["gateway-b"]; s.Schedules["say"].NotRun != "its service is not to run" {
		t.Errorf("of one that was stopped status has %+v", s.Schedules)
	}
	found := map[string]string{}
	box.Eventually(b, 80*time.Second, "all have run", func() (bool, any) {
		for _, j := range listed(b) {
			of := ""
			if j.Profile != nil {
				of = *j.Profile
			} else if j.Service != nil {
				of = "service " + *j.Service
			}
			found[of+" "+j.State] = j.Job
		}
		return found["a succeeded"] != "" && found["a running"] != "" && found["service tick succeeded"] != "", listed(b)
	})
	if out := b.Must("job", "logs", found["a succeeded"]); out != "a green "+b.Home()+"/profiles/a\n" {
		t.Errorf("the profile's has printed %q", out)
	}
	if found["b succeeded"]+found["b running"] != "" {
		t.Error("something of a profile that was stopped has run")
	}
	b.Must("stop", "a")
	if out := b.Must("job", "show", found["a running"]); !strings.Contains(out, "cancelled") {
		t.Errorf("what ran when its profile was stopped: %s", out)
	}
}

// refused reloads, which one definition keeps from going well.
func refused(b *box.Box, why string) {
	b.Helper()
	if r := b.Run("reload"); r.Code != 1 || strings.Count(r.Out, "\n") != 1 || !strings.Contains(r.Out, ": refuse: ") || !strings.Contains(r.Out, why) {
		b.Errorf("%s; want exit code 1 and one line with %q", r, why)
	}
}

// SetsAreCutOff: the supervisor is killed in the middle of a set. All profiles have the new
// value in the end, or all the one before, and none was restarted.
func SetsAreCutOff(t *testing.T, start New) {
	const many, rounds = 24, 6
	b := start(t, box.Spec{Config: kinds("")})
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("p%02d", i)
	}
	b.Must(append([]string{"profile", "create", "--kind", "web"}, names...)...)
	pids := map[string]int{}
	for name, s := range b.Status() {
		pids[name] = *s.PID
	}
	before := ""
	for i := range rounds {
		old := b.Supervisor().PID
		value := fmt.Sprint("v", i)
		b.Shell(box.Root, fmt.Sprintf("rlminit profile set 'p*' V=%s >/dev/null 2>&1 & sleep 0.0%d; kill -9 %d; wait || true", value, 1+i*13%9, old))
		replaced(b, old)
		box.Eventually(b, long, "no revision is under way", func() (bool, any) {
			out := b.Must("revisions")
			return !strings.Contains(out, "running"), out
		})
		var list []control.Profile
		if err := json.Unmarshal([]byte(b.Must("profile", "list", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, p := range list {
			count[p.Environment["V"]]++
		}
		if len(count) != 1 || count[before]+count[value] != many {
			t.Fatalf("round %d: the values are %v, and were %q", i, count, before)
		}
		if count[value] > 0 {
			before = value
		}
		unharmed(b, pids)
	}
	b.Must("profile", "set", "p*", "V=last")
	b.Shell(box.Root, `cd "${RLMINIT_RUNTIME_DIR:-/run/rlminit}/services" && for slot in gateway-p*; do cp -p "$slot/service.yaml" "$slot/again" && mv "$slot/again" "$slot/service.yaml"; done`)
	b.Must("reload")
	unharmed(b, pids)
}

// AppliedInOrder: profiles that one plan creates may need each other, whatever their names;
// each starts after what it needs, and two that wait for each other are rolled back.
func AppliedInOrder(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	apply := func(set string) box.Result {
		t.Helper()
		b.Write(box.Root, b.Home()+"/set.yaml", "version: 1\nprofiles:\n"+set)
		b.Must("plan", "-f", b.Home()+"/set.yaml", "--out", b.Home()+"/plan.json")
		hash := b.Shell(box.Root, `grep -o '"hash":"sha256:[0-9a-f]*"' "`+b.Home()+`/plan.json" | cut -d'"' -f4`)
		return b.As(box.Root, "rlminit", "apply", b.Home()+"/plan.json", "--approve", strings.TrimSpace(hash), "--steady", "100ms", "--exit-zero", "--allow-delete")
	}
	const needs = "  b: {requires: [gateway-a, gateway-c]}\n  a: {requires: [gateway-c], kind: web}\n  c: {ready: {exec: [test, -e, \"${PROFILE_DIR}/slow\"]}, command: [sh, -c, \"sleep 0.3; touch slow; exec sleep 1000000\"]}\n"
	for range 3 {
		if r := apply(needs); r.Code != 0 {
			t.Fatalf("%s", r)
		}
		var since []time.Time
		for _, name := range []string{"c", "a", "b"} {
			since = append(since, *b.Await("gateway-"+name, "running").Since)
		}
		if since[1].Before(since[0]) || since[2].Before(since[1]) {
			t.Errorf("c, a and b run since %v", since)
		}
		if r := apply("  other: {}\n"); r.Code != 0 {
			t.Fatalf("%s", r)
		}
	}
	if r := apply("  a: {requires: [gateway-b]}\n  b: {requires: [gateway-a]}\n"); r.Code != 8 || !strings.Contains(r.Err, "requires itself") {
		t.Errorf("a ring: %s", r)
	}
	if r := apply("  a: {requires: [gateway-nobody]}\n"); r.Code != 8 || !strings.Contains(r.Err, "requires gateway-nobody, which does not exist") {
		t.Errorf("what needs somebody who is not there: %s", r)
	}
	b.Await("gateway-other", "running")
}

// SetsLeaveWhatTheyCannotRead: a set touches nobody where it cannot read one of them, and a
// rolling restart that is asked for again takes nobody else down.
func SetsLeaveWhatTheyCannotRead(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	b.Must("profile", "create", "a", "b", "c", "--kind", "web")
	file := b.Home() + "/profiles/b/profile.yaml"
	before := b.Shell(box.Root, `cat "`+file+`"`)
	for _, spoil := range []string{"chown 0:0 F && chmod 600 F", "mv F F.kept && mkfifo F", "mv F F.kept && head -c 300000 /dev/zero | tr '\\0' '#' >F"} {
		b.Shell(box.Root, strings.ReplaceAll(spoil, "F", `"`+file+`"`))
		for _, what := range [][]string{{"V=1"}, {"--secret", "T=" + b.Home() + "/profiles/a/profile.yaml"}} {
			if r := b.As(box.Root, append([]string{"rlminit", "profile", "set", "*"}, what...)...); r.Code == 0 || !strings.Contains(r.Err, "nothing was touched: b: ") {
				t.Errorf("%s, %v: %s", spoil, what, r)
			}
		}
		b.Shell(box.Root, strings.ReplaceAll(`if [ -e F.kept ]; then rm F; mv F.kept F; fi; chown 1000:1000 F`, "F", `"`+file+`"`))
		if is := b.Shell(box.Root, `cat "`+file+`"`); is != before {
			t.Fatalf("after %s the file is %q", spoil, is)
		}
	}
	pid := func(name string) int { return *b.Await("gateway-"+name, "running").PID }
	pids := []int{pid("a"), pid("b"), pid("c")}
	b.Must("profile", "set", "*", "COLOUR=green")
	b.Must("rollback", "--steady", "100ms", "--exit-zero")
	if now := []int{pid("a"), pid("b"), pid("c")}; !slices.Equal(now, pids) || b.Status()["gateway-a"].Outdated {
		t.Errorf("who never had the values was restarted: %v, %v", pids, now)
	}
	for _, why := range []string{"with the new values, and not up: a\n", "stopped at a: it is failed", "stopped at a: it is failed"} {
		r := b.Run("profile", "set", "*", "BOOM=1", "--rolling", "--steady", "200ms")
		if r.Code != 8 || !strings.Contains(r.Err, why) {
			t.Errorf("%s", r)
		}
		if now := []int{pid("b"), pid("c")}; !slices.Equal(now, pids[1:]) {
			t.Fatalf("another one was taken down: %v, %v", pids[1:], now)
		}
	}
	if r := b.Run("profile", "set", "*", "BOOM=1", "--restart", "--steady", "200ms"); r.Code != 8 {
		t.Errorf("all at once: %s", r)
	}
	b.Must("rollback", "--steady", "100ms", "--exit-zero")
	pid("a")

	// A gateway that runs keeps its name where it could not be started with another.
	b.Write(box.Service, file, "kind: gone\n")
	b.Fails(17, `profile "b" is not renamed: its gateway runs, and could not be started as d: `, "profile", "rename", "b", "d")
	pid("b")
	b.Must("profile", "create", "team-a", "--kind", "script", "--command", "sleep", "1000000")
	b.Fails(17, `profile "team-a" is not renamed`, "profile", "rename", "team-a", "other")
	b.Fails(2, "the kind of team-a is not for it", "profile", "clone", "team-a", "other")
}
