package table

import (
	"slices"
	"strings"

	"rlminit/beside/top/text"
	"rlminit/control"
	"rlminit/internal/natural"
)

// Mark marks the service that the cursor is on, or takes its mark away.
func (t *Table) Mark() {
	r, _ := t.Cursor()
	if r == nil {
		return
	}
	if t.marked == nil {
		t.marked = map[string]bool{}
	}
	if name := r.Service.Name; t.marked[name] {
		delete(t.marked, name)
	} else {
		t.marked[name] = true
	}
}

// MarkShown marks all that are shown, or takes the marks away if all of them have one.
func (t *Table) MarkShown() {
	all := !slices.ContainsFunc(t.shown, func(r *Row) bool { return !t.marked[r.Service.Name] })
	if t.marked == nil {
		t.marked = map[string]bool{}
	}
	for _, r := range t.shown {
		if all {
			delete(t.marked, r.Service.Name)
		} else {
			t.marked[r.Service.Name] = true
		}
	}
}

// Unmark takes all marks away.
func (t *Table) Unmark() { clear(t.marked) }

// Marked tells whether a row is marked.
func (t *Table) Marked(r *Row) bool { return t.marked[r.Service.Name] }

// Marks is how many are marked, shown or not.
func (t *Table) Marks() int { return len(t.marked) }

// Chosen are the rows that a command is meant for, in the order of names: those that are
// marked, else the one that the cursor is on.
func (t *Table) Chosen() []*Row {
	var chosen []*Row
	for name := range t.marked {
		chosen = append(chosen, t.rows[name])
	}
	if r, _ := t.Cursor(); len(chosen) == 0 && r != nil {
		chosen = append(chosen, r)
	}
	slices.SortFunc(chosen, func(a, b *Row) int { return natural.Compare(a.Name, b.Name) })
	return chosen
}

// words are the states in the order in which they are counted.
var words = []string{"failed", control.Unhealthy, "backoff", "waiting", "starting", "stopping", "running", control.Scheduled, "stopped", "exited"}

// Counts says how many services are in which state, what is ill first.
func (t *Table) Counts() string {
	counts, outdated := map[string]int{}, 0
	for _, r := range t.rows {
		counts[r.State]++
		if r.Service.Outdated {
			outdated++
		}
	}
	var parts []string
	for _, word := range words {
		if n := counts[word]; n > 0 {
			parts = append(parts, text.Number(n)+" "+word)
		}
	}
	if outdated > 0 {
		parts = append(parts, text.Number(outdated)+" "+control.Outdated)
	}
	line := text.Count(len(t.rows), "service")
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}

// Ill is how many services are ill.
func (t *Table) Ill() (n int) {
	for _, r := range t.rows {
		if r.Service.Verdict == "ill" {
			n++
		}
	}
	return n
}

// Use says what all services, and what rlminit itself, use.
func (t *Table) Use() string {
	memory, cpu := sum(t.rows)
	line := "memory " + text.Size(memory) + ", CPU " + share(cpu)
	if len(t.Tiers) > 0 {
		memory, cpu = sum(t.tiers)
		line += "; rlminit " + text.Size(memory) + ", " + share(cpu)
	}
	return line
}

// share is a share of a processor with its unit; "-": it is not known.
func share(cpu float64) string {
	if cpu < 0 {
		return "-"
	}
	return text.Percent(cpu) + "%"
}

// sum adds up what is known of rows; -1: nothing is.
func sum(rows map[string]*Row) (memory int64, cpu float64) {
	memory, cpu = -1, -1
	for _, r := range rows {
		if r.Memory >= 0 {
			memory = max(memory, 0) + r.Memory
		}
		if r.CPU >= 0 {
			cpu = max(cpu, 0) + r.CPU
		}
	}
	return memory, cpu
}
