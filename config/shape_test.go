package config

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// schema is one as an independent validator has it.
func schema(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(Schemas()[kind])
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(kind, value); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain is a YAML text as JSON has it.
func plain(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Whatever is refused by the schema is refused by rlminit: a person who writes by
// it is told nothing wrong. Of what is wrong with a value or a key it finds all
// that one look at the place can find.
func TestSchemaSaysWhatTheDecoderSays(t *testing.T) {
	s := schema(t, ConfigurationFile)
	texts := regexp.MustCompile("(?s)`([^`]+)`|\"((?:[^\"\\\\\n]|\\\\.)+)\"")
	tried, refused, found := 0, 0, 0
	for _, file := range []string{"parse_test.go", "main_test.go", "gateway_test.go", "remap_test.go", "isolation_test.go", "init_test.go", "groups_test.go", "apply_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, m := range texts.FindAllStringSubmatch(string(source), -1) {
			text := m[1]
			if m[2] != "" {
				if json.Unmarshal([]byte(`"`+m[2]+`"`), &text) != nil {
					continue
				}
			}
			if !strings.Contains(text, "version:") {
				text = "version: 1\n" + text
			}
			var mapping map[string]any
			if !strings.Contains(text, ": ") || yaml.Unmarshal([]byte(text), &mapping) != nil || len(mapping) < 2 {
				continue
			}
			b, err := json.Marshal(mapping)
			if err != nil {
				continue // a mapping with keys that are no text
			}
			tried++
			_, faults := Parse(bundle(text), nil)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			bad := s.Validate(value)
			if bad != nil && len(faults) == 0 {
				t.Errorf("the schema refuses what is right:\n%s\n%v", text, bad)
			}
			if len(faults) > 0 {
				refused++
			}
			if bad != nil {
				found++
			}
		}
	}
	if tried < 100 || refused < 50 || found < 30 {
		t.Errorf("%d texts were tried, %d refused by the decoder, %d by the schema", tried, refused, found)
	}
	for text, want := range map[string]bool{
		"version: 1\nuser: app\ngateway: {command: [x], ports: off, default: {restart: no}}":            true,
		"version: 1\nservices: {web: {command: [x], enabled: \"${X:-false}\", watchdog: 30s}}":          true,
		"version: 1\nservices: {web: {command: [x], limits: {nofile: 5, core: {soft: 1, hard: 2}}}}":    true,
		"version: 1\nservices: {web: {command: [x], environment: {A: 1, B: {file: /x}, C: null}}}":      true,
		"version: 1\nservices: {web: {command: [x], log: {max_size: 1MB, max_age: 0, tee: on}}}":        true,
		"version: 1\nmain: {restart: {policy: always, jitter: 0.5}, routes: [{args: [x], alone: yes}]}": true,
		"version: 2":                                                 false,
		"version: 1\nstop_timeout: soon":                             false,
		"version: 1\nstop_timeout: 9":                                false,
		"version: 1\nservies: {}":                                    false,
		"version: 1\nservices: {web: {command: x}}":                  false,
		"version: 1\nservices: {web: {comand: [x]}}":                 false,
		"version: 1\nservices: {web: {type: deamon}}":                false,
		"version: 1\nservices: {web: {ready: {htp: x}}}":             false,
		"version: 1\nservices: {web: {restart: {limit: many}}}":      false,
		"version: 1\nservices: {web: {log: {max_files: -1}}}":        false,
		"version: 1\nservices: {web: {environment: {A: {fil: /x}}}}": false,
		"version: 1\ngateway: {user: x}":                             false,
		"version: 1\ngateway: {initial_state: up}":                   false,
		"version: 1\nmain: {routes: [{arg: [x]}]}":                   false,
		"version: 1\nboot: [{command: [x], on_failure: panic}]":      false,
		"version: 1\nown: {path: x}":                                 false,
	} {
		if err := s.Validate(plain(t, text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
		if _, faults := Parse(bundle(text), nil); !want && len(faults) == 0 {
			t.Errorf("%s: the decoder finds nothing wrong with it", text)
		}
	}
}

// Each example is right by the schema of its kind.
func TestSchemaTakesEveryExample(t *testing.T) {
	for _, file := range []string{"../rootfs/etc/rlminit/rlminit.yaml", "../examples/agent-image/rlminit.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema(t, ConfigurationFile).Validate(plain(t, string(text))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, page := range []string{"../docs/configuration.md", "../docs/isolation.md", "../docs/plan.md"} {
		for _, block := range Blocks(t, page) {
			if err := schema(t, ConfigurationFile).Validate(plain(t, block)); err != nil {
				t.Errorf("%s:\n%s\n%v", page, block, err)
			}
		}
	}
	profile := schema(t, ProfileFile)
	for text, want := range map[string]bool{
		"environment: {A: b}\nlimits: {nofile: 5}\nisolation: strict\n": true, "user: root\n": false, "sockets: []\n": false,
	} {
		if err := profile.Validate(plain(t, text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := schema(t, ServiceFile).Validate(plain(t, "command: [x]\nuser: www\nsockets: [{listen: \"tcp:127.0.0.1:80\"}]\n")); err != nil {
		t.Error(err)
	}
}

// Blocks are the configurations among the code blocks of a page.
func Blocks(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile(`(?m)(?:^    .*\n|^\n)+`).FindAllString(string(content), -1) {
		block := regexp.MustCompile(`(?m)^    `).ReplaceAllString(strings.Trim(m, "\n"), "")
		if regexp.MustCompile(`^(main|gateway|services|apply):\n`).MatchString(block) {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no configuration", page)
	}
	return blocks
}
