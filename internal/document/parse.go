package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Bounds of a file. An honest one comes near none of them.
const (
	MaxSize  = 1 << 20 // bytes
	maxDepth = 32      // lists and mappings within each other

	maxFaults = 100 // of one pass; more help nobody
)

// Document is a parsed file. It never changes, so that many readers may Read it
// at once.
type Document struct {
	file   string
	root   *yaml.Node // nil: the file is empty
	faults Faults     // of the form: duplicate keys, anchors
}

// Parse reads the one YAML document that data holds, of at most MaxSize bytes.
// The file's name is for the faults only. Where there are faults the Document
// may still be read, to find the others.
func Parse(file string, data []byte) (*Document, Faults) {
	return ParseUpTo(MaxSize, file, data)
}

// ParseUpTo is Parse with another limit in bytes.
func ParseUpTo(limit int, file string, data []byte) (*Document, Faults) {
	d := &Document{file: file}
	if len(data) > limit {
		return d, d.fault(1, "", "the file has %d bytes; %d is the most", len(data), limit)
	}
	if line, text := scanBytes(data); line > 0 {
		return d, d.fault(line, "", "%s", text)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	node, err := decode(decoder)
	switch {
	case errors.Is(err, io.EOF):
		return d, nil
	case err != nil:
		line, text := syntax(data, err)
		return d, d.fault(line, "", "%s", text)
	}
	if len(node.Content) > 0 {
		d.root = node.Content[0]
		d.check(d.root, "", 0)
	}
	switch second, err := decode(decoder); {
	case errors.Is(err, io.EOF):
	case err != nil:
		line, text := syntax(data, err)
		d.fault(line, "", "%s", text)
	default:
		d.fault(second.Line, "", `a second document begins here; a file holds one, so remove the "---"`)
	}
	return d, d.faults
}

func (d *Document) fault(line int, field, format string, args ...any) Faults {
	d.faults = d.faults.with(Fault{File: d.file, Line: max(line, 1), Field: field, Text: printable(fmt.Sprintf(format, args...))})
	return d.faults
}

// decode is the next document of the stream. The parser is not ours and its
// input may come from a hostile service, so a panic of it is an error here.
func decode(d *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: the parser gave up: %v", r)
		}
	}()
	node = &yaml.Node{}
	err = d.Decode(node)
	return node, err
}

// scanBytes finds what YAML does not allow anywhere, for yaml.v3 names no line
// for it. Line 0: nothing found.
func scanBytes(data []byte) (line int, text string) {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return 1, "the file is UTF-16; save it as UTF-8"
	}
	line = 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			return line, fmt.Sprintf("byte 0x%02x is not UTF-8; save the file as UTF-8", data[i])
		case r == 0:
			return line, "a NUL byte; this is no text file"
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return line, fmt.Sprintf(`a control character; write "\x%02x" in double quotes`, r)
		case r == '\n':
			line++
		}
		i += n
	}
	return 0, ""
}

var (
	errorLine     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^line (\d+): `) })
	unknownAnchor = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unknown anchor '(.*)' referenced$`) })
)

