package registry

import (
	"os"
	"slices"
	"testing"
	"time"

	"rlminit/supervise/slots"
	"rlminit/tests/unprivileged"
)

// watching is a watcher of a fresh directory, and what waits until it has told of
// one of some names; "*" is anything.
func watching(t *testing.T) (s slots.Dir, w *watcher, expect func(what string, names ...string) string) {
	s = slots.Dir{Path: t.TempDir()}
	seen := make(chan string, 100)
	w = watchSlots(s, func(name string) { seen <- name }, func() { seen <- "*" })
	return s, w, func(what string, names ...string) string {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case got := <-seen:
				if slices.Contains(names, got) {
					return got
				}
			case <-deadline:
				t.Fatalf("%s %q: nobody was told", what, names)
			}
		}
	}
}

func TestWatcherTellsOfWhatIsPutChangedAndTakenAway(t *testing.T) {
	s, w, expect := watching(t)
	if _, err := s.Publish("web", []byte("one")); err != nil {
		t.Fatal(err)
	}
	expect("published", "web")
	w.slot("web")
	expect("watched", "web")
	if _, err := s.Publish("web", []byte("two")); err != nil {
		t.Fatal(err)
	}
	expect("replaced", "web")
	if err := os.RemoveAll(s.File("web")); err != nil {
		t.Fatal(err)
	}
	expect("removed", "web")
}

// What used up inotify ends some day: until then all is looked at from time to time,
// and then the slots are watched that were put there meanwhile, and what is in them.
// In a user namespace of its own, where the limits are the test's.
func TestWatchThatCannotBeHadIsTriedAgain(t *testing.T) {
	if unprivileged.InNamespace(t) {
		return
	}
	rearmAfter = 10 * time.Millisecond
	limit := func(of, value string) {
		if err := os.WriteFile("/proc/sys/user/max_inotify_"+of, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []string{"instances", "watches"} {
		limit(of, "0")
		s, w, expect := watching(t)
		if _, err := s.Publish("web", []byte("one")); err != nil {
			t.Fatal(err)
		}
		w.slot("web")
		expect("looked at meanwhile", "*")
		expect("looked at again", "*")
		limit(of, "1000")
		for _, name := range []string{"web", "late"} { // by its name it is told of by a watch alone
			for seen := "*"; seen == "*"; {
				if _, err := s.Publish(name, []byte("two")); err != nil {
					t.Fatal(err)
				}
				seen = expect("armed again", "*", name)
			}
		}
	}
}
