package table

import "rlminit/journal/places"

// Place is where the directory of a job's profile is now.
func (e *Entry) Place() places.Place {
	if e.In != "" {
		return e.In
	}
	return places.InProfile(e.Profile)
}

// hasMoved tells whether the directory that a job wrote into is no more, or another's by
// its name.
func (e *Entry) hasMoved() bool {
	return e.Path != "" && e.Profile != "" && e.Place() != places.InProfile(e.Profile)
}

// Moved takes that a directory is in another place, with what jobs keep in it.
func (h *Table) Moved(m places.Move) {
	for _, e := range h.Jobs {
		if e.Path != "" && e.Profile != "" && e.Place() == m.From {
			e.In = m.To
		}
	}
}
