package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/unprivileged"
)

// bothWays runs a test with openat2 and without.
func bothWays(t *testing.T, test func(t *testing.T)) {
	has := hasOpenat2
	defer func() { hasOpenat2 = has }()
	if has() {
		t.Run("openat2", test)
	}
	hasOpenat2 = func() bool { return false }
	t.Run("component by component", test)
}

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, path := open(t)
		must(t, d.MkdirAll("a/b", 0o750))
		old := unix.Umask(0o077)
		defer unix.Umask(old)
		for _, content := range []string{"first", "", strings.Repeat("x", 70_000)} {
			must(t, d.WriteFile("a/b/file", []byte(content), Write{Mode: 0o640, Names: true}))
			got, err := d.ReadFile("a/b/file", 1<<20)
			must(t, err)
			if string(got) != content {
				t.Errorf("read %d bytes, wrote %d", len(got), len(content))
			}
		}
		info, err := os.Stat(filepath.Join(path, "a/b/file"))
		must(t, err)
		if info.Mode().Perm() != 0o640 {
			t.Errorf("mode %v, want 0640 whatever the umask", info.Mode())
		}
		if left, err := os.ReadDir(filepath.Join(path, "a/b")); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}

func TestReadersNeverSeeHalfAFile(t *testing.T) {
	d, _ := open(t)
	sizes := []int{10, 50_000}
	must(t, d.WriteFile("file", bytes.Repeat([]byte{'a'}, sizes[0]), Write{Mode: 0o600}))
	done := make(chan error, 1)
	go func() {
		for i := range 100 {
			if err := d.WriteFile("file", bytes.Repeat([]byte{'a'}, sizes[i%2]), Write{Mode: 0o600}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reading := true; reading; {
		select {
		case err := <-done:
			must(t, err)
			reading = false
		default:
			got, err := d.ReadFile("file", 1<<20)
			must(t, err)
			if len(got) != sizes[0] && len(got) != sizes[1] {
				t.Fatalf("saw %d bytes", len(got))
			}
		}
	}
}

func TestReadRefusesWhatIsNoPlainFile(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, path := open(t)
		secret := filepath.Join(t.TempDir(), "secret")
		must(t, os.WriteFile(secret, []byte("secret"), 0o600))
		must(t, os.Symlink(secret, filepath.Join(path, "link")))
		must(t, os.Symlink(filepath.Dir(secret), filepath.Join(path, "linkdir")))
		must(t, os.Symlink("nowhere", filepath.Join(path, "dangling")))
		must(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
		must(t, os.Mkdir(filepath.Join(path, "dir"), 0o700))
		must(t, os.Truncate(mustCreate(t, filepath.Join(path, "huge")), 1<<40))
		for name, want := range map[string]error{
			"link":           unix.ELOOP,
			"linkdir/secret": unix.ELOOP,
			"dangling":       unix.ELOOP,
			"fifo":           ErrNotRegular,
			"dir":            ErrNotRegular,
			"huge":           ErrTooBig,
			"absent":         fs.ErrNotExist,
			"absent/file":    fs.ErrNotExist,
			"huge/file":      unix.ENOTDIR,
			"../secret":      unix.EINVAL,
			"a/../../x":      unix.EINVAL,
			"/etc/passwd":    unix.EINVAL,
			"":               unix.EINVAL,
			"nul\x00":        unix.EINVAL,
		} {
			got, err := d.ReadFile(name, 1000)
			if !errors.Is(err, want) || got != nil {
				t.Errorf("%q: %q, %v; want %v", name, got, err, want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "cannot read "+path) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

func mustCreate(t *testing.T, path string) string {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600))
	return path
}

func TestDevicesAreRefused(t *testing.T) {
	d, path := open(t)
	if err := unix.Mknod(filepath.Join(path, "zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Skip("needs root with CAP_MKNOD, to make a device")
	}
	if _, err := d.ReadFile("zero", 1000); err == nil {
		t.Error("read a device")
	}
}

func TestWriteReplacesAndNeverWritesThrough(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, path := open(t)
		outside := filepath.Join(t.TempDir(), "outside")
		must(t, os.WriteFile(outside, []byte("keep"), 0o600))
		must(t, os.Symlink(outside, filepath.Join(path, "link")))
		must(t, os.Link(outside, filepath.Join(path, "hard")))
		must(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
		for _, name := range []string{"link", "hard", "fifo"} {
			must(t, d.WriteFile(name, []byte("new"), Write{Mode: 0o600}))
			if got, err := d.ReadFile(name, 100); err != nil || string(got) != "new" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if got, _ := os.ReadFile(outside); string(got) != "keep" {
			t.Errorf("wrote through: %q", got)
		}
		must(t, os.Symlink(filepath.Dir(outside), filepath.Join(path, "linkdir")))
		if err := d.WriteFile("linkdir/planted", nil, Write{Mode: 0o600}); !errors.Is(err, unix.ELOOP) {
			t.Errorf("wrote below a link: %v", err)
		}
		if err := d.MkdirAll("linkdir/planted", 0o700); !errors.Is(err, unix.ELOOP) {
			t.Errorf("made a directory below a link: %v", err)
		}
		if err := d.Append("linkdir/planted", nil, 0o600, 10); !errors.Is(err, unix.ELOOP) {
			t.Errorf("appended below a link: %v", err)
		}
		must(t, d.Mkdir("dir", 0o700))
		if err := d.WriteFile("dir", nil, Write{Mode: 0o600}); err == nil {
			t.Error("replaced a directory")
		}
		if err := d.WriteFile("big", make([]byte, 11), Write{Mode: 0o600, Max: 10}); !errors.Is(err, ErrTooBig) {
			t.Errorf("wrote more than allowed: %v", err)
		}
		entries, err := d.ReadDir(".", 100)
		must(t, err)
		for _, e := range entries {
			if IsTemp(e.Name) {
				t.Errorf("left %s behind", e.Name)
			}
		}
	})
}

func TestAppendSetsAFullFileAside(t *testing.T) {
	d, path := open(t)
	for i := range 6 {
		must(t, d.Append("log", fmt.Appendf(nil, "line %d\n", i), 0o640, 14))
	}
	now, err := os.ReadFile(filepath.Join(path, "log"))
	must(t, err)
	before, err := os.ReadFile(filepath.Join(path, "log.1"))
	must(t, err)
	if string(before)+string(now) != "line 2\nline 3\nline 4\nline 5\n" {
		t.Errorf("%q then %q", before, now)
	}
	must(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
	if err := d.Append("fifo", []byte("x"), 0o640, 10); !errors.Is(err, ErrNotRegular) {
		t.Errorf("appended to a FIFO: %v", err)
	}
}

func TestRenameNewRefusesATakenName(t *testing.T) {
	d, _ := open(t)
	must(t, d.Mkdir("a", 0o700))
	must(t, d.Mkdir("b", 0o700)) // empty: rename(2) would replace it
	if err := d.RenameNew("a", "b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	must(t, d.RenameNew("a", "c"))
	if err := d.Rename("a", "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestReadDirIsBounded(t *testing.T) {
	d, path := open(t)
	for i := range 30 {
		mustCreate(t, filepath.Join(path, fmt.Sprintf("%02d", i)))
	}
	if got, err := d.ReadDir(".", 30); err != nil || len(got) != 30 {
		t.Errorf("%d entries, %v", len(got), err)
	}
	if got, err := d.ReadDir(".", 29); !errors.Is(err, ErrTooBig) || len(got) != 29 {
		t.Errorf("%d entries, %v", len(got), err)
	}
}

func TestLeftoversAreRemovedAndNothingElse(t *testing.T) {
	d, path := open(t)
	must(t, d.Mkdir("sub", 0o700))
	must(t, d.Mkdir("sub/"+TempName(), 0o700))
	mustCreate(t, filepath.Join(path, "sub", TempName()))
	mustCreate(t, filepath.Join(path, "sub", ".rlminit-mine.tmp"))
	must(t, d.CleanTemps("sub"))
	got, err := d.ReadDir("sub", 10)
	must(t, err)
	if len(got) != 1 || got[0].Name != ".rlminit-mine.tmp" {
		t.Errorf("%v", got)
	}
}

func TestADeniedWriteNamesTheOwnerAndTheRemedy(t *testing.T) {
	if unprivileged.Rerun(t, func(dir string) {
		must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
		for name, gid := range map[string]int{"others": 4243, "uids": 0} {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
			must(t, os.Chown(filepath.Join(dir, name), 4242, gid))
		}
	}) {
		return
	}
	d, err := Open(filepath.Join(unprivileged.Dir(), "data"))
	must(t, err)
	defer d.Close()
	err = d.WriteFile("x", nil, Write{Mode: 0o600})
	want := fmt.Sprintf("cannot write %s/data: owned by uid 0, services run as %d; as root: chown -R %d:%d %[1]s/data, or set RLMINIT_UID and RLMINIT_GID",
		unprivileged.Dir(), unprivileged.UID, unprivileged.UID, unprivileged.GID)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := d.MkdirAll("a/b", 0o750); err == nil || err.Error() != want {
		t.Errorf("mkdir: %v", err)
	}
	for name, remedy := range map[string]string{
		"others": "or set RLMINIT_UID=4242 and RLMINIT_GID=4243", "uids": "or set RLMINIT_UID=4242",
	} {
		d, err := Open(filepath.Join(unprivileged.Dir(), name))
		must(t, err)
		err = d.WriteFile("x", nil, Write{Mode: 0o600})
		if err == nil || !strings.HasSuffix(err.Error(), remedy) {
			t.Errorf("%s: got %v, want %s", name, err, remedy)
		}
		must(t, d.Close())
	}
	up, err := Open(unprivileged.Dir())
	must(t, err)
	defer up.Close()
	_, err = up.ReadFile("secret", 10)
	if err == nil || !strings.Contains(err.Error(), "secret: owned by uid 0, services run as") {
		t.Errorf("read: %v", err)
	}
	if _, err := up.ReadFile("secret", 10); !errors.Is(err, syscall.EACCES) {
		t.Errorf("read: %v", err)
	}
}

// In a container that was given a user there is no other uid to be had by a
// variable.
func TestADeniedWriteOfAContainersUser(t *testing.T) {
	if unprivileged.Rerun(t, func(dir string) {
		must(t, os.Mkdir(filepath.Join(dir, "roots"), 0o755))
		must(t, os.Mkdir(filepath.Join(dir, "other"), 0o755))
		must(t, os.Chown(filepath.Join(dir, "other"), 4242, 4343))
	}) {
		return
	}
	const deeper = "RLMINIT_TEST_DEEPER" // a child of this run, whose parent is not root
	if os.Getenv(deeper) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), deeper+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for name, owner := range map[string]string{"roots": "owned by uid 0", "other": "owned by uid 4242"} {
		d, err := Open(filepath.Join(unprivileged.Dir(), name))
		must(t, err)
		defer d.Close()
		want := fmt.Sprintf("cannot write %s/%s: %s, services run as %d; as root: chown -R %d:%d %[1]s/%[2]s",
			unprivileged.Dir(), name, owner, unprivileged.UID, unprivileged.UID, unprivileged.GID)
		if name == "other" {
			want += ", or use docker run --user 4242:4343"
		} else {
			want += ", or set PUID and PGID in place of docker run --user"
		}
		if err := d.WriteFile("x", nil, Write{Mode: 0o600}); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestRenameOfADirectoryWithoutRights(t *testing.T) {
	if unprivileged.Rerun(t, nil) {
		return
	}
	d, path := open(t)
	for _, dir := range []string{"from", "to", "from/x"} {
		must(t, d.Mkdir(dir, 0o700))
	}
	mustCreate(t, filepath.Join(path, "from/x/file"))
	must(t, os.Chmod(filepath.Join(path, "from/x"), 0))
	must(t, d.RenameNew("from/x", "to/x"))
	if _, err := d.ReadFile("to/x/file", 10); err != nil {
		t.Error(err)
	}
}
