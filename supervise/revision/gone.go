package revision

import (
	"errors"
	"fmt"

	"rlminit/journal/places"
	"rlminit/plan/apply"
)

// A profile that a step is about, and that is neither there nor, as that step would have
// it, in the trash, is that of a person, who has renamed or deleted it:
//
//	the step                its act                    its undoing
//	changes or deletes it   nothing, and it is said    stuck: it is left as it is
//	has created it          –                          renamed: stuck; deleted: it is undone
//	takes it from the trash nothing, and it is stuck   stuck
//	a rollback would take   is none; it is said, and   –
//	it away                 nobody wants it back
//
// Which name it has, the journal knows.

var errTouched = errors.New("somebody has changed it since")

// whereabouts are the new names and places of profiles that people have renamed or deleted.
type whereabouts struct{ journal Recorder }

// of is the fate of a profile that is gone, in words, and its name now; "": it has
// none. False: nobody knows.
func (w whereabouts) of(name string) (what, to string, known bool) {
	var at places.Place
	w.journal.View(func(f *apply.Fold) { at, known = f.Gone[name] })
	if to, is := at.Profile(); is {
		return "renamed to " + to, to, known
	}
	if entry, is := at.Trashed(); is {
		return "deleted by hand, in the trash as " + entry, "", known
	}
	return "deleted by hand", "", known
}

// touched is errTouched, with what became of a profile that is gone.
func (w whereabouts) touched(name string) error {
	if what, _, known := w.of(name); known {
		return fmt.Errorf("%w: it was %s", errTouched, what)
	}
	return errTouched
}

// lost is a step's error for a directory that somebody has taken.
func (w whereabouts) lost(k Kept) error {
	why := fmt.Sprintf("it is neither there nor in the trash any more, where it was %s", k.entry())
	if k.After == nil {
		why = fmt.Sprintf("it is neither there nor in the trash as %s", k.entry())
	}
	if what, _, known := w.of(k.Name); known {
		why = fmt.Sprintf("it was %s, which is left as it is", what)
	}
	return errors.New(why)
}

// leave notes that the revisions' rest of a profile is gone by hand, so that a
// rollback has nothing to take away, and returns that for people.
func (w whereabouts) leave(doc *Document, name string) string {
	doc.Gone = append(doc.Gone, name)
	what, to, known := w.of(name)
	switch {
	case !known:
		return name + ": gone, and not by rlminit"
	case to != "":
		doc.Left = append(doc.Left, to)
		return fmt.Sprintf("%s: %s by hand, which is left as it is", name, what)
	}
	return fmt.Sprintf("%s: %s", name, what)
}
