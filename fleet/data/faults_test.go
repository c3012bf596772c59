package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// faults is a bucket, and the steps of a restore, of which the nth operation fails, or
// kills the process.
type faults struct {
	bucket
	at   int // 0: none
	done int
	what string // the operation that failed
	fail func() error
}

var errFault = errors.New("a fault of the test")

func (f *faults) step(what string) error {
	if f.done++; f.done == f.at {
		f.what = what
		return f.fail()
	}
	return nil
}

func (f *faults) create(ctx context.Context, key string) (io.WriteCloser, error) {
	if err := f.step("create"); err != nil {
		return nil, err
	}
	w, err := f.bucket.create(ctx, key)
	return &faultyWriter{w, f}, err
}

type faultyWriter struct {
	io.WriteCloser
	*faults
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if err := w.step("write"); err != nil {
		n, _ := w.WriteCloser.Write(p[:len(p)/2])
		return n, err
	}
	return w.WriteCloser.Write(p)
}

// Close fails before, or behind, what it does.
func (w *faultyWriter) Close() error {
	before := w.step("close")
	err := w.WriteCloser.Close()
	return errors.Join(before, err, w.step("closed"))
}

func (f *faults) open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if err := f.step("open"); err != nil {
		return nil, err
	}
	r, err := f.bucket.open(ctx, key, offset)
	return &faultyReader{r, f}, err
}

type faultyReader struct {
	io.ReadCloser
	*faults
}

// Read reads little, so that there are many places to fail at.
func (r *faultyReader) Read(p []byte) (int, error) {
	if err := r.step("read"); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p[:min(len(p), 100)])
}

func (f *faults) size(ctx context.Context, key string) (int64, error) {
	if err := f.step("size"); err != nil {
		return 0, err
	}
	return f.bucket.size(ctx, key)
}

func (f *faults) list(ctx context.Context, prefix string, each func(string) error) error {
	return f.bucket.list(ctx, prefix, func(key string) error {
		if err := f.step("list"); err != nil {
			return err
		}
		return each(key)
	})
}

func (f *faults) remove(ctx context.Context, key string) error {
	if err := f.step("remove"); err != nil {
		return err
	}
	return f.bucket.remove(ctx, key)
}

// failing is a store on a bucket in a directory, whose nth operation fails.
func failing(t testing.TB, root string, n int) (*Store, *faults) {
	t.Helper()
	b, err := openBucket(t.Context(), "file://"+root)
	must(t, err)
	t.Cleanup(func() { b.close() })
	f := &faults{bucket: b, at: n, fail: func() error { return errFault }}
	s := newStore(f)
	s.step = f.step
	s.pause = func(context.Context, time.Duration) error { return errFault } // no second attempt
	return s, f
}

// A save that fails anywhere has no manifest, and what was current can be restored.
func TestSaveFailsAnywhere(t *testing.T) {
	_, root := aStore(t)
	home := t.TempDir()
	dir := filepath.Join(home, "alice")
	aProfile(t, dir, "one")
	s, _ := failing(t, root, 0)
	current, err := s.Save(t.Context(), dir, ref(17, 1))
	must(t, err)
	want := tree(t, dir)
	for n := 1; ; n++ {
		s, f := failing(t, root, n)
		m, err := s.Save(t.Context(), dir, ref(17, n+1))
		if f.what == "" {
			must(t, err)
			if n < 8 {
				t.Errorf("only %d operations", n-1)
			}
			good, _ := failing(t, root, 0)
			must(t, good.Collect(t.Context(), "alice", m))
			if all := keys(t, good); len(all) != 2 {
				t.Errorf("left are %q", all)
			}
			break
		}
		if !errors.Is(err, errFault) {
			t.Errorf("%s, the %dth operation: %v", f.what, n, err)
		}
		good, _ := failing(t, root, 0)
		for _, key := range keys(t, good) {
			if !strings.HasSuffix(key, manifestSuffix) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, key))
			must(t, err)
			m, err := ParseManifest(text)
			must(t, err)
			to := filepath.Join(home, "to")
			must(t, good.Restore(t.Context(), m, to, nil))
			if got := tree(t, to); !strings.Contains(got, "only-one") {
				t.Errorf("%s, the %dth operation: %s", f.what, n, got)
			}
			must(t, os.RemoveAll(to))
		}
		to := filepath.Join(home, "current")
		aProfile(t, to, "two")
		must(t, good.Restore(t.Context(), current, to, nil))
		if tree(t, to) != want {
			t.Fatalf("%s, the %dth operation: what was current is lost", f.what, n)
		}
		must(t, os.RemoveAll(to))
	}
}

// A collection that fails anywhere leaves what is current, and goes on when it is called again.
func TestCollectFailsAnywhere(t *testing.T) {
	_, root := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	for n := 1; ; n++ {
		s, _ := failing(t, root, 0)
		var current Manifest
		for seq := range 3 {
			var err error
			current, err = s.Save(t.Context(), dir, ref(int64(n), seq))
			must(t, err)
		}
		s, f := failing(t, root, n)
		err := s.Collect(t.Context(), "alice", current)
		if f.what == "" {
			must(t, err)
			break
		}
		if !errors.Is(err, errFault) {
			t.Errorf("%s: %v", f.what, err)
		}
		s, _ = failing(t, root, 0)
		must(t, s.Restore(t.Context(), current, dir, nil))
		must(t, s.Collect(t.Context(), "alice", current))
		if all := keys(t, s); len(all) != 2 {
			t.Errorf("%s: left are %q", f.what, all)
		}
	}
}

