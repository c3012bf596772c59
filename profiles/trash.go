package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/profiles/secrets"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

// Trash is where profiles lie that were deleted, each under its name and the time, or
// the number of the revision that has done it.
// Each keeps its owner there: the profile's own user, where it has one.
//
// Whoever takes an entry out of it, to make a profile of it again or to remove it, does so
// by one rename, and holds no lock of it: the first has it, and the other finds nothing.
//
//	a purge beside                   comes to
//	a restore of the entry           whose rename is first has it; the other is refused, with
//	                                 ErrNotFound, and leaves nothing
//	one that gives up at the end     the entry is back; a purge in between was refused
//	a rollback that takes it         package revision: one of them has begun, the other is refused
//	a deletion                       both; the new entry may have the name of the one that is gone
//	                                 only if both were made in the same second
//	another purge                    as a restore
//	a kill before the rename         the entry, whole
//	a kill after it                  nothing of it in the trash; what is left has a name by which
//	                                 the next supervisor, and a boot, remove it
//	a disk that fails at the rename  the entry, whole; or ErrInDoubt, and one of the two
//	the same later                   nothing of it in the trash; what is left is named, and as above
//	a volume that is read-only       the entry, whole
//	a mount point, a lower layer     the entry, whole: what cannot be moved is not removed by halves
//	a link, a file                   it is removed itself, and nothing behind it
//	a name that is no entry's        ErrNotFound, without a look at the volume
type Trash struct {
	tree      *tree
	ownership *Ownership
}

// Trashed is a profile in the trash.
type Trashed struct {
	Entry   string // the directory's name there
	Profile string
	At      time.Time // when it was deleted

	Revision int // that has moved it there; 0: a person has
}

// trashEntry is the name of one: that of the profile, the time, and a number
// where there are several of one second.
var trashEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)-(\d{8}T\d{6}Z)(?:-\d+)?$`) })

// revisionEntry is the name of one that a revision has moved: RevisionEntry.
var revisionEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)-revision-([1-9]\d{0,8})$`) })

// RevisionEntry is the name in the trash of a profile that a revision has moved there.
func RevisionEntry(profile string, revision int) string {
	return fmt.Sprintf("%s-revision-%d", profile, revision)
}

// Look tells what the definition of a profile in the trash is, nil if it has none that
// can be read, and what was wanted of it. It fails with fs.ErrNotExist where the trash
// does not have it.
func (t *Trash) Look(entry string) (text []byte, intent service.Intent, err error) {
	dir := trashDir + "/" + entry
	_, err = t.tree.home.Lstat(dir)
	if err == nil {
		err = t.ownership.reach(dir)
	}
	if err != nil {
		return nil, service.IntentNone, err
	}
	text, err = t.tree.home.ReadFile(dir+"/"+overridesFile, maxOverrides)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooBig),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		text = nil
	case err != nil:
		return nil, service.IntentNone, err
	}
	state, err := statefile.Read(t.tree.home, dir+"/"+t.tree.settings.Load().StateFile)
	return text, state.Desired, err
}

// List lists the trash, by profile, the newest of each last.
func (t *Trash) List() ([]Trashed, error) {
	entries, err := t.tree.home.ReadDir(trashDir, maxProfiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, durable.ErrTooBig) {
		return nil, err
	}
	var list []Trashed
	for _, e := range entries {
		if one, ok := t.entry(e.Name); ok {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b Trashed) int {
		if a.Profile != b.Profile {
			return strings.Compare(a.Profile, b.Profile)
		}
		if n := a.At.Compare(b.At); n != 0 {
			return n
		}
		if n := len(a.Entry) - len(b.Entry); n != 0 {
			return n // …Z, …Z-2, …Z-10
		}
		return strings.Compare(a.Entry, b.Entry)
	})
	return list, nil
}

// entry is what the name of one says. When a revision has moved it there no name tells,
// but the directory does: the rename is what changed it last.
func (t *Trash) entry(name string) (one Trashed, ok bool) {
	if m := trashEntry().FindStringSubmatch(name); m != nil {
		at, err := time.Parse("20060102T150405Z", m[2])
		return Trashed{Entry: name, Profile: m[1], At: at}, err == nil && ValidName(m[1])
	}
	m := revisionEntry().FindStringSubmatch(name)
	if m == nil || !ValidName(m[1]) {
		return one, false
	}
	revision, err := strconv.Atoi(m[2])
	if err != nil {
		return one, false
	}
	info, err := t.tree.home.Lstat(trashDir + "/" + name)
	return Trashed{Entry: name, Profile: m[1], At: info.Changed.UTC().Truncate(time.Second), Revision: revision}, err == nil && info.Type == fs.ModeDir
}

