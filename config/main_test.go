package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"rlminit/service"
)

func TestRouting(t *testing.T) {
	m := Main{Definition: *service.Default("main")}
	m.Command = []string{"agent", "--tui"}
	m.Subcommands = []string{"test"}
	m.Routes = []Route{
		{Args: []string{"gateway", "run"}, UnlessArg: "--no-supervise", UnlessEnv: "NO_SUPERVISE", Start: "default", Wait: true},
		{Args: []string{"doctor"}, ProfilesOff: true},
		{Args: []string{"also"}, Start: "web"},
	}
	programs := func(word string) bool { return slices.Contains([]string{"sh", "test", "/bin/ls", "-x"}, word) }
	for _, c := range []struct {
		args string
		env  vars
		want Run
	}{
		{"", nil, Run{Argv: []string{"agent", "--tui"}, Profiles: true}},
		{"sh -c x", nil, Run{Argv: []string{"sh", "-c", "x"}, Profiles: true}},
		{"/bin/ls", nil, Run{Argv: []string{"/bin/ls"}, Profiles: true}},
		{"--version", nil, Run{Argv: []string{"agent", "--tui", "--version"}, Profiles: true}},
		{"-x", nil, Run{Argv: []string{"agent", "--tui", "-x"}, Profiles: true}},
		{"chat now", nil, Run{Argv: []string{"agent", "--tui", "chat", "now"}, Profiles: true}},
		{"test it", nil, Run{Argv: []string{"agent", "--tui", "test", "it"}, Profiles: true}}, // though test is a program
		{"gateway run", nil, Run{Start: "default", Wait: true, Profiles: true}},
		{"gateway run -v", nil, Run{Start: "default", Wait: true, Profiles: true}},
		{"gateway run --no-supervise", nil, Run{Argv: strings.Fields("agent --tui gateway run --no-supervise"), Profiles: true}},
		{"gateway run", vars{"NO_SUPERVISE": "1"}, Run{Argv: strings.Fields("agent --tui gateway run"), Profiles: true}},
		{"gateway run", vars{"NO_SUPERVISE": "please"}, Run{Argv: strings.Fields("agent --tui gateway run"), Profiles: true}},
		{"gateway run", vars{"NO_SUPERVISE": "false"}, Run{Start: "default", Wait: true, Profiles: true}},
		{"gateway", nil, Run{Argv: strings.Fields("agent --tui gateway"), Profiles: true}},
		{"doctor --fix", nil, Run{Argv: strings.Fields("agent --tui doctor --fix")}},
		{"also", nil, Run{Argv: strings.Fields("agent --tui also"), Start: "web", Profiles: true}},
	} {
		got := m.Resolve(strings.Fields(c.args), programs, c.env.lookup)
		if !slices.Equal(got.Argv, c.want.Argv) || got.Start != c.want.Start || got.Wait != c.want.Wait || got.Profiles != c.want.Profiles {
			t.Errorf("%q: %+v, want %+v", c.args, got, c.want)
		}
	}
	none := Main{}
	if got := none.Resolve([]string{"missing", "x"}, programs, nil); !slices.Equal(got.Argv, []string{"missing", "x"}) {
		t.Errorf("without main.command the arguments are the command: %+v", got)
	}
	if got := none.Resolve(nil, programs, nil); got.Argv != nil {
		t.Errorf("neither arguments nor command: %+v", got)
	}
}

// Routes for no arguments, and for a program of its own.
func TestRoutesOfNoArgumentsAndPrograms(t *testing.T) {
	const text = `version: 1
main:
  command: [agent]
  subcommands: [test]
  exit_on: web
  routes: [{args: [], then: wait}, {args: [ps, aux], start: web}, {program: true, alone: true}]
services: {web: {command: [web]}}
`
	programs := func(word string) bool { return slices.Contains([]string{"sh", "test", "ps"}, word) }
	for args, want := range map[string]struct {
		argv, with string
		alone      bool
	}{
		"":       {"", "web", false},
		"sh -c":  {"sh -c", "", true},
		"test x": {"agent test x", "web", false},
		"chat":   {"agent chat", "web", false},
		"ps aux": {"ps aux", "web", false},
		"ps":     {"ps", "", true},
	} {
		c := parsed(t, nil, text)
		run := c.Main.Resolve(strings.Fields(args), programs, nil)
		before := *c
		c.Carry(run)
		if !before.Services["web"].Enabled || before.Services["web"].Restart.Policy == service.RestartOnFailure {
			t.Errorf("%q: what was copied is changed too: %+v", args, before.Services["web"])
		}
		if got := strings.Join(run.Argv, " "); got != want.argv || c.livesWith != want.with || run.Alone != want.alone ||
			run.Profiles == want.alone || c.Services["web"].Enabled == want.alone {
			t.Errorf("%q: %+v, with %q, web %v", args, run, c.livesWith, c.Services["web"].Enabled)
		}
	}
	c := parsed(t, nil, "version: 1\nmain: {routes: [{args: [], then: wait}], command: [x]}\n")
	if run := c.Main.Resolve(nil, programs, nil); run.Argv != nil || !run.Wait || run.LivesWith("") != "" {
		t.Errorf("%+v", run)
	}
}

