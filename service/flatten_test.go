package service

import (
	"testing"
	"time"
)

func TestFlatten(t *testing.T) {
	d := Default("web")
	d.Command = []string{"agent", "a: b"}
	d.Environment = map[string]Value{"odd: key": {Text: "x"}, "LANG": {Text: "C"}, "T": {File: "/run/t"}}
	d.Sockets = []Socket{{Network: "tcp", Address: "127.0.0.1:80", Name: "web"}, {Network: "unix", Address: "/run/w", Name: "w"}}
	d.Restart.Delay = 3 * time.Second
	got := map[string]string{}
	for _, f := range Flatten(d) {
		if _, twice := got[f.Field]; twice || f.Value == "" {
			t.Errorf("%+v", f)
		}
		got[f.Field] = f.Value
	}
	for field, value := range map[string]string{
		"command": `["agent", "a: b"]`, "environment.odd: key": `"x"`, "environment.LANG": `"C"`, "environment.T": `{file: "/run/t"}`,
		"restart.delay": "3s", "stop.signal": "TERM", "log.max_files": "10", "requires": "[]", "umask": `"022"`,
		"sockets[0]": `{listen: "tcp:127.0.0.1:80", name: "web"}`, "sockets[1]": `{listen: "unix:/run/w", name: "w"}`,
	} {
		if got[field] != value {
			t.Errorf("%s is %s, want %s", field, got[field], value)
		}
	}
}
