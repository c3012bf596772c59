package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"gopkg.in/yaml.v3"

	"rlminit/control"
)

func TestFormats(t *testing.T) {
	alice, port := "alice", 9246
	services := []control.Service{
		{Name: "gateway-alice", Profile: &alice, State: "running", Desired: "running", Verdict: "ok", Port: &port},
		{Name: "web", State: "failed", Desired: "running", Verdict: "ill"},
	}
	tell(t, map[string]any{
		"GET /v1/services": services, "GET /v1/services/web": services[1],
		"GET /v1/health": control.Health{OK: true}, "GET /v1/profiles": []control.Profile{{Name: "alice"}, {Name: "bob"}},
	}, []story{
		{args: []string{"status", "-o", "name"}, out: "gateway-alice\nweb\n"},
		{args: []string{"status", "--state", "ill", "-o", "name"}, out: "web\n"},
		{args: []string{"status", "--state", "failed", "-o", "name"}, out: "web\n"},
		{args: []string{"status", "--state", "off", "-o", "name"}},
		{args: []string{"status", "--state", "off", "--json", "-o", "wide"}, out: "[]\n"},
		{args: []string{"status", "--state", "off", "-o", "wide", "--json"}, out: "[]\n"},
		{args: []string{"status", "--state", "off"}},
		{args: []string{"status", "--state", "ill", "-q"}, code: 3},
		{
			args: []string{"status", "--state", "sick"}, code: 2,
			err: "rlminit: no state \"sick\"; a service is stopped, waiting, starting, running, stopping, backoff, failed, exited, unhealthy, outdated, ok, pending, ill, off\n",
		},
		{
			args: []string{"status", "--state", "ill", "web"}, code: 2,
			err: "rlminit: --kind and --state cannot be combined with names such as \"web\"; see rlminit help status\n",
		},
		{args: []string{"profile", "list", "--output=name"}, out: "alice\nbob\n"},
		{args: []string{"profile", "list", "-o", "xml"}, code: 2, err: "rlminit: --output: \"xml\": no format \"xml\"; there are wide, json, yaml, name; see rlminit help profile list\n"},
		{args: []string{"version", "-o", "name"}, code: 2, err: "rlminit: the answer has no names; write -o json\n"},
	})
}

// TestYAMLSaysTheSame: every string of an answer stays a string, whatever it looks like.
func TestYAMLSaysTheSame(t *testing.T) {
	want := map[string]any{"list": []any{}, "object": map[string]any{}, "null": nil, "number": 1.5, "yes": true}
	for _, s := range []string{"", "true", "no", "null", "~", "12", "0x1f", "1e3", "2026-11-28", "2026-11-28T18:00:00Z", "a: b", "- a", "#c", " a ", "a\nb\n", "a\tb", "\u202e", "<<", "&a", "*a", "'", "\""} {
		want["of "+s] = s
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yamlOf(b)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is\n%v\nand was\n%v", got, want)
	}
}
