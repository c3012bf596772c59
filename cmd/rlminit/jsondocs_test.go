package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/doctor"
	jobs "rlminit/job/table"
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
		reasoned{},
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
		control.Hook{},
		jobs.Threshold{},
		control.ProposedPlan{},
		control.Revision{},
		control.Drift{},
		control.Health{},
		checked{},
		checkedVolume{},
		deletedProfile{},
		purgedEntry{},
		control.Secret{},
		control.ForgottenSecrets{},
		control.Reloaded{},
		control.Capabilities{},
		verified{},
		versionParts{},
		compatLink{},
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

// The page says of each verb what it writes with --json, outside of the tables of
// keys, or in the last table why it has none.
func TestJSONOfEachVerb(t *testing.T) {
	content, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	with, without, _ := strings.Cut(string(content), "\n## Without `--json`\n")
	with = regexp.MustCompile(`(?m)^\|.*\n`).ReplaceAllString(with, "")
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		verbs := visible(cmd)
		for _, verb := range verbs {
			look(verb)
		}
		page := without
		if cmd.Flags().Lookup("json") != nil {
			page = with
		}
		if name := verbOf(cmd); len(verbs) == 0 && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/json.md does not say what rlminit %s writes with --json, or why nothing", name)
		}
	}
	look(newRoot(newTerminal()))
}

// jsonKeys adds the keys of a type, and of those in it.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
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
