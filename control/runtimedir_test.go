package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketIn makes a runtime directory with something in the socket's place.
func socketIn(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	put(t, filepath.Join(dir, SocketName), "")
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRuntimeDirs(t *testing.T) {
	got := strings.Join(RuntimeDirs("/x/", 1000), " ")
	if want := "/x /run/rlminit /dev/shm/rlminit-1000 /dev/shm/rlminit-0"; got != want {
		t.Errorf("RuntimeDirs = %q, want %q", got, want)
	}
	if got := RuntimeDirs("", 0)[0]; got != "/run/rlminit" {
		t.Errorf("the first is %q", got)
	}
}

func TestFirstWithSocket(t *testing.T) {
	empty, first, second := t.TempDir(), socketIn(t, 0o755), socketIn(t, 0o700)
	dir, err := findRuntimeDir([]string{"/nonexistent", empty, first, second}, os.Geteuid())
	if err != nil || dir != first {
		t.Errorf("found %q, %v; want %q", dir, err, first)
	}
	dir, err = findRuntimeDir([]string{"/nonexistent", empty}, os.Geteuid())
	if err != nil || dir != "/nonexistent" {
		t.Errorf("found %q, %v; want the first, to be named in the error", dir, err)
	}
}

func TestUntrustedDirectory(t *testing.T) {
	good := socketIn(t, 0o755)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ dir, want string }{
		"open to all": {socketIn(t, 0o757), "anybody may write to it"},
		"a link":      {link, "it is not a directory"},
	}
	uid := os.Geteuid()
	if uid == 0 {
		foreign := socketIn(t, 0o755)
		if err := os.Chown(foreign, 4242, 4242); err != nil {
			t.Fatal(err)
		}
		tests["somebody else's"] = struct{ dir, want string }{foreign, "it belongs to uid 4242, which is neither root nor you (uid 0); use docker exec -u 4242"}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := findRuntimeDir([]string{test.dir}, uid)
			var p *Problem
			if !errors.As(err, &p) || p.ExitCode != ExitNotPermitted || !strings.Contains(p.Detail, test.want) {
				t.Errorf("err = %v, want %q", err, test.want)
			}
			if dir, err := findRuntimeDir([]string{test.dir, good}, uid); err != nil || dir != good {
				t.Errorf("with a good one behind it: %q, %v", dir, err)
			}
		})
	}
}
