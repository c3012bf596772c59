package redact

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// Secrets is the name of the patterns that are there by name: what follows a name of a
// secret and = or :, Bearer and Authorization, and the password of a URL (secrets.go).
const Secrets = "secrets"

// Bounds of what is looked for in lines. A pattern's size is that of its program, in
// instructions: what a byte of output costs grows with it.
const (
	MostPatterns  = 32
	MostPattern   = 512  // bytes of one
	MostInAll     = 2000 // bytes of all, each with one more
	MostProgram   = 1000 // instructions of one, and of those of a list
	separator     = "\n"
	searchedAtOne = 64 << 10

	// mostWork bounds what the matches of a line cost by patterns that look far beyond a
	// match: one may cost the line's length times the patterns' instructions, and a line may
	// have one at each of its bytes.
	mostWork     = 1 << 27
	fewestOfLine = 4 // matches of a pattern that are found in any line
)

// Lines masks what is secret in lines of output. Nobody changes one.
type Lines struct {
	source   string
	secrets  bool
	patterns []pattern
	far      int // instructions of those that look far
}

type pattern struct {
	*regexp.Regexp
	far bool // it may look far beyond a match, to see that a better one is not there
}

// span is a part of a line: what was found begins at at, and of it from up to to is
// what nobody is to see.
type span struct{ at, from, to int }

