package prepare

import (
	"os"
	"path/filepath"
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
