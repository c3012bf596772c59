package config

import (
	"strings"
	"testing"
)

func TestCautions(t *testing.T) {
	const head = "version: 1\nuser: '1000:1000'\n"
	for yaml, want := range map[string]string{
		"services: {a: {command: [x], stop: {timeout: 7s}}}":                                                                              "",
		"services: {a: {command: [x], stop: {timeout: 30s}}}":                                                                             "services.a.stop.timeout is 30s, and stop_timeout leaves a service 7.2s: it is killed then; write stop_timeout: 38s, and have the engine wait longer: docker stop -t 39",
		"stop_timeout: 38s\nservices: {a: {command: [x], stop: {timeout: 30s}}}":                                                          "",
		"gateway: {command: [x], stop: {timeout: 1m}}":                                                                                    "gateway.stop.timeout is 1m0s",
		"stop_timeout: 4s\nservices: {a: {command: [x]}, b: {command: [x], stop: {timeout: 9s}}, c: {command: [x], stop: {timeout: 8s}}}": "services.b.stop.timeout is 9s, and stop_timeout leaves a service 3.2s: it is killed then, and so are 1 others; write stop_timeout: 12s",
		"services: {a: {command: [x], ready: {tcp: '127.0.0.1:80'}}, b: {command: [x], ready: {http: 'http://127.0.0.1/x'}}}":             "ready of services.a and services.b asks 127.0.0.1:80, so one of them may be ready by the answer of another",
		"services: {a: {command: [x], ready: {tcp: '127.0.0.1:80'}}, b: {command: [x], ready: {tcp: '127.0.0.2:80'}}}":                    "",
		"services: {a: {command: [x], ready: {tcp: 'db:80'}}, b: {command: [x], ready: {tcp: 'db:80'}}}":                                  "",
		"gateway: {command: [x], ready: {tcp: '127.0.0.1:${PORT}'}}\ngateways: {w: {command: [x], ready: {tcp: '127.0.0.1:${PORT}'}}}":    "",
		"gateway: {command: [x], ready: {tcp: '127.0.0.1:80'}}":                                                                           "ready of gateway (of all its profiles) and others of it asks 127.0.0.1:80",
	} {
		c := parsed(t, nil, head+yaml+"\n")
		switch all := c.Cautions(); {
		case want == "" && len(all) > 0, want != "" && (len(all) != 1 || !strings.HasPrefix(all[0], want)):
			t.Errorf("%s: %q, want %q", yaml, all, want)
		}
	}
}
