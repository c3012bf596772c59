// Package nearest finds the name that somebody who mistyped one most likely
// meant. It holds no state.
package nearest

import "strings"

// Name returns the known name nearest to the one that was written, or "" when
// none is near enough to be offered: a third of the written name's length may
// differ, and at least two letters of a name of five or more. Among equally
// near ones the first wins. The only one that was begun, with four letters or
// more, comes before all.
func Name(written string, known []string) string {
	w := []rune(written)
	var begun []string
	for _, name := range known {
		if len(w) >= 4 && len(name) > len(written) && strings.HasPrefix(name, written) {
			begun = append(begun, name)
		}
	}
	if len(begun) == 1 {
		return begun[0]
	}
	limit := len(w) / 3
	if limit < 2 && len(w) > 4 {
		limit = 2
	}
	if limit < 1 {
		limit = 1
	}
	best, found := limit+1, ""
	for _, name := range known {
		k := []rune(name)
		if len(k)-len(w) >= best || len(w)-len(k) >= best {
			continue
		}
		if d := distance(w, k); d < best && d < len(k) {
			best, found = d, name
		}
	}
	return found
}

// distance counts the letters to insert, remove, replace, or swap with their
// neighbour that make b of a (optimal string alignment).
func distance(a, b []rune) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
