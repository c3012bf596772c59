package order_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rlminit/supervise/order"
	"rlminit/tests/exploreorder"
)

var update = flag.Bool("update", false, "write what the rules do into testdata and ORDER.md")

// Each file in testdata is a story: lines of input, and indented below each line what
// the services do. Read one to see the form.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 12 {
		t.Fatal("too few stories in testdata", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tell(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("the story is another; now:\n%s", got)
			}
		})
	}
}

type teller struct {
	world *exploreorder.World
	state exploreorder.State
	names []string
	out   strings.Builder
}

func tell(text string) (string, error) {
	s := teller{}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.line(line); err != nil {
			return "", fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	return s.out.String(), nil
}

// line is "services: web requires db, db, job oneshot", "boot web db", "restart
// web", or "db comes".
func (s *teller) line(line string) error {
	if list, ok := strings.CutPrefix(line, "services: "); ok {
		return s.services(list)
	}
	before := s.state
	words := strings.Fields(line)
	var err error
	switch asked := map[string]exploreorder.Asked{"start": exploreorder.AskedStart, "stop": exploreorder.AskedStop, "restart": exploreorder.AskedRestart}[words[0]]; {
	case words[0] == "boot":
		err = s.world.Boot(&s.state, s.set(words[1:]))
	case asked != exploreorder.Nothing:
		err = s.world.Command(&s.state, asked, s.set(words[1:]))
	default:
		what := strings.Join(words[1:], " ")
		n, m := slices.Index(s.names, words[0]), slices.IndexFunc(exploreorder.Moves(), func(m exploreorder.Move) bool { return m.String() == what })
		if n < 0 || m < 0 || !s.world.Can(&s.state, order.Node(n), exploreorder.Move(m)) {
			return fmt.Errorf("it cannot: %v", s.state)
		}
		err = s.world.Make(&s.state, order.Node(n), exploreorder.Move(m))
	}
	s.show(before)
	return err
}

func (s *teller) services(list string) error {
	var edges [exploreorder.Most][exploreorder.Most]uint8
	var oneshot [exploreorder.Most]bool
	node := func(name string) int {
		if i := slices.Index(s.names, name); i >= 0 {
			return i
		}
		s.names = append(s.names, name)
		return len(s.names) - 1
	}
	for _, one := range strings.Split(list, ", ") {
		words := strings.Fields(one)
		n := node(words[0])
		for i := 1; i < len(words); i++ {
			if words[i] == "oneshot" {
				oneshot[n] = true
				continue
			}
			kind := slices.Index([]string{"requires", "wants", "after"}, words[i])
			if kind < 0 || i+1 == len(words) {
				return fmt.Errorf("%q is no edge", one)
			}
			i++
			edges[n][node(words[i])] = uint8(kind + 1)
		}
	}
	s.world = exploreorder.NewWorld(len(s.names), edges, oneshot, exploreorder.Proper)
	return nil
}

func (s *teller) set(names []string) (set uint8) {
	for _, name := range names {
		set |= 1 << slices.Index(s.names, name)
	}
	return set
}

// show writes what has changed, and what waiting services wait for.
func (s *teller) show(before exploreorder.State) {
	for i, name := range s.names {
		was, is := before[i], s.state[i]
		what := is.Phase.String()
		if is.Phase == order.Ending && is.Again {
			what += ", to come back"
		}
		d := s.world.Decide(&s.state, order.Node(i))
		switch {
		case is.Turn.Stops():
			what += fmt.Sprintf(", turn %s: waits for %s to stop", is.Turn, s.names[d.Before])
		case is.Turn == order.Start:
			what += ", to be started"
		case is.Phase == order.Waiting && d.Cycle:
			what += ": requires itself"
		case is.Phase == order.Waiting:
			what += fmt.Sprintf(": %s %s (%s)", d.Edge.Kind, s.names[d.Edge.To], d.Held)
		}
		if was.Fact != is.Fact || was.Again != is.Again {
			fmt.Fprintf(&s.out, "    %s: %s\n", name, what)
		}
	}
}
