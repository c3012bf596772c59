package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/service"
)

func TestShow(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rlminit.yaml")
	home := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(home, "profiles/alice"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		file: `version: 1
user: "0"
home: ` + home + `
gateway:
  command: [agent, serve]
  restart: {delay: 3s}
  environment:
    LANG: C
`,
		filepath.Join(home, "profiles/alice/profile.yaml"): "environment:\n  TOKEN: x\nrestart: {limit: 9}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	me := alice()
	me.PID = ptr(os.Getpid())
	definition := control.Definition{Service: "gateway-alice", Profile: "alice", Fields: []service.Field{
		{Field: "command", Value: `["agent", "serve"]`},
		{Field: "environment.LANG", Value: `"C"`},
		{Field: "environment.TOKEN", Value: `"***"`},
		{Field: "restart.delay", Value: "1s"},
		{Field: "restart.limit", Value: "9"},
		{Field: "umask", Value: `"022"`},
		{Field: "port", Value: "9471"},
	}, Edges: control.Edges{Requires: []string{"db"}, Wants: []string{}, After: []string{}, RequiredBy: []string{}, WantedBy: []string{}, Before: []string{"web"}}}
	b := newBox(t, map[string]any{
		"GET /v1/services/alice": me, "GET /v1/services/gateway-alice/definition": definition,
		"GET /v1/events": text(starting + running), "GET /v1/logs/gateway-alice": text(aliceLog),
	})
	cmd := b.command("show", "alice", "--json")
	cmd.Env = append(cmd.Env, "RLMINIT_CONFIG="+file)
	r := outcomeOf(t, cmd)
	var views []serviceView
	if err := json.Unmarshal([]byte(r.out), &views); err != nil || len(views) != 1 {
		t.Fatalf("%v in %s%s", err, r.out, r.err)
	}
	v := views[0]
	if len(v.Events) != 2 || len(v.LastLines) != 2 || len(v.Processes) < 2 || v.Processes[0].PID != os.Getpid() || v.Descriptors == nil ||
		len(v.Requires) != 1 || len(v.Before) != 1 || v.Before[0] != "web" || v.Service.Usage == nil {
		t.Errorf("%s", r.out)
	}
	profile := filepath.Join(home, "profiles/alice/profile.yaml")
	want := map[string]string{
		"command": "rlminit.yaml:5", "environment.LANG": "rlminit.yaml:8", "environment.TOKEN": profile + ":2",
		"restart.delay": "rlminit.yaml:6", "restart.limit": profile + ":3", "umask": "default", "port": "profile",
	}
	for _, f := range v.Definition {
		if f.Source == nil || *f.Source != want[f.Field.Field] {
			t.Errorf("%s comes from %v, want %s", f.Field.Field, f.Source, want[f.Field.Field])
		}
		if (f.Now != "") != (f.Field.Field == "restart.delay") {
			t.Errorf("%s is now %q", f.Field.Field, f.Now)
		}
	}
	cmd = b.command("show", "alice")
	cmd.Env = append(cmd.Env, "RLMINIT_CONFIG="+file)
	if r := outcomeOf(t, cmd); !strings.Contains(r.out, "which says 3s now; rlminit reload takes it up") || !strings.Contains(r.out, "required by") && !strings.Contains(r.out, "before:       web") {
		t.Errorf("%s%s", r.out, r.err)
	}
	if r := b.rlminit(t, "show", "alcie"); r.code != 4 || r.out != "" {
		t.Errorf("%d %s%s", r.code, r.out, r.err)
	}
}

// Of a service of many its own lines are read, as long as the files are those that it is
// run by; then all of them, to find what they say now.
func TestShowReadsItsOwnLines(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rlminit.yaml")
	const before = "version: 1\nuser: \"0\"\nservices:\n  db: {command: [b]}\n  web:\n    command: [a]\n    restart:\n      delay: 1s\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(before)))
	for _, c := range []struct {
		text, db string // what the file has, and what its definition comes from now
		now      bool
	}{{before, "rlminit.yaml:8", false}, {strings.Replace(before, "services:", "\nservices:", 1), "rlminit.yaml:9", false}, {strings.Replace(before, "1s", "3s", 1), "rlminit.yaml:8", true}} {
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		b := newBox(t, map[string]any{
			"GET /v1/services/web": control.Service{Name: "web", State: "running"},
			"GET /v1/services/web/definition": control.Definition{
				Service: "web", Fields: []service.Field{{Field: "command", Value: `["a"]`}, {Field: "restart.delay", Value: "1s"}, {Field: "umask", Value: `"022"`}},
				Files: []control.DefinitionFile{{File: "rlminit.yaml", Sum: sum, First: 5, Last: 9}},
				Edges: control.Edges{Requires: []string{"db"}, Before: []string{"last"}},
			},
			"GET /v1/events": text(""), "GET /v1/logs/web": text(""),
		})
		cmd := b.command("show", "web", "--json")
		cmd.Env = append(cmd.Env, "RLMINIT_CONFIG="+file)
		r := outcomeOf(t, cmd)
		var views []serviceView
		if err := json.Unmarshal([]byte(r.out), &views); err != nil || len(views) != 1 || len(views[0].Definition) != 3 {
			t.Fatalf("%v in %s%s", err, r.out, r.err)
		}
		d := views[0].Definition
		if *d[1].Source != c.db || *d[2].Source != "default" || (d[1].Now == "3s") != c.now || views[0].Requires[0] != "db" || views[0].Before[0] != "last" {
			t.Errorf("of %q: %s", c.text, r.out)
		}
		for _, request := range b.requests() {
			if strings.Contains(request, "dependencies") {
				t.Errorf("the dependencies of all were asked for")
			}
		}
	}
}

// Where a file may not be read, no source is made up: what it says would count over
// those that may be.
func TestShowOfUnreadableSources(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rlminit.yaml")
	overrides := filepath.Join(dir, "profiles/alice/profile.yaml")
	if err := os.MkdirAll(overrides, 0o755); err != nil { // no file, which root cannot read either
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("version: 1\nuser: \"0\"\nhome: "+dir+"\ngateway: {command: [agent]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBox(t, map[string]any{
		"GET /v1/services/alice": alice(),
		"GET /v1/services/gateway-alice/definition": control.Definition{
			Service: "gateway-alice", Profile: "alice", Fields: []service.Field{{Field: "command", Value: `["agent"]`}, {Field: "umask", Value: `"077"`}},
		},
		"GET /v1/events": text(""), "GET /v1/logs/gateway-alice": text(""),
	})
	for config, unread := range map[string]string{file: overrides, dir + "/none.yaml": dir + "/none.yaml"} {
		cmd := b.command("show", "alice")
		cmd.Env = append(cmd.Env, "RLMINIT_CONFIG="+config)
		r := outcomeOf(t, cmd)
		if !strings.Contains(r.out, "cannot tell where values come from: cannot read "+unread+": ") || strings.Contains(r.out, "default") || strings.Contains(r.out, "rlminit.yaml:") {
			t.Errorf("%s%s", r.out, r.err)
		}
	}
}

func TestListDependencies(t *testing.T) {
	tell(t, map[string]any{"GET /v1/dependencies": []control.Dependencies{
		{Service: "a", State: "running", Requires: []string{"b"}, Wants: []string{"b", "gateway-x"}},
		{Service: "b", State: "failed", After: []string{"gone"}},
		{Service: "c", State: "running", After: []string{"d"}},
		{Service: "d", State: "running", After: []string{"c"}},
		{Service: "gateway-x", Profile: "x", State: "stopped"},
	}}, []story{
		{args: []string{"list-dependencies"}, out: "a running\n├─ b failed (requires)\n│  └─ gone (no such service) (after)\n└─ x stopped (wants)\n"},
		{args: []string{"list-dependencies", "x", "--reverse"}, out: "x stopped\n└─ a running (wants)\n"},
		{args: []string{"list-dependencies", "c"}, out: "c running\n└─ d running (after)\n   └─ c running (after) (a circle)\n"},
		{args: []string{"list-dependencies", "dd"}, code: 4, err: "rlminit: no profile or service \"dd\"\n"},
	})
}
