package registry

import (
	"strings"
	"testing"
)

// A stranger's definition one past the room for all of them is refused, and says how much
// there is; one that the configuration has is not.
func TestOneDefinitionTooMany(t *testing.T) {
	text := []byte("command: [/bin/true]\n")
	for past := range 2 {
		d := &reader{names: &names{sources: sourcesMax - len(text) + past}}
		p := &Proposal{Name: "web", source: text}
		d.understand(p, &entry{}, nil)
		if strings.Contains(p.Fault, "if all have at most 8388608 together") != (past == 1) {
			t.Errorf("%d past the room: %q", past, p.Fault)
		}
	}
}
