package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rlminit/internal/document"
	"rlminit/service"
)

// Tree is a profile.yaml as it is written: a value is a string, a
// list ([]any) or another mapping. Numbers and booleans are the text that
// stands there, for that is how they are read (package document), and null
// is left out.
type Tree = map[string]any

// treeOf reads a mapping, less the keys that are left out.
func treeOf(n document.Node, without ...string) Tree {
	t := Tree{}
	if !n.IsMapping() {
		return t
	}
	n.Each(func(key, value document.Node) {
		if slices.Contains(without, key.Key()) {
			return
		}
		if v := valueOf(value); v != nil {
			t[key.Key()] = v
		}
	})
	return t
}

func valueOf(n document.Node) any {
	switch {
	case n.IsScalar():
		return n.Raw()
	case n.IsMapping():
		if t := treeOf(n); len(t) > 0 {
			return t
		}
	case n.IsList():
		list := []any{}
		for _, item := range n.Elements() {
			if v := valueOf(item); v != nil {
				list = append(list, v)
			}
		}
		return list
	}
	return nil
}

// leaves are the values of a tree by their paths: restart.limit, environment.A.
// A list is one value.
func leaves(t Tree) map[string]string {
	all := map[string]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		if m, ok := v.(Tree); ok {
			for key, value := range m {
				walk(below(at, key), value)
			}
			return
		}
		all[at] = text(v)
	}
	walk("", t)
	return all
}

// below is the path of a key in the mapping at a path.
func below(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// text is a value on one line.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// marshal is JSON without HTML's escapes, and without a newline.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// heading begins each profile.yaml that is written by an apply.
const heading = "# Written by rlminit apply. A change that is made here shows in rlminit drift,\n# and is undone by the next apply.\n"

// Text is a tree as a profile.yaml.
func Text(t Tree) ([]byte, error) {
	if len(t) == 0 {
		return []byte(heading), nil
	}
	var out bytes.Buffer
	out.WriteString(heading)
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(node(t)); err != nil {
		return nil, fmt.Errorf("cannot write a profile.yaml: %w", err)
	}
	return out.Bytes(), e.Close()
}

// node is a value for the YAML encoder, its keys in order.
func node(v any) *yaml.Node {
	n := &yaml.Node{}
	switch v := v.(type) {
	case Tree:
		n.Kind = yaml.MappingNode
		for _, key := range slices.Sorted(maps.Keys(v)) {
			k := &yaml.Node{}
			k.SetString(key)
			n.Content = append(n.Content, k, node(v[key]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		if !slices.ContainsFunc(v, func(item any) bool { _, scalar := item.(string); return !scalar }) {
			n.Style = yaml.FlowStyle
		}
		for _, item := range v {
			n.Content = append(n.Content, node(item))
		}
	case string:
		n.SetString(v)
		if strings.Contains(v, "\n") {
			// A block would lose a lone carriage return or trailing blanks.
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	return n
}

// ParseTree reads a profile.yaml back. An error means that it cannot be read
// at all; service.Override judges its content.
func ParseTree(file string, data []byte) (Tree, error) {
	doc, faults := document.Parse(file, data)
	if len(faults) > 0 {
		return nil, faults.Err()
	}
	top, _ := doc.Read(nil)
	return definitionOf(top), nil
}

// definitionOf is the definition of a profile, less the keys that are left out. The default
// kind is the same named and unnamed.
func definitionOf(n document.Node, without ...string) Tree {
	t := treeOf(n, without...)
	if t[service.KindKey] == service.DefaultKind {
		delete(t, service.KindKey)
	}
	return t
}

// cloneTree is a copy that shares nothing that can be changed.
func cloneTree(t Tree) Tree {
	c := make(Tree, len(t))
	for key, value := range t {
		if m, ok := value.(Tree); ok {
			value = cloneTree(m)
		}
		c[key] = value
	}
	return c
}
