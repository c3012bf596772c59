package contract

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/openapi"
)

// AnswersAreDescribed: each request that only reads is answered with the keys that
// docs/openapi.yaml has for it, and with no other.
func AnswersAreDescribed(t *testing.T, start New) {
	b := start(t, box.Spec{Config: "jobs: {}\nhooks:\n- {name: told, on: failed, command: ['true']}\n" + Services("web: {command: [sleep, infinity]}")})
	b.Shell(box.Root, "printf hunter2 | rlminit profile create a --secret T=-")
	b.Must("profile", "create", "gone")
	b.Must("profile", "delete", "gone")
	b.Must("profile", "set", "*", "V=1")
	job := strings.TrimSpace(b.Must("run", "--detach", "--", "true"))
	session := strings.Fields(b.Must("session", "create", "--profile", "a"))[0]
	b.Must("restart", "a")
	operation := strings.Fields(b.Must("operations", "-o", "name"))[0]
	values := strings.NewReplacer("jobs/{id}", "jobs/"+job, "sessions/{id}", "sessions/"+session, "operations/{id}", "operations/"+operation, "{name}", "a", "{number}", "1")
	tried := 0
	for _, request := range slices.Sorted(maps.Keys(openapi.Routes)) {
		route := openapi.Routes[request]
		if !strings.HasPrefix(request, "GET ") || route.Raw != "" || strings.Contains(request, "{hash}") {
			continue
		}
		tried++
		out := b.As(box.Root, "nasty", "requests", "/run/rlminit/control.sock", "=", values.Replace(request))
		into := reflect.New(reflect.TypeOf(route.Answer))
		d := json.NewDecoder(bytes.NewReader(dechunked(out.Out)))
		d.DisallowUnknownFields()
		if err := d.Decode(into.Interface()); err != nil {
			t.Errorf("%s: %v in %s", request, err, out)
		}
	}
	if tried < 20 {
		t.Errorf("only %d requests were tried", tried)
	}
}

// dechunked is a body without the lengths of RFC 9112, 7.1.
func dechunked(body string) []byte {
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		return []byte(body)
	}
	var out []byte
	for line := range strings.SplitSeq(body, "\r\n") {
		if strings.Trim(line, "0123456789abcdef\n") != "" {
			out = append(out, line...)
		}
	}
	return out
}
