package config

import (
	"reflect"
	"strings"
	"testing"
)

// What is parsed without services has all else as it is, wherever they stand; and
// faults have the lines that they have in the file.
func TestParseTop(t *testing.T) {
	const above, below = "version: 1\nuser: app\nhome: /srv\n", "stop_timeout: 3s\ngateway: {command: [g, '{{.Port}}']}\nseed:\n  - {from: /a, to: b}\n"
	const services = "services:\n  web: {command: [w]}\n\n  # one more\n  job: {command: [j]}\n"
	for _, text := range []string{above + services + below, services + above + below, above + below + services, above + below, "{version: 1, user: app, services: {web: {command: [w]}}}"} {
		b := Bundle{Path: "/etc/rlminit/rlminit.yaml", Files: []File{{"rlminit.yaml", []byte(text)}, {"services.d/b.yaml", []byte("command: [b]\n")}}}
		whole, faults := Parse(b, nil)
		if len(faults) > 0 {
			t.Fatal(faults.Err())
		}
		b.Services = whole.Bundle().Services
		if flow := strings.HasPrefix(text, "{"); (b.Services.First != 0) != (strings.Contains(text, services) && !flow) {
			t.Errorf("services are said to be at %+v of %q", b.Services, text)
		}
		decoded, err := DecodeBundle(b.Encode())
		if err != nil || decoded.Services != b.Services {
			t.Fatalf("%v; %+v came of %+v", err, decoded.Services, b.Services)
		}
		top, faults := ParseTop(decoded, nil)
		if len(faults) > 0 {
			t.Fatal(faults.Err())
		}
		if b.Services.First != 0 && len(top.Services) > 0 {
			t.Errorf("%q: %d services were parsed", text, len(top.Services))
		}
		of := func(c *Config) any { return []any{c.User, c.Home, c.StopTimeout, c.Seed, c.Gateway != nil} }
		if !reflect.DeepEqual(of(top), of(whole)) {
			t.Errorf("%q: %v, not %v", text, of(top), of(whole))
		}
	}
	b := Bundle{Files: []File{{"rlminit.yaml", []byte(above + services + "nonsense: 1\n")}}}
	b.Services.First, b.Services.Last = 4, 8
	if _, faults := ParseTop(b, nil); len(faults) != 1 || faults[0].Line != 9 {
		t.Errorf("%v", faults)
	}
}
