// Package words splits command lines into words as shells, Python's shlex and systemd do,
// and quotes words for sh(1). It owns no state and expands nothing: what a variable or a
// specifier stands for is for its callers, who know the source.
package words

import (
	"errors"
	"strings"
)

// ErrQuote is of a quotation without an end.
var ErrQuote = errors.New("a quotation has no end")

// Split splits a line as shlex.split of Python does: POSIX quoting, and no other character
// is special.
func Split(s string) ([]string, error) {
	var all []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\r', '\n':
			if inWord {
				all = append(all, word.String())
				word.Reset()
			}
			inWord = false
		case '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, ErrQuote
			}
			word.WriteString(s[i+1 : i+1+end])
			i, inWord = i+1+end, true
		case '"':
			n, err := double(&word, s[i+1:])
			if err != nil {
				return nil, err
			}
			i, inWord = i+n, true
		case '\\':
			if i+1 == len(s) {
				return nil, errors.New("a backslash stands at the end")
			}
			word.WriteByte(s[i+1])
			i, inWord = i+1, true
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		all = append(all, word.String())
	}
	return all, nil
}

// double reads what follows a double quote, with that at the end, and returns how much that is.
func double(word *strings.Builder, s string) (int, error) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return i + 1, nil
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			word.WriteByte(s[i])
		default:
			word.WriteByte(s[i])
		}
	}
	return 0, ErrQuote
}

// plain are characters, besides letters and digits, that mean nothing to a shell.
const plain = "@%+=:,./_-"

// Quote is a word as sh(1) reads it.
func Quote(word string) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(plain, r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Join is a command line for sh(1).
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// NeedsShell tells whether a line has something that only a shell makes sense of, besides
// quotes.
func NeedsShell(s string) bool {
	return strings.ContainsAny(s, "|&;<>()$`*?[]~#\n{}!")
}
