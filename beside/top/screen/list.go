package screen

import (
	"fmt"
	"strconv"
	"strings"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
)

// column is one of the list.
type column struct {
	title string
	width int
	right bool
	from  int // the width of the terminal from which on it is there
	order table.Order
	cell  func(*Model, *table.Row) string
}

// columns are those between the name and the reason.
func columns() []column {
	return []column{
		{"STATE", 9, false, 0, table.ByState, func(_ *Model, r *table.Row) string { return r.State }},
		{"SINCE", 5, true, 46, table.BySince, func(m *Model, r *table.Row) string { return r.Since(m.table.At) }},
		{"RST", 4, true, 56, table.ByRestarts, func(_ *Model, r *table.Row) string { return strconv.Itoa(r.Service.Restarts) }},
		{"MEM", 5, true, 52, table.ByMemory, func(_ *Model, r *table.Row) string { return text.Size(r.Memory) }},
		{"CPU%", 5, true, 52, table.ByCPU, func(_ *Model, r *table.Row) string { return text.Percent(r.CPU) }},
	}
}

// sparkFrom is the width of a terminal from which on rows have a sparkline.
const sparkFrom = 70

// nameWidth is how wide the column of names is: as the longest is, as far as there is
// room.
func (m *Model) nameWidth() int {
	return min(max(m.table.Widest(), len("NAME")+1), max(12, m.size.Width/4))
}

// drawList is the list of services in so many lines.
func (m *Model) drawList(room int) []string {
	lines := m.head()
	if m.table.At.IsZero() {
		return lines
	}
	shown := m.table.Shown()
	name := m.nameWidth()
	lines = append(lines, style(heading, m.titles(name)))
	room -= len(lines)
	_, cursor := m.table.Cursor()
	m.first = scrolled(m.first, cursor, len(shown), room)
	for i := m.first; i < min(len(shown), m.first+room); i++ {
		lines = append(lines, m.drawRow(shown[i], name, i == cursor))
	}
	if len(shown) == 0 {
		none := "no profile and no service yet; rlminit profile create NAME makes a profile"
		if m.table.Len() > 0 {
			none = fmt.Sprintf("none of %s matches %q; Esc shows all", text.Count(m.table.Len(), "service"), m.filter)
		}
		lines = append(lines, none)
	}
	return lines
}

// titles are the titles of the columns. That of what is sorted by has an arrow.
func (m *Model) titles(name int) string {
	order, turned := m.table.Sorted()
	title := func(word string, of table.Order) string {
		switch {
		case of != order:
			return word
		case turned:
			return word + "↑"
		}
		return word + "↓"
	}
	line := "  " + text.Left(title("NAME", table.ByName), name)
	for _, c := range columns() {
		if m.size.Width < c.from {
			continue
		}
		fit := text.Left
		if c.right {
			fit = text.Right
		}
		line += " " + fit(title(c.title, c.order), c.width)
	}
	if width := m.sparkWidth(); width > 0 {
		word := "CPU PAST"
		if m.memories {
			word = "MEM PAST"
		}
		line += " " + text.Left(word, width)
	}
	line += " WHY"
	if m.size.Height < roomy {
		line += m.chosenSo()
	}
	return line
}

// chosenSo says what a person has chosen: a filter, and marks.
func (m *Model) chosenSo() string {
	var parts []string
	if m.filter != "" {
		parts = append(parts, fmt.Sprintf("filter %q shows %s", m.filter, text.Number(len(m.table.Shown()))))
	}
	if n := m.table.Marks(); n > 0 {
		parts = append(parts, text.Number(n)+" marked")
	}
	if len(parts) == 0 {
		return ""
	}
	return "  [" + strings.Join(parts, ", ") + "]"
}

func (m *Model) sparkWidth() int {
	switch {
	case m.size.Width < sparkFrom:
		return 0
	case m.size.Width < 100:
		return 8
	}
	return 16
}

// drawRow is a service in a line. The sign before the name tells where the cursor is, and
// the one beside it what is marked.
func (m *Model) drawRow(r *table.Row, name int, cursor bool) string {
	signs := []byte("  ")
	if cursor {
		signs[0] = '>'
	}
	if m.table.Marked(r) {
		signs[1] = '*'
	}
	line := string(signs) + text.Left(r.Name, name)
	for _, c := range columns() {
		if m.size.Width < c.from {
			continue
		}
		fit := text.Left
		if c.right {
			fit = text.Right
		}
		cell := fit(c.cell(m, r), c.width)
		if c.order == table.ByState && !cursor {
			cell = styleState(cell)
		}
		line += " " + cell
	}
	if width := m.sparkWidth(); width > 0 {
		past := spark(r.CPUs, leastCPU, width)
		if m.memories {
			past = sparkMemory(r, width)
		}
		line += " " + past
	}
	if r.Why != "" {
		line += " " + r.Why
	}
	if cursor {
		return style(chosen, text.Left(line, m.size.Width))
	}
	return line
}
