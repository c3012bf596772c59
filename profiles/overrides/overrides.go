// Package overrides changes the text of a profile.yaml, and leaves in it what a person has
// written. It touches no file.
package overrides

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rlminit/internal/document"
)

// Changes are what is set in a profile.yaml. Each value is taken as it is: a $ is written
// as $$, so that nothing in it is expanded.
type Changes struct {
	Kind        string             // "": the one that it names stays
	Command     []string           // nil: the one that it has stays
	Environment map[string]*string // by variable; nil removes one
}

// None tells whether nothing is changed.
func (c Changes) None() bool { return c.Kind == "" && c.Command == nil && len(c.Environment) == 0 }

// Set changes the YAML text of file, and leaves the rest, comments included.
func Set(file string, text []byte, changes Changes) ([]byte, error) {
	if changes.None() {
		return text, nil
	}
	if _, faults := document.Parse(file, text); len(faults) > 0 {
		return nil, faults.Err()
	}
	doc, err := parseNode(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, document.Fault{File: file, Line: top.Line, Text: "it is not a mapping; write key: value lines"}
	}
	if changes.Kind != "" {
		setNode(top, "kind", literal(changes.Kind))
	}
	if changes.Command != nil {
		command := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, word := range changes.Command {
			command.Content = append(command.Content, literal(word))
		}
		setNode(top, "command", command)
	}
	if len(changes.Environment) > 0 {
		env, err := environmentNode(file, top)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(changes.Environment)) {
			setKey(env, key, changes.Environment[key])
		}
		env.Style = 0 // {} would stay on one line
	}
	top.Style = 0
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", file, err)
	}
	return out.Bytes(), e.Close()
}

// parseNode parses what document.Parse has accepted, for editing. An empty file
// is an empty mapping.
func parseNode(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.Kind == 0 { // nothing, or comments alone, which the parser drops
		doc = yaml.Node{Kind: yaml.DocumentNode, HeadComment: commentsOf(text)}
	}
	if len(doc.Content) == 0 {
		doc.Content = []*yaml.Node{{Kind: yaml.MappingNode}}
	}
	if top := doc.Content[0]; top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		*top = yaml.Node{Kind: yaml.MappingNode, HeadComment: top.HeadComment, FootComment: top.FootComment}
	}
	return &doc, nil
}

// commentsOf keeps the lines of a file that holds nothing but comments.
func commentsOf(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// environmentNode is the mapping of the key environment, made if need be.
func environmentNode(file string, top *yaml.Node) (*yaml.Node, error) {
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value != "environment" {
			continue
		}
		env := top.Content[i+1]
		if env.Kind == yaml.ScalarNode && env.Tag == "!!null" {
			*env = yaml.Node{Kind: yaml.MappingNode, HeadComment: env.HeadComment, LineComment: env.LineComment}
		}
		if env.Kind == yaml.ScalarNode && env.Value == "none" {
			return nil, document.Fault{File: file, Line: env.Line, Field: "environment", Text: "is none; write a mapping in its place first, with rlminit profile edit"}
		}
		if env.Kind != yaml.MappingNode {
			return nil, document.Fault{File: file, Line: env.Line, Field: "environment", Text: "is not a mapping; write NAME: value lines below it"}
		}
		return env, nil
	}
	env := &yaml.Node{Kind: yaml.MappingNode}
	top.Style = 0
	top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "environment"}, env)
	return env, nil
}

// setKey sets or, with nil, removes a key of a mapping.
func setKey(m *yaml.Node, key string, value *string) {
	if value != nil {
		setNode(m, key, literal(*value))
		return
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = slices.Delete(m.Content, i, i+2)
			return
		}
	}
}

// setNode sets a key of a mapping, and keeps the comments beside its value.
func setNode(m *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			old := m.Content[i+1]
			value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
			m.Content[i+1] = value
			return
		}
	}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

// literal is a string that is neither expanded nor taken for another type.
func literal(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(document.Escape(value))
	return n
}
