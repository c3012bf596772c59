package isolate

import (
	"os"
	"path"
	"slices"
)

// Enclose fills tier 1's own ruleset, which holds back rights: it allows
// everything but the hidden paths, of which nobody is given anything by it, and tells
// whether that is all of /tmp.
func Enclose(ruleset int, rights uint64, hidden ...string) (temporary bool, err error) {
	i := &Image{root: "/", whole: true}
	for _, p := range hidden {
		if p = path.Clean(p); p != "/" && !slices.Contains(i.hidden, p) {
			i.hidden = append(i.hidden, p)
		}
	}
	defer i.Close()
	_, link := os.Readlink("/tmp") // and it waits for nothing
	temporary = link != nil && !i.leads("/tmp") && !slices.Contains(i.hidden, "/tmp")
	return temporary, i.allow(&Ruleset{fd: ruleset, files: rights})
}
