package main

import (
	"encoding/json"
	"testing"
)

// Each kind of file has a schema, which knows the keys that its files are made of.
func TestSchema(t *testing.T) {
	for _, c := range []struct{ kind, key string }{
		{"rlminit.yaml", "gateway"}, {"service.yaml", "command"}, {"profile.yaml", "environment"}, {"set.yaml", "profiles"},
	} {
		r := (*box)(nil).rlminit(t, "schema", c.kind)
		var schema struct {
			Draft string `json:"$schema"`
			AnyOf []struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"anyOf"`
		}
		if err := json.Unmarshal([]byte(r.out), &schema); err != nil || r.code != 0 || r.err != "" {
			t.Errorf("%s: exit %d, %v, %s", c.kind, r.code, err, r.err)
		}
		known := false
		for _, one := range schema.AnyOf {
			known = known || one.Properties[c.key] != nil
		}
		if !known || schema.Draft != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: %s says nothing of %s", c.kind, schema.Draft, c.key)
		}
	}
	if all, one := (*box)(nil).rlminit(t, "schema"), (*box)(nil).rlminit(t, "schema", "rlminit.yaml"); all.out != one.out {
		t.Error("without a kind it is not that of rlminit.yaml")
	}
	const none = `rlminit: there is no schema of "main.yaml"; there are those of rlminit.yaml, service.yaml, profile.yaml and set.yaml; see rlminit help schema` + "\n"
	if r := (*box)(nil).rlminit(t, "schema", "main.yaml"); r.code != 2 || r.err != none || r.out != "" {
		t.Errorf("exit %d: %q, %q", r.code, r.out, r.err)
	}
}
