package isolate

import (
	"path"
	"slices"
)

// Enclose fills tier 1's own ruleset, which holds back rights: it allows
// everything but the hidden paths, of which nobody is given anything by it.
func Enclose(ruleset int, rights uint64, hidden ...string) error {
	i := &Image{root: "/", whole: true}
	for _, p := range hidden {
		if p = path.Clean(p); p != "/" && !slices.Contains(i.hidden, p) {
			i.hidden = append(i.hidden, p)
		}
	}
	defer i.Close()
	return i.allow(&Ruleset{fd: ruleset, files: rights})
}
