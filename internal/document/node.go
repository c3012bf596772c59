package document

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxExpanded bounds what all the strings of one reading expand to, for a short
// file can name a long variable very often.
const maxExpanded = 8 << 20

// A Reading is one pass over a document with one set of variables. It collects
// the faults.
type Reading struct {
	document *Document
	lookup   Lookup
	faults   Faults
	service  string
	left     int // bytes that may still be expanded

	over   bool              // the values count over others: see Over
	advice map[string]string // what to write in place of an empty one
}

// Read begins a pass and gives the document's top node.
func (d *Document) Read(lookup Lookup) (Node, *Reading) {
	r := &Reading{document: d, lookup: lookup, left: maxExpanded}
	return Node{node: d.root, line: 1, reading: r}, r
}

// Faults are those of the form of the document, and those that this pass found.
func (r *Reading) Faults() Faults {
	all := append(slices.Clip(r.document.faults), r.faults...)
	all.Sort()
	return all
}

// Over has this pass read values that count over others: a known key that is there and
// says nothing, null or {}, would leave in force what its writer wants to be rid of, and
// is a fault. instead has what to write, by the key; "": it may be empty.
func (r *Reading) Over(instead map[string]string) { r.over, r.advice = true, instead }

// Found are the faults of this pass alone, without those that Parse reported.
func (r *Reading) Found() Faults { return r.faults }

// Node is a place in a document. The zero Node stands for what is absent.
type Node struct {
	node    *yaml.Node
	line    int
	field   string
	reading *Reading

	shape *Shape // not nil: nothing is read, and this is to be filled
	form  form   // what the place is taken for then
}

// With is the same place, read by another pass.
func (n Node) With(lookup Lookup, service string) (Node, *Reading) {
	r := &Reading{document: n.reading.document, lookup: lookup, service: service, left: maxExpanded}
	n.reading = r
	return n, r
}

// At is the same place under another name in the messages.
func (n Node) At(field string) Node {
	n.field = field
	return n
}

// Line is where the value stands, from 1.
func (n Node) Line() int { return n.line }

// Field is the path of the place: services.web.command.
func (n Node) Field() string { return n.field }

// File is the name of the document.
func (n Node) File() string { return n.reading.document.file }

// Fault reports that something is wrong here.
func (n Node) Fault(format string, args ...any) {
	if n.shape != nil {
		return
	}
	n.reading.faults = n.reading.faults.with(Fault{
		File: n.File(), Line: max(n.line, 1), Field: n.field,
		Text: printable(fmt.Sprintf(format, args...)), Service: n.reading.service,
	})
}

// Absent is true for what is not in the file, and for null.
func (n Node) Absent() bool {
	return n.node == nil || n.node.Kind == 0 ||
		n.node.Kind == yaml.ScalarNode && n.node.Tag == "!!null" && n.node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
}

// IsScalar, IsList and IsMapping tell what stands here.
func (n Node) IsScalar() bool  { return !n.Absent() && n.node.Kind == yaml.ScalarNode }
func (n Node) IsList() bool    { return n.node != nil && n.node.Kind == yaml.SequenceNode }
func (n Node) IsMapping() bool { return n.node != nil && n.node.Kind == yaml.MappingNode }

// broken is true for what Parse has refused already.
func (n Node) broken() bool { return n.node != nil && n.node.Kind == yaml.AliasNode }

// what describes a value of the wrong kind.
func (n Node) what() string {
	switch {
	case n.Absent():
		return "is empty"
	case n.IsList():
		return "is a list"
	case n.IsMapping():
		return "is a mapping"
	}
	switch n.node.Tag {
	case "!!int", "!!float":
		return n.node.Value + " is a number"
	case "!!bool":
		return n.node.Value + " is a boolean"
	}
	return Quote(n.node.Value) + " is a string"
}

func (n Node) child(key, value *yaml.Node, field string) Node {
	line := value.Line
	if value.Kind != yaml.ScalarNode && key != nil {
		line = key.Line
	}
	return Node{node: value, line: line, field: field, reading: n.reading}
}

