package profiles

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// byOwner does what is asked for below the volume's directory: in a profile's
// directory, or that of one in the trash, with the rights of its owner, and
// anywhere else with those of the services' user.
type byOwner struct {
	home     *durable.Dir // with the rights of the services' user
	user     durable.Helper
	owners   Owners
	recorded func(profile string) uint32 // its user; 0: it has none
}

// Do is durable.Helper's. The services' user looks whose a directory is, and whose it is
// carries the request out.
func (b byOwner) Do(r durable.Request, fds ...int) (durable.Answer, []int, error) {
	switch r.Op {
	case durable.OpGlances, durable.OpTidy:
		if r.Base == b.home.Path(profilesDir) {
			return b.each(r, fds...)
		}
	case durable.OpTake, durable.OpWriteFiles:
		r.Steps = slices.Clone(r.Steps)
		for i := range r.Steps {
			step := &r.Steps[i]
			step.Base = r.Base
			if dir := b.owned(step); dir != "" && !b.whose(step, dir) {
				return durable.Answer{Failure: durable.FailureOf(unix.EPROTO)}, nil, nil // nobody takes steps there
			}
		}
		return b.user.Do(r, fds...)
	}
	if dir := b.owned(&r); dir != "" && !b.whose(&r, dir) {
		if uid := ownerOf(b.home, b.owners, dir); uid != 0 {
			return b.owners.Helper(uid).Do(r, fds...)
		}
	}
	return b.user.Do(r, fds...)
}

// whose has a request in the directory of a profile say so; false: it cannot.
func (b byOwner) whose(r *durable.Request, dir string) bool {
	switch r.Base {
	case b.home.Path("."):
		r.Whose = dir
	case b.home.Path(path.Dir(dir)):
		r.Whose = path.Base(dir)
	case b.home.Path(dir):
		r.Whose = "."
	default:
		return false
	}
	if r.Low, r.High = b.owners.Range(); r.Low == 0 {
		r.Whose = ""
	}
	return true
}

// each does what concerns many profiles, in one request. A directory that is not of the
// user who is recorded takes a closer look, as any odd one does.
func (b byOwner) each(r durable.Request, fds ...int) (a durable.Answer, opened []int, err error) {
	owned := false
	for _, name := range r.Rels {
		uid := b.recorded(name)
		owned = owned || uid != 0
		if uid == 0 {
			uid = b.owners.Services()
		}
		r.UIDs = append(r.UIDs, uid)
	}
	if !owned { // as one user it is done at once
		r.UIDs = nil
	}
	return b.user.Do(r, fds...)
}

// owned is the directory of a profile, or of one in the trash, where a request acts;
// "": it acts in none.
func (b byOwner) owned(r *durable.Request) string {
	rel := r.Rel
	if r.Op == durable.OpCopyTree {
		rel = r.To
	}
	at := filepath.Join(r.Base, rel)
	for _, all := range []string{profilesDir, trashDir} {
		below, ok := strings.CutPrefix(at, b.home.Path(all)+"/")
		if !ok {
			continue
		}
		name, within, _ := strings.Cut(below, "/")
		switch r.Op {
		case durable.OpOpenDir, durable.OpReadDir, durable.OpSyncDir, durable.OpCopyTree, durable.OpWritable, durable.OpRemoveAll:
			return all + "/" + name // the directory itself too
		}
		if within != "" {
			return all + "/" + name
		}
	}
	return ""
}
