package explorelife

import (
	"fmt"
	"slices"
	"strings"

	"rlminit/supervise/machine"
)

// Merge adds what other found.
func (r *Result) Merge(other Result) {
	if r.Visits == nil {
		r.Visits, r.Acts = map[Pair]int{}, map[Pair]bool{}
		r.Edges = map[Pair]map[machine.Phase]bool{}
	}
	r.States += other.States
	r.Steps += other.Steps
	for pair, n := range other.Visits {
		r.Visits[pair] += n
	}
	for pair := range other.Acts {
		r.Acts[pair] = true
	}
	for pair, phases := range other.Edges {
		if r.Edges[pair] == nil {
			r.Edges[pair] = map[machine.Phase]bool{}
		}
		for ph := range phases {
			r.Edges[pair][ph] = true
		}
	}
}

// short names for the columns of the table.
var short = map[machine.Phase]string{
	machine.Stopped: "stp", machine.Waiting: "wai", machine.Backoff: "bko", machine.Failed: "fai",
	machine.Exited: "exi", machine.Spawning: "spw", machine.Parked: "prk", machine.Starting: "sta",
	machine.Running: "run", machine.Stopping: "sto", machine.Sweeping: "swp", machine.Gone: "gon",
}

// Markdown renders a diagram and a table of what was found.
func (r Result) Markdown() string {
	return r.diagram() + "\n" + r.table()
}

// diagram shows the way of a service. What holds anywhere (a removal, another
// supervisor) and the way back from an unanswered spawn stand in the table only.
func (r Result) diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> stopped\n")
	for _, from := range machine.Phases {
		for _, to := range machine.Phases {
			if label := r.label(from, to); label != "" {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", name(from), name(to), label)
			}
		}
	}
	b.WriteString("    gone --> [*]\n```\n")
	return b.String()
}

func (r Result) label(from, to machine.Phase) string {
	if from == to {
		return ""
	}
	var events []string
	for _, k := range machine.EventKinds {
		if k == machine.Adopt || !r.Edges[Pair{from, k}][to] {
			continue
		}
		events = append(events, string(k))
	}
	return strings.Join(events, ", ")
}

// table has a row for each event and a column for each phase.
func (r Result) table() string {
	var b strings.Builder
	b.WriteString("| event |")
	for _, ph := range machine.Phases {
		fmt.Fprintf(&b, " %s |", name(ph))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(machine.Phases)) + "\n")
	for _, k := range machine.EventKinds {
		fmt.Fprintf(&b, "| %s |", k)
		for _, ph := range machine.Phases {
			fmt.Fprintf(&b, " %s |", r.cell(Pair{ph, k}))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n" + legend())
	return b.String()
}

func (r Result) cell(pair Pair) string {
	edges := r.Edges[pair]
	if len(edges) == 0 {
		return ""
	}
	if !r.Acts[pair] {
		return "–"
	}
	var to []string
	for _, ph := range machine.Phases {
		switch {
		case !edges[ph]:
		case ph == pair.Phase:
			to = slices.Insert(to, 0, "•")
		default:
			to = append(to, short[ph])
		}
	}
	return strings.Join(to, " ")
}

func legend() string {
	var names []string
	for _, ph := range machine.Phases {
		names = append(names, short[ph]+" "+name(ph))
	}
	return "• stays, and something is noted or done · – nothing happens · empty: cannot happen, and is survived\n\n" +
		"" + strings.Join(names, ", ") + "\n"
}

// The lines of a document between which Markdown stands.
const (
	Begin = "<!-- made by: go generate ./supervise/machine -->\n"
	End   = "<!-- end of what is made -->\n"
)

// Replace puts text between the marks of a document.
func Replace(document, text string) (string, error) {
	head, rest, ok := strings.Cut(document, Begin)
	_, tail, ok2 := strings.Cut(rest, End)
	if !ok || !ok2 {
		return "", fmt.Errorf("cannot find the lines %q and %q", strings.TrimSpace(Begin), strings.TrimSpace(End))
	}
	return head + Begin + text + End + tail, nil
}

// All searches under each of Policies.
func All() (Result, error) {
	var all Result
	for _, n := range Policies() {
		r, err := Search(n.Policy)
		if err != nil {
			return all, fmt.Errorf("%s: %w", n.Name, err)
		}
		all.Merge(r)
	}
	return all, nil
}
