package service

import (
	"slices"
	"strings"
	"testing"

	"rlminit/isolate"
)

// Each fault names what would be right.
func TestIsolationFaults(t *testing.T) {
	for text, want := range map[string]string{
		"isolation: full":                                    "did you mean",
		"isolation: {read: [/srv]}":                          "the lists have no effect without a level",
		"isolation: {level: profile, read: [srv]}":           "is no absolute path",
		"isolation: {level: profile, write: [/]}":            "/ contains everything that isolation hides",
		"isolation: {level: profile, read: ['/srv/*']}":      "patterns are not supported here",
		"isolation: {level: strict, connect: [9010-9000]}":   "begins above its end; write 9000-9010",
		"isolation: {level: strict, connect: [66000]}":       "is no port",
		"isolation: {level: strict, bind: [http]}":           "is no port",
		"isolation: {level: strict, bind: ['1-65535']}":      "or write any",
		"isolation: {level: strict, ports: [80]}":            "unknown key",
		"isolation: profile\nsandbox: {no_new_privs: false}": "needs no_new_privs",
		"secrets: [a]":                "is a list",
		"secrets: {TOKEN: abc}":       "is no mapping",
		"secrets: {TOKEN: {}}":        "file is missing",
		"secrets: {../x: {file: /x}}": "is no name for a secret",
		"secrets: {'.x': {file: /x}}": "is no name for a secret",
		"secrets: {TOKEN: {file: x}}": "is no absolute path",
	} {
		_, faults := Decode("f", "web", []byte("command: [x]\n"+text+"\n"), vars)
		if got := faults.Error(); !strings.Contains(got, want) && !(want == "did you mean" && strings.Contains(got, "strict")) {
			t.Errorf("%s\n got %s\nwant … %s", text, got, want)
		}
	}
}

// The lists that are in force where none are written.
func TestPortsInForce(t *testing.T) {
	listed := &isolate.Ports{Ranges: []isolate.Range{{Low: 80, High: 80}}}
	own := isolate.Range{Low: 9200, High: 9200}
	for _, c := range []struct {
		about         string
		i             Isolation
		own           int
		connect, bind isolate.Ports
	}{
		{"profile", Isolation{Level: isolate.Profile}, 9200, isolate.Ports{Any: true}, isolate.Ports{Any: true}},
		{"strict", Isolation{Level: isolate.Strict}, 9200, isolate.Ports{}, isolate.Ports{Ranges: []isolate.Range{own}}},
		{"strict without a port", Isolation{Level: isolate.Strict}, 0, isolate.Ports{}, isolate.Ports{}},
		{"profile with a list", Isolation{Level: isolate.Profile, Bind: listed}, 9200, isolate.Ports{Any: true}, isolate.Ports{Ranges: []isolate.Range{{Low: 80, High: 80}, own}}},
	} {
		connect, bind := c.i.Ports(c.own)
		if connect.Any != c.connect.Any || bind.Any != c.bind.Any || !slices.Equal(connect.Ranges, c.connect.Ranges) || !slices.Equal(bind.Ranges, c.bind.Ranges) {
			t.Errorf("%s: %v, %v", c.about, connect, bind)
		}
	}
	if len(listed.Ranges) != 1 {
		t.Error("the definition was changed")
	}
}

// A profile's own file takes away, and is told what it asked for too much.
func TestOverrideOnlyIsolatesMore(t *testing.T) {
	base := func(text string) *Definition {
		d, faults := Decode("rlminit.yaml", "gateway-alice", []byte("command: [x]\nisolation: "+text+"\n"), vars)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return d
	}
	for _, c := range []struct{ gateway, profile, fault string }{
		{"none", "strict", ""},
		{"profile", "strict", ""},
		{"profile", "profile", ""},
		{"profile", "none", "none is below the gateway's profile"},
		{"strict", "profile", "profile is below the gateway's strict"},
		{"none", "{level: profile, write: [/srv]}", ""},
		{"{level: profile, write: [/srv]}", "{write: [/srv/a], read: [/srv/b]}", ""},
		{"{level: profile, write: [/srv]}", "{write: []}", ""},
		{"{level: profile, read: [/srv]}", "{write: [/srv]}", `isolation.write: "/srv" is more than the gateway has`},
		{"{level: profile, read: [/srv]}", "{read: [/srvx]}", `isolation.read: "/srvx" is more than the gateway has`},
		{"profile", "{exec: [/opt]}", "which is nothing"},
		{"profile", "{connect: [443]}", ""},
		{"{level: profile, connect: [443]}", "{connect: any}", "isolation.connect: names ports that the gateway does not have"},
		{"{level: strict, bind: [80-90]}", "{bind: [85-95]}", "isolation.bind: names ports"},
		{"{level: strict, bind: [80-90]}", "{bind: [85-86]}", ""},
	} {
		d, faults := Override(base(c.gateway), "p", []byte("isolation: "+c.profile+"\n"), vars)
		switch got := faults.Error(); {
		case c.fault == "" && len(faults) > 0, c.fault != "" && !strings.Contains(got, c.fault):
			t.Errorf("%s, then %s\n got %s\nwant %s", c.gateway, c.profile, got, c.fault)
		case c.fault == "" && !d.Isolation.Wanted():
			t.Errorf("%s, then %s: not isolated", c.gateway, c.profile)
		}
	}
}
