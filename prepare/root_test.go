package prepare

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// A volume that nothing was written to is given to the user that was asked for;
// anything else keeps its owner.
func TestGiveHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	for name, c := range map[string]struct {
		owner  int
		lay    func(home string) string // returns what to give
		change bool
	}{
		"root's":           {0, nil, true},
		"the image user's": {1000, nil, true},
		"somebody's":       {4242, nil, false},
		"not empty": {0, func(home string) string {
			write(t, filepath.Join(home, ".hidden"), "", 0o600)
			return home
		}, false},
		"a link": {0, func(home string) string {
			link := filepath.Join(filepath.Dir(home), "link")
			if err := os.Symlink(home, link); err != nil {
				t.Fatal(err)
			}
			return link
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			if err := os.Mkdir(home, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(home, c.owner, c.owner); err != nil {
				t.Fatal(err)
			}
			given := home
			if c.lay != nil {
				given = c.lay(home)
			}
			giveHome(given, 1000, wire.Identity{UID: 1500, GID: 1600})
			var st unix.Stat_t
			if err := unix.Stat(home, &st); err != nil {
				t.Fatal(err)
			}
			if changed := st.Uid == 1500 && st.Gid == 1600; changed != c.change || !changed && int(st.Uid) != c.owner {
				t.Errorf("owner %d:%d", st.Uid, st.Gid)
			}
		})
	}
}

// Own repairs each profile whose own directory is another's, though all around it
// is right; what lies deeper only where it is told to.
func TestOwnLooksAtEachProfile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	for text, deep := range map[string]bool{"own: [.]\n": false, "own: [profiles]\n": false, "own: [{path: ., deep: true}]\n": true} {
		home := t.TempDir()
		for _, dir := range []string{"profiles/alice/cache", "profiles/restored/cache"} {
			if err := os.MkdirAll(filepath.Join(home, dir), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		mine := []string{"", "profiles", "profiles/alice"}
		for _, dir := range mine {
			if err := os.Chown(filepath.Join(home, dir), 1500, 1500); err != nil {
				t.Fatal(err)
			}
		}
		if notes := AsRoot(parsed(t, home, "user: \"1500\"\n"+text), wire.Identity{UID: 1500, GID: 1500}, wire.Identity{UID: 1500, GID: 1500}, wire.Profiles{}); len(notes) > 0 {
			t.Errorf("%q", notes)
		}
		for dir, changed := range map[string]bool{
			"profiles/restored": true, "profiles/restored/cache": true, "profiles/alice": true, "profiles/alice/cache": deep,
		} {
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(home, dir), &st); err != nil || (st.Uid == 1500) != changed {
				t.Errorf("%s: %s belongs to %d, %v", text, dir, st.Uid, err)
			}
		}
	}
}

// A directory may be another user's, whose service could not make it: the volume
// is not its own.
func TestDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home := t.TempDir()
	c := parsed(t, home, "user: \"1500\"\ndirs: [{path: db/redis, mode: \"0700\", owner: \"1600:1601\"}]\n")
	for range 2 {
		if notes := AsRoot(c, wire.Identity{UID: 1500, GID: 1500}, wire.Identity{UID: 1500, GID: 1500}, wire.Profiles{}); len(notes) > 0 {
			t.Errorf("%q", notes)
		}
	}
	for dir, want := range map[string][3]uint32{"db": {1500, 1500, 0o750}, "db/redis": {1600, 1601, 0o700}} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(home, dir), &st); err != nil || [3]uint32{st.Uid, st.Gid, st.Mode & 0o777} != want {
			t.Errorf("%s: %d:%d %o, %v", dir, st.Uid, st.Gid, st.Mode, err)
		}
	}
	if err := volume(c, func(line string) { t.Error(line) }); err != nil { // and it is left alone by who cannot change it
		t.Error(err)
	}
}

// A service may have made something where root is to make a directory: it is left alone,
// said once, and ends no start.
func TestSomethingInTheWayOfADirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home, outside := t.TempDir(), t.TempDir()
	seed := filepath.Join(outside, "seed")
	err := os.WriteFile(seed, nil, 0o600)
	for _, step := range []func() error{
		func() error { return os.WriteFile(filepath.Join(home, "page"), nil, 0o600) },
		func() error { return os.Symlink(outside, filepath.Join(home, "link")) },
		func() error { return os.WriteFile(filepath.Join(home, "cache"), nil, 0o600) },
		func() error { return os.Mkdir(filepath.Join(home, "theirs"), 0o700) },
		func() error { return os.Chown(filepath.Join(home, "theirs"), 1700, 1700) },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	c := parsed(t, home, "user: \"1500\"\ndirs:\n"+
		"  - {path: page, owner: \"1600:1601\"}\n  - {path: link/in, owner: \"1600:1601\"}\n  - cache\n  - theirs\n  - good\n"+
		"seed: [{from: "+seed+", to: cache/seed}]\n")
	services := wire.Identity{UID: 1500, GID: 1500}
	if notes := AsRoot(c, services, services, wire.Profiles{}); len(notes) > 0 {
		t.Errorf("root's part: %q", notes)
	}
	var said []string
	if err := volume(c, func(line string) { said = append(said, line) }); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"page is no directory", "link is a symbolic link", "cache is no directory", "theirs belongs to uid 1700", "seed: "} {
		if n := strings.Count(strings.Join(said, "\n"), want); n == 0 {
			t.Errorf("nobody says %q: %q", want, said)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(home, "good"), &st); err != nil || st.Mode&0o777 != 0o750 {
		t.Errorf("the rest is not made: %v", err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("a link was followed: %v, %v", entries, err)
	}
	if err := unix.Stat(filepath.Join(home, "page"), &st); err != nil || st.Uid != 0 {
		t.Errorf("what lay there is given to uid %d: %v", st.Uid, err)
	}
}

// What a start does not look at in the directories of profiles it says, once, with whose
// they are and what to do.
func TestReclaimSaysWhatItLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home := t.TempDir()
	for _, dir := range []string{"profiles/alice/many", "profiles/bob", "profiles/carol/few"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for i := range reclaimMost {
		if err := os.WriteFile(filepath.Join(home, "profiles/alice/many", strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{".", "profiles", "profiles/alice", "profiles/bob", "profiles/carol"} {
		if err := os.Chown(filepath.Join(home, dir), 1500, 1500); err != nil {
			t.Fatal(err)
		}
	}
	services := wire.Identity{UID: 1500, GID: 1500}
	notes := AsRoot(parsed(t, home, "user: \"1500\"\ngateway: {command: [x]}\n"), services, services, wire.Profiles{})
	if len(notes) != 1 || !strings.Contains(notes[0], "of profile alice not all files") || !strings.HasSuffix(notes[0], "rlminit profile repair alice looks at the rest") {
		t.Errorf("%q", notes)
	}
	if notes := AsRoot(parsed(t, home, "user: \"1500\"\ngateway: {command: [x]}\nown: [{path: ., deep: true}]\n"), services, services, wire.Profiles{}); len(notes) > 0 {
		t.Errorf("where all is looked at: %q", notes)
	}
	if err := leftAlone([]string{"trash/dave.1"}); err != nil {
		t.Errorf("of what is in the trash: %v", err)
	}
	if err := leftAlone([]string{"profiles/b", "trash/a", "profiles/a"}); err == nil || !strings.Contains(err.Error(), "of profile a and 1 more not all") {
		t.Errorf("of several: %v", err)
	}
}