// profileOf is the profile's name in that of an entry, which need not be there; "": it is
// none's.
func profileOf(entry string) string {
	for _, form := range []*regexp.Regexp{trashEntry(), revisionEntry()} {
		if m := form.FindStringSubmatch(entry); m != nil {
			return m[1]
		}
	}
	return ""
}

// find finds the entry that a person means: by its own name, or the newest of
// a profile's.
func (t *Trash) find(name string) (Trashed, error) {
	list, err := t.List()
	if err != nil {
		return Trashed{}, err
	}
	for _, t := range slices.Backward(list) {
		if t.Entry == name || t.Profile == name {
			return t, nil
		}
	}
	return Trashed{}, notThere(name)
}

// make makes the trash. Any service may have put something else in its place,
// and that keeps nobody from deleting.
func (t *Trash) make() error {
	err := t.tree.home.MkdirAll(trashDir, dirMode)
	if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	kept, moved := moveNew(t.tree.home, trashDir, t.tree.dated(trashDir+".in-the-way-"))
	if moved != nil {
		return err
	}
	t.tree.told.say(fmt.Sprintf("%s was no directory; it is now %s", t.tree.home.Path(trashDir), t.tree.home.Path(kept)))
	return t.tree.home.MkdirAll(trashDir, dirMode)
}

// take moves the profile into the trash, with its secrets.
func (t *Trash) take(dir, name string, keeps *secrets.Sets) (to string, err error) {
	const tries = 1000
	base := strings.TrimPrefix(t.tree.dated(trashDir+"/"+name+"-"), trashDir+"/")
	for i, entry := 1, base; ; i, entry = i+1, fmt.Sprintf("%s-%d", base, i+1) {
		if _, err := t.tree.home.Lstat(trashDir + "/" + entry); err == nil && i < tries {
			continue // whose secrets stay its own
		}
		err := t.put(dir, name, entry, keeps)
		if !errors.Is(err, unix.EEXIST) || i >= tries {
			return t.tree.home.Path(trashDir + "/" + entry), err
		}
	}
}

// put moves a profile's directory into the trash, as an entry. Its secrets are there before
// it, so that a kill leaves them under both names.
func (t *Trash) put(dir, name, entry string, keeps *secrets.Sets) error {
	if err := t.make(); err != nil {
		return err
	}
	err := t.ownership.complete(dir)
	if err == nil {
		err = keeps.Bury(name, entry)
	}
	if err == nil {
		err = t.ownership.move(dir, trashDir+"/"+entry)
	}
	if err != nil && !errors.Is(err, durable.ErrInDoubt) {
		keeps.Forget(secrets.Trashed(entry))
	}
	return err
}

// purge removes the profile for good. left is what could not be removed.
func (t *Trash) purge(dir string) (left string, err error) {
	if err := t.ownership.complete(dir); err != nil {
		return "", err
	}
	temp, err := t.aside(dir)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EBUSY) {
		// A directory of an overlay's lower layer cannot be moved, a mount
		// point neither. Without its marker it is no profile any more.
		temp = dir
		marker := dir + "/" + t.tree.settings.Load().Marker
		err = t.tree.home.RenameNew(marker, dir+"/"+durable.TempName())
	}
	if err != nil {
		return "", err
	}
	return t.remove(temp), nil
}

// aside moves a directory out of sight that is to be removed, so that it is gone at once and
// whole; PrepareBoot removes the rest after a crash.
func (t *Trash) aside(dir string) (temp string, err error) {
	temp = profilesDir + "/" + durable.TempName()
	return temp, t.ownership.move(dir, temp)
}

// remove removes directories out of sight. left are the paths that could not be removed.
func (t *Trash) remove(temp string) (left string) {
	if err := t.ownership.removeAll(temp); err != nil {
		t.tree.told.once(err.Error())
		return t.tree.home.Path(temp)
	}
	t.tree.told.failure(t.tree.home.SyncDir(profilesDir)) // after a power cut the next boot may have to remove it again
	return ""
}

// takeOut moves an entry out of the trash, and out of sight.
func (t *Trash) takeOut(entry string) (temp string, err error) {
	dir := trashDir + "/" + entry
	if err = t.ownership.complete(dir); err == nil {
		err = t.tree.home.MkdirAll(profilesDir, dirMode)
	}
	if err == nil {
		temp, err = t.aside(dir)
	}
	return temp, t.missed(entry, err)
}

// missed is the error of an act on an entry, which may not be there any more.
func (t *Trash) missed(entry string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, gone := t.tree.home.Lstat(trashDir + "/" + entry); errors.Is(gone, fs.ErrNotExist) {
		return notThere(entry)
	}
	return err
}

func notThere(name string) error {
	return refuse(ErrNotFound, "%s is not in the trash; rlminit profile list --trash shows what is", document.Quote(name))
}
