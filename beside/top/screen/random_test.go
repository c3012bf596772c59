package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
	"rlminit/control"
)

// nasty are texts that others may have chosen.
var nasty = []string{
	"", "a", "plain words", "\x1b[2J\x1b]0;t\a", "\x9b31m", "\u202eevil", "漢字漢字漢字", "\u0301x", "e\u0301\u0301\u0301\u0301\u0301", "a\nb\rc\td", "\xff\xfe",
	strings.Repeat("wide ", 300), strings.Repeat("x", 5000), "☎\ufe0f", "🇩🇪🇩🇪", "\u200b\u2028",
}

var pressed = []string{
	"up", "down", "pgup", "pgdown", "home", "end", "left", "right", "enter", "esc", "space", "backspace", "/", "?", "a", "c", "d", "m", "n", "N", "o", "r", "s", "S", "u", "y", "k", "j", "漢", "f5",
}

// chance makes inputs.
type chance struct{ *rand.Rand }

func (c chance) text() string { return nasty[c.IntN(len(nasty))] }

func (c chance) services() (all []control.Service) {
	for i := range c.IntN(40) {
		if c.IntN(8) == 0 {
			continue
		}
		s := serviceIn(fmt.Sprint(c.text(), i), control.ServiceStates[c.IntN(len(control.ServiceStates))], c.text())
		if c.IntN(2) == 0 {
			s.Profile, s.Kind = ptr(c.text()), ptr(c.text())
		}
		if c.IntN(2) == 0 {
			s.Usage, s.PID = &control.Usage{MemoryBytes: c.Int64N(1 << 40), CPUS: c.Float64() * 1e5}, ptr(c.IntN(3))
		}
		s.Outdated, s.LastExit = c.IntN(4) == 0, &control.Exit{Signal: ptr(c.text())}
		all = append(all, s)
	}
	return all
}

func (c chance) operation() control.Operation {
	states := []string{"running", "done", "failed", "cancelled", c.text()}
	o := control.Operation{ID: uint64(c.IntN(4)), Verb: c.text(), State: states[c.IntN(len(states))], Reason: c.text(), At: start}
	for range c.IntN(5) {
		o.Members = append(o.Members, control.OperationMember{Name: c.text(), State: states[c.IntN(len(states))], Reason: c.text()})
	}
	return o
}

func (c chance) input(m *Model) Input {
	switch c.IntN(24) {
	case 0:
		return Size{c.IntN(130), c.IntN(40)}
	case 1, 2:
		at := m.table.At.Add(1)
		if m.table.At.IsZero() {
			at = start
		}
		return Fresh{table.Snapshot{At: at, Services: c.services(), Tiers: c.services(), Used: c.Int64N(1 << 30), Limit: c.Int64N(2)}}
	case 3:
		return Silent{c.text()}
	case 4:
		return Pasted{c.text()}
	case 5:
		lines := [][]byte{}
		for range c.IntN(50) {
			lines = append(lines, []byte(c.text()), []byte("2026-05-24T18:05:33.000001Z out "+c.text()))
		}
		return Logged{Of: m.one.opened, Lines: lines, Why: c.text()}
	case 6:
		return Depends{Of: m.asked, All: []control.Dependencies{{Service: c.text(), State: "running", Requires: []string{c.text()}}}, Why: c.text()}
	case 7:
		return Operated{Of: c.IntN(m.asked + 1), Operation: c.operation(), Why: c.text()}
	case 8:
		return Operations{All: []control.Operation{c.operation(), c.operation()}, Why: c.text()}
	}
	key := pressed[c.IntN(len(pressed))]
	return Key{Name: key, Text: key}
}

// TestWhateverComes: whatever is typed and answered, in a terminal of whatever size, what
// is drawn fits, has nothing that a terminal would obey but styles, and nothing is begun
// that was not asked before.
func TestWhateverComes(t *testing.T) {
	for seed := range uint64(25) {
		c, m := chance{rand.New(rand.NewPCG(seed, 1))}, &Model{}
		for step := range 400 {
			in := c.input(m)
			asked := m.question
			for _, effect := range m.Step(in) {
				if _, begins := effect.(Begin); begins && (asked == nil || !asked.known) {
					t.Fatalf("seed %d, step %d: %#v was not asked, or not answered knowingly", seed, step, effect)
				}
			}
			if fault := unfit(m.Draw(), m.size); fault != "" {
				t.Fatalf("seed %d, step %d: after %#v %s", seed, step, in, fault)
			}
		}
	}
}

// unfit says what is wrong with a screen; "": nothing.
func unfit(screen string, size Size) string {
	if size.Width <= 0 || size.Height <= 0 {
		if screen != "" {
			return "something is drawn where there is no room"
		}
		return ""
	}
	lines := strings.Split(screen, "\n")
	if len(lines) != size.Height {
		return fmt.Sprintf("%d lines are drawn in %d", len(lines), size.Height)
	}
	for _, line := range lines {
		if w := text.Width(line); w > size.Width {
			return fmt.Sprintf("a line of %d columns is drawn in %d: %q", w, size.Width, line)
		}
		for _, r := range ansi.Strip(line) {
			if !unicode.IsPrint(r) {
				return fmt.Sprintf("there is %U in %q", r, line)
			}
		}
		for _, part := range strings.Split(line, "\x1b")[1:] {
			end := strings.IndexFunc(part, func(r rune) bool { return unicode.IsLetter(r) })
			if end < 0 || part[0] != '[' || part[end] != 'm' {
				return fmt.Sprintf("there is an escape sequence in %q", line)
			}
		}
	}
	return ""
}
