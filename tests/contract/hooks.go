package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// hookLine is what hooks in these tests are told, of whatever type.
type hookLine struct {
	Seq      uint64   `json:"seq"`
	Type     string   `json:"type"`
	Sample   bool     `json:"sample"`
	Service  string   `json:"service"`
	Profile  string   `json:"profile"`
	To       string   `json:"to"`
	Hook     string   `json:"hook"`
	What     string   `json:"what"`
	Percent  *float64 `json:"percent"`
	Limit    int      `json:"limit"`
	State    string   `json:"state"`
	For      string   `json:"for"`
	Job      string   `json:"job"`
	Kind     string   `json:"kind"`
	ExitCode *int     `json:"exit_code"`
	raw      string
}

// toldIn is a hook's command that keeps what it is told in a file on the volume.
func toldIn(file string) string {
	return fmt.Sprintf(`command: [sh, -c, "cat >>$RLMINIT_HOME/%s"]`, file)
}

// told is what was kept in that file.
func told(b *box.Box, file string) (all []hookLine) {
	b.Helper()
	for line := range strings.Lines(b.Shell(box.Service, `cat "`+b.Home()+`/`+file+`" 2>/dev/null || true`)) {
		l := hookLine{raw: line}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			b.Fatalf("a hook was told %q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// awaitTold waits until the hook of a file was told a number of times, each as say puts it.
func awaitTold(b *box.Box, file string, say func(hookLine) string, want ...string) {
	b.Helper()
	box.Eventually(b, long, file+" is told "+strings.Join(want, ", "), func() (bool, any) {
		got := []string{}
		for _, l := range told(b, file) {
			got = append(got, say(l))
		}
		if len(got) > len(want) {
			b.Fatalf("the hook of %s was told %q, and should be %q", file, got, want)
		}
		return slices.Equal(got, want), got
	})
}

// hooksOf are those that rlminit hooks lists, by name.
func hooksOf(b *box.Box) map[string]control.Hook {
	b.Helper()
	var list []control.Hook
	if err := json.Unmarshal([]byte(b.Must("hooks", "--json")), &list); err != nil {
		b.Fatal(err)
	}
	all := map[string]control.Hook{}
	for _, h := range list {
		all[h.Name] = h
	}
	return all
}

// measured waits until the only threshold of a hook is, and is crossed or not.
func measured(b *box.Box, hook string, crossed bool) {
	b.Helper()
	box.Eventually(b, long, fmt.Sprintf("%s is measured, crossed %v", hook, crossed), func() (bool, any) {
		of := hooksOf(b)[hook].Thresholds
		return len(of) == 1 && of[0].Percent != nil && of[0].Crossed == crossed, of
	})
}

// Thresholds: one that is crossed is told once and taken back once, however often the
// supervisor is killed in between, and is among the events; after a restart of the
// container it is told anew.
func Thresholds(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {`+bash(`while :; do
	if [ -e "$RLMINIT_HOME/eat" ]; then (x=$(head -c 120000000 /dev/zero | tr '\0' x); while [ -e "$RLMINIT_HOME/eat" ]; do sleep 0.05; done); fi
	sleep 0.05
done`)+`, limits: {memory: 600MiB}}`,
		`spin: {`+bash(`while [ ! -e "$RLMINIT_HOME/calm" ]; do :; done; exec sleep infinity`)+`, limits: {cpu: 0.2}}`,
	) + `hooks:
  - {name: fat, on: {memory: 15%}, services: [web], ` + toldIn("fat") + `}
  - {name: busy, on: [{cpu: 30%, for: 2s}], services: [spin], ` + toldIn("busy") + `}
  - {name: box, on: [failed, {memory: 1%}], ` + toldIn("box") + `}
`})
	state := func(l hookLine) string { return l.Type + " " + l.State }
	replace := func() {
		old := b.Supervisor()
		kill(b, "KILL", old.PID)
		replaced(b, old.PID)
	}
	awaitTold(b, "box", state, "threshold crossed")
	measured(b, "fat", false)
	b.Shell(box.Service, `touch "`+b.Home()+`/eat"`)
	awaitTold(b, "fat", state, "threshold crossed")
	replace()
	measured(b, "fat", true)
	awaitTold(b, "fat", state, "threshold crossed")
	b.Shell(box.Service, `rm "`+b.Home()+`/eat"`)
	awaitTold(b, "fat", state, "threshold crossed", "threshold back")
	replace()
	measured(b, "fat", false)
	measured(b, "box", true)
	awaitTold(b, "fat", state, "threshold crossed", "threshold back")
	awaitTold(b, "box", state, "threshold crossed")

	awaitTold(b, "busy", state, "threshold crossed")
	b.Shell(box.Service, `touch "`+b.Home()+`/calm"`)
	awaitTold(b, "busy", state, "threshold crossed", "threshold back")

	first := told(b, "fat")[0]
	if first.Hook != "fat" || first.Service != "web" || first.What != "memory" || first.Limit != 15 || first.For != "0s" || first.Percent == nil || *first.Percent < 15 {
		t.Errorf("the hook was told %s", first.raw)
	}
	events := b.Must("events", "--json", "--type", "threshold")
	for _, l := range append(told(b, "fat"), told(b, "box")...) {
		if !strings.Contains("\n"+events, "\n"+l.raw) {
			t.Errorf("the hook was told %q, and events has\n%s", l.raw, events)
		}
	}
	if words := b.Must("events", "--type", "threshold", "web"); !strings.Contains(words, "the memory of web is at ") {
		t.Errorf("in words: %s", words)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	awaitTold(b, "box", state, "threshold crossed", "threshold crossed")
}

// ThresholdsWithoutAVolume: what was told of a threshold is in PID 1's memory too, and so
// nothing is told twice where there is no journal.
func ThresholdsWithoutAVolume(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config() + `hooks:
  - {name: box, on: {memory: 1%}, ` + toldIn("box") + `}
`, Env: []string{"RLMINIT_PROFILES=off"}})
	state := func(l hookLine) string { return l.Type + " " + l.State }
	awaitTold(b, "box", state, "threshold crossed")
	if events := b.Must("events", "--json", "--type", "threshold"); strings.TrimSpace(events) != strings.TrimSpace(told(b, "box")[0].raw) {
		t.Errorf("events has\n%s", events)
	}
	for range 2 {
		old := b.Supervisor()
		kill(b, "KILL", old.PID)
		replaced(b, old.PID)
		measured(b, "box", true)
	}
	awaitTold(b, "box", state, "threshold crossed")
}

// ThresholdsAreReloaded: what a hook was told is forgotten with the hook, and one that has
// changed starts anew; a value that is not reached is shown, and not told.
func ThresholdsAreReloaded(t *testing.T, start New) {
	with := func(hook string) string {
		return Services(`web: {`+bash(`exec sleep infinity`)+`}`) + "hooks:\n  - " + hook + "\n"
	}
	b := start(t, box.Spec{Config: with(`{name: box, on: {memory: 1%}, ` + toldIn("a") + `}`)})
	state := func(l hookLine) string { return l.State }
	awaitTold(b, "a", state, "crossed")
	configure(b, with(`{name: box, on: {memory: 100%}, `+toldIn("a")+`}`))
	measured(b, "box", false)
	configure(b, with(`{name: box, on: {memory: 1%}, `+toldIn("b")+`}`))
	awaitTold(b, "b", state, "crossed")
	awaitTold(b, "a", state, "crossed")
	if of := hooksOf(b)["box"]; len(of.On) != 1 || of.On[0] != "{memory: 1%}" {
		t.Errorf("it is listed as %+v", of)
	}
	if out := b.Must("hooks"); !strings.Contains(out, "crossed") || !strings.Contains(out, "the container") {
		t.Errorf("hooks shows\n%s", out)
	}
}

// JobFailedHooks: a job that has ended otherwise than it should is told, with what it was;
// one that somebody has ended is not, nor is one of a hook.
func JobFailedHooks(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config() + `hooks:
  - {on: job-failed, ` + toldIn("all") + `}
  - {on: [job-failed], services: [alice], ` + toldIn("alice") + `}
  - {on: [job-failed], command: ["false"]}
`})
	b.Must("profile", "create", "alice")
	b.Run("run", "--", "sh", "-c", "exit 3")
	b.Run("run", "--profile", "alice", "--", "sh", "-c", "kill -9 $$")
	b.Run("run", "--timeout", "100ms", "--", "sleep", "1000")
	b.Must("run", "--", "true")
	id := strings.TrimSpace(b.Must("run", "--detach", "--", "sleep", "1000"))
	b.Run("job", "cancel", id)
	b.Run("run", "--", "sh", "-c", "exit 4")
	say := func(l hookLine) string {
		code := "null"
		if l.ExitCode != nil {
			code = fmt.Sprint(*l.ExitCode)
		}
		return strings.Join([]string{l.Type, l.Kind, l.State, code, l.Profile}, " ")
	}
	awaitTold(b, "all", say, "job_failed run failed 3 ", "job_failed run failed null alice", "job_failed run timed_out null ", "job_failed run failed 4 ")
	awaitTold(b, "alice", say, "job_failed run failed null alice")
	events := b.Must("events", "--json", "--type", "job_failed")
	for _, l := range told(b, "all") {
		if !strings.Contains("\n"+events, "\n"+l.raw) || l.Job == "" {
			t.Errorf("the hook was told %q, and events has\n%s", l.raw, events)
		}
	}
	b.Must("run", "--detach", "--timeout", "10m", "--", "sleep", "1000")
	if err := b.Signal(9); err != nil {
		t.Fatal(err)
	}
	b.Again()
	awaitTold(b, "all", say, "job_failed run failed 3 ", "job_failed run failed null alice", "job_failed run timed_out null ", "job_failed run failed 4 ",
		"job_failed run interrupted null ")
}

// HooksAreToldOnce: what happens to a service is told, and once, though the supervisor is
// killed the moment that it is known.
func HooksAreToldOnce(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {`+bash(`exec sleep infinity`)+`, health: {exec: [test, "!", -e, "${RLMINIT_HOME}/ill"], interval: 50ms, timeout: 10s, retries: 1, action: none}}`,
	) + `hooks:
  - {on: [unhealthy, healthy], services: [web], ` + toldIn("told") + `}
`})
	to := func(l hookLine) string { return l.To }
	want := []string{"healthy"}
	awaitTold(b, "told", to, want...)
	for range 4 {
		for _, step := range []struct{ do, to string }{{"touch", "unhealthy"}, {"rm", "healthy"}} {
			old := b.Supervisor()
			b.Shell(box.Root, fmt.Sprintf(`n() { cat "%[2]s"/.rlminit/journal/*.jsonl | grep -c '"to":"%[3]s"' || true; }
before=$(n); end=$((SECONDS + 20))
%[1]s "%[2]s/ill"
until [ "$(n)" -gt "$before" ]; do [ $SECONDS -lt $end ]; done
kill -9 %[4]d`, step.do, b.Home(), step.to, old.PID))
			replaced(b, old.PID)
			want = append(want, step.to)
			awaitTold(b, "told", to, want...)
		}
	}
}

