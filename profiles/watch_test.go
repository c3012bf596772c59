package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"rlminit/tests/unprivileged"
)

// await waits until changes named all these, or said that all may have changed.
func await(t *testing.T, w *Watcher, names ...string) {
	t.Helper()
	missing := slices.Clone(names)
	deadline := time.After(20 * time.Second)
	for len(missing) > 0 {
		select {
		case c := <-w.Changes():
			if c.All {
				return
			}
			missing = slices.DeleteFunc(missing, func(name string) bool { return slices.Contains(c.Names, name) })
		case <-deadline:
			t.Fatalf("nothing told of %q", missing)
		}
	}
}

// quiet makes sure that nothing but this one name is told: it makes the name,
// which comes after whatever was done before.
func quiet(t *testing.T, v *volume, w *Watcher, last string) {
	t.Helper()
	v.write("profiles/"+last+"/profile.yaml", "")
	for {
		c := <-w.Changes()
		if c.All {
			t.Fatal("everything changed")
		}
		for _, name := range c.Names {
			if name != last {
				t.Errorf("told of %q", name)
			}
		}
		if slices.Contains(c.Names, last) {
			return
		}
	}
}

func watch(t *testing.T, v *volume) *Watcher {
	t.Helper()
	w := v.Watch()
	t.Cleanup(w.Close)
	return w
}

func TestProfilesThatComeAndGoAreNoticed(t *testing.T) {
	v := newVolume(t, nil)
	v.create("there", Creation{})
	v.write("profiles/unmarked-before/x", "")
	w := watch(t, v)

	v.create("made", Creation{})
	v.write("profiles/copied/profile.yaml", "")
	away := filepath.Join(v.home, "away")
	must(t, os.MkdirAll(away, 0o755))
	must(t, os.WriteFile(filepath.Join(away, "profile.yaml"), nil, 0o644))
	must(t, os.Rename(away, v.path("profiles/moved")))
	await(t, w, "made", "copied", "moved")

	must(t, os.RemoveAll(v.path("profiles/copied")))
	must(t, os.Rename(v.path("profiles/moved"), v.path("profiles/renamed")))
	await(t, w, "copied", "moved", "renamed")

	// The marker comes later.
	v.write("profiles/unmarked-before/profile.yaml", "")
	must(t, os.Mkdir(v.path("profiles/later"), 0o755))
	await(t, w, "unmarked-before", "later")
	v.write("profiles/later/other", "")
	v.write("profiles/later/tmp", "")
	must(t, os.Rename(v.path("profiles/later/tmp"), v.path("profiles/later/profile.yaml")))
	await(t, w, "later")
}

func TestWhatGatewaysWriteIsNoChange(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	w := watch(t, v)
	v.write("profiles/alice/db", "x")
	v.write("profiles/alice/profile.yaml", "# edited\n")
	must(t, os.MkdirAll(v.path("profiles/.hidden"), 0o755))
	must(t, saveSeen(v.Records, "alice", Seen{State: "running"}))
	quiet(t, v, w, "last")
}

func TestAManyNamesBecomeAll(t *testing.T) {
	v := newVolume(t, nil)
	w := &Watcher{tree: v.tree, named: map[string]bool{}}
	for i := range maxNamed + 1 {
		w.changed(fmt.Sprint(i))
	}
	if !w.pending.All || len(w.named) != 0 {
		t.Errorf("%d names", len(w.named))
	}
}

func TestTheProfilesDirectoryItselfComesAndGoes(t *testing.T) {
	v := newVolume(t, nil)
	must(t, os.Remove(v.path("profiles")))
	w := watch(t, v)
	v.write("profiles/alice/profile.yaml", "")
	await(t, w, "alice")
	must(t, os.Rename(v.path("profiles"), v.path("elsewhere")))
	await(t, w, "alice")
	v.write("profiles/bob/profile.yaml", "")
	await(t, w, "bob")
}

func TestLostEventsMeanLookAtAllAndAreSaidOnce(t *testing.T) {
	v := newVolume(t, nil)
	w := v.Watch()
	w.Close() // only its loop is wanted here
	inotify, err := fsnotify.NewWatcher()
	must(t, err)
	events, errs := make(chan fsnotify.Event), make(chan error)
	second := &Watcher{
		tree: v.tree, inotify: inotify, events: events, errs: errs, changes: make(chan Change), done: make(chan struct{}), ended: make(chan struct{}),
		root: w.root, home: w.home, unmarked: map[string]bool{}, named: map[string]bool{},
	}
	go second.run()
	defer second.Close()
	for range 2 {
		errs <- fsnotify.ErrEventOverflow
		if c := <-second.Changes(); !c.All || c.Names != nil {
			t.Errorf("%+v", c)
		}
	}
	if n := v.said("inotify lost events"); n != 1 {
		t.Errorf("said %q", v.told)
	}
}

