package redact

import "bytes"

// What the set of patterns by name finds is found by hand, not by a regular expression,
// which would cost twenty times as much for each line of a log: one pass looks for =, :
// and blanks, and what stands before one tells whether what follows is secret.

// stops are the bytes at which one looks twice.
var stops = [256]bool{'=': true, ':': true, ' ': true, '\t': true}

func findSecrets(line []byte, spans []span) []span {
	for i := 0; i < len(line); i++ {
		c := line[i]
		if !stops[c] {
			continue
		}
		var s span
		switch {
		case c == ' ' || c == '\t':
			s = afterBearer(line, i)
		case c == ':' && i+2 < len(line) && line[i+1] == '/' && line[i+2] == '/':
			s = passwordOfURL(line, i+3)
		default:
			s = afterName(line, i)
		}
		if s.from < s.to {
			spans = append(spans, s)
			i = s.to - 1
		}
	}
	return spans
}

// afterBearer is what follows Bearer and the blank at i.
func afterBearer(line []byte, i int) span {
	const word = "bearer"
	at := i - len(word)
	if at < 0 || line[i-1]|0x20 != 'r' || !bytes.EqualFold(line[at:i], []byte(word)) || at > 0 && letter(line[at-1]) {
		return span{}
	}
	from := skipBlanks(line, i)
	return span{at, from, endOfWord(line, from)}
}

// passwordOfURL is that of the URL whose authority begins at i.
func passwordOfURL(line []byte, i int) span {
	colon := -1
	for j := i; j < len(line); j++ {
		switch line[j] {
		case ':':
			if colon < 0 {
				colon = j
			}
		case '@':
			if colon >= 0 {
				return span{i, colon + 1, j}
			}
			return span{}
		case '/', '?', '#', ' ', '\t', '"', '\'', '<', '>':
			return span{}
		}
	}
	return span{}
}

// afterName is the value of the name before the = or : at i, if that is one of a secret.
func afterName(line []byte, i int) span {
	spaced := i > 0 && (line[i-1] == ' ' || line[i-1] == '\t' || line[i-1] == ':')
	at, end := nameBefore(line, i)
	if at == end {
		return span{}
	}
	name := line[at:end]
	kind := secretName(name)
	if kind == plain {
		return span{}
	}
	from := i + 1
	if from < len(line) && (line[from] == line[i] || line[i] == ':' && line[from] == '=') {
		return span{} // ==, ::; the = of := comes next
	}
	if line[i] == '=' && from < len(line) && line[from] == '>' {
		from++
		spaced = true
	}
	if spaced || line[i] == ':' {
		from = skipBlanks(line, from)
	}
	if kind == header {
		from = afterScheme(line, from)
	}
	from, to := valueAt(line, from)
	if kind == counted && digits(line[from:to]) {
		return span{}
	}
	return span{at, from, to}
}

// nameBefore is where the name before i stands: one of letters, digits, _ . and -, which
// may be in quotes.
func nameBefore(line []byte, i int) (at, end int) {
	end = i
	if end > 0 && line[i] == '=' && line[end-1] == ':' {
		end--
	}
	for end > 0 && (line[end-1] == ' ' || line[end-1] == '\t') {
		end--
	}
	if end > 0 && quote(line[end-1]) {
		for end--; end > 0 && line[end-1] == '\\'; {
			end--
		}
	}
	const most = 128
	at = end
	for at > 0 && end-at < most && (letter(line[at-1]) || line[at-1] == '_' || line[at-1] == '-' || line[at-1] == '.' || '0' <= line[at-1] && line[at-1] <= '9') {
		at--
	}
	return at, end
}

// Kinds of names.
const (
	plain   = iota
	secret  // Name says so
	counted // of tokens, which may be a number of them
	header  // Authorization
)

// letters are those that a word has, a bit each.
func letters(word string) (bits uint32) {
	for _, c := range []byte(word) {
		bits |= 1 << (c & 31)
	}
	return bits
}

// needed are the letters of the words of which a secret's name has one.
var needed = []uint32{letters("token"), letters("secret"), letters("passwd"), letters("passphrase"), letters("key"), letters("authorization")}

func secretName(name []byte) int {
	var has uint32
	for _, c := range name {
		if c >= 'A' {
			has |= 1 << (c & 31)
		}
	}
	for _, all := range needed {
		if has&all == all {
			return secretWord(string(name))
		}
	}
	return plain
}

func secretWord(name string) int {
	switch n := len(name); {
	case n >= len("authorization") && bytes.EqualFold([]byte(name[n-len("authorization"):]), []byte("authorization")):
		return header
	case !Name(name):
		return plain
	case n >= len("tokens") && bytes.EqualFold([]byte(name[n-len("tokens"):]), []byte("tokens")):
		return counted
	}
	return secret
}

// afterScheme is where what follows the scheme of an Authorization begins.
func afterScheme(line []byte, from int) int {
	at := from
	for at < len(line) && (quote(line[at]) || line[at] == '\\') {
		at++
	}
	end := at
	for end < len(line) && letter(line[end]) {
		end++
	}
	if next := skipBlanks(line, end); end > at && next > end && next < len(line) {
		return next
	}
	return from
}

// valueAt is where the value is that begins at from. What is in quotes ends with them; what
// is not at a blank, a quote or &, and before what closes or parts at the end of a word.
func valueAt(line []byte, from int) (begin, end int) {
	open := from
	for open < len(line) && line[open] == '\\' {
		open++
	}
	if open < len(line) && quote(line[open]) {
		return open + 1, endOfQuoted(line, open+1, line[open], open-from)
	}
	if from+1 < len(line) && (line[from] == '{' || line[from] == '[') && !wordByte(line[from+1]) {
		return from, from // its parts have names of their own, or none
	}
	end = endOfWord(line, from)
	switch string(line[from:end]) {
	case "null", "true", "false", "nil", "none", "None", "True", "False":
		return from, from
	}
	return from, end
}

// endOfQuoted is where the quote is that ends what was begun by one behind so many
// backslashes.
func endOfQuoted(line []byte, at int, with byte, backslashes int) int {
	for i, before := at, 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			before++
			continue
		case line[i] == with && (before == backslashes || backslashes == 0 && before%2 == 0):
			return i - backslashes
		}
		before = 0
	}
	return len(line)
}

func endOfWord(line []byte, at int) int {
	end := at
	for end < len(line) && line[end] > ' ' && !quote(line[end]) && line[end] != '&' {
		end++
	}
	for end > at {
		switch line[end-1] {
		case ',', ';', ')', ']', '}', '>', '\\':
			end--
			continue
		}
		break
	}
	return end
}

func skipBlanks(line []byte, at int) int {
	for at < len(line) && (line[at] == ' ' || line[at] == '\t') {
		at++
	}
	return at
}

func wordByte(c byte) bool {
	return c > ' ' && !quote(c) && c != '{' && c != '[' && c != '}' && c != ']'
}
func quote(c byte) bool  { return c == '"' || c == '\'' || c == '`' }
func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
