package config

import (
	"slices"
	"testing"
	"time"

	"rlminit/service"
)

// The section makes the agent a service, and says nothing of what is in it.
func TestFleet(t *testing.T) {
	c := parsed(t, nil, "version: 1\nfleet:\n  name: prod\n  release: 20s\n  etcd: {endpoints: [\"http://e:2379\"]}\n  anything: [1, {x: '${Y}'}]\n")
	d := c.Services[FleetService]
	if d == nil || !slices.Equal(d.Command[1:], []string{"agent", c.Path}) || d.Control != service.ControlAll || d.Restart.Limit != 0 || d.Stop.Timeout != 25*time.Second || d.Restart.Policy != service.RestartAlways || !d.Enabled {
		t.Fatalf("%+v", d)
	}
	if origins := c.Bundle().Origins(FleetService); len(origins) != 1 || origins[0].Lines.First != 2 {
		t.Errorf("it stands at %+v", origins)
	}
	c = parsed(t, nil, "version: 1\npage: {listen: 'unix:/p'}\nfleet: {name: prod, listen: 127.0.0.1:9119}\n")
	if at := c.Services[PageService].Environment["RLMINIT_PAGE_FLEET"]; at.Text != "127.0.0.1:9119" {
		t.Errorf("the page asks the agent at %q", at.Text)
	}
	for text, want := range map[string]string{
		"fleet: {release: soon}": `fleet.release: "soon" is no duration; write 9s, 1m30s or 100ms`,
		"fleet: prod":            `fleet: "prod" is a string; write a mapping, key: value`,
		"services: {fleet: {command: [mine]}}\nfleet: {name: prod}": "services.fleet: the name fleet is taken by the section fleet, at line 3; give this service another one",
	} {
		if _, faults := Parse(bundle("version: 1\n"+text+"\n"), vars{}.lookup); len(faults) != 1 || faults[0].Field+": "+faults[0].Text != want {
			t.Errorf("%s: %v", text, faults)
		}
	}
}
