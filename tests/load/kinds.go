package load

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// Kinds gives profiles of ten kinds other values, all at once: a rolling restart of them is
// cancelled in the middle, and the same command goes on with those that are outdated. No
// more than width are out of service at a time.
func Kinds(t *testing.T, start contract.New, profiles, width int) {
	var text strings.Builder
	text.WriteString("version: 1\nuser: \"1000:1000\"\ngateways:\n")
	for kind := range 10 {
		fmt.Fprintf(&text, "  k%d: {command: [sleep, \"%d\"], ports: off, log: {tee: off}}\n", kind, 1_000_000+kind)
	}
	b := start(t, box.Spec{Config: text.String()})
	timed := func(what string, f func()) {
		began := time.Now()
		f()
		t.Logf("figure: kinds: %d profiles of ten kinds: %s took %s", profiles, what, time.Since(began).Round(time.Millisecond))
	}
	timed("creation", func() {
		b.Shell(box.Service, fmt.Sprintf(`for k in $(seq 0 9); do rlminit profile create --kind "k$k" $(seq -f "p$k-%%g" %d) >/dev/null; done`, profiles/10))
	})
	outdated := func() (n int) {
		down := 0
		for _, s := range b.Status() {
			if s.State != "running" {
				down++
			}
			if s.Outdated {
				n++
			}
		}
		if down > width {
			t.Errorf("%d are out of service at a time", down)
		}
		return n
	}
	timed("profile set", func() { b.Must("profile", "set", "*", "V=1") })
	if n := outdated(); n != profiles {
		t.Errorf("%d are outdated, not %d", n, profiles)
	}
	var begun struct {
		Operation uint64 `json:"operation"`
	}
	out := b.Must("profile", "set", "*", "V=2", fmt.Sprintf("--rolling=%d", width), "--steady", "100ms", "--no-wait", "--json")
	if err := json.Unmarshal([]byte(out), &begun); err != nil || begun.Operation == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	id := fmt.Sprint(begun.Operation)
	box.Eventually(b, 60*time.Second, "a third is restarted", func() (bool, any) {
		n := outdated()
		return n <= profiles*2/3, n
	})
	b.Must("cancel", id)
	left := outdated()
	if left == 0 || left == profiles {
		t.Errorf("after the operation was cancelled %d are outdated", left)
	}
	old := map[string]int{}
	for name, s := range b.Status() {
		if !s.Outdated {
			old[name] = *s.PID
		}
	}
	timed(fmt.Sprintf("the rest of a rolling restart, %d of %d, %d at a time,", left, profiles, width), func() {
		b.Must("profile", "set", "*", "V=2", fmt.Sprintf("--rolling=%d", width), "--steady", "100ms", "--timeout", "300s")
	})
	if n := outdated(); n != 0 {
		t.Errorf("%d are outdated in the end", n)
	}
	now := b.Status()
	for name, pid := range old {
		if s := now[name]; s.PID == nil || *s.PID != pid {
			t.Errorf("one that had the new values was restarted: %s", box.Describe(s))
		}
	}
	var list []control.Profile
	if err := json.Unmarshal([]byte(b.Must("profile", "list", "--kind", "k3", "--json")), &list); err != nil || len(list) != profiles/10 {
		t.Errorf("%v, %d are of the kind k3", err, len(list))
	}
}
