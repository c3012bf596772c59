package profiles

import (
	"maps"
	"os"
	"testing"
)

// A profile's secrets are replaced as a whole, and go with it.
func TestSecrets(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	has := func(want map[string]string) {
		t.Helper()
		got, err := v.Secrets.Of("alice")
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
		dir := v.Secrets.Dir("alice")
		if (dir == "") != (len(want) == 0) {
			t.Errorf("they are in %q", dir)
		}
		for name, value := range want {
			if b, err := os.ReadFile(dir + "/" + name); err != nil || string(b) != value {
				t.Errorf("%s: %v %s", name, err, b)
			}
		}
	}
	save := func(want map[string]string, changes bool) {
		t.Helper()
		if changed, err := v.Secrets.Save("alice", want); err != nil || changed != changes {
			t.Errorf("%v %v", changed, err)
		}
		has(want)
	}
	has(nil)
	save(nil, false)
	save(map[string]string{"A": "1", "B": "two\n"}, true)
	save(map[string]string{"A": "1", "B": "two\n"}, false)
	save(map[string]string{"B": "three"}, true)
	if entries, _ := os.ReadDir(v.path(".rlminit/secrets/alice")); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	if info, _ := os.Stat(v.path(".rlminit/secrets/alice")); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := v.Secrets.Save("alice", map[string]string{".x": ""}); err == nil {
		t.Error("an odd name was taken")
	}
	has(map[string]string{"B": "three"})
	// A kill in the middle leaves what was there.
	must(t, os.Mkdir(v.path(".rlminit/secrets/alice/.rlminit-half"), 0o700))
	has(map[string]string{"B": "three"})
	save(nil, true)
	save(map[string]string{"B": "four"}, true)
	must(t, v.Discard("alice", "alice-revision-1"))
	has(nil)
	v.create("alice", Creation{})
	has(nil)
	save(map[string]string{"B": "five"}, true)
	if _, err := v.Delete("alice", true, nil); err != nil {
		t.Fatal(err)
	}
	has(nil)
}
