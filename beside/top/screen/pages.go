package screen

import (
	"fmt"
	"strings"

	"rlminit/beside/top/text"
	"rlminit/control"
)

// drawOne is the page of a service in so many lines.
func (m *Model) drawOne(room int) []string {
	lines := m.facts()
	if m.size.Height < roomy {
		lines = lines[:min(len(lines), 2)]
	}
	if m.silent != "" {
		lines = append([]string{style(ill, m.silent)}, lines...)
	}
	log := &m.one.log
	log.height = max(1, room-len(lines)-1)
	lines = append(lines, style(heading, log.title(m.size.Width)))
	for i := log.top(); i < min(len(log.lines), log.top()+log.height); i++ {
		lines = append(lines, log.draw(i))
	}
	if len(log.lines) == 0 && log.trouble == "" {
		lines = append(lines, style(faint, "nothing yet"))
	}
	return lines
}

// title is the line above a log.
func (p *logPane) title(width int) string {
	word := "log, as it comes"
	switch n := p.below(); {
	case p.trouble != "":
		word = "log: " + p.trouble
	case n > 0:
		word = "log: " + text.Count(n, "line") + " below; G goes to the end"
	}
	if p.sought != "" {
		which, of := p.hits()
		word += fmt.Sprintf("; %q: %d of %d", p.sought, which, of)
	}
	if p.column > 0 {
		word += fmt.Sprintf("; from column %d", p.column+1)
	}
	word = "── " + word + " "
	return word + strings.Repeat("─", max(0, width-text.Width(word)))
}

// draw is a line of the log. What was searched stands out, and where colours and such do
// not show, the line of the match has a sign before it.
func (p *logPane) draw(i int) string {
	line := text.From(p.lines[i], p.column)
	if p.sought == "" {
		return line
	}
	sign := "  "
	if i == p.found {
		sign = "> "
	}
	at := strings.Index(strings.ToLower(line), p.sought)
	if at < 0 || at+len(p.sought) > len(line) || len(strings.ToLower(line)) != len(line) {
		return sign + line
	}
	return sign + line[:at] + style(chosen, line[at:at+len(p.sought)]) + line[at+len(p.sought):]
}

// drawOperations is the page of operations in so many lines.
func (m *Model) drawOperations(room int) []string {
	p := &m.operations
	lines := append(m.head(), style(heading, fmt.Sprintf("  %-5s %-8s %-11s %5s  %s", "ID", "VERB", "STATE", "SINCE", "WHAT BECOMES OF IT")))
	switch {
	case !p.asked:
		return append(lines, "  asking the supervisor")
	case p.why != "":
		return append(lines, "  "+style(ill, p.why))
	case len(p.all) == 0:
		return append(lines, "  nothing was asked of a service yet")
	}
	room -= len(lines)
	p.first = scrolled(p.first, p.index, len(p.all), room)
	for i := p.first; i < min(len(p.all), p.first+room); i++ {
		o := p.all[i]
		sign := " "
		if i == p.index {
			sign = ">"
		}
		line := fmt.Sprintf("%s %-5d %-8s %-11s %5s  %s", sign, o.ID, text.Line(o.Verb), text.Line(o.State), text.Age(m.table.At.Sub(o.At)), becomes(o))
		if i == p.index {
			line = style(chosen, text.Left(line, m.size.Width))
		}
		lines = append(lines, line)
	}
	return lines
}

// becomes says of an operation whom it is about, and how far it is or why it ended.
func becomes(o control.Operation) string {
	_, whom, _ := strings.Cut(subject(o), " ")
	switch {
	case !o.Over():
		return whom + ": " + progress(o) + awaited(o)
	case o.State == "done":
		return whom
	}
	if why := members(o); why != "" {
		return whom + ": " + why
	}
	return whom
}

// help are the keys, and what the words and columns mean.
var help = []string{
	"Move         ↑ ↓ or k j, PgUp PgDn, g G for the first and the last",
	"Enter        open the service under the cursor, with its log as it comes",
	"Esc          back; in the list: take away a message, the marks, the filter",
	"/            filter the list by name, state or kind; in a log: search it",
	"n N          in a log: the older, the newer match",
	"s S          sort by the next column; turn the order round",
	"Space a      mark the service under the cursor; all that are shown",
	"u d r        start (up), stop (down), restart it, or all that are marked",
	"o            operations: what was asked of services, and what becomes of it",
	"c            cancel the operation that is under way",
	"m            the past of memory, or of CPU",
	"Ctrl-L       draw everything anew          Ctrl-Z  suspend          q  quit",
	"",
	"> is the cursor, * a mark. CPU% is of one processor. SINCE is how long the",
	"state lasts, RST how often the service was restarted since rlminit started.",
}

// helpRoom is how many lines of help there is room for.
func (m *Model) helpRoom() int { return max(1, m.size.Height-len(m.foot())-1) }

// drawHelp is the page of help.
func (m *Model) drawHelp() []string {
	lines := []string{style(heading, "rlminit top: what the keys do")}
	first := max(0, min(m.helped, len(help)-m.helpRoom()))
	return append(lines, help[first:min(len(help), first+m.helpRoom())]...)
}
