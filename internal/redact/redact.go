// Package redact takes secrets out of what people are shown. There is one rule
// of what is a secret by its name, and one sign that stands in a secret's place,
// so that every door shows the same.
//
// It keeps no secret but those that a Set was given.
package redact

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// Sign stands in the place of a secret. Its length tells nothing.
const Sign = "***"

// parts make a name that of a secret wherever they stand in it, ends where it
// ends so.
var (
	parts = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "PRIVATE_KEY"}
	ends  = []string{"_KEY", "_PASS"}
)

// underscores is made once: a boot asks for thousands of names.
var underscores = strings.NewReplacer("-", "_", ".", "_")

// Name tells whether a variable of that name holds a secret: TOKEN, SECRET,
// PASSWORD, PASSWD, PASSPHRASE or APIKEY is a part of it, or it ends in _KEY or _PASS;
// in upper or lower case, with - or . for _.
func Name(name string) bool {
	upper := underscores.Replace(strings.ToUpper(name))
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(upper, part) }) ||
		slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(upper, end) })
}

// Value is the value of a variable as it may be shown: Sign for a secret, unless
// it is empty, which is worth knowing; the password of a URL is taken out of it, and
// what is masked in lines by the set of patterns that is there by name.
func Value(name, value string) string { return Set{}.Value(name, value) }

// Command is an argv as it may be shown: of --token VALUE and --token=VALUE the
// value is taken out, of NAME=value what Value takes out, of a URL the password, of
// -u user:VALUE the value, and of any other word what is masked in lines by the set
// of patterns that is there by name. The argument stays as it is.
func Command(argv []string) []string { return Set{}.Command(argv) }

// Line is a line of output as it may be quoted to anybody who may look: what is masked in
// lines by the set of patterns that is there by name, and every secret.
func (s Set) Line(line string) string { return masking(line, s.found(line)) }

// Pattern is a pattern of a list of redact as it may be shown: one that fits a single text is
// that secret.
func Pattern(pattern string) string {
	if p, err := regexp.Compile(pattern); err == nil && pattern != Secrets {
		if _, literal := p.LiteralPrefix(); literal {
			return Sign
		}
	}
	return pattern
}

// hasPassword tells user:password from UID:GID, as docker(1) has it.
func hasPassword(word string) bool {
	user, password, has := strings.Cut(word, ":")
	return has && password != "" && !(digits([]byte(user)) && digits([]byte(password)))
}

// isUserFlag is true for a flag whose value is user:password, as curl(1) has it.
func isUserFlag(word string) bool {
	return word == "-u" || word == "--user" || word == "--proxy-user" || word == "-U"
}

// isSecretFlag is true for a flag whose value is the next word.
func isSecretFlag(word string) bool {
	flag := strings.TrimLeft(word, "-")
	return flag != word && !strings.Contains(flag, "=") && (Name(flag) || Name("_"+flag))
}

// password is where that of a URL is, if a text is one that has it.
func password(text string) (spans []span) {
	if !strings.Contains(text, "://") || !strings.Contains(text, "@") {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return nil
	}
	if password, has := u.User.Password(); has && password != "" {
		begin := strings.Index(text, "://") + len("://")
		colon := begin + strings.Index(text[begin:], ":") + 1
		if end := strings.LastIndex(authority(text[begin:]), "@") + begin; end > colon {
			return []span{{colon, colon, end}}
		}
	}
	return nil
}

// authority is what stands between :// and the path of a URL.
func authority(rest string) string {
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[:i]
	}
	return rest
}

// shortest is the length, in bytes, from which on a secret is looked for in
// texts. A shorter one would take half of every text with it.
const shortest = 6

// A Set is the values that are secret in some scope. The zero value is empty.
type Set struct {
	values []string // the longest first, for one may be a part of another
}

// NewSet returns the set of the values that are long enough to be looked for, at
// least 6 bytes. Of a value with several lines each is looked for, and the whole.
func NewSet(values ...string) Set {
	var s Set
	for _, value := range values {
		for _, v := range append(strings.Split(value, "\n"), value) {
			if v = strings.TrimSpace(v); len(v) >= shortest {
				s.values = append(s.values, v)
			}
		}
	}
	slices.SortFunc(s.values, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	s.values = slices.Compact(s.values)
	return s
}

// Of is the set of what is secret in an environment, a list of NAME=value, by its
// names, and of the further values.
func Of(environ []string, marked ...string) Set {
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && Name(name) {
			marked = append(marked, value)
		}
	}
	return NewSet(marked...)
}

// Values are what NewSet makes the same set of.
func (s Set) Values() []string { return s.values }

