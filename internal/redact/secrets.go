package redact

import "bytes"

// What the set of patterns by name finds is found by hand, not by a regular expression,
// which would cost twenty times as much for each line of a log: one pass looks for =, :,
// blanks and --, and what stands beside one tells whether what follows is secret.

// stops are the bytes at which one looks twice.
var stops = [256]bool{'=': true, ':': true, ' ': true, '\t': true, '-': true}

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
		case c == '-':
			s = afterFlag(line, i)
		case c == ':' && i+2 < len(line) && line[i+1] == '/' && line[i+2] == '/':
			s = passwordOfURL(line, i+3)
		case c == ':' && bytes.HasPrefix(line[i:], []byte(`:\/\/`)): // as JSON may have it
			s = passwordOfURL(line, i+5)
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
	from, to := valueAt(line, skipBlanks(line, i))
	return span{at, from, to}
}

// afterFlag is the word after the flag whose -- begins at i: --password S.
func afterFlag(line []byte, i int) span {
	if i+2 >= len(line) || line[i+1] != '-' || i > 0 && line[i-1] > ' ' && !quote(line[i-1]) {
		return span{}
	}
	end := i + 2
	for end < len(line) && nameByte(line[end]) {
		end++
	}
	from := skipBlanks(line, end)
	if end+1 < len(line) && quote(line[end]) && line[end+1] == ',' { // a list: ["--password", "S"]
		from = skipBlanks(line, end+2)
		if from == len(line) || !quote(line[from]) || from+1 < len(line) && line[from+1] == '-' {
			return span{}
		}
	}
	kind := secretName(line[i+2 : end])
	if from == end || from == len(line) || line[from] == '-' || kind == plain {
		return span{}
	}
	from, to := valueAt(line, from)
	if kind == counted && digits(line[from:to]) {
		return span{}
	}
	return span{i, from, to}
}

// passwordOfURL is that of the URL whose authority begins at i. It ends at the last @ of the
// authority. A password with / ? or # in it, which a URL has encoded (RFC 3986), is seen
// unless it looks like a port.
func passwordOfURL(line []byte, i int) span {
	authority := i + indexAny(line[i:], "/?#")
	if s := passwordBefore(line[:authority], i); s.from < s.to {
		return s
	}
	colon := bytes.IndexByte(line[i:authority], ':')
	if colon < 0 || line[i] == '[' || digits(line[i+colon+1:authority]) || bytes.IndexByte(line[i:authority], '@') >= 0 {
		return span{}
	}
	return passwordBefore(line[:min(len(line), i+within)], i)
}

// within is how far is looked for what ends a secret, where many could begin before it: a
// line of a mebibyte is to cost no more for each byte than another.
const within = 512

// passwordBefore is what stands between the first : and the last @ of the text at i, which a
// blank, a quote or an angle ends.
func passwordBefore(line []byte, i int) span {
	text := line[i : i+indexAny(line[i:], " \t\"'`<>\x1b")]
	colon, at := bytes.IndexByte(text, ':'), bytes.LastIndexByte(text, '@')
	if colon < 0 || at < colon {
		return span{}
	}
	return span{i, i + colon + 1, i + at}
}

// indexAny is where the first of some bytes is, or the text's end.
func indexAny(text []byte, bytesOf string) int {
	if i := bytes.IndexAny(text, bytesOf); i >= 0 {
		return i
	}
	return len(text)
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
	for line[i] == '=' && from < len(line) && (line[from] == '=' || line[from] == '>') { // ==, =>
		from++
		spaced = true
	}
	if from < len(line) && line[i] == ':' && (line[from] == ':' || line[from] == '=') {
		return span{} // the = of := comes next
	}
	if blanks := skipBlanks(line, from); spaced || line[i] == ':' || !assigns(line, blanks) {
		from = blanks
	}
	if kind == header {
		from, to := credentials(line, from)
		return span{at, from, to}
	}
	from, to := valueAt(line, from)
	if kind == counted && digits(line[from:to]) {
		return span{}
	}
	return span{at, from, to}
}

// assigns tells whether the word at a place is a NAME=value.
func assigns(line []byte, at int) bool {
	end := at
	for end < len(line) && nameByte(line[end]) {
		end++
	}
	return end > at && end < len(line) && line[end] == '='
}

