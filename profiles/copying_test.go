package profiles

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
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
	for _, c := range []struct {
		of   []Subject
		gaps int // before, between and after all that two copies do
	}{{[]Subject{Gateway("alice")}, 12}, {[]Subject{Gateway("bob"), Gateway("alice")}, 18}} {
		t.Run(fmt.Sprint(c.of), func(t *testing.T) {
			t.Parallel()
			places := 0
			for _, e := range edits(t) {
				for first := range c.gaps {
					for second := first; second < c.gaps; second++ {
						t.Run(fmt.Sprintf("%s/%d-%d", e.name, first, second), func(t *testing.T) {
							places = max(places, interleave(t, c.of, e, first, second))
						})
					}
				}
			}
			if places < 6 || places > c.gaps {
				t.Errorf("two copies have %d places for a step of an edit", places)
			}
		})
	}
}

// interleave takes the steps of an edit of alice's in the gaps of two copies, and
// returns how many gaps there were.
func interleave(t *testing.T, all []Subject, e edit, first, second int) (gap int) {
	v := &journaled{volume: newVolume(t, nil), fault: func(string) error { return nil }}
	found := map[Subject]service.Intent{}
	for _, one := range all {
		v.write("profiles/"+one.Profile+"/marker", "")
		found[one] = service.Running
	}
	v.boot("a1a1a1a1")
	of := Gateway("alice")
	must(t, v.Records.TakeOver(found, all))
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
		seen := Seen{State: service.SeenRunning, PID: pid + 1}
		left := v.Records.together(all, ofSeen, func(_ Subject, f *stateFile) { seen.put(f) })
		if len(all) > 1 && slices.Contains(left, Gateway("bob")) {
			t.Error("a copy of bob's waits for what becomes of alice's")
		}
		for _, one := range left {
			_ = v.Records.SaveSeen(one, seen) // it says so where the file is nonsense, or half an edit
		}
	}
	v.fault = func(string) error { return nil }
	for _, step := range steps {
		step()
	}
	if err := v.Records.SaveSeen(of, Seen{State: service.SeenRunning, PID: 3}); (err != nil) != (e.says == service.IntentNone) {
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

// Copies that are made together are those that are made one by one, whatever is there.
func TestTogetherIsAsOneByOne(t *testing.T) {
	state := "gateway_state.json"
	whole := `{"version":1,"profile":"%s","desired_state":"%s","gateway_state":"stopped","mine":1}`
	there := map[string]func(v *journaled, name string){
		"as-recorded": func(v *journaled, name string) {
			v.write("profiles/"+name+"/"+state, fmt.Sprintf(whole, name, "running"))
		},
		"otherwise": func(v *journaled, name string) {
			v.write("profiles/"+name+"/"+state, fmt.Sprintf(whole, name, "stopped"))
		},
		"of-another": func(v *journaled, name string) {
			v.write("profiles/"+name+"/"+state, fmt.Sprintf(whole, "x", "running"))
		},
		"nonsense": func(v *journaled, name string) { v.write("profiles/"+name+"/"+state, "nonsense") },
		"empty":    func(v *journaled, name string) { v.write("profiles/"+name+"/"+state, "") },
		"large": func(v *journaled, name string) {
			v.write("profiles/"+name+"/"+state, fmt.Sprintf(whole, name, "running")+strings.Repeat(" ", largeCopy))
		},
		"missing":   func(*journaled, string) {},
		"directory": func(v *journaled, name string) { v.write("profiles/"+name+"/"+state+"/file", "") },
		"link":      func(v *journaled, name string) { must(v.t, os.Symlink("marker", v.path("profiles/"+name+"/"+state))) },
		"unmarked":  func(v *journaled, name string) { must(v.t, os.Remove(v.path("profiles/"+name+"/marker"))) },
		"gone":      func(v *journaled, name string) { must(v.t, os.RemoveAll(v.path("profiles/"+name))) },
	}
	for why, name := range []string{ofSeen: "seen", ofIntent: "intent"} {
		t.Run(name, func(t *testing.T) {
			var pictures []string
			for _, together := range []bool{false, true} {
				v := &journaled{volume: newVolume(t, nil), fault: func(string) error { return nil }}
				var of []Subject
				found := map[Subject]service.Intent{}
				for _, name := range slices.Sorted(maps.Keys(there)) {
					v.write("profiles/"+name+"/marker", "")
					of = append(of, Gateway(name))
					found[Gateway(name)] = service.Running
				}
				v.boot("a1a1a1a1")
				must(t, v.Records.TakeOver(found, nil))
				for name, put := range there {
					put(v, name)
				}
				static := []string{"absent", "dashboard", "otherwise", "nonsense"}
				for _, name := range static {
					of = append(of, Static(name))
				}
				of = append(of, Gateway(Default))
				v.write("state/services/dashboard.json", fmt.Sprintf(whole, "", "running"))
				v.write("state/services/otherwise.json", fmt.Sprintf(whole, "", "stopped"))
				v.write("state/services/nonsense.json", "nonsense")
				change := func(f *stateFile) { f.Seen, f.PID = service.SeenRunning, 7 }
				left := of
				if together {
					left = v.Records.together(of, reason(why), func(_ Subject, f *stateFile) { change(f) })
					if slices.Contains(left, Gateway("as-recorded")) || slices.Contains(left, Gateway("missing")) || slices.Contains(left, Static("dashboard")) || !slices.Contains(left, Gateway("gone")) {
						t.Errorf("left are %v", left)
					}
				}
				said := map[Subject]error{}
				for _, one := range left {
					unlock := v.Records.tree.names.lock(one.key())
					said[one] = v.Records.update(one, reason(why), change)
					unlock()
				}
				var picture strings.Builder
				for _, one := range of {
					fmt.Fprintf(&picture, "%v: %v\n", one, said[one] != nil)
					dir := v.path("profiles/" + one.Profile)
					if one.Service != "" {
						dir = v.path("state/services")
					}
					entries, _ := os.ReadDir(dir)
					for _, e := range entries {
						text, _ := os.ReadFile(dir + "/" + e.Name())
						fmt.Fprintf(&picture, "  %s %v %.300s\n", e.Name(), e.Type(), text)
					}
				}
				pictures = append(pictures, picture.String())
				v.journal.Close()
			}
			if pictures[0] != pictures[1] {
				t.Errorf("one by one:\n%s\ntogether:\n%s", pictures[0], pictures[1])
			}
		})
	}
}
