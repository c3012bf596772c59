package profiles

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rlminit/internal/durable"
	"rlminit/profiles/secrets"
)

// The number of a profile's secrets is never that of others that it had before, also where
// it had none in between: a process that runs with those would seem to have these.
func TestNumbersOfSecretsAreNotUsedAgain(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	seen, name := map[int]bool{}, "alice"
	for _, set := range []map[string]string{{"A": "1"}, nil, {"A": "2"}, {"A": "1"}, {}, {"B": "1"}} {
		if _, err := v.SetSecrets(name, set, nil); err != nil {
			t.Fatal(err)
		}
		number, err := v.Secrets.Version(name)
		if err != nil || (number == 0) != (len(set) == 0) || number != 0 && seen[number] {
			t.Errorf("%v: number %d, %v", set, number, err)
		}
		seen[number] = true
		other := map[string]string{"alice": "bob", "bob": "alice"}[name]
		_, err = v.Rename(name, other, nil)
		must(t, err)
		name = other
	}
}

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
		if changed, err := v.SetSecrets("alice", want, nil); err != nil || changed != changes {
			t.Errorf("%v %v", changed, err)
		}
		has(want)
	}
	has(nil)
	save(nil, false)
	save(map[string]string{"A": "1", "B": "two\n"}, true)
	save(map[string]string{"A": "1", "B": "two\n"}, false)
	save(map[string]string{"B": "three"}, true)
	if entries, _ := os.ReadDir(v.path(".rlminit/secrets/alice")); len(entries) != 2 {
		t.Errorf("left: %v", entries)
	}
	if info, _ := os.Stat(v.path(".rlminit/secrets/alice")); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := v.SetSecrets("alice", map[string]string{".x": ""}, nil); err == nil {
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
	v.secretsAre(secrets.Trashed("alice-revision-1"), map[string]string{"B": "four"})
	v.create("alice", Creation{})
	has(nil)
	save(map[string]string{"B": "five"}, true)
	if _, err := v.Delete("alice", true, nil); err != nil {
		t.Fatal(err)
	}
	has(nil)
}

// secretive is a volume with alice, who has a secret, and dora in the trash.
func secretive(t *testing.T) *volume {
	t.Helper()
	v := newVolume(t, nil)
	v.create("alice", Creation{Secrets: map[string]string{"S": "s"}})
	v.create("dora", Creation{})
	_, err := v.Delete("dora", false, nil)
	must(t, err)
	return v
}

// secretsAre holds what a profile has against what it is to have.
func (v *volume) secretsAre(name string, want map[string]string) {
	v.t.Helper()
	if got, err := v.Secrets.Of(name); err != nil || !maps.Equal(got, want) {
		v.t.Errorf("%s has %v %v, want %v", name, got, err, want)
	}
}

