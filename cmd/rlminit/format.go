package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"rlminit/control"
	"rlminit/internal/document"
)

// The formats of -o. A table is written without one.
const (
	formatJSON = "json"
	formatYAML = "yaml"
	formatName = "name"
	formatWide = "wide"
)

var formats = []string{formatWide, formatJSON, formatYAML, formatName}

// format is the value of -o: the terminal's, which json goes along with.
type format struct{ t *terminal }

func (f format) String() string { return f.t.format }
func (format) Type() string     { return "FORMAT" }

func (f format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("no format %s; there are %s", document.Quote(s), strings.Join(formats, ", "))
	}
	f.t.format, f.t.json = s, f.t.json || s != formatWide
	return nil
}

// formatted gives a verb that shows things -o beside --json.
func formatted(t *terminal, cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VarP(format{t}, "output", "o", "write a table with more columns, JSON, YAML or names: wide, json, yaml, name")
	return cmd
}

// printAs prints an answer as -o says.
func (t *terminal) printAs(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot write the answer: %w", err)
	}
	if t.format == formatName {
		return t.printNames(b)
	}
	text, err := yamlOf(b)
	if err != nil {
		return fmt.Errorf("cannot write the answer as YAML: %w", err)
	}
	t.printf("%s", document.Harmless(text))
	return nil
}

// yamlOf is JSON as YAML in blocks, its keys in their order.
func yamlOf(b []byte) ([]byte, error) {
	var top yaml.Node
	if err := yaml.Unmarshal(b, &top); err != nil {
		return nil, err
	}
	inBlocks(&top)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&top); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// inBlocks takes the braces and quotes of JSON off. A string that needs quotes keeps them:
// its tag says that it is one.
func inBlocks(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, "\n") {
		n.Style = yaml.LiteralStyle
	}
	for _, of := range n.Content {
		inBlocks(of)
	}
}

// nameKeys are the keys that name a thing, the first of them that it has.
var nameKeys = []string{"name", "job", "session", "id", "revision", "hash", "check", "what", "key"}

// printNames prints the name of each thing on a line of its own.
func (t *terminal) printNames(b []byte) error {
	var all []map[string]any
	if bytes.HasPrefix(b, []byte("{")) {
		b = slices.Concat([]byte("["), b, []byte("]"))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return control.BadRequest("the answer has no names; write -o json")
	}
	for _, of := range all {
		i := slices.IndexFunc(nameKeys, func(key string) bool { return of[key] != nil })
		if i < 0 {
			return control.BadRequest("the answer has no names; write -o json")
		}
		t.printf("%s\n", printable(fmt.Sprint(of[nameKeys[i]])))
	}
	return nil
}
