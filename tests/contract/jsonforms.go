package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// forms is what all verbs that write JSON have said of names and ids.
type forms struct {
	t      *testing.T
	says   string // the command
	types  map[string]map[string]string
	number int // of objects
}

// ofServices are the keys of which each text names a service, ofProfiles those of a profile.
var (
	ofServices = []string{"service", "services", "requires", "wants", "after", "required_by", "wanted_by", "before", "along", "chain"}
	ofProfiles = []string{"profile", "profiles"}
	ids        = []string{"job", "last_job", "operation", "id", "revision", "rollback_to", "session", "record", "seq", "fence", "run"}
)

// look looks at a value, which has a key in an object.
func (f *forms) look(key string, v any, in map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		f.number++
		for key, value := range v {
			f.look(key, value, v)
		}
	case []any:
		for _, value := range v {
			f.look(key, value, in)
		}
	case string:
		of, is := map[string]string{"web-1": "a profile", "gateway-web-1": "a service"}[v]
		switch {
		case !is:
		case slices.Contains(ofServices, key) && of != "a service", slices.Contains(ofProfiles, key) && of != "a profile":
			f.t.Errorf("%s: %q is %q, the name of %s", f.says, key, v, of)
		case of == "a service" && !f.names(key, in):
			f.t.Errorf("%s: %q is %q, and nothing beside it says the profile: %v", f.says, key, v, slices.Sorted(maps.Keys(in)))
		}
	}
	_, source := in["clean"] // of a plan: what its author calls the source
	if slices.Contains(ids, key) && v != nil && !source {
		if kind := fmt.Sprintf("%T", v); kind != "map[string]interface {}" && kind != "[]interface {}" {
			if f.types[key] == nil {
				f.types[key] = map[string]string{}
			}
			f.types[key][kind] = f.says
		}
	}
}

// names tells whether an object that names a gateway names its profile too.
func (f *forms) names(key string, in map[string]any) bool {
	_, says := in["profile"]
	return says || in["name"] == "web-1" || key != "service" && key != "name"
}

// JSONForms: whatever writes JSON names a service, a profile and an id in one form.
func JSONForms(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  ` + bash(`echo hello; exec sleep 1000000`) + `
hooks:
  - {name: told, command: ["true"], on: [failed]}
services:
  other: {command: [sleep, "1000000"], requires: [gateway-web-1]}
`})
	b.Must("profile", "create", "web-1", "--env", "A=b")
	b.Await("gateway-web-1", "running")
	b.Must("start", "other")
	b.Must("restart", "web-1")
	b.Must("profile", "set", "web-1", "A=c")
	session := strings.TrimSpace(b.Must("session", "create", "--profile", "web-1"))
	job := strings.TrimSpace(b.Must("run", "--profile", "web-1", "--detach", "--", "true"))
	b.Must("job", "wait", job)
	b.Run("run", "--profile", "web-1", "--", "false")
	_ = session
	f := &forms{t: t, types: map[string]map[string]string{}}
	for _, line := range []string{
		"status", "status --wide", "status web-1", "status gateway-web-1", "show web-1", "list-dependencies", "events", "hooks", "hooks test told",
		"logs web-1 -n 3", "logs gateway-web-1 -n 3", "logs --all -n 3",
		"profile list", "profile show web-1", "profile set web-1 A=d", "profile set web-* A=e", "profile repair web-1",
		"doctor", "health", "analyze", "operations", "operations 1", "capabilities", "version",
		"job list", "job show " + job, "job wait " + job, "run --profile web-1 true", "run --profile web-1 --dry-run true", "run --profile web-1 --detach true",
		"session list", "session create --profile web-1",
		"file write --profile web-1 a", "revisions", "drift", "reload", "reload --dry-run", "rollback --dry-run", "rollback 0 --dry-run",
		"restart web-1", "restart web-1 --no-wait", "stop --all --no-wait", "start web-1", "wait web-1", "signal CONT web-1", "profile clone web-1 web-2", "profile delete web-2", "profile list --trash", "profile restore web-2",
		"plan proposed",
	} {
		f.says = line
		args := strings.Fields(line)
		r := b.Run(slices.Insert(args, 1+slices.IndexFunc(args, func(word string) bool {
			return word != "profile" && word != "job" && word != "session" && word != "file" && word != "plan"
		}), "--json")...)
		if r.Out == "" {
			t.Errorf("%s: %s", line, r)
		}
		for d := json.NewDecoder(strings.NewReader(r.Out)); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s: %v: %s", line, err, r)
			}
			f.look("", v, nil)
		}
	}
	for key, types := range f.types {
		if len(types) != 1 {
			t.Errorf("%q has several types: %v", key, types)
		}
	}
}
