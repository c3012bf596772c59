package config

import (
	"slices"
	"strings"
	"testing"
)

const kindsExample = `version: 1
user: app
services: {redis: {command: [redis]}, db: {command: [db], after: [gateway-ring]}}
gateway: {command: [agent], ports: 9300-9399}
gateways:
  web: {command: [web, "${PORT}"], template: /skel, requires: [redis], health: {tcp: ":${PORT}"}}
  worker: {command: [worker], ports: off, initial_state: stopped}
  script: {command: any, profiles: [team-*]}
  nightly: {type: oneshot, command: [backup], schedule: {cron: "@daily"}}
`

func TestKinds(t *testing.T) {
	c := parsed(t, nil, kindsExample)
	if names := c.Gateway.KindNames(); !slices.Equal(names, []string{"default", "nightly", "script", "web", "worker"}) {
		t.Fatalf("the kinds are %v", names)
	}
	if k := c.Gateway.Kinds["web"]; k.Template != "/skel" || c.Gateway.PortsOf(k) != (Range{9300, 9399}) {
		t.Errorf("web: %+v", k)
	}
	if k := c.Gateway.Kinds["worker"]; c.Gateway.PortsOf(k).Size() != 0 || k.InitialState != "stopped" {
		t.Errorf("worker: %+v", k)
	}
	for _, x := range []struct{ profile, text, command, fault string }{
		{"a", "", "agent", ""},
		{"a", "kind: default\n", "agent", ""},
		{"a", "kind: web\n", "web 9301", ""},
		{"a", "kind: web\nrequires: none\ncommand: [b]\n", "b", ""},
		{"a", "kind: web\nrequires: [db, gateway-b]\nenv_file: ['?/x']\n", "web 9301", ""},
		{"a", "kind: nightly\n", "backup", ""},
		{"team-a", "kind: script\ncommand: [x]\n", "x", ""},

		{"team-a", "kind: script\n", "", "p:1: command is missing; write command: [prog, arg]"},
		{"a", "kind: script\ncommand: [x]\n", "", `p:1: kind: "script" is not for this profile: gateways.script.profiles allows team-*`},
		{"a", "# x\nkind: wep\n", "", `p:2: kind: no kind "wep"; did you mean "web"?`},
		{"a", "kind: none\n", "", `p:1: kind: no kind "none"; the kinds here are default, nightly, script, web, worker`},
		{"a", "kind:\n", "", "p:1: kind: is empty, which changes nothing; write a value, or take it out"},
		{"a", "requires: [rediss]\n", "", `p:1: requires: no service "rediss"; did you mean "redis"?`},
		{"a", "wants: [b]\n", "", `p:1: wants: no service "b"; did you mean "db"?`},
		{"a", "after: [alice]\n", "", `p:1: after: no service "alice"; the gateway of a profile is gateway-NAME`},
		{"a", "after: [gateway-a]\n", "", `p:1: after: a service cannot depend on itself; take "gateway-a" out`},
		{"a", "kind: nightly\nschedules: {s: {cron: '61 * * * *', command: [x]}}\n", "", "p:2: schedules.s.cron: "},
		{"a", "schedules: {s: {cron: '0 0 30 2 *', command: [x]}}\n", "", "p:1: schedules.s.cron: "},
		{"a", "env_file: [x]\n", "", `p:1: env_file[0]: "x" is no absolute path; write one, such as ${RLMINIT_HOME}/x on the volume`},
		{"a", "secrets: {a: {file: /data/profiles/b/secret}}\n", "", "p:1: secrets: a profile may not set it; it belongs in rlminit.yaml"},
	} {
		d, faults := c.ProfileDefinition(Profile{Name: x.profile, Dir: "/data/profiles/" + x.profile, Port: 9301}, "p", []byte(x.text))
		if x.fault != "" {
			if len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), x.fault) {
				t.Errorf("%q\n got %v\nwant %s", x.text, faults, x.fault)
			}
			continue
		}
		if len(faults) > 0 || strings.Join(d.Command, " ") != x.command {
			t.Errorf("%q: %v %v", x.text, d.Command, faults)
		}
	}
}

// Faults of kinds stand at their own lines, and name their sections.
func TestFaultsOfKinds(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"gateways: {web: {command: [a], user: auto}}", "2: gateways.web.user: holds for all kinds; it belongs in gateway"},
		{"gateways: {web: {command: [a], default: {}}}", "2: gateways.web.default: holds for all kinds; it belongs in gateway"},
		{"gateways: {web: {}}", "2: gateways.web: command is missing; write command: [prog, arg]"},
		{"gateways: {web: null}", "2: gateways.web: is empty; write {command: [prog, arg]}"},
		{"gateways: {web: [a]}", "2: gateways.web: is a list; write a mapping, key: value\n2: gateways.web: command is missing; write command: [prog, arg]"},
		{"gateways: {default: {command: [a]}}", `2: gateways.default: the name "default" is taken: the section gateway is the kind default; give this one another name`},
		{"gateways: {Web: {command: [a]}}", `2: gateways.Web: the name "Web" is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit`},
		{"gateways: {web: {command: [a], requires: [db]}}", `2: gateways.web.requires: no service "db"`},
		{"gateways: {web: {command: [a], profiles: []}}", "2: gateways.web.profiles: is empty; write the names of profiles, which may be patterns, such as [team-*]"},
		{"gateways: {web: {command: [a], profiles: ['[']}}", `2: gateways.web.profiles[0]: "[" is no pattern; write a name, or one such as team-*`},
		{"gateways: {web: {command: [a]}}\ngateway: {environment: {A: b}}", "3: gateway.environment: without a command the section is no gateway, and says only what holds for all kinds; add command, or move it to one of gateways"},
		{"gateway: {ports: off}", "2: gateway: command is missing; write command: [prog, arg]"},
		{"gateways: {web: {command: [a], schedule: {cron: '@daily'}}}", "2: gateways.web.schedule: needs type: oneshot; a daemon always runs"},
	} {
		_, faults := Parse(Bundle{Path: DefaultPath, Files: []File{{Name: "rlminit.yaml", Data: []byte("version: 1\n" + x.text + "\n")}}}, nil)
		var got []string
		for _, f := range faults {
			got = append(got, strings.TrimPrefix(f.Error(), "rlminit.yaml:"))
		}
		if is := strings.Join(got, "\n"); is != x.want {
			t.Errorf("%s\n got %s\nwant %s", x.text, is, x.want)
		}
	}
	parsed(t, nil, "version: 1\nuser: app\ngateway: {ports: 9300-9309, marker: x}\ngateways: {web: {command: [a]}}\n")
}
