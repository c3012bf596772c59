package revision

import (
	"errors"
	"fmt"
	"slices"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// A deletion moves a profile's directory into the trash, and a creation that takes one
// back moves it out. What such a step has done is told by where the directory is, and
// not by its content: another profile may say the same.
//
//	             in the trash as     then the step        and there may be
//	deletion     Trash               has been done        none of that name
//	             not                 not yet, or undone   the profile, perhaps without its secrets;
//	                                                      if there is none, a person has it
//	creation     From                not yet, or undone   none of that name
//	             not                 has been done        the profile, between what it was there and After
//
// Somebody may remove an entry for good, a purge; Release is between them, under the lock
// under which revisions begin:
//
//	                                 without needed       with it
//	no rollback takes it             it goes              it goes
//	a rollback takes it              it stays             it goes; the rollback is refused, with 17
//	a revision that changes the      it stays             it stays
//	profile is under way, or was
//	begun when a kill came

// moves tells whether a step moves a directory into the trash or out of it.
func (k Kept) moves() bool {
	return !plan.IsConfiguration(k.Name) && (k.After == nil || k.From != "")
}

// entry is where in the trash the directory of a step lies that moves one.
func (k Kept) entry() string {
	if k.After == nil {
		return k.Trash
	}
	return k.From
}

// finding is what there is of a step's profile.
type finding struct {
	is      *Content // nil: there is none
	trashed bool     // its directory is in the trash
}

func (c *carrier) find(k Kept) (f finding, err error) {
	if f.is, err = c.now(k.Name); err != nil || !k.moves() {
		return f, err
	}
	f.trashed, err = c.r.trashed(k)
	return f, err
}

// trashed tells whether the directory of a step that moves one is in the trash.
func (r *Revisions) trashed(k Kept) (bool, error) {
	_, err := r.box.Trashed(k.Name, k.entry())
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	return err == nil, err
}

// done tells whether a step that moves a directory has moved it.
func (f finding) done(k Kept) bool { return k.moves() && f.trashed == (k.After == nil) }

// lost is a directory that is neither in its place nor in the trash.
func (f finding) lost(k Kept) bool { return k.moves() && !f.trashed && f.is == nil }

// ours tells whether the profile is as the step, or its undoing, may have left it.
func (f finding) ours(k Kept) bool {
	switch {
	case f.trashed:
		return f.is == nil
	case k.moves() && f.is != nil:
		bare, whole := k.Was, k.After
		if k.After == nil {
			bare, whole = k.Before, k.Before
		}
		if bare == nil || whole == nil {
			return sameContent(f.is, whole)
		}
		without := *bare
		without.Secrets = nil
		return between(f.is, &without, whole)
	}
	return sameContent(f.is, k.Before) || sameContent(f.is, k.After) || between(f.is, k.Before, k.After)
}

// origin is where the revisions that are undone have left the directory that a profile
// had before them.
type origin struct {
	entry    string // in the trash; "": it is the profile's
	revision int    // which has put it there
}

// after is that origin after one more step, the next newer one. there looks into the
// trash: what was not put back says of itself nothing more.
func (p origin) after(k Kept, revision int, came apply.Place, there func(Kept) (bool, error)) (origin, error) {
	deleted := k.After == nil && p.entry == ""
	taken := k.After != nil && k.From != "" && k.From == p.entry
	switch {
	case came == apply.Waiting || came == apply.Undone || !deleted && !taken:
		return p, nil
	case came == apply.Stuck:
		is, err := there(k)
		if err != nil || is == taken {
			return p, err
		}
	}
	if taken {
		return origin{}, nil
	}
	return origin{k.Trash, revision}, nil
}

// came is the outcome of each step of a revision.
func (r *Revisions) came(doc *Document) []apply.Place {
	came := make([]apply.Place, len(doc.Steps))
	r.journal.View(func(f *apply.Fold) {
		if known := f.Find(doc.Revision); known != nil {
			for i := range min(len(came), len(known.State.Steps)) {
				came[i] = known.State.Steps[i].Place
			}
		}
	})
	return came
}

// origins are where the revisions that are undone, which come newest first, have left
// the profiles' directories.
func (r *Revisions) origins(undone []*Document) (map[string]origin, error) {
	origins := map[string]origin{}
	for _, doc := range slices.Backward(undone) {
		came := r.came(doc)
		for i, k := range doc.Steps {
			p, err := origins[k.Name].after(k, doc.Revision, came[i], r.trashed)
			if err != nil {
				return nil, err
			}
			origins[k.Name] = p
		}
	}
	return origins, nil
}

// Needs tells whether a rollback of a revision takes what that has moved into the trash
// of a profile. What is there of a creation that was put back no rollback takes.
func (r *Revisions) Needs(profile string, revision int) (needs bool) {
	if r == nil {
		return false
	}
	r.journal.View(func(f *apply.Fold) {
		k := f.Find(revision)
		if k == nil || !f.Newest(kept)[revision] {
			return // it can be rolled back no longer
		}
		for i, p := range k.Begun.Steps {
			place := k.State.Steps[i].Place
			needs = needs || p.Name == profile && p.Action == plan.Delete && place != apply.Waiting && place != apply.Undone
		}
	})
	return needs
}

// Release has takeOut take an entry out of the trash that a revision has moved there,
// unless a rollback takes it; needed: that one too. As long as a revision that changes
// the profile is under way, it stays in any case: what that cannot put back, nobody can.
// None begins meanwhile. Where nobody knows what a rollback takes (r is nil), it may be this.
func (r *Revisions) Release(t control.Trashed, needed bool, takeOut func() error) (err error) {
	switch {
	case r == nil && needed:
		return takeOut()
	case r == nil:
		return control.Conflict("%s is left: whether a rollback takes it is in the journal, and there is none; --needed removes it all the same", t.Entry)
	}
	r.beginning.Lock()
	defer r.beginning.Unlock()
	r.journal.View(func(f *apply.Fold) {
		k := f.Open()
		if k != nil && slices.ContainsFunc(k.Begun.Steps, func(p apply.Planned) bool { return p.Name == t.Profile }) {
			err = control.Conflict("%s is left, for revision %d, which changes %s, is being applied; wait for its end: rlminit revisions", t.Entry, k.Begun.Revision, t.Profile)
		}
	})
	switch {
	case err != nil:
		return err
	case !needed && r.Needs(t.Profile, t.Revision):
		return control.StillNeeded(t.Entry, t.Revision)
	}
	return takeOut()
}

// takes completes a step that puts back a profile, or says why that cannot be: it is to
// have the directory that it had. there tells whether there is a profile of that name.
func (r *Revisions) takes(k *Kept, there bool, p origin) (why string, err error) {
	const otherwise = "rlminit profile list --trash shows what is in the trash, and rlminit profile restore takes it out; rlminit profile create makes an empty one; roll back then"
	if p.entry == "" {
		if there {
			return "", nil
		}
		if became, to, _ := r.whereabouts.of(k.Name); to != "" {
			return fmt.Sprintf("%s was %s, and by no revision that is undone: rlminit profile rename %s %s, and roll back then", k.Name, became, to, k.Name), nil
		}
		return k.Name + " is gone, and by no revision that is undone, so its directory cannot be put back: " + otherwise, nil
	}
	was, err := r.box.Trashed(k.Name, p.entry)
	switch gone := errors.Is(err, ErrGone); {
	case gone && there:
		k.Note = fmt.Sprintf("in the directory that is there, for what revision %d deleted is no longer in the trash as %s", p.revision, p.entry)
	case gone:
		return fmt.Sprintf("the directory of %s, which revision %d deleted, is no longer in the trash as %s, so it cannot be put back: %s", k.Name, p.revision, p.entry, otherwise), nil
	case err != nil:
		return "", err
	case there:
		return fmt.Sprintf("there is another %s than that which revision %d deleted, and which is in the trash as %s: delete the one that is there, or rename it, and roll back then", k.Name, p.revision, p.entry), nil
	default:
		k.From, k.Was = p.entry, &was
	}
	return "", nil
}