// HooksHaveTheirLane: a queue that users have filled keeps no hook waiting.
func HooksHaveTheirLane(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {type: oneshot, enabled: false, restart: {policy: "no"}, `+bash(`exit 3`)+`}`,
	) + `jobs: {at_once: 1, queue: 1}
hooks:
  - {on: [failed], ` + toldIn("told") + `}
`})
	for range 2 { // one runs, and one waits
		b.Must("run", "--detach", "--timeout", "10m", "--", "sleep", "1000")
	}
	b.Fails(10, "1 jobs wait already", "run", "--detach", "--", "true")
	b.Run("start", "web")
	awaitTold(b, "told", func(l hookLine) string { return l.To }, "failed")
	b.Fails(10, "1 jobs wait already", "run", "--detach", "--", "true")
}

// HooksAreTried: rlminit hooks test runs one with a sample, and says which names there are.
func HooksAreTried(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(`web: {`+bash(`exec sleep infinity`)+`}`) + `hooks:
  - {name: page-me, on: [failed], services: [web], command: [cat]}
  - {name: disk-full, on: [{disk: 100%, for: 5m}], command: [sh, -c, "cat; echo oh >&2; exit 7"]}
  - {on: [job-failed], command: [cat]}
  - {name: absent, on: {memory: 50%}, services: [nobody], command: [cat]}
`})
	box.Eventually(b, long, "what is not there is shown", func() (bool, any) {
		of := hooksOf(b)["absent"].Thresholds
		return len(of) == 1 && of[0].Lacks == "there is no such service" && of[0].Percent == nil, of
	})
	var l hookLine
	line := b.Must("hooks", "test", "page-me")
	if err := json.Unmarshal([]byte(line), &l); err != nil || !l.Sample || l.Type != "transition" || l.To != "failed" || l.Service != "web" || strings.Count(line, "\n") != 1 {
		t.Errorf("it was told %q: %v", line, err)
	}
	r := b.Run("hooks", "test", "disk-full")
	l = hookLine{}
	if err := json.Unmarshal([]byte(r.Out), &l); err != nil || r.Code != 7 || !strings.Contains(r.Err, "oh") || l.Type != "threshold" || l.What != "disk" || l.For != "5m0s" || l.Service != "" {
		t.Errorf("%s: %v", r, err)
	}
	var result control.JobResult
	if err := json.Unmarshal([]byte(b.Must("hooks", "test", "hook-3", "--json")), &result); err != nil || !strings.Contains(result.Stdout, `"type":"job_failed"`) {
		t.Errorf("%+v: %v", result, err)
	}
	b.Fails(4, `no hook "page_me"; did you mean "page-me"?`, "hooks", "test", "page_me")
	b.Fails(2, "NAME is missing", "hooks", "test")
	b.Fails(2, `did you mean "test"?`, "hooks", "tset")
	for _, j := range listed(b) {
		if j.Kind != "hook" {
			t.Errorf("job %s is of kind %s", j.Job, j.Kind)
		}
	}
}

// configure replaces the configuration, and has it reloaded.
func configure(b *box.Box, text string) {
	b.Helper()
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	b.Write(box.Root, path, text)
	b.Must("reload")
}
