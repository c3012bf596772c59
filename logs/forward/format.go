package forward

import (
	"strconv"
	"unicode/utf8"

	"rlminit/logs"
)

// entry is a line as it is sent.
type entry struct {
	logs.Parts
	service, profile, host string
	run, seq               uint64
	entered                bool // it is the first of a file, and the number of that is to be noted
}

// appendJSON appends an object, and a newline.
func (e *entry) appendJSON(b []byte) []byte {
	text := func(key string, value []byte) {
		b = append(append(b, key...), '"')
		b = append(appendText(b, value), '"')
	}
	text(`{"time":`, e.Time)
	text(`,"service":`, []byte(e.service))
	if e.profile == "" {
		b = append(b, `,"profile":null`...)
	} else {
		text(`,"profile":`, []byte(e.profile))
	}
	b = strconv.AppendUint(append(b, `,"run":`...), e.run, 10)
	b = strconv.AppendUint(append(b, `,"seq":`...), e.seq, 10)
	text(`,"stream":`, []byte(e.Stream))
	text(`,"host":`, []byte(e.host))
	if e.Cut {
		b = append(b, `,"partial":true`...)
	}
	text(`,"message":`, e.Text)
	return append(b, "}\n"...)
}

// special are the bytes that do not stand for themselves in a JSON string, or may not.
var special = func() (is [256]bool) {
	for c := range is {
		is[c] = c < ' ' || c == '"' || c == '\\' || c >= 0x7f
	}
	return is
}()

// appendText appends what stands in the quotes of a JSON string: U+FFFD for what is no
// UTF-8, and no control character.
func appendText(b, text []byte) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(text); {
		plain := i
		for plain < len(text) && !special[text[plain]] {
			plain++
		}
		if b = append(b, text[i:plain]...); plain == len(text) {
			break
		}
		i = plain
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(b, "\uFFFD"...)
			} else if r < 0xa0 || r == '\u2028' || r == '\u2029' { // C1, and what ends a line for some
				b = append(b, `\u`...)
				b = append(b, hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			} else {
				b = append(b, text[i:i+n]...)
			}
			i += n
			continue
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
	}
	return b
}

// Severities and the facility of RFC 5424: daemon, as Docker's driver has it.
const (
	facility = 3 << 3
	isError  = 3
	isNotice = 5
	isInfo   = 6
)

// mostApp and mostHost are the longest names that RFC 5424 takes.
const (
	mostApp  = 48
	mostHost = 255
)

// appendSyslog appends a message of RFC 5424, without anything that ends it.
func (e *entry) appendSyslog(b []byte) []byte {
	severity := int64(isInfo)
	switch e.Stream {
	case "err":
		severity = isError
	case "rlminit":
		severity = isNotice
	}
	b = strconv.AppendInt(append(b, '<'), facility|severity, 10)
	b = append(append(append(b, ">1 "...), e.Time...), ' ')
	b = appendName(b, e.host, mostHost)
	b = appendName(append(b, ' '), e.service, mostApp)
	b = strconv.AppendUint(append(b, ' '), e.run, 10)
	b = appendName(append(b, ' '), e.Stream, 32)
	b = append(b, ` [rlminit@32473 service="`...)
	b = appendParam(b, e.service)
	if e.profile != "" {
		b = append(b, `" profile="`...)
		b = appendParam(b, e.profile)
	}
	b = strconv.AppendUint(append(b, `" run="`...), e.run, 10)
	b = strconv.AppendUint(append(b, `" seq="`...), e.seq, 10)
	if e.Cut {
		b = append(b, `" partial="true`...)
	}
	b = append(b, `"] `...)
	return appendMessage(b, e.Text)
}

// appendName appends a name of printable ASCII without blanks, or - for none.
func appendName(b []byte, name string, most int) []byte {
	before := len(b)
	for _, c := range []byte(name) {
		if '!' <= c && c <= '~' && len(b)-before < most {
			b = append(b, c)
		}
	}
	if len(b) == before {
		b = append(b, '-')
	}
	return b
}

// appendParam appends the value of a parameter, in which ", \ and ] are escaped.
func appendParam(b []byte, value string) []byte {
	for _, c := range []byte(value) {
		if c == '"' || c == '\\' || c == ']' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return b
}

// appendMessage appends a text as UTF-8, with #033 for a control character, as rsyslog
// shows it; what is no UTF-8, or controls a terminal in another way, is U+FFFD.
func appendMessage(b, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 || r < 0xa0 || r == '\u2028' || r == '\u2029' {
				b = append(b, "\uFFFD"...)
			} else {
				b = append(b, text[i:i+n]...)
			}
			i += n
			continue
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			b = append(b, '#', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		} else {
			b = append(b, c)
		}
		i++
	}
	return b
}
