package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/wire"
)

var (
	services   = wire.Identity{UID: 1500, GID: 1600, Name: "app"}
	supervisor = wire.Identity{UID: 49999, GID: 49998, Name: "rlminit"}
)

// owners lists what lies in a volume, with owner and mode.
func owners(t *testing.T, home string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, err := filepath.Rel(home, path)
		mode := fmt.Sprintf(" %04o", st.Mode&0o7777)
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			mode = ""
		}
		lines = append(lines, fmt.Sprintf("%s %d:%d%s", rel, st.Uid, st.Gid, mode))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// earlier is a volume of a container in which all had one uid.
func earlier(t *testing.T) string {
	t.Helper()
	above, err := os.MkdirTemp("", "rlminit-separate-") // those of testing are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(above) })
	home := filepath.Join(above, "home")
	for _, dir := range []string{"", "profiles/alice", "logs/gateways/alice", ".rlminit/journal", "state/services"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for file, mode := range map[string]os.FileMode{
		"profiles/alice/profile.yaml": 0o600, "logs/gateways/alice/current": 0o640, ".rlminit/journal/00000001.jsonl": 0o600,
		".rlminit.lock": 0o640, "several": 0o644,
	} {
		write(t, filepath.Join(home, file), "x", mode)
	}
	for _, err := range []error{
		os.Chmod(filepath.Join(home, ".rlminit"), 0o700), os.Chmod(filepath.Dir(home), 0o755),
		os.Link(filepath.Join(home, "several"), filepath.Join(home, "logs/several")),
		os.Symlink("/etc/passwd", filepath.Join(home, "logs/link")),
		filepath.WalkDir(home, func(path string, _ fs.DirEntry, _ error) error { return os.Lchown(path, 1500, 1600) }),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return home
}

const separated = `. 0:1600 1775
.rlminit 49999:49998 0700
.rlminit.lock 49999:1600 0640
.rlminit/journal 49999:49998 0700
.rlminit/journal/00000001.jsonl 49999:49998 0600
logs 49999:1600 2750
logs/gateways 49999:1600 2750
logs/gateways/alice 49999:1600 2750
logs/gateways/alice/current 49999:1600 0640
logs/link 49999:1600
logs/several 1500:1600 0644
profiles 1500:1600 0750
profiles/alice 1500:1600 0750
profiles/alice/profile.yaml 1500:1600 0600
several 1500:1600 0644
state 1500:1600 0750
state/services 1500:1600 0750`

// A volume is taken over at the first boot, at the next there is nothing to do, and
// what an operator gave away is put right; what own lists does not take it back.
func TestSeparate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	before, err := os.Stat("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	home := earlier(t)
	for _, own := range []string{"", "own: [.]\n", "own: [{path: ., deep: true}]\n", "own: [logs, profiles]\n"} {
		for _, meddle := range []func(path string) error{
			nil,
			func(path string) error { return os.Lchown(path, 1500, 1600) },
			func(path string) error {
				if strings.Contains(path, "profiles") || strings.Contains(path, "state") || strings.Contains(path, "several") {
					return nil
				}
				return os.Lchown(path, 0, 0)
			},
		} {
			if meddle != nil {
				if err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, _ error) error { return meddle(path) }); err != nil {
					t.Fatal(err)
				}
			}
			if join, why := Separable(home, services, supervisor, 0); why != "" || join {
				t.Fatalf("it cannot be: %s, %t", why, join)
			}
			c := parsed(t, home, "user: \"1500:1600\"\n"+own)
			if notes := asRoot(c, services, supervisor, wire.Profiles{}, filepath.Join(t.TempDir(), "passwd"), filepath.Join(t.TempDir(), "group")); len(notes) > 0 {
				t.Errorf("%q", notes)
			}
			if got := owners(t, home); got != separated {
				t.Errorf("%q:\n%s\nwant\n%s", own, got, separated)
			}
			if what := Reach(home, services); what != "" {
				t.Errorf("services can %s", what)
			}
			if fd, err := unix.Open(home, unix.O_DIRECTORY, 0); err != nil || !inOrder(fd, services, supervisor) {
				t.Errorf("it is not in order: %v", err)
			} else {
				unix.Close(fd)
			}
		}
	}
	if after, err := os.Stat("/etc/passwd"); err != nil || after.ModTime() != before.ModTime() || after.Mode() != before.Mode() {
		t.Errorf("what a link leads to has changed: %v", err)
	}
}