// A restore that fails anywhere leaves the old directory or the new one, whole and with
// nothing beside it, and the next one succeeds.
func TestRestoreFailsAnywhere(t *testing.T) {
	restoresAnywhere(t, func(t *testing.T, root, dir string, m Manifest, n int) (ended bool) {
		s, f := failing(t, root, n)
		err := s.Restore(t.Context(), m, dir, nil)
		if f.what == "" || f.what == "remove the old one" {
			must(t, err)
		} else if !errors.Is(err, errFault) {
			t.Errorf("%s, the %dth operation: %v", f.what, n, err)
		}
		if f.what != "remove the old one" && f.what != "sync the parent" {
			if beside, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(beside) > 1 {
				t.Errorf("%s, the %dth operation: %v, %v", f.what, n, beside, err)
			}
		}
		return f.what == ""
	})
}

// killed is what the process of TestRestoreKilledAnywhere is told: where the bucket is, the
// directory, the manifest, and at which operation it kills itself.
const killed = "RLMINIT_TEST_KILLED"

func TestMain(m *testing.M) {
	if told := strings.Split(os.Getenv(killed), "|"); len(told) == 4 {
		if err := restoreAndDie(told[0], told[1], told[2], told[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func restoreAndDie(root, dir, manifest, at string) error {
	ctx := context.Background()
	b, err := openBucket(ctx, "file://"+root)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(at)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	m, err := ParseManifest(text)
	if err != nil {
		return err
	}
	f := &faults{bucket: b, at: n, fail: func() error { return unix.Kill(os.Getpid(), unix.SIGKILL) }}
	s := newStore(f)
	s.step = f.step
	return s.Restore(ctx, m, dir, nil)
}

// A restore that is killed anywhere leaves the old directory or the new one, whole, and
// the next one succeeds and removes what it has left.
func TestRestoreKilledAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("a process for each operation")
	}
	restoresAnywhere(t, func(t *testing.T, root, dir string, m Manifest, n int) (ended bool) {
		cmd := exec.Command(os.Args[0])
		manifest := filepath.Join(root, manifestKey(m.Object))
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%d", killed, root, dir, manifest, n))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(interface{ Signaled() bool }).Signaled() {
			return false
		}
		if err != nil {
			t.Fatalf("the %dth operation: %v: %s", n, err, out)
		}
		return true
	})
}

// restoresAnywhere calls try with every number of an operation, over an old directory and
// where there is none, until try says that there are no more operations.
func restoresAnywhere(t *testing.T, try func(t *testing.T, root, dir string, m Manifest, n int) (ended bool)) {
	_, root := aStore(t)
	from := filepath.Join(t.TempDir(), "alice")
	aProfile(t, from, "new")
	s, _ := failing(t, root, 0)
	m, err := s.Save(t.Context(), from, ref(17, 1))
	must(t, err)
	newTree := tree(t, from)
	for _, there := range []bool{true, false} {
		t.Run(fmt.Sprintf("there is one: %v", there), func(t *testing.T) {
			for n := 1; ; n++ {
				dir := filepath.Join(t.TempDir(), "alice")
				oldTree, want := "", newTree
				if there {
					aProfile(t, dir, "old")
					oldTree = tree(t, dir)
				} else {
					want = strings.Replace(newTree, "drwxr-x--x", "drwxr-x---", 1)
				}
				ended := try(t, root, dir, m, n)
				got := ""
				if _, err := os.Lstat(dir); err == nil {
					got = tree(t, dir)
				}
				if got != want && (got != oldTree || ended) {
					t.Fatalf("the %dth operation: it is neither the old one nor the new one:\n%.1000s", n, got)
				}
				again, _ := failing(t, root, 0)
				must(t, again.Restore(t.Context(), m, dir, nil))
				if tree(t, dir) != want {
					t.Fatalf("the %dth operation: the next restore is not whole", n)
				}
				if beside, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(beside) != 1 {
					t.Fatalf("the %dth operation: beside it are %v, %v", n, beside, err)
				}
				if ended {
					if n < 12 {
						t.Errorf("only %d operations", n-1)
					}
					t.Logf("%d operations", n-1)
					return
				}
			}
		})
	}
}

// A connection that breaks now and then is a delay, and one that breaks each time an error.
func TestConnectionsThatBreak(t *testing.T) {
	s, _ := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	m, err := s.Save(t.Context(), dir, ref(17, 1))
	must(t, err)
	b := &breaking{bucket: s.bucket}
	pauses := 0
	s.bucket, s.pause = b, func(context.Context, time.Duration) error { pauses++; return nil }
	to := filepath.Join(t.TempDir(), "alice")
	must(t, s.Restore(t.Context(), m, to, nil))
	if tree(t, to) != strings.Replace(tree(t, dir), "drwxr-x--x", "drwxr-x---", 1) || pauses < 5 {
		t.Errorf("%d pauses", pauses)
	}
	b.down = true
	pauses = 0
	if err := s.Restore(t.Context(), m, to, nil); !errors.Is(err, errFault) || pauses != readAttempts-1 {
		t.Errorf("%v after %d pauses", err, pauses)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.pause = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
	if err := s.Restore(ctx, m, to, nil); err == nil {
		t.Error("it goes on when its caller has ended")
	}
}

// breaking is a bucket whose connections break after 50 bytes.
type breaking struct {
	bucket
	down bool
}

func (b *breaking) open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if b.down {
		return nil, errFault
	}
	r, err := b.bucket.open(ctx, key, offset)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 50), errorReader{}), r}, err
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errFault }
