package profiles

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"rlminit/config"
	"rlminit/service"
)

func TestPortsFollowTheDesign(t *testing.T) {
	// sha256sum: alice 2bd806c9…, bob 81b637d8…
	r := PortRange{First: 9200, Last: 9799}
	for name, want := range map[string]int{"alice": 9200 + 0x2bd806c9%600, "bob": 9200 + 0x81b637d8%600} {
		if got := r.Preferred(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestPortsAreUniqueStableAndFreedWithTheProfile(t *testing.T) {
	small := func(s *Settings) { s.Ports = PortRange{First: 9000, Last: 9002} }
	v := newVolume(t, small)
	ports := map[int]string{}
	byName := map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		p := v.create(name, Creation{})
		if owner, twice := ports[p.Port]; twice || p.Port < 9000 || p.Port > 9002 {
			t.Errorf("%s has %d, so has %q", name, p.Port, owner)
		}
		ports[p.Port], byName[name] = name, p.Port
	}
	if p := v.create("d", Creation{}); p.Port != 0 || v.said("profile d has no port: all of 9000-9002 are taken") != 1 {
		t.Errorf("port %d, said %q", p.Port, v.told)
	}
	v.reopen(small)
	for name, p := range v.list() {
		if p.Port != byName[name] {
			t.Errorf("%s: %d, was %d", name, p.Port, byName[name])
		}
	}
	if _, err := v.Delete("b", true, nil); err != nil {
		t.Fatal(err)
	}
	if p := v.create("e", Creation{}); p.Port != byName["b"] {
		t.Errorf("the freed port is not used: %d", p.Port)
	}
	// Gone by other means.
	if err := os.RemoveAll(v.path("profiles/a")); err != nil {
		t.Fatal(err)
	}
	if p := v.list()["d"]; p.Port != byName["a"] || !p.Unrecorded {
		t.Errorf("who had none does not get the freed port: %+v", p)
	}
}

func TestACopiedProfileGetsAPortOfItsOwn(t *testing.T) {
	v := newVolume(t, nil)
	for _, name := range []string{"zoe", "copy"} { // "copy" comes first in the list
		v.write("profiles/"+name+"/profile.yaml", "")
		v.write("profiles/"+name+"/gateway_state.json", `{"version":1,"profile":"zoe","desired_state":"stopped","port":9471}`)
	}
	list := v.list()
	if list["zoe"].Port != 9471 || list["zoe"].Unrecorded {
		t.Errorf("%+v", list["zoe"])
	}
	if p := list["copy"]; p.Port == 9471 || p.Port == 0 || !p.Unrecorded {
		t.Errorf("%+v", p)
	}
	must(t, v.Records.SaveIntent("copy", service.IntentNone))
	want := fmt.Sprintf(`"profile":"copy","desired_state":"stopped","gateway_state":"stopped","pid":0,"start_time":0,"port":%d`, list["copy"].Port)
	if got := v.read("profiles/copy/gateway_state.json"); !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
}

// A port that was recorded stays, whatever becomes of the range.
func TestARecordedPortOutsideTheRangeIsKept(t *testing.T) {
	v := newVolume(t, nil)
	v.write("profiles/alice/profile.yaml", "")
	v.write("profiles/alice/gateway_state.json", `{"profile":"alice","port":80}`)
	v.write("profiles/bob/profile.yaml", "")
	v.write("profiles/bob/gateway_state.json", `{"profile":"bob","port":99999}`)
	list := v.list()
	if list["alice"].Port != 80 || list["bob"].Port < 9200 {
		t.Errorf("%d %d", list["alice"].Port, list["bob"].Port)
	}
}

func TestNoRangeNoPort(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.Ports = PortRange{} })
	if p := v.create("alice", Creation{}); p.Port != 0 || len(v.told) != 0 {
		t.Errorf("port %d, said %q", p.Port, v.told)
	}
}

// A port that was asked for and that no profile is to have is refused before anything is
// made; one that something else has is given to nobody.
func TestPortsThatOthersHave(t *testing.T) {
	v := newVolume(t, func(s *Settings) {
		s.Ports, s.Held = PortRange{First: 9200, Last: 9202}, map[int]string{9201: `service "web"`, 80: "metrics.listen"}
	})
	for want, how := range map[string]Creation{
		`port 9201 belongs to service "web"`:                                                   {Port: 9201},
		"port 80 belongs to metrics.listen":                                                    {Port: 80, PortAny: true},
		"port 9203 is not in gateway.ports, 9200-9202; choose one of those, or add --port-any": {Port: 9203},
		"port 70000 is not in 1-65535":                                                         {Port: 70000, PortAny: true},
	} {
		if _, made, err := v.Create("alice", how); err == nil || made || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", how, err, want)
		}
	}
	if _, err := os.Stat(v.path("profiles/alice")); !os.IsNotExist(err) {
		t.Errorf("a refused profile is there: %v", err)
	}
	given := map[int]bool{}
	for _, name := range []string{"a", "b", "c"} {
		given[v.create(name, Creation{}).Port] = true
	}
	if len(given) != 3 || !given[9200] || !given[9202] || !given[0] {
		t.Errorf("given were %v", given)
	}
}

func TestPortsOfAConfiguration(t *testing.T) {
	c, faults := config.Parse(config.Bundle{Path: "/c", Files: []config.File{{Name: "c", Data: []byte(`version: 1
metrics: {listen: "tcp:127.0.0.1:9100"}
page: {listen: "127.0.0.1:9118", token: {file: /t}}
gateway: {command: [a]}
services:
  web: {command: [a], sockets: [{listen: "tcp6:[::1]:9301"}, {listen: "udp:127.0.0.1:9302"}, {listen: "unix:/x"}]}
`)}}}, nil)
	want := map[int]string{9100: "metrics.listen", 9118: "page.listen", 9301: `service "web"`}
	if got := SettingsOf(c).Held; len(faults) > 0 || !maps.Equal(got, want) {
		t.Errorf("%v: got %v, want %v", faults, got, want)
	}
}