// Block is the lines, both included, that a key of a mapping takes up with its value.
type Block struct {
	First, Last int32
}

// Blocks are those of all keys of a mapping whose last line is last. There are none
// where keys may share a line: {a: b}.
func (n Node) Blocks(last int32) map[string]Block {
	if !n.IsMapping() || n.node.Style&yaml.FlowStyle != 0 {
		return nil
	}
	blocks := make(map[string]Block, len(n.node.Content)/2)
	for i := 0; i+1 < len(n.node.Content); i += 2 {
		end := last
		if i+2 < len(n.node.Content) {
			end = int32(n.node.Content[i+2].Line) - 1
		}
		blocks[n.node.Content[i].Value] = Block{int32(n.node.Content[i].Line), end}
	}
	return blocks
}

// Lines is how many lines a file has; 0 where YAML sees other ends of lines in it than
// newlines.
func Lines(data []byte) int32 {
	if bytes.ContainsAny(data, "\r\u0085\u2028\u2029") {
		return 0
	}
	return int32(bytes.Count(data, []byte{'\n'}) + 1)
}

// Setter reads a value into its place, or reports a fault and leaves the place
// as it is.
type Setter func(Node)

// Fields are the keys that a mapping may have.
type Fields map[string]Setter

// Read reads a mapping. Keys that are not among the fields are faults, a value
// of null is as good as absent, but in a pass Over others.
func (fs Fields) Read(n Node) { fs.ReadRefusing(n, nil) }

// ReadRefusing is Read where some keys are known, but refused: for the reason
// that is given.
func (fs Fields) ReadRefusing(n Node, refused map[string]string) {
	if n.shape != nil {
		n.describeKeys(fs)
		return
	}
	n.Each(func(key, value Node) {
		name := key.Key()
		set, ok := fs[name]
		why, no := refused[name]
		switch {
		case ok && value.empty() && n.reading.over && n.reading.advised(name) != "":
			value.Fault("is empty, which changes nothing; write %s, or take it out", n.reading.advised(name))
		case ok && !value.Absent():
			set(value)
		case ok:
		case no:
			key.Fault("%s", why)
		default:
			key.field = n.field
			known := slices.Sorted(maps.Keys(fs))
			if ours := translated(name, known); ours != "" {
				key.Fault("unknown key %s%s", Quote(name), ours)
			} else if near := DidYouMean(name, known); near != "" {
				key.Fault("unknown key %s%s", Quote(name), near)
			} else {
				key.Fault("unknown key %s; the keys here are %s", Quote(name), strings.Join(known, ", "))
			}
		}
	})
}

// empty is true for null, and for a mapping without keys.
func (n Node) empty() bool { return n.Absent() || n.IsMapping() && len(n.node.Content) == 0 }

// advised is what to write in place of an empty value; "": it may be empty.
func (r *Reading) advised(key string) string {
	if instead, ok := r.advice[key]; ok {
		return instead
	}
	return "a value"
}

// Each calls f for each key of a mapping whose keys are free, in the order of
// the file. The values may be Absent.
func (n Node) Each(f func(key, value Node)) {
	if n.shape != nil {
		n.describeEach(f)
		return
	}
	if n.Absent() || n.broken() {
		return
	}
	if !n.IsMapping() {
		n.Fault("%s; write a mapping, key: value", n.what())
		return
	}
	seen := make(map[string]bool, len(n.node.Content)/2)
	for i := 0; i+1 < len(n.node.Content); i += 2 {
		k, v := n.node.Content[i], n.node.Content[i+1]
		if k.Kind != yaml.ScalarNode || seen[k.Value] || v.Kind == yaml.AliasNode {
			continue // Parse has reported it
		}
		seen[k.Value] = true
		field := join(n.field, k.Value)
		f(n.child(nil, k, field), n.child(k, v, field))
	}
}

// Key is the text of a key that Each gave; keys are not expanded.
func (n Node) Key() string { return n.node.Value }

