package screen

import (
	"fmt"
	"strings"

	"rlminit/beside/top/text"
)

// A terminal of fewer lines than roomy has no more than one line above a list and two
// below it.
const roomy = 14

// Draw is what the terminal shows: as many lines as it has, none wider than it is.
func (m *Model) Draw() string {
	width, height := m.size.Width, m.size.Height
	if width <= 0 || height <= 0 {
		return ""
	}
	foot := m.foot()
	foot = foot[max(0, len(foot)-max(1, height-2)):]
	room := height - len(foot)
	var lines []string
	switch m.page {
	case onePage:
		lines = m.drawOne(room)
	case operationsPage:
		lines = m.drawOperations(room)
	case helpPage:
		lines = m.drawHelp()
	default:
		lines = m.drawList(room)
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, room)], foot...)
	for i, line := range lines {
		lines[i] = text.Cut(line, width)
	}
	return strings.Join(lines, "\n")
}

// mostOfBox is how many columns the name of the box takes at most.
const mostOfBox = 24

// Title is for the terminal's window, and the first words of the screen: which box this is, and
// how many of its services are ill.
func (m *Model) Title() string {
	title := "rlminit top"
	if m.latest.Box != "" {
		title += " " + text.Cut(text.Line(m.latest.Box), mostOfBox)
	}
	if ill := m.table.Ill(); ill > 0 && m.silent == "" {
		title += fmt.Sprintf(": %d ill", ill)
	}
	return title
}

// rows is how many rows of a list there is room for.
func (m *Model) rows() int {
	return max(1, m.size.Height-len(m.foot())-len(m.head())-1)
}

// head are the lines above every list.
func (m *Model) head() []string {
	if m.table.At.IsZero() {
		return []string{"asking the supervisor"}
	}
	counts := m.table.Counts()
	if m.silent != "" {
		counts = style(ill, fmt.Sprintf("%s (as of %s)", m.silent, m.table.At.Local().Format("15:04:05")))
	}
	lines := []string{style(heading, m.Title()) + "  " + counts}
	if m.size.Height < roomy {
		return lines
	}
	use := m.table.Use()
	if m.latest.Limit > 0 {
		use += fmt.Sprintf("; container %s of %s", text.Size(m.latest.Used), text.Size(m.latest.Limit))
	}
	return append(lines, use+m.chosenSo())
}

// foot are the lines below everything: what is said or asked, and the keys.
func (m *Model) foot() []string {
	keys := style(faint, m.keys())
	switch {
	case m.question != nil:
		return m.drawQuestion()
	case m.typing != nil && m.typing.what == searching:
		return []string{"search the log, from its end: " + m.typing.text + "█", style(faint, "Enter search   Esc no")}
	case m.typing != nil:
		return []string{"filter by name, state or kind: " + m.typing.text + "█", style(faint, "Enter keep   Esc show all")}
	}
	var lines []string
	switch {
	case m.note.text != "" && m.note.bad:
		for _, line := range wrap(m.note.text, m.size.Width, 3) {
			lines = append(lines, style(ill, line))
		}
	case m.note.text != "":
		lines = []string{m.note.text}
	case m.doing.on:
		lines = []string{m.doing.line()}
	case m.page == listPage && m.size.Height < roomy:
		lines = []string{m.underCursor()}
	default:
		lines = []string{""}
	}
	if m.page == listPage && m.size.Height >= roomy {
		lines = append([]string{m.underCursor()}, lines...)
	}
	return append(lines, keys)
}

// drawQuestion is a question with what yes will do, over as many lines as that takes.
func (m *Model) drawQuestion() []string {
	q := m.question
	says := q.says
	if !q.known {
		says += "Asking what depends on it …"
	}
	answers := "y yes   n no"
	if q.orders {
		answers = "y yes, all at once   o one after the other   n no"
	}
	lines := []string{style(heading, q.text) + " y/n"}
	lines = append(lines, wrap(says, m.size.Width, 3)...)
	return append(lines, style(faint, answers))
}

// wrap breaks a text between words into lines of a width, and no more than so many.
func wrap(words string, width, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(words) {
		if line != "" && text.Width(line)+1+text.Width(word) > width {
			if len(lines) == most-1 {
				line += " …"
				break
			}
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// underCursor is the whole reason of the service that the cursor is on, which its row may
// have to cut.
func (m *Model) underCursor() string {
	r, _ := m.table.Cursor()
	if r == nil || r.Why == "" {
		return ""
	}
	return r.Name + ": " + r.Why
}

// keys are the most important keys of a page, as far as there is room.
func (m *Model) keys() string {
	all := []string{"? help", "q quit", "Enter open", "/ filter", "s sort", "d stop", "r restart", "u start", "Space mark", "o operations", "m memory/CPU", "S turn round"}
	switch m.page {
	case onePage:
		all = []string{"? help", "Esc back", "/ search", "↑↓ scroll", "G end", "d stop", "r restart", "u start", "←→ sideways"}
		if m.one.log.sought != "" {
			all = append([]string{"n older", "N newer"}, all...)
		}
	case operationsPage:
		all = []string{"? help", "Esc back", "q quit", "↑↓ move", "c cancel"}
	case helpPage:
		if len(help) > m.size.Height-3 {
			return "↑↓ scroll   any other key goes back"
		}
		return "any key goes back"
	}
	line := all[0]
	for _, key := range all[1:] {
		if text.Width(line)+3+text.Width(key) > m.size.Width {
			break
		}
		line += "   " + key
	}
	return line
}

// scrolled is the first of count rows that is drawn, so that the cursor is among the
// room that there is. It moves no further than it has to.
func scrolled(first, cursor, count, room int) int {
	room = max(room, 1)
	first = min(first, cursor)
	first = max(first, cursor-room+1)
	return max(0, min(first, count-room))
}
