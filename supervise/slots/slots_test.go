package slots

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

func TestSlotIsNeverSeenHalfMade(t *testing.T) {
	s := Dir{t.TempDir()}
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
			got, err := s.Read("web", DefinitionFile, DefinitionMax)
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
		if _, err := s.Publish("web", versions[i%2]); err != nil {
			t.Fatal(err)
		}
		if i%7 == 6 {
			if err := s.Withdraw("web"); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

func TestHostileSlotFilesAreRefused(t *testing.T) {
	s := Dir{t.TempDir()}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(secret, path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"huge":      func(path string) error { return os.WriteFile(path, make([]byte, DefinitionMax+1), 0o600) },
	} {
		if err := os.Mkdir(s.File(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := put(s.File(name, DefinitionFile)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.Read(name, DefinitionFile, DefinitionMax)
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

func TestSweepRemovesWhatAPredecessorLeftHalfMade(t *testing.T) {
	s := Dir{t.TempDir()}
	for _, name := range []string{".web.123", ".gone.1"} {
		if err := os.MkdirAll(s.File(name, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Publish("kept", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s.Sweep()
	onlyLeft(t, s, "kept")
}

// onlyLeft waits until there is nothing else in the service directory.
func onlyLeft(t *testing.T, s Dir, name string) {
	t.Helper()
	box.Eventually(t, 10*time.Second, "only "+name+" is left", func() (bool, any) {
		entries, err := os.ReadDir(s.Path)
		return err == nil && len(entries) == 1 && entries[0].Name() == name, fmt.Sprint(entries, err)
	})
}

// A service that puts a tree into its slot, deeper than there are descriptors,
// holds up neither a boot nor what becomes of others; and it is removed.
func TestDiscardingHoldsUpNobody(t *testing.T) {
	s := Dir{t.TempDir()}
	for _, name := range []string{".hidden", "kept", "gone"} {
		if err := os.MkdirAll(s.File(name, "."+StatusFile), 0o755); err != nil {
			t.Fatal(err)
		}
		deepen(t, s.File(name, "."+StatusFile), 1000)
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
	s.Sweep()
	if err := s.Withdraw("gone"); err != nil {
		t.Error(err)
	}
	if err := s.Replace("kept", StatusFile, []byte("{}"), 0o644); err != nil {
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

// TestMark: the mark is there or not, whatever was, and its writer is told of what cannot be.
func TestMark(t *testing.T) {
	s := Dir{t.TempDir()}
	if err := s.Occupy("web"); err != nil {
		t.Fatal(err)
	}
	for i, there := range []bool{false, true, true, false, false, true} {
		if err := s.Mark("web", DownFile, there); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		info, err := os.Lstat(s.File("web", DownFile))
		if (err == nil) != there || there && (info.Size() != 0 || info.Mode() != 0o644) {
			t.Errorf("step %d: %v, %v; want there: %v", i, info, err, there)
		}
	}
	if err := s.Mark("nowhere", DownFile, true); err == nil {
		t.Error("a service without a slot was marked")
	}
	if err := s.Mark("nowhere", DownFile, false); err != nil {
		t.Errorf("a service without a slot has no mark to take away: %v", err)
	}
}
