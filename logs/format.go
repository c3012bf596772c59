package logs

import (
	"bytes"
	"time"
)

// MaxLine is how long a line may be, in bytes without its newline, before it
// is split.
const MaxLine = 1 << 20

// layout is that of a line's time, RFC 3339 in UTC with microseconds.
const layout = "2006-01-02T15:04:05.000000Z"

// The marks that follow the time. A plus says that the newline is rlminit's.
var marks = [...]struct{ whole, cut string }{
	fromStdout: {" out ", " out+ "},
	fromStderr: {" err ", " err+ "},
	fromMark:   {" --- ", " ---+ "},
	fromExit:   {" --- ", " ---+ "},
}

// headSize is at least the length of what precedes a line's text.
const headSize = len(layout) + len(" out+ ")

// stamp makes the beginnings of lines, for one time after the other.
type stamp struct {
	second int64
	text   [len(layout)]byte
	whole  []byte // time and mark
	cut    []byte
}

// set makes whole and cut for lines of source read at when, in µs since 1970.
func (t *stamp) set(when int64, source uint32) {
	second, micro := when/1e6, when%1e6
	if second != t.second || t.second == 0 {
		copy(t.text[:], time.Unix(second, 0).UTC().Format(layout))
		t.second = second
	}
	for i := len(layout) - 2; i >= len(layout)-7; i-- {
		t.text[i] = byte('0' + micro%10)
		micro /= 10
	}
	t.whole = append(append(t.whole[:0], t.text[:]...), marks[source].whole...)
	t.cut = append(append(t.cut[:0], t.text[:]...), marks[source].cut...)
}

// oneLine makes a line of rlminit's own out of text: no newline, and not
// longer than a screen or two.
func oneLine(text string) string {
	const most = 4000
	if len(text) > most {
		text = text[:most]
	}
	b := []byte(text)
	for i := bytes.IndexByte(b, '\n'); i >= 0; i = bytes.IndexByte(b, '\n') {
		b[i] = ' '
	}
	return string(b)
}
