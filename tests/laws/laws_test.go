package laws

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rlminit/tests/box"
	"rlminit/tests/ns"
)

var (
	minutes = flag.Float64("minutes", 1, "how long random sequences are tried")
	most    = flag.Int("most", 12, "how many steps a sequence has at most")
	only    = flag.String("only", "", "steps whose names fit this pattern alone are drawn")
)

func TestMain(m *testing.M) { os.Exit(ns.Main(m)) }

// configuration has kinds that say the opposite of each other, services beside them, and
// room for each profile in each range of ports.
const configuration = `version: 1
user: "1000:1000"
gateway: {command: [sleep, "1000000"], ports: 9200-9209, initial_state: running%[1]s}
gateways:
  quiet: {command: [sleep, "2000000"], ports: off, initial_state: stopped}
  loud: {command: [sleep, "3000000", "${PORT}"], ports: 9400-9409}
services:
  plain: {command: [sleep, infinity]}
  nightly: {type: oneshot, command: ['true'], schedule: {cron: '0 0 1 1 *'}}
`

// TestLaws tries sequences of verbs until its time is over. A sequence that breaks a law is
// shrunk, and printed as a script.
func TestLaws(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute long")
	}
	set := func(name, value string) {
		if err := flag.Set("rapid."+name, value); err != nil {
			t.Fatal(err)
		}
	}
	set("checks", "1")
	set("nofailfile", "true")
	began, sequences := time.Now(), 0
	for time.Since(began).Minutes() < *minutes && !t.Failed() {
		t.Run(fmt.Sprint(sequences), rapid.MakeCheck(sequence))
		sequences++
	}
	t.Logf("%d sequences, %d steps", sequences, steps)
	if fault.steps > 0 {
		t.Logf("the first fault after %d steps, %.0f s: %s", fault.steps, fault.at.Sub(began).Seconds(), fault.said)
	}
}

// steps is how many were done so far, those of shrinking too.
var steps int

// fault is the first one, before it was shrunk.
var fault struct {
	steps int
	at    time.Time
	said  string
}

// sequence is one box and what is done to it.
func sequence(t *rapid.T) {
	auto := ""
	if ns.Privileged() && rapid.Bool().Draw(t, "auto") {
		auto = ", user: auto"
	}
	services := map[string]profile{"plain": {desired: true}}
	config := fmt.Sprintf(configuration, auto)
	if rapid.IntRange(0, 5).Draw(t, "crowded") == 0 {
		for i := range crowded {
			services[inCrowd(i)] = profile{desired: true}
			config += "  " + inCrowd(i) + ": {command: [sleep, infinity]}\n"
		}
	}
	p, err := ns.New(box.Spec{Config: config}, ns.Programs())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	}()
	w := &world{T: t, Place: p, pids: map[string]pid{}}
	w.model = model{
		profiles: map[string]profile{}, trash: map[string][]profile{},
		services: services,
	}
	w.model.settle()
	w.agree(w.model, "boot")
	n := rapid.IntRange(1, *most).Draw(t, "steps")
	for range n {
		steps++
		w.step()
	}
}

// roles are the first argument of the processes that are killed.
var roles = []string{"supervise", "rights"}

// world is a box and its model.
type world struct {
	*rapid.T
	*ns.Place
	model  model
	pids   map[string]pid // by service
	script []string
}

type pid struct{ run, number int }

// drawn are the names of the steps from which the next one is drawn.
func drawn() (all []string) {
	fits := regexp.MustCompile(*only)
	for _, name := range append(slices.Sorted(maps.Keys(verbs)), slices.Sorted(maps.Keys(stages))...) {
		if fits.MatchString(name) {
			all = append(all, name)
		}
	}
	return all
}

// step draws a step, does it and asks the laws.
func (w *world) step() {
	kind := rapid.SampledFrom(drawn()).Draw(w.T, "verb")
	if stage := stages[kind]; stage != nil {
		if !stage(w) {
			w.step()
		}
		return
	}
	s := verbs[kind](w.T, w.model)
	if s.none {
		w.step()
		return
	}
	s.after.settle()
	w.do(s)
}