// nameBefore is where the name before i stands: one of letters, digits, _ . and -, which
// may be in quotes, and in a color.
func nameBefore(line []byte, i int) (at, end int) {
	end = i
	if end > 0 && line[i] == '=' && line[end-1] == ':' {
		end--
	}
	for end > 0 && (line[end-1] == ' ' || line[end-1] == '\t') {
		end--
	}
	end = beforeColor(line, end)
	if end > 0 && quote(line[end-1]) {
		for end--; end > 0 && line[end-1] == '\\'; {
			end--
		}
	}
	end = beforeColor(line, end)
	const most = 128
	at = end
	for at > 0 && end-at < most && nameByte(line[at-1]) {
		at--
	}
	return at, end
}

// beforeColor is where the escape sequence begins that ends at a place (ECMA-48, SGR), or
// that place.
func beforeColor(line []byte, end int) int {
	if end == 0 || line[end-1] != 'm' {
		return end
	}
	at := end - 1
	for at > 0 && (line[at-1] >= '0' && line[at-1] <= '9' || line[at-1] == ';') {
		at--
	}
	if at > 1 && line[at-1] == '[' && line[at-2] == 0x1b {
		return at - 2
	}
	return end
}

// afterColor is where what follows such a sequence begins, or that place.
func afterColor(line []byte, at int) int {
	if at+1 >= len(line) || line[at] != 0x1b || line[at+1] != '[' {
		return at
	}
	for end := at + 2; end < len(line); end++ {
		if c := line[end]; c == 'm' {
			return end + 1
		} else if c != ';' && (c < '0' || c > '9') {
			break
		}
	}
	return at
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
var needed = []uint32{letters("token"), letters("secret"), letters("pass"), letters("key"), letters("authorization")}

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

// credentials are those of an Authorization: what follows its scheme, if there is one. They
// are a word for schemes that have no more, and else all up to the closing quote or bracket,
// or the line's end.
func credentials(line []byte, from int) (begin, end int) {
	at, limit := from, len(line)
	for at < limit && (line[at] == '[' || line[at] == '\\') {
		at++
	}
	switch {
	case at < limit && quote(line[at]):
		backslashes := 0
		for at-backslashes > from && line[at-backslashes-1] == '\\' {
			backslashes++
		}
		at, limit = at+1, endOfQuoted(line, at+1, line[at], backslashes)
	case at > from && line[at-1] == '[':
		if close := bytes.IndexByte(line[at:min(limit, at+within)], ']'); close >= 0 {
			limit = at + close
		}
	}
	word := at
	for word < limit && nameByte(line[word]) {
		word++
	}
	next := skipBlanks(line[:limit], word)
	switch scheme := string(bytes.ToLower(line[at:word])); {
	case next == word || next == limit:
		return at, min(limit, endOfWord(line, at))
	case scheme == "token" && assigns(line[:limit], next): // Token token="S", more="…"
		return next, limit
	case scheme == "bearer" || scheme == "basic" || scheme == "token":
		begin, end = valueAt(line[:limit], next)
		return begin, end
	}
	return next, limit
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
		case with == '\'' && backslashes == 0 && before == 0 && line[i] == with && i+1 < len(line) && line[i+1] == with && i > at:
			i++ // a quote, as YAML and SQL have it
		case line[i] == with && (before == backslashes || backslashes == 0 && before%2 == 0):
			return i - backslashes
		}
		before = 0
	}
	return len(line)
}

func endOfWord(line []byte, at int) int {
	end := at
	for end < len(line) && line[end] != ' ' && line[end] != '\t' && line[end] != '\r' && !quote(line[end]) && line[end] != '&' {
		if line[end] == 0x1b && afterColor(line, end) > end {
			break
		}
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

// skipBlanks is where what follows blanks and colors begins.
func skipBlanks(line []byte, at int) int {
	for at < len(line) {
		switch next := afterColor(line, at); {
		case next > at:
			at = next
		case line[at] == ' ' || line[at] == '\t':
			at++
		default:
			return at
		}
	}
	return at
}

func nameByte(c byte) bool {
	return letter(c) || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
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
