// Package text makes what a terminal shows: harmless characters, columns of a width,
// sizes, times and sparklines.
//
// Whatever a service or a person outside may have chosen, a name, a reason or a line of a
// log, goes through Line or LogLine before it is drawn. The package is pure, and owns
// nothing.
package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longest is how many bytes of a text are kept: more than any terminal is wide, and no
// more than a thousand of them may cost.
const longest = 4096

// marksMost is how many combining marks may follow a character. Natural languages have
// three at most; a pile of them covers the lines above.
const marksMost = 3

// Line makes one harmless line of a text: what a terminal could obey, what changes the
// direction of writing and what is not to be seen is shown as U+FFFD, and a tab or the
// end of a line as a blank.
func Line(s string) string {
	if plain(s) {
		return s
	}
	var out strings.Builder
	marks := 0
	for _, r := range clip(strings.TrimRight(s, "\r\n")) {
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case marks > marksMost || chooses(r):
		case marks > 0 && out.Len() == 0: // or it would be drawn over what is before the text
			out.WriteRune(unicode.ReplacementChar)
		case r == '\t' || r == '\n' || r == '\r':
			out.WriteByte(' ')
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteRune(unicode.ReplacementChar)
		}
	}
	return out.String()
}

// plain tells whether a text is short and has nothing but printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= longest
}

// chooses tells whether a mark only chooses how the character before it is drawn. How
// wide that is then, terminals do not agree on.
func chooses(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// clip cuts a text to the longest that is kept, between two characters.
func clip(s string) string {
	if len(s) <= longest {
		return s
	}
	at := longest
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + "…"
}

// tabStop is how far apart the stops of tabs are.
const tabStop = 8

// LogLine is a line of a log as `rlminit logs` shows it on a terminal: ^[ for an escape,
// \x9b for a byte that is no UTF-8, \u009b for a character that is not to be seen.
func LogLine(line []byte) string {
	line = bytes.TrimRight(line, "\r\n")
	cut := len(line) > longest
	if cut {
		line = line[:longest]
	}
	out := make([]byte, 0, len(line))
	marks, column, counted := 0, 0, 0 // the columns of the first counted bytes of out
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if marks = marks + 1; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, "\\x%02x", line[0])
		case r == '\t':
			column += utf8.RuneCount(out[counted:])
			blanks := tabStop - column%tabStop
			out = append(out, "        "[:blanks]...)
			column, counted = column+blanks, len(out)
		case marks > marksMost || chooses(r):
		case unicode.IsPrint(r) && (marks == 0 || len(out) > 0):
			out = append(out, line[:size]...)
		case r < 0x20:
			out = append(out, '^', byte(r)+'@')
		case r == 0x7f:
			out = append(out, "^?"...)
		default:
			out = fmt.Appendf(out, "\\u%04x", r)
		}
		line = line[size:]
	}
	if cut {
		out = append(out, "…"...)
	}
	return string(out)
}
