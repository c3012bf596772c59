package profiles

import (
	"slices"
	"testing"
)

// Of some names the list is what it is of all, whatever is there.
func TestSomeAreListedAsAll(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.Default = true; s.Marker = "marker" })
	v.write("marker", "")
	for _, name := range []string{"alice", "bob", "carol"} {
		v.create(name, Creation{Environment: map[string]string{"A": name}})
	}
	v.write("profiles/broken/marker/x", "")     // no regular file
	v.write("profiles/empty/notes", "")         // no marker
	v.write("profiles/file", "")                // no directory
	v.write("profiles/No Name/marker", "")      // no name for one
	v.write("profiles/found/marker", "")        // without a record
	v.write("profiles/dashboard/marker", "")    // the name of a service: it is one that cannot be run
	v.write("profiles/found/profile.yaml", "{") // unusable, which is found out later
	all, err := v.List()
	must(t, err)
	names := []string{"gone", Default}
	for _, p := range all {
		names = append(names, p.Name)
	}
	names = append(names, "empty", "file", "No Name")
	for _, some := range [][]string{names, {"alice"}, {"bob", "broken"}, {Default}, {"gone"}, {"found", "empty", "file"}} {
		got, err := v.List(some...)
		must(t, err)
		want := slices.DeleteFunc(slices.Clone(all), func(p Profile) bool { return !slices.Contains(some, p.Name) })
		if len(got) != len(want) {
			t.Errorf("of %q: %d are listed, not %d", some, len(got), len(want))
			continue
		}
		for i := range got {
			same := got[i].Name == want[i].Name && got[i].Dir == want[i].Dir && got[i].Port == want[i].Port && got[i].Record == want[i].Record &&
				string(got[i].overrides) == string(want[i].overrides) && (got[i].Fault == nil) == (want[i].Fault == nil)
			if !same {
				t.Errorf("of %q: %+v, not %+v", some, got[i], want[i])
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.told) != 2 { // of what is skipped, each once
		t.Errorf("said: %q", v.told)
	}
}

// The port of a profile that is gone is free again when somebody looks for it, and
// nobody else's is.
func TestWhoLooksForOneThatIsGoneFreesItsPort(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Port: 9300})
	v.create("bob", Creation{Port: 9301})
	must(t, v.Store.tree.home.RemoveAll("profiles/alice"))
	must(t, v.Store.tree.home.RemoveAll("profiles/bob"))
	_, err := v.List("alice")
	must(t, err)
	v.create("carol", Creation{Port: 9300})
	if _, _, err := v.Create("dave", Creation{Port: 9301}); err == nil {
		t.Error("a port is given away of which nobody knows yet that it is free")
	}
}
