package document

import (
	"slices"
	"strings"
)

// Nearest is the candidate that a person most likely meant by word, or "" if
// none is near: an edit distance (with transpositions) of at most a third of
// the word, at least 1 and at most 3. Among equals the first in alphabetical
// order wins.
func Nearest(word string, candidates []string) string {
	if len(word) > 128 {
		return ""
	}
	limit := min(max(len(word)/3, 1), 3)
	best, bestDistance := "", limit+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := len(c) - len(word); d > limit || -d > limit {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	// A word of one or two letters is an edit away from everything alike.
	if bestDistance >= len(word) {
		return ""
	}
	return best
}

// DidYouMean is `; did you mean "x"?` for the nearest candidate, or "".
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return ""
}

// distance is the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours cost 1 each.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
