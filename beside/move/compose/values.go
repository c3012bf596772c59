package compose

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/move"
	"rlminit/beside/move/words"
)

// reference is a variable in a text of Compose: $$, $NAME, or ${ with what follows.
var reference = regexp.MustCompile(`\$\$|\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*|\$`)

// maxNesting bounds ${A:-${B:-…}}, as rlminit does.
const maxNesting = 7

// text is one of Compose in rlminit's syntax: a variable that is not set and has no default
// is empty there, and so it is here. why says what could not be kept.
func text(s string, depth int) (out, why string) {
	var b strings.Builder
	for s != "" {
		at := reference.FindStringIndex(s)
		if at == nil {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:at[0]])
		m := s[at[0]:at[1]]
		s = s[at[1]:]
		switch {
		case m == "$$" || m == "$":
			b.WriteString("$$")
		case !strings.HasPrefix(m, "${"):
			b.WriteString("${" + m[1:] + ":-}")
		default:
			end := closing(s)
			if end < 0 || depth > maxNesting {
				return "", move.Short(m+s) + " has no end, or too many are within each other"
			}
			value, reason := variable(m[2:], s[:end], depth)
			b.WriteString(value)
			if reason != "" {
				why = reason
			}
			s = s[end+1:]
		}
	}
	return b.String(), why
}

// variable is ${NAMErest}.
func variable(name, rest string, depth int) (out, why string) {
	switch rest = strings.TrimPrefix(rest, ":"); {
	case rest == "":
		return "${" + name + ":-}", ""
	case rest[0] == '-':
		def, why := text(rest[1:], depth+1)
		if strings.Contains(def, "$$") {
			return "${" + name + ":-}", "the default of ${" + name + "} has a $, which a default here cannot; set the variable"
		}
		return "${" + name + ":-" + def + "}", why
	case rest[0] == '?':
		return "${" + name + ":-}", "Compose refuses to start without the variable " + name + "; here it is empty then; write ${" + name + "}, which rlminit refuses too"
	}
	return "${" + name + ":-}", "${" + name + rest + "} is no form that rlminit has; write the value"
}

// closing is where the } is that ends what follows a ${; -1: nowhere.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '{':
			depth++
		case s[i] == '}' && depth == 0:
			return i
		case s[i] == '}':
			depth--
		}
	}
	return -1
}

// scalar is a value as text, "" for none or no scalar.
func scalar(v any) string {
	switch v := v.(type) {
	case nil, map[string]any, []any:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// list are the texts of a value that is one or several.
func list(v any) (all []string) {
	items, is := v.([]any)
	if !is {
		if s := scalar(v); s != "" {
			all = append(all, s)
		}
		return all
	}
	for _, item := range items {
		all = append(all, scalar(item))
	}
	return all
}

func mapping(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// mapping is the mapping that a key has; what is none is named.
func (s *service) mapping(key string, v any) map[string]any {
	m, is := v.(map[string]any)
	if !is && v != nil {
		s.leave(key, move.Invalid, key, "it is no mapping, as Compose wants; it is left out")
	}
	return m
}

// argv is a command: a list, or a line that Compose splits as a shell would.
func (s *service) argv(key string) []string {
	v, there := s.body[key]
	if !there || v == nil {
		return nil
	}
	var all []string
	if line, is := v.(string); is {
		split, err := words.Split(s.text(key, line))
		if err != nil {
			s.leave(key, move.Invalid, key, err.Error()+"; write a list")
			return nil
		}
		return split
	}
	for _, w := range list(v) {
		all = append(all, s.text(key, w))
	}
	return all
}

// text is one of a key in rlminit's syntax. What of it could not be kept is named.
func (s *service) text(key, raw string) string {
	out, why := text(raw, 0)
	if why != "" {
		s.leave(key, move.Near, key, why)
	}
	return out
}

// duration is a time as Compose writes it: 1m30s.
func duration(v any) (time.Duration, bool) {
	d, err := time.ParseDuration(strings.ReplaceAll(scalar(v), "d", "h"))
	if strings.Contains(scalar(v), "d") {
		d *= 24
	}
	return d, err == nil && d >= 0
}

var bytesOf = regexp.MustCompile(`(?i)^(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?$`)

// size is a size of Compose, in which a KB has 1024 bytes, as rlminit writes it.
func size(v any) (string, bool) {
	m := bytesOf.FindStringSubmatch(strings.TrimSpace(scalar(v)))
	if m == nil {
		return "", false
	}
	if m[2] == "" {
		return m[1], !strings.Contains(m[1], ".")
	}
	return m[1] + strings.ToUpper(m[2]) + "iB", true
}

func sorted[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