// A directory that is everybody's, as /tmp is, stays so.
func TestSeparateInEverybodysDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home := earlier(t)
	if err := errors.Join(os.Chown(home, 0, 0), os.Chmod(home, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	c := parsed(t, home, "user: \"1500:1600\"\n")
	for range 2 {
		if notes := asRoot(c, services, supervisor, wire.Profiles{}, "/nonexistent", "/nonexistent"); len(notes) > 0 {
			t.Errorf("%q", notes)
		}
		if got, want := owners(t, home), strings.Replace(separated, ". 0:1600 1775", ". 0:0 1777", 1); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	if fd, err := unix.Open(home, unix.O_DIRECTORY, 0); err != nil || !inOrder(fd, services, supervisor) {
		t.Errorf("it is not in order: %v", err)
	} else {
		unix.Close(fd)
	}
	if _, why := Separable("/", services, supervisor, 0); why == "" {
		t.Error("the root directory would be given away")
	}
}

// What services can change all the same is found, and is not changed by that.
func TestReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	for want, meddle := range map[string]func(home string) error{
		"move logs":           func(home string) error { return os.Chmod(home, 0o777) },
		"write .rlminit.lock": func(home string) error { return os.Chmod(filepath.Join(home, lockFile), 0o666) },
	} {
		home := earlier(t)
		c := parsed(t, home, "user: \"1500:1600\"\n")
		if notes := asRoot(c, services, supervisor, wire.Profiles{}, "/nonexistent", "/nonexistent"); len(notes) > 0 {
			t.Errorf("%q", notes)
		}
		if err := meddle(home); err != nil {
			t.Fatal(err)
		}
		before := owners(t, home)
		if what := Reach(home, services); what != want {
			t.Errorf("services can %q, want %q", what, want)
		}
		if after := owners(t, home); after != before {
			t.Errorf("it is now\n%s\nand was\n%s", after, before)
		}
	}
}

// What is in the place of what is the supervisor's is left as it is, and nothing
// behind a link changes.
func TestSeparateLeavesWhatIsInTheWay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home, outside := earlier(t), t.TempDir()
	for _, name := range []string{privateDir, logsDir, lockFile} {
		at := filepath.Join(home, name)
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, at); err != nil {
			t.Fatal(err)
		}
	}
	was := owners(t, outside)
	c := parsed(t, home, "user: \"1500:1600\"\n")
	if notes := asRoot(c, services, supervisor, wire.Profiles{}, "/nonexistent", "/nonexistent"); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	if got := owners(t, outside); got != was {
		t.Errorf("outside: %s, and before %s", got, was)
	}
}

// Where it cannot be, nothing is changed, and the reason is one that a person can
// do something about.
func TestNotSeparable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	for name, c := range map[string]struct {
		lay  func(home string) error
		want string
	}{
		"somebody's": {func(home string) error { return os.Chown(home, 4242, 4242) }, "belongs to uid 4242"},
		"closed above": {
			func(home string) error { return os.Chmod(filepath.Dir(home), 0o700) },
			"it could not get to",
		},
		"held": {func(home string) error {
			f, err := os.Open(filepath.Join(home, journal.OldLock))
			if err != nil {
				return err
			}
			t.Cleanup(func() { f.Close() })
			return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}, "another container has"},
	} {
		t.Run(name, func(t *testing.T) {
			home := earlier(t)
			if err := c.lay(home); err != nil {
				t.Fatal(err)
			}
			before := owners(t, home)
			if _, why := Separable(home, services, supervisor, 0); !strings.Contains(why, c.want) {
				t.Errorf("%q", why)
			}
			if after := owners(t, home); after != before {
				t.Errorf("changed: %s\nbefore: %s", after, before)
			}
		})
	}
	if _, why := Separable("/nonexistent/home", services, supervisor, 0); why != "" {
		t.Errorf("no volume yet: %q", why)
	}
}

