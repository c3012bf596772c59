package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/journal"
)

// TestEveryRecordHasWords: each type of record that any part writes has words, and
// a type is a constant that this test can find.
func TestEveryRecordHasWords(t *testing.T) {
	types := recordTypes(t)
	if len(types) < 25 {
		t.Fatalf("only %d types were found: %v", len(types), types)
	}
	for kind, where := range types {
		if kind != journal.TypeTransition && recordWords[kind] == nil {
			t.Errorf("%s: people are shown %s as it is stored; say it in recordWords", where, kind)
		}
	}
	for kind := range recordWords {
		if types[kind] == "" {
			t.Errorf("nothing writes %s", kind)
		}
	}
	if known := slices.Sorted(maps.Keys(types)); !slices.Equal(known, control.RecordTypes) {
		t.Errorf("control.RecordTypes are to be %q", known)
	}
}

// recordTypes are the types of records that the source has, and where.
func recordTypes(t *testing.T) map[string]string {
	t.Helper()
	types := map[string]string{}
	files := token.NewFileSet()
	look := func(path string) error {
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if kind := literal(at(n.Values, i)); strings.HasPrefix(name.Name, "Type") && kind != "" {
						types[kind] = files.Position(n.Pos()).String()
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Type" && regexp.MustCompile(`^[a-z_]+$`).MatchString(literal(n.Value)) {
					t.Errorf("%s: give this type a constant", files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	}
	for _, dir := range []string{"control", "journal", "profiles", "job", "plan", "supervise"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return look(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return types
}

func at(values []ast.Expr, i int) ast.Expr {
	if i < len(values) {
		return values[i]
	}
	return nil
}

func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value)
		return text
	}
	return ""
}

func TestRecordLines(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"operation","operation":12,"verb":"stop","services":["gateway-alice"],"actor":{"uid":0,"pid":77}}`:                        "stop alice (operation 12, by uid 0, pid 77)",
		`{"type":"operation_ended","operation":12,"verb":"restart","state":"failed","reason":"stopped at bob","members":[{"name":"bob"}]}`: "restart bob: failed (operation 12): stopped at bob",
		`{"type":"operation_ended","operation":3,"verb":"stop","state":"done","members":[{"name":"a"}],"omitted":7}`:                       "stop a and 7 more: done (operation 3)",
		`{"type":"profile_created","profile":"alice","desired":"running","actor":{"uid":1000}}`:                                            "profile alice was created (by uid 1000)",
		`{"type":"profile_deleted","profile":"alice","trash":"alice-1"}`:                                                                   "profile alice was deleted, and is alice-1 in the trash",
		`{"type":"profile_deleted","profile":"alice"}`:                                                                                     "profile alice was deleted for good",
		`{"type":"profile_purged","profile":"alice","trash":"alice-1","actor":{"uid":0}}`:                                                  "alice-1 was removed from the trash (by uid 0)",
		`{"type":"profile_adopted","profile":"alice","desired":"stopped"}`:                                                                 "profile alice is to be stopped, as its state file says",
		`{"type":"found","services":{"gateway-bob":"stopped","gateway-alice":"running"}}`:                                                  "what is wanted was taken from state files: alice running, bob stopped",
		`{"type":"boot_begun","machine":"m","version":"1.0","prior_exit":"killed"}`:                                                        "the container was started (1.0); the start before ended: killed",
		`{"type":"booted","generation":1,"services":3,"steps":[{"step":"volume","ms":1},{"step":"serving","ms":12.34}]}`:                   "the supervisor is ready after 12.3ms, with 3 services",
		`{"type":"job_failed","job":"7","state":"timed_out","took_ms":30000,"result":{"exit_code":null}}`:                                  "job 7 timed out after 30.0s",
		`{"type":"job_submitted","job":"8","command":["true"],"service":"tick","schedule":"tick","actor":null}`:                            "job 8 was submitted: true (service tick)",
		`{"type":"job_submitted","job":"7","command":["sleep","1"],"profile":"alice","actor":0}`:                                           "job 7 was submitted: sleep 1 (profile alice, by uid 0)",
		`{"type":"revision_begun","revision":3,"uid":0,"by":"eve","steps":[{"name":"alice","action":"create"}]}`:                           "revision 3 was begun: create alice (approved by eve, by uid 0)",
		`{"type":"revision_ended","revision":3,"outcome":"partly"}`:                                                                        "revision 3 was rolled back in part: a person is needed",
		`{"type":"profile_changed","profile":"a\u001bb","environment":["TOKEN"]}`:                                                          "profile a\ufffdb was changed, its environment: TOKEN",
		`{"type":"of_tomorrow","seq":1,"what":"x"}`:                                                                                        "of_tomorrow what=x",
		`{"type":"operation_ended","operation":"no number"}`:                                                                               "operation_ended operation=no number",
	} {
		var e control.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		e.Raw = json.RawMessage(line)
		if got := recordLine(e); got != want {
			t.Errorf("%s\n is %q,\nnot %q", line, got, want)
		}
	}
}