// syntax turns an error of yaml.v3 into a line and a sentence. It names no line
// for line 1, none for an unknown anchor, and the start of the block for an
// error within it.
func syntax(data []byte, err error) (line int, text string) {
	line, text = splitError(err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	if m := unknownAnchor().FindStringSubmatch(text); m != nil {
		for i, l := range lines {
			if bytes.Contains(l, []byte("*"+m[1])) {
				line = i + 1
				break
			}
		}
		return line, "aliases (*" + m[1] + ") are not accepted; write the value out"
	}
	switch {
	case strings.HasPrefix(text, "did not find expected"):
		line = lineOf(lines, line, text)
	case strings.HasPrefix(text, "found a tab character"): // said of where the block began
		for i := line - 1; i < len(lines); i++ {
			if strings.ContainsRune(indent(string(lines[i])), '\t') {
				line = i + 1
				break
			}
		}
	}
	here := ""
	if line <= len(lines) {
		here = string(lines[line-1])
	}
	return line, "not YAML: " + text + hint(text, here)
}

// indent is what a line begins with.
func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// hint says what mostly lies behind an error of the parser.
func hint(text, line string) string {
	switch {
	case strings.Contains(indent(line), "\t"):
		return "; indent with spaces, not tabs"
	case strings.HasPrefix(text, "mapping values are not allowed"):
		return `; put a value that holds ": " in quotes, and indent alike`
	case strings.HasPrefix(text, "found character that cannot start"):
		return "; put the value in quotes"
	case strings.HasPrefix(text, "did not find expected"):
		return "; look at the indentation, the quotes and the brackets"
	case strings.HasPrefix(text, "could not find expected ':'"):
		return "; write key: value"
	case strings.HasPrefix(text, "found unexpected end of stream"):
		return "; a quote is not closed"
	}
	return ""
}

func splitError(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	line = 1
	if m := errorLine().FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	return max(line, 1), text
}

// lineOf is the line at which the parser first gives the error: that of the
// shortest beginning of the file which gives it too. The search is bounded, for
// the file may be hostile; past the bound the parser's own line has to do.
func lineOf(lines [][]byte, from int, text string) int {
	size := 0
	for _, l := range lines[:min(from-1, len(lines))] {
		size += len(l)
	}
	for n, budget := from, MaxSize; n <= len(lines); n++ {
		size += len(lines[n-1])
		if budget -= size; budget < 0 {
			break
		}
		d := yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:n], nil)))
		for {
			_, err := decode(d)
			if err == nil {
				continue
			}
			if _, t := splitError(err); t == text {
				return n
			}
			break
		}
	}
	return from
}

// check looks for what is refused wherever it stands.
func (d *Document) check(n *yaml.Node, field string, depth int) {
	if depth > maxDepth {
		d.fault(n.Line, field, "lists and mappings are nested more than %d deep", maxDepth)
		return
	}
	switch {
	case n.Kind == yaml.AliasNode:
		d.fault(n.Line, field, "aliases (*%s) are not accepted; write the value out", n.Value)
		return
	case n.Anchor != "":
		d.fault(n.Line, field, "anchors (&%s) are not accepted; write the value out where it is needed", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		d.fault(n.Line, field, `tags (%s) are not accepted; put text in quotes`, n.Tag)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		if strings.ContainsRune(n.Value, 0) {
			d.fault(n.Line, field, "holds a NUL byte, which no argument, path or variable can hold")
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.check(item, index(field, i), depth+1)
		}
	case yaml.MappingNode:
		seen := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				d.fault(key.Line, field, "a list or mapping is no key")
				continue
			}
			d.check(key, field, depth+1)
			if first := seen[key.Value]; first > 0 {
				d.fault(key.Line, field, "key %s is here twice; the first is on line %d", Quote(key.Value), first)
			} else {
				seen[key.Value] = key.Line
			}
			d.check(value, join(field, key.Value), depth+1)
		}
	}
}

func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

func join(field, key string) string {
	odd := func(r rune) bool { return r == '.' || r == '"' || r == ' ' || !unicode.IsPrint(r) }
	if len(key) > maxQuoted || key == "" || strings.ContainsFunc(key, odd) {
		key = Quote(key)
	}
	if field == "" {
		return key
	}
	return field + "." + key
}

// printable keeps a hostile file from writing more than one line, or from
// commanding a terminal.
func printable(s string) string { return Printable(s, utf8.RuneError) }

// Printable is text with something instead of each character that cannot be printed.
func Printable(text string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return instead
		}
		return r
	}, text)
}

// Harmless escapes in JSON what a terminal may obey, and package json does not:
// DEL, the controls from U+0080 on, and what changes the direction of a line.
func Harmless(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r <= '~' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, "\\u%04x\\u%04x", high, low)
		default:
			out = fmt.Appendf(out, "\\u%04x", r)
		}
	}
	return out
}

const maxQuoted = 60

// Quote puts s in quotes, on one line, and cuts it where it is too long for a
// message.
func Quote(s string) string {
	if len(s) > maxQuoted {
		cut := maxQuoted
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		return strconv.Quote(s[:cut] + "…")
	}
	return strconv.Quote(s)
}
