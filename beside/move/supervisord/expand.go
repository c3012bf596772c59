package supervisord

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rlminit/beside/move"
)

func itoa(i int) string { return strconv.Itoa(i) }

// format is one of Python's: %(NAME)s, %(NAME)02d, or %%.
var format = regexp.MustCompile(`%%|%\(([^)]*)\)([-0]*)(\d*)([sd])|%`)

// envPrefix begins the names by which supervisord has the variables of its environment.
const envPrefix = "ENV_"

// expand puts what %(NAME)s stands for into a text, which becomes one in rlminit's syntax:
// a variable of the container is ${NAME:-}. An error names what nothing stands for.
func (r *reader) expand(text string, names map[string]string) (string, error) {
	var unknown error
	var b strings.Builder
	last := 0
	for _, m := range format.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(move.Literal(text[last:m[0]]))
		last = m[1]
		switch whole := text[m[0]:m[1]]; {
		case whole == "%%":
			b.WriteByte('%')
		case m[2] < 0:
			unknown = fmt.Errorf("a %% stands alone; supervisord wants %%%% or %%(NAME)s")
			b.WriteByte('%')
		default:
			name := text[m[2]:m[3]]
			v, known := names[name]
			switch env, is := strings.CutPrefix(name, envPrefix); {
			case known && is: // a variable that the file itself sets, in rlminit's syntax
				b.WriteString(padded(v, text[m[4]:m[5]], text[m[6]:m[7]]))
			case known:
				b.WriteString(move.Literal(padded(v, text[m[4]:m[5]], text[m[6]:m[7]])))
			case is && variable.MatchString(env):
				b.WriteString("${" + env + ":-}")
			default:
				unknown = fmt.Errorf("%s is nothing that supervisord or import knows", move.Short(whole))
				b.WriteString(move.Literal(whole))
			}
		}
	}
	b.WriteString(move.Literal(text[last:]))
	return b.String(), unknown
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// padded is a value as wide as a format says.
func padded(v, flags, width string) string {
	n, err := strconv.Atoi(width)
	if err != nil || n > 100 || len(v) >= n {
		return v
	}
	pad := strings.Repeat(" ", n-len(v))
	switch {
	case strings.Contains(flags, "-"):
		return v + pad
	case strings.Contains(flags, "0"):
		return strings.Repeat("0", n-len(v)) + v
	}
	return pad + v
}
