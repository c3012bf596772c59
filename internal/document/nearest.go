package document

import (
	"slices"
	"strings"

	"rlminit/internal/nearest"
)

// Nearest is the candidate that a person most likely meant by word, in whatever
// case, or "" if none is near. Among equally near ones the first in alphabetical
// order wins.
func Nearest(word string, candidates []string) string {
	if len(word) > 128 {
		return "" // no name of ours is that long
	}
	names := slices.Sorted(slices.Values(candidates))
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	if near := slices.Index(lower, nearest.Name(strings.ToLower(word), lower)); near >= 0 {
		return names[near]
	}
	return ""
}

// DidYouMean is `; did you mean "x"?` for the nearest candidate, or "".
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return ""
}
