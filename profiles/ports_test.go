package profiles

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rlminit/service"
)

func TestPortsFollowTheDesign(t *testing.T) {
	// sha256sum: alice 2bd806c9…, bob 81b637d8…
	r := PortRange{9200, 9799}
	for name, want := range map[string]int{"alice": 9200 + 0x2bd806c9%600, "bob": 9200 + 0x81b637d8%600} {
		if got := r.preferred(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestPortsAreUniqueStableAndFreedWithTheProfile(t *testing.T) {
	small := func(s *Settings) { s.Ports = PortRange{9000, 9002} }
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
	must(t, v.Records.SaveIntent(Gateway("copy"), service.IntentNone))
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
