package registry

import (
	"os"
	"testing"
	"time"

	"rlminit/supervise/slots"
)

func TestWatcherTellsOfWhatIsPutChangedAndTakenAway(t *testing.T) {
	s := slots.Dir{Path: t.TempDir()}
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
	if err := s.Publish("web", []byte("one")); err != nil {
		t.Fatal(err)
	}
	expect("published", "web")
	w.slot("web")
	expect("watched", "web")
	if err := s.Publish("web", []byte("two")); err != nil {
		t.Fatal(err)
	}
	expect("replaced", "web")
	if err := os.RemoveAll(s.File("web")); err != nil {
		t.Fatal(err)
	}
	expect("removed", "web")
}
