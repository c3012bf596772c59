package service

import (
	"strconv"
	"strings"
)

// Field is one value of a definition, with the path of its key.
type Field struct {
	Field string `json:"field"` // restart.delay, environment.LANG, sockets[0]
	Value string `json:"value"` // as in a service.yaml
}

// Flatten is a definition as a list of its values, as Encode writes them: one on
// each line, below the keys of the mappings that it is in.
func Flatten(d *Definition) []Field {
	var fields []Field
	var path []string
	items := 0
	for line := range strings.Lines(string(Encode(d))) {
		text := strings.TrimLeft(strings.TrimRight(line, "\n"), " ")
		path = path[:min((len(line)-1-len(text))/2, len(path))]
		if entry, ok := strings.CutPrefix(text, "- "); ok {
			fields = append(fields, Field{strings.Join(path, ".") + "[" + strconv.Itoa(items) + "]", entry})
			items++
			continue
		}
		key, value := splitKey(text)
		path, items = append(path, key), 0
		if value != "" {
			fields = append(fields, Field{strings.Join(path, "."), value})
		}
	}
	return fields
}

// splitKey parts a line of Encode's into key and value; a key may be quoted, and
// hold a colon then.
func splitKey(text string) (key, value string) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		if key, err = strconv.Unquote(quoted); err == nil {
			return key, strings.TrimSpace(strings.TrimPrefix(text[len(quoted):], ":"))
		}
	}
	key, value, _ = strings.Cut(text, ":")
	return key, strings.TrimSpace(value)
}
