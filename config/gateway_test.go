package config

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

func TestGatewayDefinition(t *testing.T) {
	c := parsed(t, vars{"MODEL": "big", "SECRET_KEY": "hush"}, `version: 1
inherit_env: ["*", "!SECRET_*"]
gateway:
  command: [agent, --profile, "${PROFILE}", --port, "${PORT:-none}", "${PROFILE_DIR}", "${RLMINIT_HOME}", "${MODEL}", "${SECRET_KEY}"]
  limits: {pids: 10}
  default: {command: [agent, "${PROFILE}"], limits: {pids: 99}}
`)
	alice := Profile{Name: "alice", Dir: "/data/profiles/alice", Port: 9471}
	d, faults := c.GatewayDefinition(alice)
	want := []string{"agent", "--profile", "alice", "--port", "9471", "/data/profiles/alice", "/data", "big", "hush"}
	if len(faults) > 0 || !slices.Equal(d.Command, want) {
		t.Errorf("%q %v", d.Command, faults)
	}
	if d.Name != "gateway-alice" || d.Profile != "alice" || d.Port != 9471 || d.WorkingDir != alice.Dir || d.Limits.Pids != 10 {
		t.Errorf("%+v", d)
	}
	// No port: the fallback of the command.
	d, faults = c.GatewayDefinition(Profile{Name: "bob", Dir: "/data/profiles/bob"})
	if len(faults) > 0 || d.Command[4] != "none" || d.Port != 0 {
		t.Errorf("%q %v", d.Command, faults)
	}
	d, faults = c.GatewayDefinition(Profile{Name: "default", Dir: "/data", Port: 9300})
	if len(faults) > 0 || !slices.Equal(d.Command, []string{"agent", "default"}) || d.Limits.Pids != 99 || d.Name != "gateway-default" {
		t.Errorf("%+v %v", d, faults)
	}
}

func TestProfileDefinition(t *testing.T) {
	c := parsed(t, vars{"MODEL": "big", "SECRET_KEY": "hush", "RLMINIT_TOKEN": "x"}, `version: 1
inherit_env: ["*", "!SECRET_*"]
gateway: {command: [agent], stop: {signal: INT}}
`)
	alice := Profile{Name: "alice", Dir: "/data/profiles/alice", Port: 9471}
	d, faults := c.ProfileDefinition(alice, "profile.yaml", []byte(
		"environment: {M: '${MODEL}', P: '${PROFILE}:${PORT}', S: '${SECRET_KEY:-none}'}\nstop: {timeout: 1s}\n"))
	want := map[string]service.Value{"M": {Text: "big"}, "P": {Text: "alice:9471"}, "S": {Text: "none"}}
	if len(faults) > 0 || !reflect.DeepEqual(d.Environment, want) {
		t.Errorf("%v %v", d.Environment, faults)
	}
	if d.Stop.Signal != unix.SIGINT || d.Stop.Timeout != time.Second {
		t.Errorf("%+v", d.Stop)
	}
	_, faults = c.ProfileDefinition(alice, "profile.yaml", []byte("environment:\n  A: '${SECRET_KEY}'\n  B: '${RLMINIT_TOKEN}'\n"))
	const refused = "profile.yaml:2: environment.A: ${SECRET_KEY} is not set; set SECRET_KEY, or write ${SECRET_KEY:-default}\n" +
		"profile.yaml:3: environment.B: ${RLMINIT_TOKEN} is not set; set RLMINIT_TOKEN, or write ${RLMINIT_TOKEN:-default}"
	if faults.Error() != refused {
		t.Errorf("%v", faults)
	}
	if faults[0].Service != "" && faults[0].Service != "gateway-alice" {
		t.Errorf("service %q", faults[0].Service)
	}
}

func TestPortsOff(t *testing.T) {
	c := parsed(t, nil, "version: 1\ngateway: {command: [a], ports: off}\n")
	if c.Gateway.Ports.Size() != 0 {
		t.Errorf("%+v", c.Gateway.Ports)
	}
	_, faults := Parse(bundle("version: 1\ngateway: {command: [a, '${PORT}'], ports: off}\n"), nil)
	if want := "rlminit.yaml:2: gateway.command[1]: ${PORT} is not set; set PORT, or write ${PORT:-default}"; faults.Error() != want {
		t.Errorf("%v", faults)
	}
}