// do does a step, with a kill of the supervisor in its midst now and then.
func (w *world) do(s step) {
	killed, role := rapid.IntRange(0, 5).Draw(w.T, "killed") == 0, rapid.SampledFrom(roles).Draw(w.T, "role")
	after := time.Duration(rapid.IntRange(0, 30).Draw(w.T, "ms")) * time.Millisecond
	over := make(chan struct{})
	if killed {
		go func() {
			defer close(over)
			w.kill(role, after)
		}()
	} else {
		close(over)
	}
	r := w.run(s)
	<-over
	if killed {
		w.script = append(w.script, fmt.Sprintf("# %s was killed %s after that had begun", role, after))
	}
	said := fmt.Sprintf("%s\n%s was killed meanwhile: %t\n%s", w.last(), role, killed, r)
	switch {
	case r.Code == s.code:
		w.agree(s.after, said)
	case killed: // it is done, or nothing is
		w.either(s.after, w.model, said)
	default:
		w.fail("%s\nwant exit code %d", said, s.code)
	}
	if s.undone && r.Code == s.code {
		s.undo.settle()
		r := w.rlminit("", "rollback", "--allow-delete", "--steady", "10ms", "--exit-zero")
		if r.Code != 0 {
			w.fail("rollback: %s", r)
		}
		w.agree(s.undo, "rollback: "+r.String())
	}
}

// run runs the verb of a step.
func (w *world) run(s step) box.Result {
	switch {
	case s.file != "":
		return w.apply(s)
	case s.editor != "":
		return w.shell(box.Service, fmt.Sprintf("cd %[1]s; cat >editor <<'END'\n#!/bin/sh\ncat >\"$1\" <<'TEXT'\n%[2]sTEXT\nEND\nchmod +x editor; EDITOR=%[1]s/editor VISUAL= rlminit %[3]s", w.Home(), s.editor, quoted(s.argv)))
	case slices.Contains(s.argv, "|"):
		return w.shell(box.Root, "set -o pipefail; rlminit "+strings.Replace(quoted(s.argv), "'|'", "-o - | rlminit", 1))
	}
	return w.rlminit(s.in, s.argv...)
}

// apply plans the set of a step, and applies the plan.
func (w *world) apply(s step) box.Result {
	return w.shell(box.Service, fmt.Sprintf("cd %s; cat >set.yaml <<'END'\n%sEND\nrlminit plan -f set.yaml --scope profile/%s --out plan.json >plan.txt\n"+
		`rlminit %s plan.json --approve "$(grep -o 'sha256:[0-9a-f]*' plan.txt | tail -n 1)"`, w.Home(), s.file, s.of, quoted(s.argv)))
}

func quoted(argv []string) string {
	var words []string
	for _, word := range argv {
		words = append(words, "'"+word+"'")
	}
	return strings.Join(words, " ")
}

func (w *world) rlminit(in string, argv ...string) box.Result {
	line := "rlminit " + quoted(argv)
	if in != "" {
		line = "printf %s '" + in + "' | " + line
	}
	w.script = append(w.script, line)
	return w.exec(box.Service, in, append([]string{"rlminit"}, argv...)...)
}

func (w *world) shell(user box.User, script string) box.Result {
	w.script = append(w.script, script)
	return w.exec(user, "", "bash", "-c", script)
}

// exec runs a command, which L6 has end: nobody waits for ever.
func (w *world) exec(user box.User, in string, argv ...string) box.Result {
	argv = append([]string{"timeout", "60"}, argv...)
	r, err := w.Exec(user, strings.NewReader(in), argv)
	if err != nil {
		w.fail("%v", err)
	}
	if r.Code == 124 {
		w.fail("%q has no answer within a minute: %s", argv, r)
	}
	return r
}

func (w *world) last() string { return w.script[len(w.script)-1] }

// fail prints the steps that came to this.
func (w *world) fail(format string, args ...any) {
	if fault.steps == 0 {
		said := fmt.Sprintf(format, args...)
		for _, word := range []string{"neither done:", "want exit code"} { // what was done comes before
			if at := strings.Index(said, word); at >= 0 {
				said = said[at:]
			}
		}
		said, _, _ = strings.Cut(said, "{") // what follows is JSON
		fault.steps, fault.at, fault.said = steps, time.Now(), strings.Join(strings.Fields(said), " ")
	}
	w.Fatalf("%s\nmodel:\n%s\nscript:\n%s\nprinted:\n%s", fmt.Sprintf(format, args...), w.model, strings.Join(w.script, "\n"), box.Tail(w.Printed()))
}

// kill kills the supervisor or the file helper.
func (w *world) kill(role string, after time.Duration) {
	time.Sleep(after)
	r, err := w.Exec(box.Root, nil, []string{"bash", "-c", `for p in /proc/[0-9]*; do grep -qsz '^` + role + `' $p/cmdline && grep -qs 'PPid:.1$' $p/status && kill -9 ${p#/proc/}; done; true`})
	if err != nil || r.Code != 0 {
		w.Logf("%s could not be killed: %v %s", role, err, r)
	}
}