func TestWithoutInotifyItSaysSoOnce(t *testing.T) {
	v := newVolume(t, nil)
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	first, second := v.Watch(), v.Watch()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	first.Close()
	second.Close()
	if n := v.said("or at rlminit reload"); n != 1 {
		t.Errorf("said %q", v.told)
	}
}

func TestCloseEndsTheWatch(t *testing.T) {
	v := newVolume(t, nil)
	before := openDescriptors(t)
	for range 50 {
		w := v.Watch()
		v.write("profiles/x/y", "")
		w.Close()
		w.Close()
	}
	if after := openDescriptors(t); after > before+3 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// inotifyLimit sets a limit of this user namespace.
func inotifyLimit(t *testing.T, of, value string) {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/user/max_inotify_"+of, []byte(value), 0))
}

// hoardWatches takes every watch that there is, until it is told to let go.
func hoardWatches(t *testing.T) (release func()) {
	t.Helper()
	inotifyLimit(t, "watches", "50")
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	must(t, err)
	for i := 0; ; i++ {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		must(t, os.Mkdir(dir, 0o755))
		_, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
		if errors.Is(err, unix.ENOSPC) {
			return func() { must(t, unix.Close(fd)) }
		}
		must(t, err)
	}
}

// isWatched waits until a profile that was just made is told of by its name: without
// a watch all are.
func isWatched(t *testing.T, v *volume, w *Watcher, prefix string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		v.write("profiles/"+name+"/profile.yaml", "")
		for told := false; !told; {
			select {
			case c := <-w.Changes():
				if slices.Contains(c.Names, name) {
					return
				}
				told = c.All
			case <-deadline:
				t.Fatalf("no profile is told of by its name")
			}
		}
	}
}

// Where inotify is used up, before the watch begins or while it lasts, profiles are
// looked at from time to time, and watched when there is room again. In a user
// namespace of its own, where the limits are the test's.
func TestWatchThatCannotBeHadIsTriedAgain(t *testing.T) {
	if unprivileged.InNamespace(t) {
		return
	}
	rearmAfter = 10 * time.Millisecond
	limited := func(of string) func(*testing.T) func() {
		return func(t *testing.T) func() {
			inotifyLimit(t, of, "0")
			return func() { inotifyLimit(t, of, "1000") }
		}
	}
	for name, c := range map[string]struct {
		useUp func(*testing.T) (release func())
		live  bool // while the watch lasts
	}{
		"no instances":    {limited("instances"), false},
		"no watches":      {limited("watches"), false},
		"watches hoarded": {hoardWatches, false},
		"hoarded later":   {hoardWatches, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, nil)
			for _, of := range []string{"instances", "watches"} {
				inotifyLimit(t, of, "1000")
			}
			var w *Watcher
			var release func()
			if c.live {
				w = watch(t, v)
				isWatched(t, v, w, "before")
				release = c.useUp(t)
				must(t, os.Mkdir(v.path("profiles/unmarked"), 0o755)) // would be watched until it has its marker
				await(t, w, "unmarked")
				v.write("profiles/unmarked/profile.yaml", "")
			} else {
				release = c.useUp(t)
				w = watch(t, v)
				v.write("profiles/made/profile.yaml", "")
			}
			await(t, w, "unmarked", "made") // all, since nobody knows which
			release()
			isWatched(t, v, w, "later")
			v.mu.Lock()
			said := strings.Join(v.told, "\n")
			v.mu.Unlock()
			for _, want := range []string{"cannot watch " + v.path("profiles"), "raise fs.inotify.max_user_watches", v.path("profiles") + " is watched again"} {
				if strings.Count(said, want) != 1 {
					t.Errorf("%q is not said once in %q", want, said)
				}
			}
		})
	}
}

// The advice to raise a limit is for those who have reached one.
func TestWatchThatIsRefused(t *testing.T) {
	v := newVolume(t, nil)
	w := &Watcher{tree: v.tree, root: "/x"}
	w.blind(unix.EACCES)
	if want := "cannot watch /x: permission denied; profiles put there by hand are noticed within a minute, or at rlminit reload"; len(v.told) != 1 || v.told[0] != want || w.again == nil {
		t.Errorf("said %q", v.told)
	}
}
