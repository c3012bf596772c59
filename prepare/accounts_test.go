package prepare

import (
	"os"
	"path/filepath"
	"testing"

	"rlminit/wire"
)

const passwdText = "root:x:0:0:root:/root:/bin/sh\n# app:x:1:1\napp:x:1000:1000:services,,:/data:/bin/sh\nother:x:1000:1000::/:\nlast:x:5:5"

const groupText = "root:x:0:\napp:x:1000:other,last\nalias:x:1000:\nwheel:x:10:app\n"

func TestRename(t *testing.T) {
	for name, c := range map[string]struct {
		user          string
		id            wire.Identity
		passwd, group string
	}{
		"both": {
			"app",
			wire.Identity{UID: 1500, GID: 1600},
			"root:x:0:0:root:/root:/bin/sh\n# app:x:1:1\napp:x:1500:1600:services,,:/data:/bin/sh\nother:x:1000:1000::/:\nlast:x:5:5",
			"root:x:0:\napp:x:1600:other,last\nalias:x:1600:\nwheel:x:10:app\n",
		},
		"uid alone": {
			"app:app",
			wire.Identity{UID: 1500, GID: 1000},
			"root:x:0:0:root:/root:/bin/sh\n# app:x:1:1\napp:x:1500:1000:services,,:/data:/bin/sh\nother:x:1000:1000::/:\nlast:x:5:5", groupText,
		},
		"the last line": {
			"last",
			wire.Identity{UID: 6, GID: 6},
			"root:x:0:0:root:/root:/bin/sh\n# app:x:1:1\napp:x:1000:1000:services,,:/data:/bin/sh\nother:x:1000:1000::/:\nlast:x:6:6", groupText,
		},
		"nothing to do":      {"app", wire.Identity{UID: 1000, GID: 1000}, passwdText, groupText},
		"a uid, not a name":  {"1000", wire.Identity{UID: 1500, GID: 1500}, passwdText, groupText},
		"nobody of the name": {"absent", wire.Identity{UID: 1500, GID: 1500}, passwdText, groupText},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
			write(t, passwd, passwdText, 0o644)
			write(t, group, groupText, 0o640)
			for range 2 { // the second time finds all as it should be
				if err := rename(passwd, group, c.user, c.id); err != nil {
					t.Fatal(err)
				}
			}
			for file, want := range map[string]string{passwd: c.passwd, group: c.group} {
				if got := read(t, file); got != want {
					t.Errorf("%s:\n%s\nwant\n%s", filepath.Base(file), got, want)
				}
			}
			if info, err := os.Stat(group); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestRenameWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	if err := rename(filepath.Join(dir, "passwd"), filepath.Join(dir, "group"), "app", wire.Identity{UID: 5, GID: 5}); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