// keeps holds the names under which secrets lie against those of profiles.
func (v *volume) keeps(want ...string) {
	v.t.Helper()
	var got []string
	entries, _ := os.ReadDir(v.path(secrets.Home))
	for _, e := range entries {
		if e.Name() != path.Dir(secrets.Trashed("x")) {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("secrets are kept of %q, want %q", got, want)
	}
}

// orphan leaves secrets under the name of no profile, as a disk that fails may.
func (v *volume) orphan(name string) {
	v.t.Helper()
	v.write(secrets.Home+"/"+name+"/1/S", "another's")
}

// A profile has its secrets under its new name, and nobody has them under the old one.
func TestRenameKeepsSecrets(t *testing.T) {
	v := secretive(t)
	v.orphan("bob")
	_, err := v.Rename("alice", "bob", nil)
	must(t, err)
	v.secretsAre("bob", map[string]string{"S": "s"})
	v.keeps("bob")
	v.reopen(nil)
	v.secretsAre("bob", map[string]string{"S": "s"})
	_, err = v.Rename("bob", "alice", nil)
	must(t, err)
	v.secretsAre("alice", map[string]string{"S": "s"})
	v.keeps("alice")
}

// takers are all the ways to take a name, here bob.
var takers = map[string]func(*volume) error{
	"create":  func(v *volume) error { _, _, err := v.Create("bob", Creation{}); return err },
	"clone":   func(v *volume) error { _, _, err := v.Create("bob", Creation{Clone: "alice"}); return err },
	"import":  func(v *volume) error { _, err := v.imported("bob", exported(v.t, v, "alice")); return err },
	"restore": func(v *volume) error { _, _, err := v.Create("bob", Creation{Restore: "dora"}); return err },
	"rename": func(v *volume) error {
		v.create("carol", Creation{})
		_, err := v.Rename("carol", "bob", nil)
		return err
	},
	"take what is there": func(v *volume) error {
		must(v.t, os.Mkdir(v.path("profiles/bob"), 0o750))
		_, _, err := v.Create("bob", Creation{ExistOK: true})
		return err
	},
	"take back": func(v *volume) error {
		v.create("bob", Creation{})
		must(v.t, v.Discard("bob", "bob-revision-1"))
		v.orphan("bob")
		_, err := v.Restore("bob", "bob-revision-1", nil, nil)
		return err
	},
}

// Whoever takes a name has nothing of what another has left under it.
func TestNextOwnerOfANameHasNoSecrets(t *testing.T) {
	for name, take := range takers {
		t.Run(name, func(t *testing.T) {
			v := secretive(t)
			v.orphan("bob")
			must(t, take(v))
			v.secretsAre("bob", nil)
			v.secretsAre("alice", map[string]string{"S": "s"})
			v.keeps("alice")
			v.reopen(nil)
			v.secretsAre("bob", nil)
		})
	}
}

// A name that a rename has left is nobody's: the next profile of it begins anew.
func TestRestoreOntoAnOrphanedNameHasNoSecrets(t *testing.T) {
	v := secretive(t)
	_, err := v.Rename("alice", "bob", nil)
	must(t, err)
	v.orphan("alice") // what could not be removed
	p, _, err := v.Create("alice", Creation{Restore: "dora", Secrets: map[string]string{"T": "t"}})
	must(t, err)
	v.secretsAre(p.Name, map[string]string{"T": "t"})
	_, err = v.Delete("alice", false, nil)
	must(t, err)
	v.orphan("alice")
	v.create("alice", Creation{Restore: "alice"})
	v.secretsAre("alice", map[string]string{"T": "t"})
	v.keeps("alice", "bob")
}

// A boot leaves secrets that are no profile's, and says so; a copy that a kill has left it
// removes.
func TestOrphanedSecretsAreSaid(t *testing.T) {
	v := secretive(t)
	v.create("bob", Creation{Secrets: map[string]string{"S": "b"}})
	boot := func() {
		t.Helper()
		v.reopen(nil)
		v.PrepareBoot(slices.Collect(maps.Values(v.list())))
	}
	v.orphan("orphan")
	must(t, v.Secrets.Move("alice", "copy"))
	must(t, v.Secrets.Bury("alice", "alice-20260101T000000Z"))
	v.create("given", Creation{Secrets: map[string]string{"S": "s"}}) // what others have too
	must(t, os.Rename(v.path("profiles/given"), v.path("given")))
	v.write(secrets.Home+"/"+secrets.Trashed("gone-20260101T000000Z")+"/1/S", "only here")
	v.write(secrets.Home+"/"+durable.TempName()+"/1/S", "half removed")
	must(t, os.Rename(v.path("profiles/bob/profile.yaml"), v.path("profiles/bob/aside")))
	boot()
	v.keeps("alice", "bob", "given", "orphan")
	v.secretsAre(secrets.Trashed("alice-20260101T000000Z"), nil)
	v.secretsAre(secrets.Trashed("gone-20260101T000000Z"), map[string]string{"S": "only here"})
	for _, name := range []string{"orphan", "gone"} {
		if !slices.ContainsFunc(v.told, func(line string) bool { return strings.Contains(line, "secrets of a profile "+name+" are kept") }) {
			t.Errorf("said is %q", v.told)
		}
	}
	// Of a volume without any profile, they may lie on another that is not mounted.
	must(t, os.Rename(v.path("profiles"), v.path("elsewhere")))
	v.write(secrets.Home+"/copy/1/S", "s")
	boot()
	v.keeps("alice", "bob", "copy", "given", "orphan")
}

// What a kill has left of earlier secrets goes with the next ones, or at the next boot.
func TestSecretsOfBeforeAreRemoved(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Secrets: map[string]string{"A": "1"}})
	left := func() int {
		entries, err := os.ReadDir(v.path(".rlminit/secrets/alice"))
		must(t, err)
		return len(entries)
	}
	for _, again := range []func(){
		func() { _, err := v.SetSecrets("alice", map[string]string{"A": "3"}, nil); must(t, err) },
		func() { v.sweepSecrets([]string{"alice"}) },
	} {
		number, err := v.Secrets.Version("alice")
		must(t, err)
		must(t, os.Rename(v.path(".rlminit/secrets/alice/"+strconv.Itoa(number)), v.path(".rlminit/secrets/alice/9")))
		must(t, os.Rename(v.path(".rlminit/secrets/alice/"+strconv.Itoa(number)+".json"), v.path(".rlminit/secrets/alice/9.json")))
		must(t, os.Mkdir(v.path(".rlminit/secrets/alice/8"), 0o700))
		must(t, os.Mkdir(v.path(".rlminit/secrets/alice/2"), 0o700))
		if again(); left() != 2 {
			t.Errorf("%d are left", left())
		}
	}
}

