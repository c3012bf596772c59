package document

import (
	"fmt"
	"strings"
)

// Lookup gives the value of a variable, and whether it is set.
type Lookup func(name string) (string, bool)

// With is l with some variables that come first.
func (l Lookup) With(vars map[string]string) Lookup {
	return func(name string) (string, bool) {
		if v, ok := vars[name]; ok {
			return v, true
		}
		if l == nil {
			return "", false
		}
		return l(name)
	}
}

// MaxString is the longest string that can be an argument or a variable, less
// its NUL: MAX_ARG_STRLEN, execve(2).
const MaxString = 128<<10 - 1

// maxNesting bounds ${A:-${B:-…}}.
const maxNesting = 8

// Expand replaces ${NAME} by the variable's value, ${NAME:-default} by the
// default where NAME is unset or empty (a default may hold expansions), and $$
// by one $. Any other $ stands for itself, so that `sh -c 'echo $1 $HOME'`
// needs no escapes. Values are not expanded again.
//
// The error says which variable is not set, or what is malformed.
func Expand(s string, lookup Lookup) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	e := expansion{lookup: lookup}
	if err := e.expand(s, 0); err != nil {
		return "", err
	}
	return e.out.String(), nil
}

// Escape is the text that Expand turns back into s.
func Escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

type expansion struct {
	lookup Lookup
	out    strings.Builder
}

func (e *expansion) write(s string) error {
	if e.out.Len()+len(s) > MaxString {
		return fmt.Errorf("expands to more than %d bytes, the kernel's limit for one string", MaxString)
	}
	e.out.WriteString(s)
	return nil
}

func (e *expansion) expand(s string, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d defaults are nested", maxNesting)
	}
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			return e.write(s)
		}
		if err := e.write(s[:i]); err != nil {
			return err
		}
		s = s[i:]
		switch {
		case strings.HasPrefix(s, "$$"):
			if err := e.write("$"); err != nil {
				return err
			}
			s = s[2:]
		case strings.HasPrefix(s, "${"):
			end := closing(s)
			if end < 0 {
				return fmt.Errorf(`%s has no closing "}"; write ${NAME}, or $${ for the characters themselves`, Quote(s))
			}
			if err := e.variable(s[:end+1], depth); err != nil {
				return err
			}
			s = s[end+1:]
		default:
			if err := e.write("$"); err != nil {
				return err
			}
			s = s[1:]
		}
	}
}

// variable expands one ${…}.
func (e *expansion) variable(s string, depth int) error {
	body := s[2 : len(s)-1]
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if !isVariable(name) {
		return fmt.Errorf("%s is no expansion; write ${NAME} or ${NAME:-default}, or $${ for the characters themselves", Quote(s))
	}
	value, ok := "", false
	if e.lookup != nil {
		value, ok = e.lookup(name)
	}
	switch {
	case hasFallback && value == "":
		return e.expand(fallback, depth+1)
	case ok:
		return e.write(value)
	}
	return fmt.Errorf("${%s} is not set; set %s, or write ${%s:-default}", name, name, name)
}

// closing is the index of the } that closes the ${ at the start of s, or -1.
// $$ inside is an escaped dollar, and so opens nothing.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '$':
			i++
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '{':
			depth++
			i++
		case s[i] == '}':
			depth--
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// isVariable says whether s can be the name of a variable in an expansion.
func isVariable(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
