package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/doctor"
)

// The page on JSON names every key that these commands write.
func TestJSONReference(t *testing.T) {
	const page = "../../docs/json.md"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, v := range []any{
		control.Service{},
		serviceView{},
		control.Dependencies{},
		control.Event{},
		logJSON{},
		control.Profile{},
		control.Trashed{},
		doctor.Finding{},
		analyze.Report{},
		control.Operation{},
		control.Outcome{},
		control.JobResult{},
		control.Job{},
		control.DryRun{},
		control.Session{},
		control.Revision{},
		control.Drift{},
		control.Health{},
		checked{},
	} {
		jsonKeys(reflect.TypeOf(v), keys)
	}
	if len(keys) < 60 {
		t.Fatalf("only %d keys were found", len(keys))
	}
	for key := range keys {
		if !strings.Contains(string(content), "`"+key+"`") {
			t.Errorf("%s does not say what %s is", page, key)
		}
	}
}

// jsonKeys adds the keys of a type, and of those in it.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		jsonKeys(t.Elem(), keys)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range t.NumField() {
			field := t.Field(i)
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if key != "" && key != "-" {
				keys[key] = true
			}
			if key != "-" && (field.IsExported() || field.Anonymous) {
				jsonKeys(field.Type, keys)
			}
		}
	}
}