// Secrets of an entry of the trash that were forgotten and that a kill has left are gone after
// the next boot, also where no profile is there.
func TestForgottenSecretsInTheTrashAreRemoved(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Secrets: map[string]string{"A": "1"}})
	where, err := v.Delete("alice", false, nil)
	must(t, err)
	dir := v.path(secrets.Home + "/" + secrets.Trashed(path.Base(where)))
	_, err = v.Secrets.Lose(path.Base(where))
	must(t, err)
	must(t, os.Mkdir(dir+"/1", 0o700)) // as before Lose has tidied
	must(t, os.WriteFile(dir+"/1/A", []byte("1"), 0o600))
	v.reopen(nil)
	v.PrepareBoot(nil)
	if _, err := os.Stat(dir + "/1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the value is there after the boot: %v", err)
	}
	if lost := v.Secrets.Lost(path.Base(where)); !slices.Equal(lost, []string{"A"}) {
		t.Errorf("forgotten are %v", lost)
	}
}

// A deleted profile's secrets are with its entry in the trash: a restore brings them back,
// also under another name, a new profile of the name does not get them, and a purge removes
// them.
func TestRestoreBringsSecretsBack(t *testing.T) {
	uid := uint32(7)
	v := newVolume(t, nil)
	v.create("alice", Creation{Secrets: map[string]string{"S": "s", "T": "t"}, Actor: &Actor{UID: uid}})
	must(t, func() error { _, err := v.SetSecrets("alice", map[string]string{"S": "s2", "T": "t"}, nil); return err }())
	since := v.Secrets.Since("alice")
	where, err := v.Delete("alice", false, nil)
	must(t, err)
	v.reopen(nil)
	v.PrepareBoot(slices.Collect(maps.Values(v.list())))
	v.create("alice", Creation{})
	v.secretsAre("alice", nil)
	v.create("bob", Creation{Restore: path.Base(where)})
	v.secretsAre("bob", map[string]string{"S": "s2", "T": "t"})
	v.secretsAre(secrets.Trashed(path.Base(where)), nil)
	if got := v.Secrets.Since("bob"); !reflect.DeepEqual(got, since) || *got["T"].UID != uid || got["S"].Version != 2 || got["T"].Version != 1 {
		t.Errorf("%+v, want %+v", got, since)
	}
	where, err = v.Delete("bob", false, nil)
	must(t, err)
	lost, err := v.Secrets.Lose(path.Base(where), "T")
	if err != nil || !slices.Equal(lost, []string{"T"}) || !slices.Equal(v.Secrets.Lost(path.Base(where)), lost) {
		t.Errorf("%v %v", lost, err)
	}
	v.create("bob", Creation{Restore: "bob"})
	v.secretsAre("bob", map[string]string{"S": "s2"})
	_, err = v.Delete("bob", false, nil)
	must(t, err)
	must(t, v.empty(path.Base(where)))
	if left, _ := os.ReadDir(v.path(secrets.Home + "/" + path.Dir(secrets.Trashed("x")))); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The last secret under a name that no profile has is forgotten, and no boot names it again.
func TestForgottenSecretsOfNobody(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{Secrets: map[string]string{"A": "1", "B": "2"}})
	if err := os.RemoveAll(v.tree.home.Path(dirOf("alice"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key       string
		own, left bool
	}{{"C", false, true}, {"A", true, true}, {"B", true, false}, {"B", false, false}} {
		own, trash, err := v.ForgetSecrets("alice", []string{c.key}, nil)
		_, there := os.Lstat(v.tree.ours.Path(secrets.Home + "/alice"))
		if err != nil || own != c.own || len(trash) > 0 || (there == nil) != c.left {
			t.Errorf("%s: %t %q %v, and then %v", c.key, own, trash, err, there)
		}
	}
}
