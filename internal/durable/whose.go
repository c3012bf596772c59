package durable

import (
	"path"

	"golang.org/x/sys/unix"
)

// CarryAs is Carry as a user; as does something as one. What lies in the directory of
// another (Request.Whose) is done as that one, and what concerns many as each of UIDs. The
// directory itself is emptied as that one, and then removed as the user, which has the parent.
func CarryAs(uid uint32, r Request, fds []int, as func(uid uint32, do func()) error) (a Answer, opened []int) {
	one := func(uid uint32, r Request) (a Answer, opened []int) {
		if err := as(uid, func() { a, opened = Carry(r, fds) }); err != nil {
			a = Answer{Failure: FailureOf(err)}
		}
		return a, opened
	}
	if len(r.UIDs) > 0 {
		return r.each(one), nil
	}
	if r.Op == OpCopyTree && r.Reader != 0 {
		return r.copyAs(uid, fds, as), nil
	}
	a, opened = one(uid, r)
	if a.Owner != 0 && r.Op == OpRemoveAll && path.Clean(r.Rel) == path.Clean(r.Whose) {
		r.Whose = ""
		below := r
		below.Op = OpEmpty
		if a, _ = one(a.Owner, below); a.Failure == nil {
			a, _ = one(uid, r)
		}
		return a, nil
	}
	if a.Owner != 0 && r.Op != OpTake {
		r.Whose = ""
		return one(a.Owner, r)
	}
	for done := a.Done; a.Owner != 0; a.Done = done {
		step, rest := r, r
		step.Steps = Steps{r.Steps[done]}
		step.Steps[0].Whose = ""
		a, _ = one(a.Owner, step)
		if done += a.Done; a.Failure == nil && done < len(r.Steps) {
			rest.Steps = r.Steps[done:]
			a, _ = one(uid, rest)
			done += a.Done
		}
	}
	for i, owner := range a.owners {
		step := r
		step.Steps = Steps{r.Steps[i]}
		step.Steps[0].Whose = ""
		got, _ := one(owner, step)
		delete(a.Failures, i)
		if f, failed := got.Failures[0]; failed {
			a.Failures[i] = f
		} else if got.Failure != nil {
			a.Failures[i] = *got.Failure
		}
	}
	return a, opened
}

// copyAs is an OpCopyTree with two users, the reader of the source and the writer of the copy:
// nobody gets to see what is in it meanwhile.
func (r Request) copyAs(uid uint32, fds []int, as func(uid uint32, do func()) error) (a Answer) {
	if len(fds) != 2 {
		return Answer{Failure: FailureOf(unix.EPROTO)}
	}
	d := &Dir{fd: fds[0], path: r.Base}
	err := as(uid, func() { r.isAnothers(d, &a) })
	if a.Owner != 0 {
		uid = a.Owner
	}
	if err == nil && r.Again {
		err = as(uid, func() { r.isDone(d, &a) })
	}
	if err == nil {
		how := Copy{DirMode: r.Mode, Pass: r.Loose}
		how.read = func(do func()) error { return as(r.Reader, do) }
		how.write = func(do func()) error { return as(uid, do) }
		err = d.CopyTree(&Dir{fd: fds[1], path: r.From}, r.To, how)
	}
	return Answer{Failure: FailureOf(err)}
}

// each carries out what concerns many, for one after the other. One for which it cannot be
// done takes a closer look.
func (r Request) each(as func(uint32, Request) (Answer, []int)) (a Answer) {
	for i, uid := range r.UIDs[:min(len(r.Rels), len(r.UIDs))] {
		one := r
		one.UIDs, one.Rels = nil, r.Rels[i:i+1]
		got, _ := as(uid, one) // what concerns many opens nothing
		if got.Failure != nil {
			got = missed(one)
		}
		a.Glances, a.Entries = append(a.Glances, got.Glances...), append(a.Entries, got.Entries...)
	}
	return a
}

// missed answers an OpGlances or OpTidy that nobody could carry out: each of the
// directories takes a closer look.
func missed(r Request) (a Answer) {
	for _, name := range r.Rels {
		if r.Op == OpTidy {
			a.Entries = append(a.Entries, Entry{Name: name})
		} else {
			a.Glances = append(a.Glances, Glance{Odd: true})
		}
	}
	return a
}
