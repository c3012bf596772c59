package history

import "strings"

// Place is where a directory is that was a profile's when a job had written into it, and
// which is that directory whatever its name:
//
//	profiles/NAME  a profile's, by its name now
//	trash/ENTRY    in the trash
//	gone           nowhere, or nobody knows
type Place string

// Gone is the place of what is not there any more.
const Gone Place = "gone"

// InProfile is the place of a profile's directory.
func InProfile(name string) Place { return Place("profiles/" + name) }

// InTrash is that of an entry of the trash.
func InTrash(entry string) Place { return Place("trash/" + entry) }

// Profile is whose directory it is; false: no profile's.
func (p Place) Profile() (name string, is bool) { return strings.CutPrefix(string(p), "profiles/") }

// Trashed is what it is in the trash; false: it is not there.
func (p Place) Trashed() (entry string, is bool) { return strings.CutPrefix(string(p), "trash/") }

// Place is where the directory of a job's profile is now.
func (e *Entry) Place() Place {
	if e.In != "" {
		return e.In
	}
	return InProfile(e.Profile)
}

// hasMoved tells whether the directory that a job wrote into is no more, or another's by
// its name.
func (e *Entry) hasMoved() bool {
	return e.Path != "" && e.Profile != "" && e.Place() != InProfile(e.Profile)
}

// Moved notes that a directory is in another place, with what jobs keep in it.
func (h *History) Moved(from, to Place) {
	for _, e := range h.Jobs {
		if e.Path != "" && e.Profile != "" && e.Place() == from {
			e.In = to
		}
	}
}
