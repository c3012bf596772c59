package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestApplyRules(t *testing.T) {
	parse := func(text string) (*Config, string) {
		c, faults := Parse(Bundle{Path: "/etc/rlminit/rlminit.yaml", Files: []File{{Name: "rlminit.yaml", Data: []byte("version: 1\n" + text)}}}, nil)
		return c, faults.Error()
	}
	c, faults := parse("apply: {allow: [{uid: 1000, scope: profile/team-*}, {uid: 0, scope: all}]}\n")
	if want := []ApplyRule{{1000, "profile/team-*"}, {0, "all"}}; faults != "" || !reflect.DeepEqual(c.Apply, want) {
		t.Errorf("%v %s", c.Apply, faults)
	}
	if c, faults := parse("apply: {allow: []}\n"); faults != "" || c.Apply == nil {
		t.Errorf("nobody but root: %v %s", c.Apply, faults)
	}
	if c, _ := parse(""); c.Apply != nil {
		t.Errorf("not said: %v", c.Apply)
	}
	for text, want := range map[string]string{
		"apply: {}\n": "allow is missing",
		"apply: {allow: [{uid: x, scope: all}]}\n":               "rlminit.yaml:2: apply.allow[0].uid",
		"apply: {allow: [{scope: all}]}\n":                       "uid is missing",
		"apply: {allow: [{uid: 1}]}\n":                           "scope is missing",
		"apply: {allow: [{uid: 1, scope: everything}]}\n":        "is no scope",
		"apply: {allow: [{uid: 1, scope: \"profile/[a\"}]}\n":    "is no scope",
		"apply: {allow: [{uid: 1, scope: profile/a/b}]}\n":       "is no scope",
		"apply: {allow: [{uid: 1, scope: all, until: never}]}\n": "unknown key",
	} {
		if _, faults := parse(text); !strings.Contains(faults, want) {
			t.Errorf("%s: %q lacks %q", text, faults, want)
		}
	}
}
