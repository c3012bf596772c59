package service

import (
	"strings"
	"testing"
)

// A level allows what those below it do, and a boolean is none or all of them.
func TestControl(t *testing.T) {
	for text, want := range map[string]Control{
		"true": ControlAll, "on": ControlAll, "false": ControlNone, "read": ControlRead, "operate": ControlOperate, "approve": ControlApprove,
	} {
		d, faults := Decode("web/service.yaml", "web", []byte("command: [web]\ncontrol: "+text+"\n"), nil)
		if len(faults) > 0 || d.Control != want {
			t.Errorf("%s: %q, %v", text, d.Control, faults)
		}
	}
	_, faults := Decode("web/service.yaml", "web", []byte("command: [web]\ncontrol: operat\n"), nil)
	if len(faults) != 1 || !strings.Contains(faults[0].Error(), `control: "operat" is refused; did you mean "operate"?`) {
		t.Error(faults)
	}
	for i, c := range controls {
		for j, needs := range controls {
			if c.Allows(needs) != (i >= j) {
				t.Errorf("%q allows %q: %v", c, needs, i < j)
			}
		}
	}
}
