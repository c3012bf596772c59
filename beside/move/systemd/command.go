package systemd

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"rlminit/beside/move"
	"rlminit/beside/move/words"
)

// execution is a line of ExecStart= and its like.
type execution struct {
	words []string // with variables, without specifiers
	minus bool     // a failure counts for nothing
	plus  bool     // it runs with rights that the service has not
	zero  bool     // its first argument is another than the program
	still bool     // variables are not expanded
}

// instance stands for the name of the instance until a text is in rlminit's syntax.
const instance = "\x02"

// finish is a text in rlminit's syntax.
func finish(text string) string {
	return strings.ReplaceAll(move.Literal(text), instance, "${PROFILE}")
}

// executions reads the commands of a line: several of a oneshot stand between semicolons.
func (c *conversion) executions(o option) []execution {
	list, err := split(o.value)
	if err != nil {
		c.leave(o, move.Invalid, err.Error()+"; mend it")
		return nil
	}
	var all []execution
	begin := 0
	for i := 0; i <= len(list); i++ {
		if i < len(list) && list[i] != ";" {
			continue
		}
		if e, ok := c.execution(o, list[begin:i]); ok {
			all = append(all, e)
		}
		begin = i + 1
	}
	return all
}

func (c *conversion) execution(o option, list []string) (e execution, ok bool) {
	if len(list) == 0 {
		return e, false
	}
	program := list[0]
	for program != "" && strings.ContainsRune("-@:+!|", rune(program[0])) {
		switch program[0] {
		case '-':
			e.minus = true
		case '@':
			e.zero = true
		case ':':
			e.still = true
		case '+', '!':
			e.plus = true
		}
		program = program[1:]
	}
	list = append([]string{program}, list[1:]...)
	if e.zero && len(list) > 1 {
		list = append(list[:1:1], list[2:]...)
		c.leave(o, move.Near, "@: the program gets its own name as its first argument here, and not another; write a link of that name if it needs it")
	}
	for _, w := range list {
		if w == `\;` {
			w = ";"
		}
		e.words = append(e.words, c.specifiers(o, w))
	}
	if e.plus {
		c.leave(o, move.Rights, "+ and !: it runs with rights that no service here has; do it in the image, or when the container starts (key boot) as its user")
	}
	return e, e.words[0] != ""
}