// Get is the value of one key of a mapping, or the zero Node.
func (n Node) Get(name string) (value Node) {
	if n.shape != nil {
		return Node{reading: n.reading}
	}
	if !n.IsMapping() {
		return Node{reading: n.reading}
	}
	for i := 0; i+1 < len(n.node.Content); i += 2 {
		if k, v := n.node.Content[i], n.node.Content[i+1]; k.Value == name && k.Kind == yaml.ScalarNode {
			return n.child(k, v, join(n.field, name))
		}
	}
	return Node{reading: n.reading}
}

// Items are the elements of a list. Anything else is a fault.
func (n Node) Items() ([]Node, bool) {
	switch {
	case n.shape != nil:
		return n.describeItems()
	case n.Absent() || n.broken():
		return nil, false
	case n.IsScalar():
		n.Fault("%s; write [%s]", n.what(), strings.Join(elements(n.node.Value), ", "))
		return nil, false
	case !n.IsList():
		n.Fault("%s; write a list, [a, b]", n.what())
		return nil, false
	}
	items, ok := make([]Node, 0, len(n.node.Content)), true
	for i, v := range n.node.Content {
		if v.Kind == yaml.AliasNode {
			ok = false
			continue
		}
		items = append(items, n.child(nil, v, index(n.field, i)))
	}
	return items, ok
}

// Elements are Items for whom a fault keeps from nothing.
func (n Node) Elements() []Node {
	items, _ := n.Items()
	return items
}

// Needs is a fault of a mapping without a key; write is what to write.
func (n Node) Needs(key, write string) {
	if n.IsMapping() && n.Get(key).Absent() {
		n.Fault("%s is missing; write %s", key, write)
	}
}

// elements are the words of text as they can stand in a list, [a, b].
func elements(text string) []string {
	words := strings.Fields(text)
	for i, word := range words {
		var list []string
		if yaml.Unmarshal([]byte("["+word+"]"), &list) != nil || len(list) != 1 || list[0] != word {
			words[i] = strconv.Quote(word)
		}
	}
	return words
}

// Text is the expanded text of a scalar. Numbers and booleans are taken as they
// are written.
func (n Node) Text() (string, bool) {
	switch {
	case n.tells(Scalar{Kind: KindText}):
		return "", false
	case n.broken():
		return "", false
	case n.Absent():
		n.Fault(`is empty; write "" for an empty string`)
		return "", false
	case !n.IsScalar():
		n.Fault("%s; write a single value", n.what())
		return "", false
	}
	if strings.ContainsRune(n.node.Value, 0) {
		return "", false // Parse has reported it
	}
	s, err := Expand(n.node.Value, n.reading.lookup)
	if err != nil {
		n.Fault("%v", err)
		return "", false
	}
	n.reading.left -= len(s)
	switch {
	case n.reading.left < 0:
		n.Fault("the strings of this file expand to more than %d bytes", maxExpanded)
	case len(s) > MaxString:
		n.Fault("has %d bytes; the kernel takes %d in one string", len(s), MaxString)
	case strings.ContainsRune(s, 0):
		n.Fault("%s expands to a text with a NUL byte", Quote(n.node.Value))
	case !utf8.ValidString(s):
		n.Fault("%s expands to a text that is not UTF-8", Quote(n.node.Value))
	default:
		return s, true
	}
	return "", false
}

// Empty is true for a text of which nothing is left when it is expanded.
func (n Node) Empty() bool {
	if !n.IsScalar() || n.shape != nil {
		return false
	}
	s, err := Expand(n.node.Value, n.reading.lookup)
	return err == nil && s == ""
}

// shown is a value as a message shows it: with where it comes from, if it was
// expanded.
func (n Node) shown(text string) string {
	if text != n.node.Value {
		return fmt.Sprintf("%s (from %s)", Quote(text), Quote(n.node.Value))
	}
	return Quote(text)
}

// Raw is the text of a scalar as it stands in the file, not expanded.
func (n Node) Raw() string {
	if n.node == nil {
		return ""
	}
	return n.node.Value
}