// CheckPattern says what is wrong with a pattern, and how large its program is.
func CheckPattern(pattern string) (size int, fault string) {
	switch {
	case pattern == Secrets:
		return 0, ""
	case pattern == "":
		return 0, "is empty, and would mask nothing; write secrets, or a regular expression"
	case len(pattern) > MostPattern:
		return 0, fmt.Sprintf("has %d bytes; a pattern has %d at most: write two", len(pattern), MostPattern)
	case strings.ContainsFunc(pattern, func(r rune) bool { return r < ' ' }):
		return 0, `holds a control character, and lines are looked at one by one; write \t for a tab`
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Sprintf("is no regular expression: %s; write secrets, or one of RE2, such as sk-([a-z0-9]+)", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, fmt.Sprintf("is no regular expression: %v", err)
	}
	if size = len(program.Inst); size > MostProgram {
		return size, fmt.Sprintf("is too costly for every line (%d steps, at most %d); repeat less, + for {20,}", size, MostProgram)
	}
	if matchesEmpty(parsed) {
		return size, "can match an empty text, in which nothing is to be masked; write + for *"
	}
	return size, ""
}

// matchesEmpty tells whether a match of a pattern can have no bytes.
func matchesEmpty(p *syntax.Regexp) bool {
	switch p.Op {
	case syntax.OpNoMatch, syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpPlus, syntax.OpCapture:
		return matchesEmpty(p.Sub[0])
	case syntax.OpRepeat:
		return p.Min == 0 || matchesEmpty(p.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(p.Sub, func(s *syntax.Regexp) bool { return !matchesEmpty(s) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(p.Sub, matchesEmpty)
	}
	return true // *, ?, and what looks at a place alone: ^ $ \b
}

// looksFar tells whether a pattern has a part without a bound that something follows, as in
// a.*b|a: all of the line may be read before it is known that a is the match. Where such a
// part stands at the end, what is read of it is the match.
func looksFar(text string) bool {
	p, err := syntax.Parse(text, syntax.Perl)
	return err != nil || far(p, true)
}

func far(p *syntax.Regexp, atEnd bool) bool {
	switch p.Op {
	case syntax.OpStar, syntax.OpPlus:
		return !atEnd || far(p.Sub[0], false)
	case syntax.OpRepeat:
		return p.Max < 0 && !atEnd || far(p.Sub[0], atEnd && p.Max == 1)
	}
	for i, sub := range p.Sub {
		if far(sub, atEnd && (p.Op != syntax.OpConcat || i == len(p.Sub)-1)) {
			return true
		}
	}
	return false
}

// made are those that were made lately: a thousand services have the same.
var made struct {
	sync.Mutex
	by map[string]*Lines
}

// NewLines is what masks by patterns, of which CheckPattern has found no fault, and nil for
// none. They have MostInAll bytes together at most.
func NewLines(patterns []string) (*Lines, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	return LinesOf(strings.Join(patterns, separator))
}

// LinesOf is what masks as the one that Source is of.
func LinesOf(source string) (*Lines, error) {
	if source == "" {
		return nil, nil
	}
	made.Lock()
	defer made.Unlock()
	if l := made.by[source]; l != nil {
		return l, nil
	}
	l := &Lines{source: source}
	for text := range strings.SplitSeq(source, separator) {
		if text == Secrets {
			l.secrets = true
			continue
		}
		p, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("cannot mask by %q: %w", text, err)
		}
		far := looksFar(text)
		if far {
			size, _ := CheckPattern(text)
			l.far += size
		}
		l.patterns = append(l.patterns, pattern{p, far})
	}
	const most = 256
	if made.by == nil || len(made.by) >= most {
		made.by = map[string]*Lines{}
	}
	made.by[source] = l
	return l, nil
}

// Source is what LinesOf makes the same of; "" of nil.
func (l *Lines) Source() string {
	if l == nil {
		return ""
	}
	return l.source
}

// Searched is how many bytes of a line are looked at together: all of most for the named
// set, which takes the same for each byte, and less for patterns of one's own.
func (l *Lines) Searched(most int) int {
	if l == nil || len(l.patterns) == 0 {
		return most
	}
	return min(most, searchedAtOne)
}

// Mask masks the line that b has from an offset on, and returns what b is then.
func (l *Lines) Mask(b []byte, from int) []byte {
	var room [16]span
	spans := l.find(b[from:], room[:0])
	if len(spans) == 0 {
		return b
	}
	line := slices.Clone(b[from:])
	b = b[:from]
	at := 0
	for _, s := range merged(spans) {
		b = append(append(b, line[at:s.from]...), Sign...)
		at = s.to
	}
	b = append(b, line[at:]...)
	if len(b)-from > len(line) && len(line) > searchedAtOne { // a line is bounded with its masks too
		return append(b[:from], Sign...)
	}
	return b
}

// Text masks a text of one line. A nil Lines masks nothing.
func (l *Lines) Text(text string) string {
	if l == nil {
		return text
	}
	return string(l.Mask([]byte(text), 0))
}

// Cut is where a line that is too long can be cut in two without a secret in both. It is
// beyond the line's half; a secret longer than half of the line is cut.
func (l *Lines) Cut(line []byte) int {
	const overlap = 4096 // in which a name and what follows it are seen together
	cut := len(line) - min(overlap, len(line)/4)
	spans := l.find(line, nil)
	slices.SortFunc(spans, func(a, b span) int { return b.at - a.at })
	for _, s := range spans {
		if s.at < cut && s.to > cut && s.at > len(line)/2 {
			cut = s.at
		}
	}
	return cut
}

func (l *Lines) find(line []byte, spans []span) []span {
	if l.secrets {
		spans = findSecrets(line, spans)
	}
	for _, p := range l.patterns {
		most := -1
		if p.far {
			most = l.most(line)
		}
		matches := p.FindAllSubmatchIndex(line, most)
		for _, m := range matches {
			if s := masked(m); s.from < s.to {
				spans = append(spans, s)
			}
		}
		if n := len(matches); n == most {
			if end := matches[n-1][1]; end < len(line) {
				spans = append(spans, span{end, end, len(line)})
			}
		}
	}
	return spans
}

// most is how many matches of a pattern that looks far are sought in a line. What follows
// the last one is masked as a whole.
func (l *Lines) most(line []byte) int {
	return max(fewestOfLine, mostWork/(max(l.far, 1)*max(len(line), 1)))
}

// masked is the part of a match that is masked: the first group that is in it, or all.
func masked(match []int) span {
	for i := 2; i < len(match); i += 2 {
		if match[i] >= 0 {
			return span{match[0], match[i], match[i+1]}
		}
	}
	return span{match[0], match[0], match[1]}
}

// merged are spans in order, those that touch as one.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	kept := spans[:1]
	for _, s := range spans[1:] {
		if last := &kept[len(kept)-1]; s.from <= last.to {
			last.to = max(last.to, s.to)
		} else {
			kept = append(kept, s)
		}
	}
	return kept
}
