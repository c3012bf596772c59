package profiles

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"rlminit/internal/durable"
	"rlminit/service"
)

// The table in COPIES.md is the one in the code.
func TestCopiesTableIsWritten(t *testing.T) {
	var b strings.Builder
	b.WriteString("| | as recorded | otherwise | unusable | nothing there |\n|---|---|---|---|---|\n")
	for why, name := range []string{ofSeen: "seen", ofIntent: "intent", durably: "durably"} {
		fmt.Fprintf(&b, "| **%s** |", name)
		for is := agrees; is <= missing; is++ {
			b.WriteString(" " + [...]string{writeOver: "write", leaveAlone: "leave", setAside: "set aside, write"}[verdicts[why][is]] + " |")
		}
		b.WriteString("\n")
	}
	page, err := os.ReadFile("COPIES.md")
	must(t, err)
	if !strings.Contains(string(page), b.String()) {
		t.Errorf("COPIES.md does not have this table:\n%s", b.String())
	}
}

// edit is what somebody does to a state file, in one step or several.
type edit struct {
	name  string
	steps func(path string) []func()
	says  service.Intent // what an adoption finds; IntentNone: nothing that can be used
}

const edited = `{"version":1,"profile":"alice","desired_state":"stopped"}`

func edits(t *testing.T) []edit {
	inPlace := func(text string) func(string) []func() {
		return func(path string) []func() {
			var f *os.File
			return []func(){
				func() {
					var err error
					f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
					must(t, err)
				},
				func() {
					_, err := f.WriteString(text)
					must(t, err)
					must(t, f.Close())
				},
			}
		}
	}
	return []edit{
		{"in place", inPlace(edited), service.Stopped},
		{"nonsense", inPlace("nonsense\n"), service.IntentNone},
		{"renamed", func(path string) []func() {
			return []func(){
				func() { must(t, os.WriteFile(path+".new", []byte(edited), 0o640)) },
				func() { must(t, os.Rename(path+".new", path)) },
			}
		}, service.Stopped},
		{"twice", func(path string) []func() {
			put := func(text string) func() {
				return func() {
					must(t, os.WriteFile(path+".new", []byte(text), 0o640))
					must(t, os.Rename(path+".new", path))
				}
			}
			return []func(){put(`{"desired_state":"running","mine":1}`), put(edited)}
		}, service.Stopped},
	}
}

// Whatever is seen of a service, and whenever: what somebody has written into the
// state file to be adopted is there when it is adopted. Two copies are made, and
// each step of the edit falls between any two of theirs.
func TestNoCopyOfWhatIsSeenTakesAnEditAway(t *testing.T) {
	const gaps = 12 // before, between and after all that two copies do
	places := 0
	for _, e := range edits(t) {
		for first := range gaps {
			for second := first; second < gaps; second++ {
				t.Run(fmt.Sprintf("%s/%d-%d", e.name, first, second), func(t *testing.T) {
					places = max(places, interleave(t, e, first, second))
				})
			}
		}
	}
	if places < 6 || places > gaps {
		t.Errorf("two copies have %d places for a step of an edit", places)
	}
}

// interleave takes the steps of an edit in the gaps of two copies, and returns how
// many gaps there were.
func interleave(t *testing.T, e edit, first, second int) (gap int) {
	v := &journaled{volume: newVolume(t, nil), fault: func(string) error { return nil }}
	v.write("profiles/alice/marker", "")
	v.boot("a1a1a1a1")
	of := Gateway("alice")
	must(t, v.Records.TakeOver(map[Subject]service.Intent{of: service.Running}, []Subject{of}))
	path := v.path("profiles/alice/gateway_state.json")

	steps := e.steps(path)
	due := []int{first, second}
	pass := func(string) error {
		for len(due) > 0 && due[0] == gap {
			steps[0]()
			steps, due = steps[1:], due[1:]
		}
		gap++
		return nil
	}
	v.fault = pass
	for pid := range 2 {
		_ = pass("")
		_ = saveSeen(v.Records, of, Seen{State: service.SeenRunning, PID: pid + 1}) // it says so where the file is nonsense, or half an edit
	}
	v.fault = func(string) error { return nil }
	for _, step := range steps {
		step()
	}
	if err := saveSeen(v.Records, of, Seen{State: service.SeenRunning, PID: 3}); (err != nil) != (e.says == service.IntentNone) {
		t.Errorf("the state is recorded: %v", err)
	}
	p, err := v.Adopt(context.Background(), "alice", Actor{})
	switch {
	case e.says == service.IntentNone && err == nil:
		t.Errorf("%q was adopted", v.read("profiles/alice/gateway_state.json"))
	case e.says != service.IntentNone && (err != nil || p.Record.Desired != e.says):
		t.Errorf("adopted is %q, %v; the file has %q", p.Record.Desired, err, v.read("profiles/alice/gateway_state.json"))
	}
	entries, err := os.ReadDir(v.path("profiles/alice"))
	must(t, err)
	for _, entry := range entries {
		if name := entry.Name(); durable.IsTemp(name) || strings.Contains(name, "corrupt") {
			t.Errorf("%s was left", name)
		}
	}
	v.journal.Close()
	return gap
}