// reference is a variable in a word, or a $ that stands for itself.
var (
	reference = regexp.MustCompile(`\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	alone     = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)
)

// variables tells whether a shell must put variables in.
func (e execution) variables() bool {
	for _, w := range e.words {
		if !e.still && (alone.MatchString(w) || strings.Contains(reference.ReplaceAllString(w, "$"), "$") && strings.Contains(w, "${") || strings.Contains(w, "${")) {
			return true
		}
	}
	return false
}

// argv are the words of a line without variables, in rlminit's syntax.
func (e execution) argv() (all []string) {
	for _, w := range e.words {
		if !e.still {
			w = strings.ReplaceAll(w, "$$", "$")
		}
		all = append(all, finish(w))
	}
	return all
}

// shell is the line as a shell reads it, before Literal. A variable that stands alone is
// split at blanks, as systemd does; set -f keeps the shell from expanding patterns in it.
func (e execution) shell() string {
	out := make([]string, len(e.words))
	for i, w := range e.words {
		switch {
		case e.still:
			out[i] = words.Quote(w)
		case alone.MatchString(w):
			out[i] = w
		default:
			var b strings.Builder
			last := 0
			for _, m := range reference.FindAllStringIndex(w, -1) {
				if m[0] > last {
					b.WriteString(words.Quote(w[last:m[0]]))
				}
				if ref := w[m[0]:m[1]]; ref == "$$" {
					b.WriteString("'$'")
				} else {
					b.WriteString(`"` + ref + `"`)
				}
				last = m[1]
			}
			if last < len(w) || w == "" {
				b.WriteString(words.Quote(w[last:]))
			}
			out[i] = b.String()
		}
	}
	return strings.Join(out, " ")
}

// command is what runs the commands before the service and the service itself: the words of
// that, or a shell where there is more than one or a variable.
func command(before, main []execution) []string {
	if len(before) == 0 && len(main) == 1 && !main[0].variables() && !main[0].minus {
		return main[0].argv()
	}
	var parts []string
	needs := false
	step := func(e execution, last bool) {
		needs = needs || e.variables()
		switch line := e.shell(); {
		case e.minus:
			parts = append(parts, line+" || :")
		case last:
			parts = append(parts, "exec "+line)
		default:
			parts = append(parts, line+" || exit")
		}
	}
	for _, e := range before {
		step(e, false)
	}
	for i, e := range main {
		step(e, i == len(main)-1)
	}
	text := strings.Join(parts, "; ")
	if needs {
		text = "set -f; " + text
	}
	return []string{"sh", "-c", finish(text)}
}

// split splits a line as systemd does: quotes begin and end a word, and escapes are C's. A $
// and a % stay as they are.
func split(s string) ([]string, error) {
	var all []string
	for i := 0; i < len(s); {
		if strings.IndexByte(" \t\r\n", s[i]) >= 0 {
			i++
			continue
		}
		word, n, err := one(s[i:])
		if err != nil {
			return nil, err
		}
		all = append(all, word)
		i += n
	}
	return all, nil
}

// one reads the first word, and returns how long it was.
func one(s string) (word string, n int, err error) {
	var b strings.Builder
	quote := byte(0)
	for n < len(s) {
		switch c := s[n]; {
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			return b.String(), n, nil
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && n+1 < len(s):
			text, length := escape(s[n:])
			b.WriteString(text)
			n += length
			continue
		default:
			b.WriteByte(c)
		}
		n++
	}
	if quote != 0 {
		return "", 0, errors.New("a quotation has no end")
	}
	return b.String(), n, nil
}

var escapes = map[byte]string{
	'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\\': `\`, '"': `"`, '\'': "'", 's': " ", ';': `\;`,
}

func escape(s string) (text string, length int) {
	if text, known := escapes[s[1]]; known {
		return text, 2
	}
	if s[1] == 'x' && len(s) >= 4 {
		var c byte
		if _, err := fmt.Sscanf(s[2:4], "%02x", &c); err == nil && c != 0 {
			return string([]byte{c}), 4
		}
	}
	return s[:2], 2
}

// known are the specifiers that are the same in every container.
var known = map[byte]string{
	'%': "%", 't': "/run", 'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 'E': "/etc", 'T': "/tmp", 'V': "/var/tmp",
}

// specifiers puts what %-signs stand for into a text.
func (c *conversion) specifiers(o option, text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch of, is := known[text[i]]; {
		case is:
			b.WriteString(of)
		case text[i] == 'i' || text[i] == 'I' || text[i] == 'j' && c.unit.instance == "" && c.unit.template:
			b.WriteString(c.instance())
		case text[i] == 'p' || text[i] == 'P' || text[i] == 'j' || text[i] == 'J':
			b.WriteString(c.unit.stem)
		case text[i] == 'n' || text[i] == 'N':
			name := c.unit.stem
			if c.unit.template || c.unit.instance != "" {
				name += "@" + c.instance()
			}
			if text[i] == 'n' {
				name += ".service"
			}
			b.WriteString(name)
		case text[i] == 'd':
			c.leave(o, move.Near, "%d is the directory of credentials; here it is the variable CREDENTIALS_DIRECTORY, for secrets")
			b.WriteString("%d")
		default:
			c.leave(o, move.NoEqual, "%"+text[i:i+1]+" is nothing that is known before the container runs; write what it stands for")
			b.WriteString("%" + text[i:i+1])
		}
	}
	return b.String()
}

// instance is the name of the instance: that of the profile, for a template.
func (c *conversion) instance() string {
	if c.unit.template {
		return instance
	}
	return c.unit.instance
}
