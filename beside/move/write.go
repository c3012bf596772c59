package move

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// order is that of a service's keys in the output. Those that it has not follow, in the
// order in which they were set.
var order = []string{
	"command", "type", "enabled", "schedule", "schedules", "user", "group", "groups", "working_dir", "umask", "environment", "env_file",
	"requires", "wants", "after", "restart", "exits", "ready", "health", "watchdog", "stop", "sockets", "log", "limits", "sandbox", "isolation",
}

// text writes the plan as an rlminit.yaml.
func (p *Plan) text() ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	add(top, "version", number(1), "")
	user := p.User
	if user == "" {
		user = "1000:1000"
	}
	add(top, "user", word(user), p.UserWhy)
	p.Top.write(top, nil)
	if len(p.Boot) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, s := range p.Boot {
			n := &yaml.Node{Kind: yaml.MappingNode, HeadComment: p.origin(s)}
			add(n, "name", word(s.Name), "")
			s.Keys.write(n, order)
			list.Content = append(list.Content, n)
		}
		add(top, "boot", list, "")
	}
	p.bySource = map[string]*Service{}
	for _, s := range slices.Backward(p.Services) {
		p.bySource[s.Source] = s
	}
	for _, section := range []string{"gateways", "services"} {
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, s := range p.Services {
			if s.Kind == (section == "gateways") {
				add(n, s.Name, p.body(s), p.origin(s))
			}
		}
		if len(n.Content) > 0 {
			add(top, section, n, "")
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# What rlminit supervises in this container. rlminit import wrote it, from %s.\n", p.From)
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(top), e.Close()); err != nil {
		return nil, err
	}
	// An empty line between services. A text has none of these: it is on one line.
	spaced := bytes.ReplaceAll(out.Bytes(), []byte("\n  # from "), []byte("\n\n  # from "))
	for _, section := range []string{"boot", "gateways", "services"} {
		spaced = bytes.Replace(spaced, []byte("\n"+section+":\n\n"), []byte("\n"+section+":\n"), 1)
	}
	return spaced, nil
}

// body is the mapping of a service.
func (p *Plan) body(s *Service) *yaml.Node {
	keys := Map{keys: slices.Clone(s.Keys.keys), values: s.Keys.values}
	all := &keys
	if named := [][]string{p.named(s, s.Requires), p.named(s, s.Wants), p.named(s, s.After)}; len(named[0])+len(named[1])+len(named[2]) > 0 {
		all = &Map{}
		for _, k := range keys.keys {
			all.Set(k, keys.values[k])
		}
		all.Add("requires", named[0])
		all.Add("wants", slices.DeleteFunc(named[1], func(n string) bool { return slices.Contains(named[0], n) }))
		all.Add("after", slices.DeleteFunc(named[2], func(n string) bool { return slices.Contains(named[0], n) || slices.Contains(named[1], n) }))
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	all.write(n, order)
	return n
}

// named are the names of services that the source calls so, sorted, without the service
// itself and without those that are not in the plan.
func (p *Plan) named(s *Service, sources []string) (names []string) {
	for _, source := range sources {
		if other := p.bySource[source]; other != nil && other != s && !other.Kind {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// origin is the comment above a service.
func (p *Plan) origin(s *Service) string {
	at := s.At
	if p.Shown != nil {
		at.File = p.Shown(at.File)
	}
	lines := []string{line("from "+at.String(), 400)}
	for _, c := range s.Comment {
		lines = append(lines, line(c, 400))
	}
	return "# " + strings.Join(lines, "\n# ")
}

// write adds the keys to a mapping, in a given order.
func (m *Map) write(to *yaml.Node, first []string) {
	rank := func(key string) int {
		if i := slices.Index(first, key); i >= 0 {
			return i
		}
		return len(first)
	}
	keys := slices.Clone(m.keys)
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	for _, key := range keys {
		if n := node(m.values[key], key); n != nil {
			add(to, key, n, "")
		}
	}
}

// flat are the mappings that stand on one line.
var flat = []string{"restart", "exits", "ready", "health", "stop", "log", "limits", "sandbox", "isolation", "schedule", "main"}

// numbers are the keys whose values are times or sizes: a number of these has no quotes.
var numbers = []string{"delay", "max_delay", "reset_after", "retry_failed", "max_size", "memory"}

func node(value any, key string) *yaml.Node {
	switch v := value.(type) {
	case string:
		if _, err := strconv.Atoi(v); err == nil && slices.Contains(numbers, key) {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v}
		}
		return word(v)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case int:
		return number(v)
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(v, 'f', -1, 64)}
	case []string:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, s := range v {
			n.Content = append(n.Content, word(s))
		}
		return n
	case []int:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, i := range v {
			n.Content = append(n.Content, number(i))
		}
		return n
	case []*Map:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, m := range v {
			item := node(m, "")
			item.Style = yaml.FlowStyle
			n.Content = append(n.Content, item)
		}
		return n
	case *Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		v.write(n, nil)
		if slices.Contains(flat, key) {
			n.Style = yaml.FlowStyle
		}
		return n
	}
	return nil
}

func add(to *yaml.Node, key string, value *yaml.Node, comment string) {
	k := word(key)
	k.HeadComment = comment
	to.Content = append(to.Content, k, value)
}

func number(i int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(i)}
}

// word is a string. What is no UTF-8 the configuration cannot hold: U+FFFD stands for it,
// and settle names what then is refused.
func word(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.ToValidUTF8(s, "\uFFFD")}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 || r == 0xa0 || r >= 0x2028 }) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
