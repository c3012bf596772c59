package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

func TestSlotIsNeverSeenHalfMade(t *testing.T) {
	s := slots{dir: t.TempDir()}
	versions := [][]byte{bytes.Repeat([]byte("a"), 300<<10), bytes.Repeat([]byte("b"), 300<<10)}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := s.read("web", definitionFile, definitionMax)
			if err != nil {
				continue // not there yet, or taken away just now
			}
			if !bytes.Equal(got, versions[0]) && !bytes.Equal(got, versions[1]) {
				t.Errorf("a reader saw %d bytes that nobody published", len(got))
				return
			}
		}
	})
	for i := range 300 {
		if err := s.publish("web", versions[i%2]); err != nil {
			t.Fatal(err)
		}
		if i%7 == 6 {
			if err := s.withdraw("web"); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

func TestHostileSlotFilesAreRefused(t *testing.T) {
	s := slots{dir: t.TempDir()}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(secret, path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"huge":      func(path string) error { return os.WriteFile(path, make([]byte, definitionMax+1), 0o600) },
	} {
		if err := os.Mkdir(s.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := put(s.path(name, definitionFile)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.read(name, definitionFile, definitionMax)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("a %s in place of a definition was read", name)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("a %s in place of a definition blocks its reader", name)
		}
	}
}

func TestWatcherTellsOfWhatIsPutChangedAndTakenAway(t *testing.T) {
	s := slots{dir: t.TempDir()}
	seen := make(chan string, 100)
	w := watchSlots(s, func(name string) { seen <- name }, func() { seen <- "*" })
	expect := func(what, name string) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case got := <-seen:
				if got == name {
					return
				}
			case <-deadline:
				t.Fatalf("%s %s: nobody was told", what, name)
			}
		}
	}
	if err := s.publish("web", []byte("one")); err != nil {
		t.Fatal(err)
	}
	expect("published", "web")
	w.slot("web")
	expect("watched", "web")
	if err := s.publish("web", []byte("two")); err != nil {
		t.Fatal(err)
	}
	expect("replaced", "web")
	if err := os.RemoveAll(s.path("web")); err != nil {
		t.Fatal(err)
	}
	expect("removed", "web")
}

func TestSweepRemovesWhatAPredecessorLeftHalfMade(t *testing.T) {
	s := slots{dir: t.TempDir()}
	for _, name := range []string{".web.123", ".gone.1"} {
		if err := os.MkdirAll(s.path(name, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.publish("kept", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s.sweep()
	onlyLeft(t, s, "kept")
}

// onlyLeft waits until there is nothing else in the service directory.
func onlyLeft(t *testing.T, s slots, name string) {
	t.Helper()
	box.Eventually(t, 10*time.Second, "only "+name+" is left", func() (bool, any) {
		entries, err := os.ReadDir(s.dir)
		return err == nil && len(entries) == 1 && entries[0].Name() == name, fmt.Sprint(entries, err)
	})
}

// A service that puts a tree into its slot, deeper than there are descriptors,
// holds up neither a boot nor what becomes of others; and it is removed.
func TestDiscardingHoldsUpNobody(t *testing.T) {
	s := slots{dir: t.TempDir()}
	for _, name := range []string{".hidden", "kept", "gone"} {
		if err := os.MkdirAll(s.path(name, "."+statusFile), 0o755); err != nil {
			t.Fatal(err)
		}
		deepen(t, s.path(name, "."+statusFile), 1000)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	inUse, err := os.ReadDir("/proc/self/fd") // other tests' too
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(inUse)) + 300, Max: limit.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	discarding.Lock()
	s.sweep()
	if err := s.withdraw("gone"); err != nil {
		t.Error(err)
	}
	if err := s.replace("kept", statusFile, []byte("{}"), 0o644); err != nil {
		t.Error(err)
	}
	discarding.Unlock()
	onlyLeft(t, s, "kept")
}

// deepen makes directories one in the other.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	for range levels {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		var next int
		next, err = unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
}

func TestLookPathSaysWhyAProgramCannotRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", "#!/bin/sh\n", 0o755)
	write("plain", "#!/bin/sh\n", 0o644)
	write("crlf", "#!/bin/sh\r\necho\r\n", 0o755)
	write("naked", "echo\n", 0o755)
	write("noshell", "#!/no/such/shell -e\n", 0o755)
	env := []string{"PATH=" + dir + ":/nowhere"}
	if path, err := lookPath("good", "/", env); err != nil || path != filepath.Join(dir, "good") {
		t.Errorf("good: %q, %v", path, err)
	}
	if path, err := lookPath("./good", dir, env); err != nil || path != filepath.Join(dir, "good") {
		t.Errorf("./good: %q, %v", path, err)
	}
	for name, want := range map[string]string{
		"agent":  fmt.Sprintf(`cannot run "agent": not found in PATH (%s:/nowhere)`, dir),
		"plain":  "is not executable",
		"./none": "no such file",
		dir:      "is a directory",
	} {
		if _, err := lookPath(name, dir, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for name, c := range map[string]struct {
		errno unix.Errno
		want  string
	}{
		"crlf":    {unix.ENOENT, "CR LF"},
		"naked":   {unix.ENOEXEC, "no #! line"},
		"noshell": {unix.ENOENT, `the interpreter "/no/such/shell", which does not exist`},
		"good":    {unix.E2BIG, "larger than the kernel takes"},
	} {
		if got := explainExec(name, filepath.Join(dir, name), c.errno); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
