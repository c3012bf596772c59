package profiles

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"rlminit/internal/document"
	"rlminit/service"
)

// SetEnvironment changes variables in the profile's profile.yaml, durably; a
// nil value removes one. Comments and other keys stay. Values are taken as they
// are: a $ is written as $$, so that nothing in them is expanded.
func (s *Store) SetEnvironment(name string, changes map[string]*string) (Profile, error) {
	set := map[string]string{}
	for key, value := range changes {
		set[key] = ""
		if value != nil {
			set[key] = *value
		}
	}
	if err := checkEnvironment(set); err != nil {
		return Profile{}, err
	}
	return s.change(name, func(p Profile) error {
		if p.Fault != nil {
			return refuse(ErrBroken, "%v", p.Fault)
		}
		return s.furnisher.writeOverrides(dirOf(name), p.overrides, changes)
	})
}

// additions makes a map of values one of changes.
func additions(env map[string]string) map[string]*string {
	changes := make(map[string]*string, len(env))
	for key, value := range env {
		changes[key] = &value
	}
	return changes
}

// given are the variables that say which profile a gateway serves. One that was
// told another's would write to that one's files.
var given = []string{"PROFILE", "PROFILE_DIR", "PORT"}

// checkEnvironment refuses what cannot stand in an environment, or is not for
// a profile to say.
func checkEnvironment(env map[string]string) error {
	for key, value := range env {
		if fault := service.CheckVariable(key); fault != "" {
			return refuse(ErrValue, "%s: %s", document.Quote(key), fault)
		}
		switch {
		case slices.Contains(given, key):
			return refuse(ErrValue, "%s is what rlminit itself gives the gateway; use another name", key)
		case !utf8.ValidString(key), !utf8.ValidString(value):
			return refuse(ErrValue, "the variable %s is not UTF-8", document.Quote(key))
		case strings.ContainsRune(value, 0):
			return refuse(ErrValue, "the value of %s holds a NUL byte", key)
		case len(key)+1+len(value) > document.MaxString:
			return refuse(ErrValue, "the value of %s is longer than the %d bytes that a program can be given",
				key, document.MaxString-len(key)-1)
		}
	}
	return nil
}

// editEnvironment changes the mapping "environment" of the YAML text of file,
// and leaves the rest, comments included.
func editEnvironment(file string, text []byte, changes map[string]*string) ([]byte, error) {
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
