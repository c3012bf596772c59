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

// SetEnvironment changes the mapping "environment" of the YAML text of file, and leaves
// the rest, comments included. A value of nil removes its variable; another is taken as
// it is: a $ is written as $$, so that nothing in it is expanded.
func SetEnvironment(file string, text []byte, changes map[string]*string) ([]byte, error) {
	if len(changes) == 0 {
		return text, nil
	}
	if _, faults := document.Parse(file, text); len(faults) > 0 {
		return nil, faults.Err()
	}
	doc, err := parseNode(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	env, err := environmentNode(file, doc)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		setKey(env, key, changes[key])
	}
	env.Style = 0 // {} would stay on one line
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
func environmentNode(file string, doc *yaml.Node) (*yaml.Node, error) {
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, document.Fault{File: file, Line: top.Line, Text: "it is not a mapping; write key: value lines"}
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value != "environment" {
			continue
		}
		env := top.Content[i+1]
		if env.Kind == yaml.ScalarNode && env.Tag == "!!null" {
			*env = yaml.Node{Kind: yaml.MappingNode, HeadComment: env.HeadComment, LineComment: env.LineComment}
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
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != key {
			continue
		}
		if value == nil {
			m.Content = slices.Delete(m.Content, i, i+2)
		} else {
			old := m.Content[i+1]
			fresh := literal(*value)
			fresh.HeadComment, fresh.LineComment, fresh.FootComment = old.HeadComment, old.LineComment, old.FootComment
			m.Content[i+1] = fresh
		}
		return
	}
	if value != nil {
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, literal(*value))
	}
}

// literal is a string that is neither expanded nor taken for another type.
func literal(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(document.Escape(value))
	return n
}
