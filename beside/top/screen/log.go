package screen

import (
	"strings"
	"time"

	"rlminit/beside/top/text"
)

// What is kept of a log, whichever is reached first.
const (
	logLines = 5000
	logBytes = 4 << 20
)

// logPane is what was read of a log, and which part of it is drawn.
type logPane struct {
	lines   []string // as they are drawn
	bytes   int      // of all of them
	first   int      // the first line that is drawn, unless the end is followed
	held    bool     // the end is not followed: a person has scrolled
	column  int      // the first column that is drawn
	height  int      // the lines that the pane had when it was drawn last
	sought  string   // what is searched; "": nothing
	found   int      // the line of the match that was gone to; -1: none
	trouble string   // why the log cannot be read now; "": it can
}

// add adds lines at the end, and drops the oldest of too many.
func (p *logPane) add(lines [][]byte) {
	for _, line := range lines {
		shown := shownLine(line)
		p.lines = append(p.lines, shown)
		p.bytes += len(shown)
	}
	dropped := 0
	for len(p.lines)-dropped > logLines || p.bytes > logBytes && dropped < len(p.lines) {
		p.bytes -= len(p.lines[dropped])
		dropped++
	}
	if dropped > 0 {
		p.lines = append(p.lines[:0:0], p.lines[dropped:]...)
		p.first, p.found = max(0, p.first-dropped), max(-1, p.found-dropped)
	}
}

// streams are the marks that a log has behind its times, and what is shown for each.
var streams = map[string]string{"out": "", "err": "err ", "---": "rlminit: "}

// shownLine is a line as it is drawn: with the time of day where it has a date, and the
// stream where that is not standard output.
func shownLine(line []byte) string {
	stamp, rest, _ := strings.Cut(string(line[:min(len(line), 64)]), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return text.LogLine(line)
	}
	mark, _, _ := strings.Cut(rest, " ")
	begin := len(stamp) + 1
	word, known := streams[strings.TrimSuffix(mark, "+")]
	if known {
		begin += len(mark) + 1
	}
	return at.Local().Format("15:04:05") + " " + word + text.LogLine(line[min(begin, len(line)):])
}

// last is the first line that is drawn where the end is.
func (p *logPane) last() int { return max(0, len(p.lines)-p.height) }

// top is the first line that is drawn.
func (p *logPane) top() int {
	if !p.held {
		return p.last()
	}
	return min(p.first, p.last())
}

// scroll goes by so many lines; at the end, the end is followed.
func (p *logPane) scroll(by int) {
	p.first = max(0, min(p.top()+by, p.last()))
	p.held = p.first < p.last()
}

// below is how many lines are below what is drawn.
func (p *logPane) below() int { return max(0, len(p.lines)-p.top()-p.height) }

// search looks for a text from the newest line on.
func (p *logPane) search(what string) {
	p.sought, p.found = strings.ToLower(what), len(p.lines)
	p.next(-1)
}

// next goes to the next match, of older lines (-1) or newer ones (1).
func (p *logPane) next(step int) {
	if p.sought == "" {
		return
	}
	for i := p.found + step; i >= 0 && i < len(p.lines); i += step {
		if p.matches(p.lines[i]) {
			p.found = i
			p.scroll(i - p.height/2 - p.top())
			return
		}
	}
	if p.found >= len(p.lines) {
		p.found = -1
	}
}

func (p *logPane) matches(line string) bool { return strings.Contains(strings.ToLower(line), p.sought) }

// hits is how many lines match, and which of them the one is that was gone to, from 1 on;
// 0: none.
func (p *logPane) hits() (which, of int) {
	for i, line := range p.lines {
		if p.matches(line) {
			if of++; i == p.found {
				which = of
			}
		}
	}
	return which, of
}