func TestExecutable(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "text", "x")
	for word, want := range map[string]bool{
		"sh": true, "/bin/sh": true, "no-such-program": false, "": false, dir: false, dir + "/text": false, "text": false, "/": false,
	} {
		if got := Executable(word, "/nowhere:/usr/bin:/bin:"+dir); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
}

// What is optional in main and expands to nothing is as if it were not there.
func TestMainWithEmptyFields(t *testing.T) {
	const text = `version: 1
user: app
main:
  command: [a]
  user: "${X:-}"
  group: "${X:-}"
  working_dir: "${X:-}"
  umask: "${X:-}"
  exit_on: "${X:-}"
  restart: "${X:-}"
  routes: [{args: [b], unless: {arg: "${X:-}", env: "${X:-}"}, start: "${X:-}"}]
`
	c := parsed(t, nil, text)
	want := parsed(t, nil, "version: 1\nuser: app\nmain: {command: [a], routes: [{args: [b]}]}\n")
	if !reflect.DeepEqual(c.Main, want.Main) {
		t.Errorf("got  %+v\nwant %+v", c.Main, want.Main)
	}
	for line, fault := range map[string]string{
		`exit_on: "${X}"`:     `rlminit.yaml:2: main.exit_on: ${X} is not set; set X, or write ${X:-default}`,
		`exit_on: "${Y}"`:     `rlminit.yaml:2: main.exit_on: no service "web"`,
		`working_dir: "${Y}"`: `rlminit.yaml:2: main.working_dir: "web" (from "${Y}") is no absolute path; write /web`,
		`routes: [{args: [x], start: "", then: wait}]`: `rlminit.yaml:2: main.routes[0]: then: wait has nothing to wait for; add start: NAME`,
	} {
		_, faults := Parse(bundle("version: 1\nmain: {"+line+"}\n"), vars{"Y": "web"}.lookup)
		if got := faults.Error(); !strings.HasPrefix(got, fault) {
			t.Errorf("%s\n got %s\nwant %s", line, got, fault)
		}
	}
}

// TestRestartByDefault: what is wanted runs, whatever code it ended with, but
// for what must be able to end: oneshots, and what the container ends with.
func TestRestartByDefault(t *testing.T) {
	const text = `version: 1
main:
  exit_on: db
  routes: [{args: [serve], start: web, then: wait}, {args: [chat], start: web}, {args: [one], start: default, then: wait}]
gateway: {command: [gw], default: {}}
services:
  db: {command: [db]}
  web: {command: [web], restart: {delay: 1s}}
  said: {command: [said], restart: no}
  once: {command: [once], type: oneshot}
`
	for args, want := range map[string]map[string]service.RestartPolicy{
		"":      {"db": "on-failure", "web": "always", "said": "no", "once": "on-failure"},
		"serve": {"db": "always", "web": "on-failure", "said": "no", "once": "on-failure"},
		"chat":  {"db": "on-failure", "web": "always"},
		"one":   {"db": "always", "web": "always", "gateway-default": "on-failure", "gateway-alice": "always"},
	} {
		c := parsed(t, nil, text)
		c.Carry(c.Main.Resolve(strings.Fields(args), func(string) bool { return false }, nil))
		for name, policy := range want {
			d := c.Services[name]
			if profile, ok := strings.CutPrefix(name, service.GatewayPrefix); ok {
				d, _ = c.ProfileDefinition(Profile{Name: profile, Dir: "/data"}, "profile.yaml", nil)
			}
			if d.Restart.Policy != policy {
				t.Errorf("arguments %q: %s has restart: %s, want %s", args, name, d.Restart.Policy, policy)
			}
		}
	}
}
