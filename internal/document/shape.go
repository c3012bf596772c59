package document

import (
	"gopkg.in/yaml.v3"
)

// Shape is what may stand at a place in a document, as its Setter tells. What a
// file makes as a whole, and which keys it needs, no Setter knows.
type Shape struct {
	Scalars []Scalar          // the forms of a single value; none: there can be no such
	Items   *Shape            // of a list; nil: there can be no list
	Keys    map[string]*Shape // of a mapping with the keys that it has; nil: there can be none
	Values  *Shape            // of a mapping whose keys are free; nil: there can be none
	Any     bool              // anything can be there: another program reads it
}

// Scalar is a form that a single value can have.
type Scalar struct {
	Kind      Kind
	Low, High float64  // of numbers and sizes, both included; High 0: no bound
	Words     []string // of OneOf
}

// Kind is the kind of a scalar.
type Kind string

// The kinds.
const (
	KindText     Kind = "text"
	KindBool     Kind = "bool"
	KindInt      Kind = "int"
	KindFloat    Kind = "float"
	KindDuration Kind = "duration"
	KindSize     Kind = "size"
	KindOneOf    Kind = "oneof"
)

// form is what a place that is being described is taken for: each Setter is asked
// what it would make of every one.
type form int

const (
	scalar form = iota
	list
	mapping
)

// Describe asks a Setter what it reads, by running it on a document in which
// everything is there and nothing has a value. What it reads into is not to be
// used.
func Describe(set Setter) *Shape {
	s := &Shape{}
	s.ask(set, &Reading{document: &Document{}}, "")
	return s
}

// ask runs a Setter on the shape's place in each form.
func (s *Shape) ask(set Setter, r *Reading, field string) {
	for _, n := range s.nodes(r, field) {
		set(n)
	}
}

func (s *Shape) nodes(r *Reading, field string) []Node {
	var all []Node
	for _, f := range []form{scalar, list, mapping} {
		kinds := map[form]yaml.Kind{scalar: yaml.ScalarNode, list: yaml.SequenceNode, mapping: yaml.MappingNode}
		// "name" is a name for whatever has one, and an odd value for all else.
		all = append(all, Node{node: &yaml.Node{Kind: kinds[f], Tag: "!!str", Value: "name"}, line: 1, field: field, reading: r, shape: s, form: f})
	}
	return all
}

// Described is a Setter of what another one reads: it only tells what may stand
// there.
func Described(set Setter) Setter {
	return func(n Node) {
		if n.shape != nil {
			set(n)
		}
	}
}

// Anything takes what another program reads.
func (n Node) Anything() {
	if n.shape != nil {
		n.shape.Any = true
	}
}

// Describes is true of a place that nothing is read from: a Setter is asked what
// it reads.
func (n Node) Describes() bool { return n.shape != nil }

// tells notes a form of scalar, where that is what is asked for, and reports
// whether anything is: there is no value then.
func (n Node) tells(s Scalar) bool {
	if n.shape == nil {
		return false
	}
	if n.form == scalar {
		n.shape.add(s)
	}
	return true
}

func (s *Shape) add(one Scalar) {
	for _, known := range s.Scalars {
		if known.Kind == one.Kind && one.Kind != KindOneOf {
			return
		}
	}
	s.Scalars = append(s.Scalars, one)
}

// describeItems describes the elements of a list.
func (n Node) describeItems() ([]Node, bool) {
	if n.form != list {
		return nil, false
	}
	if n.shape.Items == nil {
		n.shape.Items = &Shape{}
	}
	return n.shape.Items.nodes(n.reading, n.field+"[0]"), true
}

// describeKeys describes a mapping with these keys.
func (n Node) describeKeys(fs Fields) {
	if n.form != mapping {
		return
	}
	if n.shape.Keys == nil {
		n.shape.Keys = map[string]*Shape{}
	}
	for name, set := range fs {
		if n.shape.Keys[name] == nil {
			n.shape.Keys[name] = &Shape{}
		}
		n.shape.Keys[name].ask(set, n.reading, join(n.field, name))
	}
}

// describeEach describes a mapping whose keys are free.
func (n Node) describeEach(f func(key, value Node)) {
	if n.form != mapping {
		return
	}
	if n.shape.Values == nil {
		n.shape.Values = &Shape{}
	}
	key := n
	key.node, key.shape = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "name"}, &Shape{}
	for _, value := range n.shape.Values.nodes(n.reading, join(n.field, "name")) {
		f(key, value)
	}
}
