package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Steps are what is to be done below a directory one after the other, until one
// fails. They cost a helper one request.
type Steps []Request

// Absent is a step that fails with fs.ErrExist where something is at rel.
func (s *Steps) Absent(rel string) { *s = append(*s, Request{Op: OpAbsent, Rel: rel}) }

// Mkdir is the step that Dir.Mkdir is, and so are the next.
func (s *Steps) Mkdir(rel string, mode uint32) {
	*s = append(*s, Request{Op: OpMkdir, Rel: rel, Mode: mode})
}

// WriteFile is Dir.WriteFile.
func (s *Steps) WriteFile(rel string, data []byte, how Write) {
	*s = append(*s, how.request(rel, data))
}

// SyncDir is Dir.SyncDir.
func (s *Steps) SyncDir(rel string) { *s = append(*s, Request{Op: OpSyncDir, Rel: rel}) }

// RenameNew is Dir.RenameNew.
func (s *Steps) RenameNew(from, to string) {
	*s = append(*s, Request{Op: OpRenameNew, Rel: from, To: to})
}

// Take takes the steps below d. It returns how many were done, and why the next one was not.
// Where a helper did not answer, nobody knows how many, and it is 0.
func (s Steps) Take(d *Dir) (done int, err error) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpTake, Steps: s})
		return a.Done, err
	}
	var a Answer
	s.take(d, &a)
	return a.Done, a.Failure.Err()
}

// take stops, too, at a step that is another's to take: Request.Whose.
func (s Steps) take(d *Dir, a *Answer) {
	for _, r := range s {
		var err error
		switch {
		case r.isAnothers(d, a):
			return
		case r.Op == OpAbsent:
			err = r.absent(d)
		case r.Op == OpMkdir, r.Op == OpWriteFile, r.Op == OpSyncDir, r.Op == OpRenameNew:
			err = r.carry(d, nil, a, nil)
		default:
			err = unix.EPROTO
		}
		if err != nil {
			a.Failure = FailureOf(err)
			return
		}
		a.Done++
	}
}

// ErrApart is the error of a step that is not taken together with others.
var ErrApart = errors.New("it is not written together with others")

// WriteFiles takes steps each of which is a WriteFile, all of them, whatever becomes of
// the others, and returns an error for each. They cost a helper one request. Those on
// another file system, which may not answer, fail with ErrApart: the others are not to
// wait for it.
func (s Steps) WriteFiles(d *Dir) []error {
	failures := make([]error, len(s))
	var a Answer
	if d.helper == nil {
		s.writeFiles(d, &a)
	} else {
		var err error
		if a, _, err = d.ask(Request{Op: OpWriteFiles, Steps: s}); err == nil && a.Done != len(s) {
			err = &Error{Do: "reach", Path: d.path, Err: unix.EPROTO}
		}
		for i := range failures {
			failures[i] = err
		}
	}
	for i := range failures {
		if f, failed := a.Failures[i]; failed {
			failures[i] = f.Err()
		}
	}
	return failures
}

func (s Steps) writeFiles(d *Dir, a *Answer) {
	a.Done, a.Failures, a.owners = len(s), map[int]Failure{}, map[int]uint32{}
	for i, r := range s {
		var one Answer
		if err := r.writeFile(d, &one); err != nil {
			a.Failures[i] = *FailureOf(err)
		}
		if one.Owner != 0 {
			a.owners[i] = one.Owner
		}
	}
}

func (r Request) writeFile(d *Dir, a *Answer) error {
	switch {
	case r.Op != OpWriteFile:
		return unix.EPROTO
	case !isOnSame(d.fd, r.Rel), r.isAnothers(d, a):
		return ErrApart
	}
	return r.carry(d, nil, a, nil)
}

func (r Request) absent(d *Dir) error {
	switch _, err := lstatBeneath(d.fd, r.Rel); err {
	case unix.ENOENT:
		return nil
	case nil:
		return d.fail("make", r.Rel, unix.EEXIST)
	default:
		return d.fail("read", r.Rel, err)
	}
}

// isAnothers tells whether a request is for somebody else to carry out, Request.Whose,
// and says for whom.
func (r Request) isAnothers(d *Dir, a *Answer) bool {
	if r.Whose == "" {
		return false
	}
	st, err := lstatBeneath(d.fd, r.Whose)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid < r.Low || st.Uid > r.High {
		return false
	}
	a.Owner = st.Uid
	return true
}
