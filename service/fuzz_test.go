package service

import (
	"reflect"
	"testing"
)

var seeds = []string{
	"command: [a]\n", "command: a b\nrestart: {delay: 5}\n", "environment: {A: {file: /x}}\n", "limits: {nofile: '1:2', stack: 1MiB}\n",
	"ready: {http: 'http://[::1]:80/'}\nhealth: {exec: [a], retries: 0}\n", "sockets: [{listen: 'unix:@x', name: y}]\n",
	"exits: {success: [0], fatal: [0]}\n", "restart: [always]\nstop: {signal: RTMIN+3}\n", "log: {max_size: 1.5MiB, tee: 1}\n",
	"a: &a [*a]\n", "---\n---\n", "command: [\"${A:-${B:-}}\"]\n", "sandbox: {capabilities: [chown]}\n", "umask: 0o27\nwatchdog: 1h\n",
}

// FuzzDecode: no service.yaml makes the decoder panic, every fault has a line, and
// what is taken can be written and read again.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, faults := Decode("service.yaml", "web", data, vars)
		for _, fault := range faults {
			if fault.Line < 1 || fault.File == "" {
				t.Errorf("a fault without a line: %q", fault.Error())
			}
		}
		if len(faults) > 0 {
			return
		}
		again, faults := Decode("service.yaml", "web", Encode(d), nil)
		if len(faults) > 0 || !reflect.DeepEqual(d, again) {
			t.Errorf("%v\n%+v\n%+v\n%s", faults, d, again, Encode(d))
		}
	})
}

// FuzzOverride: no profile.yaml makes the decoder panic, every fault has a line,
// and none changes who the gateway is or raises a limit.
func FuzzOverride(f *testing.F) {
	for _, s := range append(seeds, "user: root\n", "limits: {pids: 51}\n") {
		f.Add([]byte(s))
	}
	base := Default("gateway-alice")
	base.Command, base.Profile = []string{"agent"}, "alice"
	base.Limits = Limits{Rlimits: map[int]Rlimit{1: {10, 20}}, Pids: 50}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, faults := Override(base, "profile.yaml", data, vars)
		for _, fault := range faults {
			if fault.Line < 1 || fault.File == "" {
				t.Errorf("a fault without a line: %q", fault.Error())
			}
		}
		if len(faults) > 0 {
			return
		}
		same := d.User == "" && d.Group == "" && d.Groups == nil && d.Control == ControlNone && reflect.DeepEqual(d.Sandbox, base.Sandbox) &&
			d.Profile == "alice" && d.Name == base.Name && d.Sockets == nil
		if !same || d.Limits.Pids > 50 || d.Limits.Rlimits[1].Hard > 20 {
			t.Errorf("a profile got more than it had: %+v", d)
		}
	})
}