// Command is an argv as it may be shown: what Command takes out, and every secret.
func (s Set) Command(argv []string) []string {
	shown := slices.Clone(argv)
	for i, word := range argv {
		spans := s.inWord(word)
		switch {
		case i == 0:
		case isSecretFlag(argv[i-1]) && !strings.HasPrefix(word, "-"):
			spans = []span{{0, 0, len(word)}}
		case isUserFlag(argv[i-1]) && hasPassword(word):
			spans = append(spans, span{0, strings.Index(word, ":") + 1, len(word)})
		}
		shown[i] = masking(word, spans)
	}
	return shown
}

// Value is the value of a variable as it may be shown: what Value takes out, and every
// secret.
func (s Set) Value(name, value string) string {
	switch {
	case value == "":
		return value
	case Name(name):
		return Sign
	}
	return masking(value, s.found(value))
}

// found is what is masked in a text: every secret, and beside them, for one may be a part of
// the other, what is masked in lines by the set of patterns that is there by name and the
// password of a URL. Each is looked for in the text as it was.
func (s Set) found(text string) []span {
	return append(findSecrets([]byte(text), s.spans(text)), password(text)...)
}

// inWord is found of a word of a command or an environment, which may be NAME=value.
func (s Set) inWord(word string) []span {
	spans := s.found(word)
	name, value, assigns := strings.Cut(word, "=")
	from := len(name) + 1
	switch {
	case !assigns || value == "":
	case Name(strings.TrimLeft(name, "-")):
		spans = append(spans, span{from, from, len(word)})
	default:
		for _, inner := range s.found(value) {
			spans = append(spans, span{inner.at + from, inner.from + from, inner.to + from})
		}
	}
	return spans
}

// masking is a text with Sign in the place of some spans.
func masking(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	end := 0
	for _, s := range merged(spans) {
		b.WriteString(text[end:s.from] + Sign)
		end = s.to
	}
	return b.String() + text[end:]
}

// Map is an environment as it may be shown. The argument stays as it is.
func (s Set) Map(environment map[string]string) map[string]string {
	shown := maps.Clone(environment)
	for name, value := range shown {
		shown[name] = s.Value(name, value)
	}
	return shown
}

// Environ is a list of NAME=value as it may be shown. The argument stays as it is.
func (s Set) Environ(environ []string) []string {
	shown := slices.Clone(environ)
	for i, entry := range shown {
		shown[i] = masking(entry, s.inWord(entry))
	}
	return shown
}

// Text is a text as it may be shown: with Sign in the place of every secret.
func (s Set) Text(text string) string { return masking(text, s.spans(text)) }

// spans is where the secrets are in a text.
func (s Set) spans(text string) (spans []span) {
	for _, v := range s.values {
		for from := 0; ; {
			i := strings.Index(text[from:], v)
			if i < 0 {
				break
			}
			spans = append(spans, span{from + i, from + i, from + i + len(v)})
			from += i + len(v)
		}
	}
	if len(s.values) > 0 && strings.IndexFunc(text, control) >= 0 {
		spans = append(spans, s.across(text)...)
	}
	return spans
}

// control tells of the characters that no display shows, and that whoever shows a text may
// take out of it.
func control(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// across is where the secrets of a text are that colours and other control characters split:
// who takes these out would show them.
func (s Set) across(text string) (spans []span) {
	plain, at := make([]byte, 0, len(text)), make([]int, 0, len(text))
	for i := 0; i < len(text); {
		if next := afterSequence(text, i); next > i {
			i = next
			continue
		}
		plain, at = append(plain, text[i]), append(at, i)
		i++
	}
	for _, v := range s.values {
		for from := 0; ; {
			i := strings.Index(string(plain[from:]), v)
			if i < 0 {
				break
			}
			i += from
			from = i + len(v)
			spans = append(spans, span{at[i], at[i], at[from-1] + 1})
		}
	}
	return spans
}

// afterSequence is where what follows an escape sequence (ECMA-48, CSI) or a control
// character begins, or that place.
func afterSequence(text string, i int) int {
	if text[i] != 0x1b || i+1 == len(text) || text[i+1] != '[' {
		if control(rune(text[i])) {
			return i + 1
		}
		return i
	}
	for end := i + 2; end < len(text); end++ {
		if c := text[end]; c >= 0x40 && c <= 0x7e {
			return end + 1
		} else if c < 0x20 || c > 0x3f {
			break
		}
	}
	return i + 1
}

// Kept is a set that another one may take the place of while it is used. The zero value is
// empty.
type Kept struct{ atomic.Pointer[Set] }

// Line is Set.Line of the newest.
func (k *Kept) Line(line string) string {
	s := k.Load()
	if s == nil {
		s = &Set{}
	}
	return s.Line(line)
}

// Text is Set.Text of the newest.
func (k *Kept) Text(text string) string {
	if s := k.Load(); s != nil {
		text = s.Text(text)
	}
	return text
}
