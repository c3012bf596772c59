package move

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rlminit/internal/document"
)

// Reason says why something was not taken over as it was.
type Reason string

const (
	Rights   Reason = "rights"   // it needs root, or rights that no service here has
	NoEqual  Reason = "no-equal" // rlminit has nothing of the kind
	Outside  Reason = "outside"  // it belongs to the image, the container or the engine
	Unknown  Reason = "unknown"  // import does not know the key
	Near     Reason = "near"     // taken over by what comes nearest
	Invalid  Reason = "invalid"  // the source is faulty there
	Missing  Reason = "missing"  // it names something that was not read
	Renamed  Reason = "renamed"  // no service can have this name here
	Bound    Reason = "bound"    // it is larger than import reads
	NotReady Reason = "disabled" // taken over, but not started before somebody mends it
)

// ByKey has for each key of a source what is to be done about it. It is given pairs: keys
// with blanks between them, and that text.
func ByKey(notes [][2]string) map[string]string {
	all := map[string]string{}
	for _, note := range notes {
		for _, key := range strings.Fields(note[0]) {
			all[key] = note[1]
		}
	}
	return all
}

// At is a place in a source. Line 0 is the file as a whole.
type At struct {
	File string
	Line int
}

func (a At) String() string {
	if a.Line == 0 {
		return a.File
	}
	return fmt.Sprintf("%s:%d", a.File, a.Line)
}

// Left is one thing that could not be taken over as it was.
type Left struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Service string `json:"service,omitempty"` // as the output calls it
	What    string `json:"what"`
	Why     string `json:"why"` // and what to do
	Reason  Reason `json:"reason"`
}

// String is the line for people: FILE:LINE: what: why, and what to do.
func (l Left) String() string {
	return fmt.Sprintf("%s: %s: %s", line(At{l.File, l.Line}.String(), 400), line(l.What, 200), line(l.Why, 600))
}

// line is a text on one line, that a terminal shows as it is, of at most so many bytes.
func line(text string, most int) string {
	text = document.Printable(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "), '?')
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Short is a text as a message quotes it: on one line, and no longer than 60 bytes.
func Short(text string) string { return line(text, 60) }

// sorted are what was left out, by place, each once.
func sorted(all []Left) []Left {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Left) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What), cmp.Compare(a.Why, b.Why))
	})
	return slices.Compact(out)
}

// OneLine is a message on one line, that a terminal shows as it is.
func OneLine(text string) string { return line(text, 2000) }
