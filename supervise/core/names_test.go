package core

import (
	"slices"
	"testing"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// A definition means a service by its name, or by its other name as long as no service
// has that; whoever comes or goes, it is found out anew. Of a name that nobody has
// somebody is told, each time.
func TestWhomADefinitionMeans(t *testing.T) {
	s := &Set{}
	var absent []string
	step := func(in Input) {
		in.Now, in.NextID = 1, 1
		absent = nil
		for _, e := range s.Step(in) {
			if e.Kind == Absent {
				absent = append(absent, e.Name)
			}
		}
	}
	define := func(name, alias string, wants ...string) {
		step(Input{Kind: Define, Name: name, Alias: alias, Definition: &Definition{Wants: wants}})
	}
	remove := func(name string) {
		step(Input{Kind: Happened, Node: s.Find(name).Node(), Event: machine.Event{Kind: machine.Remove}})
	}
	means := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, e := range s.order.Edges(s.Find("user").Node()) {
			if e.Kind != order.Wants {
				t.Errorf("%s: the edge is %s", what, e.Kind)
			}
			got = append(got, s.naming.names[e.To])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: it means %q, want %q", what, got, want)
		}
	}
	define("user", "", "alice")
	if means("nobody is there", "alice"); !slices.Equal(absent, []string{"alice"}) {
		t.Errorf("told of %q", absent)
	}
	define("gateway-alice", "alice")
	means("a gateway", "gateway-alice")
	define("alice", "")
	means("a service too", "alice")
	remove("alice")
	means("the gateway again", "gateway-alice")
	remove("gateway-alice")
	if means("nobody again", "alice"); !slices.Equal(absent, []string{"alice"}) {
		t.Errorf("told of %q", absent)
	}
	remove("user")
	if s.Names() != 0 {
		t.Errorf("names that nobody has and nobody means are known: %v", s.naming.nodes)
	}
}
