package service

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// set makes definitions of "web: requires db, after cache; db".
func set(text string) map[string]*Definition {
	all := map[string]*Definition{}
	for one := range strings.SplitSeq(text, ";") {
		name, rest, _ := strings.Cut(strings.TrimSpace(one), ":")
		d := Default(name)
		for part := range strings.SplitSeq(rest, ",") {
			key, other, _ := strings.Cut(strings.TrimSpace(part), " ")
			switch key {
			case "requires":
				d.Requires = append(d.Requires, other)
			case "wants":
				d.Wants = append(d.Wants, other)
			case "after":
				d.After = append(d.After, other)
			}
		}
		all[name] = d
	}
	return all
}

func TestCheckSet(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"web: requires db, wants cache, after log; db; cache; log", ""},
		{"web: requires gateway-alice", ""}, // profiles come and go
		{"web: requires dbb; db", `web.requires: no service "dbb"; did you mean "db"?`},
		{"web: after databse; database", `web.after: no service "databse"; did you mean "database"?`},
		{"web: wants a, requires b", "web.requires: no service \"b\"\nweb.wants: no service \"a\""},
		{"all", "all: the name is reserved; choose another"},
		{"a: requires b; b: after a", "a.requires: the services wait for each other: a → b → a; take one of them out"},
		{"a: requires a", "a.requires: the services wait for each other: a → a; take one of them out"},
		{"a: wants c; c: requires b; b: after a; d: after a", "a.wants: the services wait for each other: a → c → b → a; take one of them out"},
		{
			"a: after b; b: after a; c: after d; d: after c",
			"a.after: the services wait for each other: a → b → a; take one of them out\n" +
				"c.after: the services wait for each other: c → d → c; take one of them out",
		},
		// One knot is one fault, by its shortest way.
		{"a: after b, after c; b: after c; c: after a", "a.after: the services wait for each other: a → c → a; take one of them out"},
		// What merely leads into a knot is not named.
		{"a: after b; b: after c; c: after b", "b.after: the services wait for each other: b → c → b; take one of them out"},
	} {
		if got := CheckSet(set(c.set)).Error(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.set, got, c.want)
		}
	}
}

func TestFaultOfASetNamesItsService(t *testing.T) {
	faults := CheckSet(set("web: requires x; b: after c; c: after b"))
	var names []string
	for _, f := range faults {
		names = append(names, f.Service)
	}
	if want := []string{"web", "b"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestGraph(t *testing.T) {
	g := NewGraph(set("web: requires db, after db, after cache; db; cache: wants db; x: after missing; p: after q; q: after p"))
	if got := g.after["web"]; !reflect.DeepEqual(got, []string{"cache", "db"}) {
		t.Errorf("after: %v", got)
	}
	if got := g.before["db"]; !reflect.DeepEqual(got, []string{"cache", "web"}) {
		t.Errorf("before: %v", got)
	}
	want := [][]string{{"db", "x"}, {"cache"}, {"web"}}
	if got := g.Levels(); !reflect.DeepEqual(got, want) {
		t.Errorf("Levels: %v, want %v", got, want)
	}
}

func TestLargeSetIsQuick(t *testing.T) {
	all := map[string]*Definition{}
	const n = 10_000
	for i := range n {
		d := Default(fmt.Sprintf("s%d", i))
		d.After = []string{fmt.Sprintf("s%d", (i+1)%n)} // one cycle through all
		all[d.Name] = d
	}
	faults := CheckSet(all)
	if len(faults) != 1 {
		t.Fatalf("%d faults", len(faults))
	}
	delete(all, "s0")
	if levels := NewGraph(all).Levels(); len(levels) != n-1 {
		t.Errorf("%d levels", len(levels))
	}
}
