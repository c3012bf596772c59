package profiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rlminit/config"
	"rlminit/service"
)

// configured is a configuration for the volume's home.
func configured(t testing.TB, home string) *config.Config {
	t.Helper()
	text := `version: 1
user: app
home: ` + home + `
inherit_env: ["*", "!SECRET_*"]
gateway:
  marker: SOUL.md
  found_state: running
  ports: 9000-9099
  remove_at_boot: [gateway.pid]
  command: [agent, --profile, "${PROFILE}", --port, "${PORT}", --dir, "${PROFILE_DIR}"]
  environment: {MODE: "${MODE:-plain}", TEAM: red}
  limits: {nofile: 100}
  default: {command: [agent, main]}
services:
  dashboard: {command: [agent, dashboard]}
`
	vars := map[string]string{"MODE": "fast", "SECRET_KEY": "s", "PUBLIC": "p"}
	cfg, faults := config.Parse(config.Bundle{Path: "rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: []byte(text)}}},
		func(name string) (string, bool) { value, ok := vars[name]; return value, ok })
	must(t, faults.Err())
	return cfg
}

func configuredVolume(t *testing.T) (*volume, *config.Config) {
	t.Helper()
	v := newVolume(t, nil)
	cfg := configured(t, v.home)
	v.Configure(SettingsOf(cfg))
	return v, cfg
}

func TestSettingsOf(t *testing.T) {
	s := SettingsOf(configured(t, t.TempDir()))
	if s.Marker != "SOUL.md" || s.StateFile != "gateway_state.json" || s.InitialState != service.Running || !s.Default ||
		s.Ports != (PortRange{First: 9000, Last: 9099}) || !slices.Equal(s.Services, []string{"dashboard"}) || !slices.Equal(s.RemoveAtBoot, []string{"gateway.pid"}) {
		t.Errorf("%+v", s)
	}
	v := newVolume(t, nil)
	v.Configure(SettingsOf(&config.Config{}))
	v.write("profiles/alice/profile.yaml", "")
	if list := v.list(); len(list) != 0 {
		t.Errorf("profiles without a gateway section: %v", list)
	}
}

func TestDefinitionIsTheTemplateWithTheProfilesChanges(t *testing.T) {
	v, cfg := configuredVolume(t)
	p := v.create("alice", Creation{Port: 9007, Environment: map[string]string{"TEAM": "${PUBLIC}", "OWN": "1"}})
	d, err := p.Definition(cfg)
	must(t, err)
	if want := []string{"agent", "--profile", "alice", "--port", "9007", "--dir", v.path("profiles/alice")}; !slices.Equal(d.Command, want) {
		t.Errorf("command %q", d.Command)
	}
	if d.Name != "gateway-alice" || d.Profile != "alice" || d.Port != 9007 || d.WorkingDir != p.Dir {
		t.Errorf("%+v", d)
	}
	// --env takes values as they are; what is in the file by hand is expanded.
	if d.Environment["MODE"].Text != "fast" || d.Environment["TEAM"].Text != "${PUBLIC}" || d.Environment["OWN"].Text != "1" {
		t.Errorf("environment %v", d.Environment)
	}
	v.write("profiles/alice/profile.yaml", "environment: {TEAM: \"${PUBLIC}-${PROFILE}\"}\ncommand: [other]\n")
	p, err = v.Load("alice")
	must(t, err)
	if d, err = p.Definition(cfg); err != nil || d.Environment["TEAM"].Text != "p-alice" || !slices.Equal(d.Command, []string{"other"}) {
		t.Errorf("%+v %v", d, err)
	}
	if d, err := v.list()["default"].Definition(cfg); err != nil || !slices.Equal(d.Command, []string{"agent", "main"}) || d.WorkingDir != v.home {
		t.Errorf("%+v %v", d, err)
	}
}

func TestABrokenProfileFailsAloneAndSaysWhere(t *testing.T) {
	v, cfg := configuredVolume(t)
	for _, name := range []string{"good", "user", "unknown", "secret", "bomb", "limit"} {
		v.create(name, Creation{})
	}
	v.write("profiles/user/profile.yaml", "# mine\nuser: root\n")
	v.write("profiles/unknown/profile.yaml", "enviroment: {}\nrestrat: no\n")
	v.write("profiles/secret/profile.yaml", "environment: {X: \"${SECRET_KEY}\"}\n")
	v.write("profiles/bomb/profile.yaml", "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n")
	v.write("profiles/limit/profile.yaml", "limits: {nofile: 101}\n")
	want := map[string]string{
		"user":    "profile.yaml:2: user: a profile may not set it",
		"unknown": `profile.yaml:1: unknown key "enviroment"; did you mean "environment"? (and 1 more)`,
		"secret":  "profile.yaml:1: environment.X: ${SECRET_KEY} is not set",
		"bomb":    "profile.yaml:1: ",
		"limit":   "profile.yaml:1: limits.nofile: ",
	}
	for name, p := range v.list() {
		d, err := p.Definition(cfg)
		if want[name] == "" {
			if err != nil || d.Name != "gateway-"+name {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(Reason(err), p.Dir+"/"+want[name]) || strings.Contains(Reason(err), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADefinitionOfAFaultyProfileIsItsFault(t *testing.T) {
	v, cfg := configuredVolume(t)
	must(t, os.Symlink("/etc", v.path("profiles/link")))
	p := v.list()["link"]
	if _, err := p.Definition(cfg); err == nil || err != p.Fault {
		t.Errorf("%v", err)
	}
	if len(p.Environment()) != 0 {
		t.Errorf("%v", p.Environment())
	}
}

// A full range is said, and fails only a profile that needs its port.
func TestWithoutAPortTheReasonSaysSo(t *testing.T) {
	v, cfg := configuredVolume(t)
	s := SettingsOf(cfg)
	s.Ports, s.Default = PortRange{First: 9000, Last: 9000}, false
	v.Configure(s)
	v.create("alice", Creation{})
	p := v.create("bob", Creation{})
	if _, err := p.Definition(cfg); err == nil || !strings.HasPrefix(err.Error(), "profile bob has no port: all of 9000-") {
		t.Errorf("got %v", err)
	}
	if v.said("profile bob has no port: all of 9000-9000 are taken; widen gateway.ports") != 1 {
		t.Errorf("said %q", v.told)
	}
	v.write("profiles/bob/profile.yaml", "command: [agent]\n")
	if _, err := os.Stat(filepath.Join(p.Dir, "SOUL.md")); err != nil {
		t.Error(err)
	}
}

// A profile of a kind that is not there keeps its port, and gets none.
func TestNoKindNoPort(t *testing.T) {
	v := newVolume(t, func(s *Settings) {
		s.Kinds = map[string]Beginning{"off": {}, "on": {Range: PortRange{First: 9500, Last: 9509}}}
	})
	v.create("had", Creation{Kind: "on"})
	v.create("none", Creation{Kind: "off"})
	had := v.list()["had"].Port
	if had < 9500 || had > 9509 || v.list()["none"].Port != 0 {
		t.Fatalf("ports %d and %d", had, v.list()["none"].Port)
	}
	settings := *v.tree.settings.Load()
	settings.Kinds = nil
	v.Configure(settings)
	if list := v.list(); list["had"].Port != had || list["none"].Port != 0 {
		t.Errorf("without the kinds: ports %d and %d", list["had"].Port, list["none"].Port)
	}
}