func TestAccount(t *testing.T) {
	for name, c := range map[string]struct{ passwd, group, wantPasswd, wantGroup string }{
		"new":               {"root:x:0:0::/:\n", "root:x:0:", "root:x:0:0::/:\nrlminit:x:49999:49998:the supervisor of rlminit:/:/sbin/nologin\n", "root:x:0:\nrlminit:x:49998:\n"},
		"the name is taken": {"rlminit:x:5:5::/:\n", "rlminit:x:5:\n", "rlminit:x:5:5::/:\n", "rlminit:x:5:\n"},
		"the uid is taken":  {"own:x:49999:49998::/:\n", "own:x:49998:\n", "own:x:49999:49998::/:\n", "own:x:49998:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
			write(t, passwd, c.passwd, 0o644)
			write(t, group, c.group, 0o644)
			for range 2 {
				account(passwd, group, supervisor)
			}
			if p, g := read(t, passwd), read(t, group); p != c.wantPasswd || g != c.wantGroup {
				t.Errorf("%q\n%q", p, g)
			}
		})
	}
	account("/nonexistent/passwd", "/nonexistent/group", supervisor)
}

// withoutChown calls f in a thread that may not change owners.
func withoutChown(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and it ends with the thread
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&header, &data[0])
		data[0].Effective &^= 1 << unix.CAP_CHOWN
		if err = errors.Join(err, unix.Capset(&header, &data[0])); err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Directories makes what is missing again, as the supervisor's, also where owners cannot be
// changed; and says what it has made.
func TestDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home := earlier(t)
	volume, err := durable.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	defer volume.Close()
	if failed := separate(volume, services, supervisor); len(failed) > 0 {
		t.Fatal(failed)
	}
	want := func() (lines []string) {
		for _, line := range strings.Split(owners(t, home), "\n") {
			if name, _, _ := strings.Cut(line, " "); name == logsDir || name == privateDir {
				lines = append(lines, line)
			}
		}
		return lines
	}
	before := want()
	again := func(all ...string) {
		t.Helper()
		for _, dir := range all {
			if err := os.RemoveAll(filepath.Join(home, dir)); err != nil {
				t.Fatal(err)
			}
		}
		made, err := Directories(home, services, supervisor)
		if err != nil || !slices.Equal(made, all) || !slices.Equal(want(), before) {
			t.Errorf("made %q, %v: %q, was %q", made, err, want(), before)
		}
	}
	again()
	again(logsDir)
	again(privateDir, logsDir)
	withoutChown(t, func() { again(privateDir, logsDir) })

	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	withoutChown(t, func() {
		err = giveTo(fd, "rest", supervisor.UID, supervisor.GID, privateMode)
	})
	if _, left := os.Lstat(filepath.Join(dir, "rest")); !errors.Is(err, unix.EPERM) || !errors.Is(left, fs.ErrNotExist) {
		t.Errorf("one that could not be given away: %v, %v", err, left)
	}
	look := func() bool {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		return isNew(fd)
	}
	if !look() {
		t.Error("an empty directory of ours is not new")
	}
	write(t, filepath.Join(dir, "file"), "", 0o600)
	if look() {
		t.Error("one with a file is new")
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "file")), os.Chown(dir, 1500, 1500)); err != nil {
		t.Fatal(err)
	}
	if look() {
		t.Error("somebody else's is new")
	}
}
