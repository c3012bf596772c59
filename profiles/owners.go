package profiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/service"
)

// Owners are the users that profiles can have.
type Owners interface {
	// Auto tells whether a profile gets one.
	Auto() bool
	// Range is which uids they have, both ends included; 0: there are none.
	Range() (low, high uint32)
	// Services is the uid of those that have none.
	Services() uint32
	// Helper touches files with the rights of one.
	Helper(uid uint32) durable.Helper
	// Give gives a profile's directory to one, and Take gives it back to the
	// services' user, by a descriptor of it, and with all that is root's in it. Given
	// to its owner (0: the services' user), it is root's files alone.
	Give(uid uint32, directory int) (durable.Handed, error)
	Take(uid uint32, directory int) (durable.Handed, error)
	// Own gives root's files in the directory of a profile, or of all ("") and the directory
	// that they are in, to the services' user.
	Own(profile string) (durable.Handed, error)
	// Settle returns when nobody changes whose a directory is who was asked by another
	// supervisor, or says that somebody still does.
	Settle() error
}

func has(o Owners, uid uint32) bool {
	low, high := o.Range()
	return low != 0 && low <= uid && uid <= high
}

// ownerOf is the profile's user that a directory belongs to; 0: it is none's.
func ownerOf(home *durable.Dir, owners Owners, rel string) uint32 {
	if owners == nil {
		return 0
	}
	there, err := home.Lstat(rel)
	if err != nil || there.Type != fs.ModeDir || !has(owners, there.UID) {
		return 0
	}
	return there.UID
}

// Ownership is whose each profile's directory is: the services' user's, or that of a
// user of its own, whom the ledger of the records knows.
//
// Invariant: promised is above every uid that this Store has given a profile, whether
// or not that is recorded yet. A uid that the volume has, and the journal does not know, is
// nobody's to get: the journal was lost, or the directory is another volume's.
type Ownership struct {
	tree    *tree
	records *Records
	owners  Owners // nil: every profile is the services' user's

	mu       sync.Mutex
	promised uint32
	seen     map[uint32]bool // owners of the directories before any was given; nil: not looked for
}

// User is the uid of a profile's own user; 0: it has the services'. When it
// returns, that is recorded, and the directory is that user's.
func (o *Ownership) User(ctx context.Context, name string) (uint32, error) {
	if o.owners == nil || name == Default {
		return 0, nil
	}
	defer o.tree.names.lock(name)()
	l := o.records.ledger.Load()
	if l.journal == nil {
		if !o.owners.Auto() {
			return 0, nil
		}
		return 0, fmt.Errorf("profile %s has no user: it cannot be recorded: %w", name, l.refused)
	}
	dir := dirOf(name)
	there, err := o.tree.home.Lstat(dir)
	if err == nil && o.owners.Auto() {
		err = o.passable(profilesDir)
	}
	if err != nil {
		return 0, err
	}
	uid, recorded := l.userOf(name)
	if recorded && !has(o.owners, uid) && o.owners.Auto() {
		return 0, fmt.Errorf("profile %s has uid %d, which is not in profile_users any more; widen that, and restart the container", name, uid)
	}
	stands, elsewhere, err := o.stands(name, there, uid, recorded, l)
	if err != nil {
		return 0, err
	}
	switch what := stands.decide(); what {
	case leave:
		if !o.owners.Auto() {
			uid = 0
		}
		return uid, nil
	case takeBack:
		return 0, o.takeBack(dir)
	case allot, yield:
		if what == yield && elsewhere != trashDir {
			if err := l.user(ctx, userBody{Profile: elsewhere, UID: uid, From: name}); err != nil {
				return 0, err
			}
		}
		if uid, err = o.allot(ctx, name, l); err != nil {
			return 0, err
		}
	case adopt:
		uid = there.UID
		return uid, l.user(ctx, userBody{Profile: name, UID: uid})
	case follow:
		body := userBody{Profile: name, UID: there.UID}
		l.view(func() { body.From = l.users.whose(body.UID) })
		return body.UID, l.user(ctx, body)
	case refuseIt:
		return 0, o.notIts(name, there, l)
	}
	return uid, o.give(dir, uid)
}

// allot records a user for a profile that has none.
func (o *Ownership) allot(ctx context.Context, name string, l *ledger) (uid uint32, err error) {
	if uid, err = o.free(l); err != nil {
		return 0, fmt.Errorf("profile %s has no user: %w", name, err)
	}
	if err := l.user(ctx, userBody{Profile: name, UID: uid}); err != nil {
		return 0, fmt.Errorf("profile %s has no user: it cannot be recorded: %w", name, err)
	}
	return uid, nil
}

// aside gives an empty directory, which is to be a new profile's, to the user that this gets
// or had before: nobody else sees what is put there. The caller holds the name's lock.
func (o *Ownership) aside(name, temp string) error {
	if o.owners == nil || !o.owners.Auto() {
		return nil
	}
	l := o.records.ledger.Load()
	if l.journal == nil {
		return fmt.Errorf("profile %s has no user: it cannot be recorded: %w", name, l.refused)
	}
	uid, recorded := l.userOf(name)
	if recorded = recorded && has(o.owners, uid); recorded {
		elsewhere, err := o.elsewhere(uid, name)
		if err != nil {
			return err
		}
		recorded = elsewhere == ""
	}
	err := o.passable(profilesDir)
	if err == nil && !recorded {
		uid, err = o.allot(context.Background(), name, l)
	}
	if err != nil {
		return err
	}
	return o.give(temp, uid)
}

// stands is how a profile, its user and its directory stand, and the profile that has
// the directory of its user, or trashDir.
func (o *Ownership) stands(name string, there durable.Info, uid uint32, recorded bool, l *ledger) (is standing, elsewhere string, err error) {
	is = standing{auto: o.owners.Auto(), is: o.whose(there, uid, l), recorded: recorded}
	if is.auto && is.is == services && recorded {
		elsewhere, err = o.elsewhere(uid, name)
		is.elsewhere = elsewhere != ""
	}
	return is, elsewhere, err
}

// user records whose a profile is.
func (l *ledger) user(ctx context.Context, whose userBody) error {
	return l.append(ctx, false, journal.Entry{Type: TypeUser, Body: whose})
}

// free is a user that is nobody's, nor will be: several profiles may be asking
// for one before any is recorded.
func (o *Ownership) free(l *ledger) (uid uint32, err error) {
	low, high := o.owners.Range()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		seen := map[uint32]bool{}
		if err := o.each(func(_, _ string, uid uint32) { seen[uid] = true }); err != nil {
			return 0, err
		}
		o.seen = seen
	}
	for next := max(low, o.promised); ; next = uid + 1 {
		l.view(func() { uid = l.users.free(next, high) })
		if !o.seen[uid] {
			break
		}
	}
	if uid == 0 {
		return 0, fmt.Errorf("every id of %d-%d belongs, or belonged, to another profile; widen profile_users, and restart the container", low, high)
	}
	o.promised = uid + 1
	return uid, nil
}

// whose is whose a profile's directory is. uid is the profile's user; 0: it has none.
func (o *Ownership) whose(there durable.Info, uid uint32, l *ledger) owner {
	switch {
	case there.UID == o.owners.Services():
		return services
	case !has(o.owners, there.UID):
		return strangers
	case there.UID == uid:
		return itsOwn
	}
	other := ""
	l.view(func() { other = l.users.whose(there.UID) })
	if other == "" {
		return nobodys
	}
	theirs, err := o.tree.home.Lstat(dirOf(other))
	if errors.Is(err, fs.ErrNotExist) || err == nil && theirs.UID != there.UID {
		return departed
	}
	return others
}

// elsewhere is another profile whose directory is a user's: one that was renamed
// when nobody could record it; trashDir where one in the trash is; "": there is none.
func (o *Ownership) elsewhere(uid uint32, name string) (other string, err error) {
	err = o.each(func(parent, entry string, of uint32) {
		switch {
		case of != uid:
		case parent == trashDir:
			other = cmp.Or(other, trashDir)
		case entry != name && CheckName(entry, nil) == nil:
			other = entry
		}
	})
	return other, err
}

// each tells the user of each directory of a profile, and of each in the trash, that has one.
func (o *Ownership) each(tell func(parent, entry string, uid uint32)) error {
	for _, parent := range []string{profilesDir, trashDir} {
		entries, err := o.tree.home.ReadDir(parent, maxProfiles)
		if err != nil && !errors.Is(err, durable.ErrTooBig) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if uid := ownerOf(o.tree.home, o.owners, parent+"/"+e.Name); uid != 0 {
				tell(parent, e.Name, uid)
			}
		}
	}
	return nil
}

// notIts says why a profile cannot be given its directory.
func (o *Ownership) notIts(name string, there durable.Info, l *ledger) error {
	whose := ""
	l.view(func() {
		if other := l.users.whose(there.UID); other != "" && has(o.owners, there.UID) {
			whose = ", which is that of profile " + other
		}
	})
	return refuse(ErrBroken, "%s belongs to uid %d%s: it is not given to another; as root: chown -R %d %[1]s, if it is to be", o.tree.home.Path(dirOf(name)), there.UID, whose, o.owners.Services())
}

// passable has profiles' users get to their directories in another one.
func (o *Ownership) passable(parent string) error {
	above, err := o.tree.home.Lstat(parent)
	if err != nil || above.Perm&0o001 != 0 {
		return err
	}
	return o.tree.home.Chmod(parent, above.Perm|0o001)
}

// reach lets the profile's user that owns a directory get to it.
func (o *Ownership) reach(dir string) error {
	if ownerOf(o.tree.home, o.owners, dir) == 0 {
		return nil
	}
	return o.passable(path.Dir(dir))
}

// give gives a profile's directory to a user, alone: whatever is allowed below,
// nobody else gets there any more.
func (o *Ownership) give(dir string, uid uint32) error {
	if there, err := o.tree.home.Lstat(dir); err == nil && there.UID == o.owners.Services() && there.Perm&0o007 != 0 {
		if err := o.tree.home.Chmod(dir, there.Perm&^0o007); err != nil {
			return err
		}
	}
	_, err := o.handOver(dir, uid, o.owners.Give)
	return err
}

// takeBack makes a directory of a profile's user the services' again.
func (o *Ownership) takeBack(dir string) error {
	if err := o.owners.Settle(); err != nil {
		return err
	}
	_, err := o.handOver(dir, ownerOf(o.tree.home, o.owners, dir), o.owners.Take)
	return err
}

// complete ends a hand-over of a directory that was cut short: it is its user's whole, or
// the services' where profiles have no users any more. Its owner can be reached then.
func (o *Ownership) complete(dir string) error {
	if o.owners == nil {
		return nil
	}
	if err := o.owners.Settle(); err != nil {
		return err
	}
	if uid := o.partlyOf(dir); uid != 0 {
		over := o.owners.Take
		if o.owners.Auto() {
			over = o.owners.Give
		}
		if _, err := o.handOver(dir, uid, over); err != nil {
			return err
		}
	}
	return o.reach(dir)
}

// move has a directory lie in another one, durably, if nothing is there: a profile in the
// trash, or one from there. Its owner stays the same. The kernel asks for the right to write
// to the directory itself, since its entry for the parent changes (rename(2)). The services'
// user, to which both parents belong, does not have that right, and the owner has none to the
// parents. So all may write to it meanwhile: without the right to enter it, nobody can make,
// remove or read anything in it by that.
func (o *Ownership) move(from, to string) error {
	uid := ownerOf(o.tree.home, o.owners, from)
	if uid == 0 || path.Dir(from) == path.Dir(to) {
		return o.tree.home.RenameNew(from, to)
	}
	there, err := o.tree.home.Lstat(from)
	if err != nil {
		return err
	}
	as := o.tree.home.By(o.owners.Helper(uid))
	if err := as.Chmod(from, there.Perm&^0o001|0o002); err != nil {
		return err
	}
	err = o.tree.home.RenameNew(from, to)
	if errors.Is(err, durable.ErrInDoubt) {
		return err
	}
	at := to
	if err != nil {
		at = from
	} else {
		o.tree.told.failure(o.reach(to))
	}
	o.tree.told.failure(as.Chmod(at, there.Perm&^0o002))
	return err
}

// partlyOf is the profile's user whose entries a directory of the services' user has;
// 0: it has none, or is not that one's.
func (o *Ownership) partlyOf(dir string) uint32 {
	there, err := o.tree.home.Lstat(dir)
	if err != nil || there.Type != fs.ModeDir {
		return 0
	}
	entries, err := o.tree.home.ReadDir(dir, maxProfiles)
	if err != nil && !errors.Is(err, durable.ErrTooBig) {
		return 0
	}
	return cutShort(there.UID, o.owners, func(yield func(uint32) bool) {
		for _, e := range entries {
			if of, err := o.tree.home.Lstat(dir + "/" + e.Name); err == nil && !yield(of.UID) {
				return
			}
		}
	})
}

// finish is complete for each reader of a profile's directory. It tells whether something was
// done. The caller holds the name's lock.
func (o *Ownership) finish(name string) bool {
	if o.owners == nil || name == Default || o.partlyOf(dirOf(name)) == 0 {
		return false
	}
	if err := o.complete(dirOf(name)); err != nil {
		o.tree.told.once(err.Error())
		return false
	}
	return true
}

// copyFrom copies a profile's directory aside. Its own user reads it, and the user of the new
// profile writes the copy: no other user can read it.
func (o *Ownership) copyFrom(source *durable.Dir, dir, temp string) error {
	how := durable.Copy{DirMode: dirMode, Pass: true}
	if o.owners != nil {
		how.Reader = cmp.Or(ownerOf(o.tree.home, o.owners, dir), o.owners.Services())
	}
	return o.tree.home.CopyTree(source, temp, how)
}

// removeAll removes what is no profile any more, or was not yet one, with what root has left
// in it.
func (o *Ownership) removeAll(rel string) error {
	in := o.tree.dirFor(rel)
	err := in.RemoveAll(rel)
	if in != o.tree.home || o.owners == nil || !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return err
	}
	uid := ownerOf(o.tree.home, o.owners, rel)
	if uid == 0 {
		uid = o.partlyOf(rel)
	}
	if _, failed := o.handOver(rel, uid, o.owners.Give); failed != nil {
		return err
	}
	return o.tree.home.RemoveAll(rel)
}

// cleanTemps removes from a directory what was never finished. Only for a time when nobody
// else writes there.
func (o *Ownership) cleanTemps(dir string) (first error) {
	entries, err := o.tree.dirFor(dir).ReadDirOf(dir, maxProfiles, func(e durable.Entry) bool { return durable.IsTemp(e.Name) })
	if !errors.Is(err, durable.ErrTooBig) {
		first = err
	}
	for _, e := range entries {
		first = cmp.Or(first, o.removeAll(below(dir, e.Name)))
	}
	return first
}

func (o *Ownership) handOver(dir string, uid uint32, over func(uid uint32, fd int) (durable.Handed, error)) (did durable.Handed, err error) {
	fd, err := o.tree.home.Handle(dir)
	if err != nil {
		return did, err
	}
	defer unix.Close(fd)
	if did, err = over(uid, fd); err != nil {
		err = fmt.Errorf("cannot change the owner of %s: %w", o.tree.home.Path(dir), err)
	}
	return did, err
}

// Find is the name of the profile that a person means by its own, or by that of its service,
// by the look of its directory alone: what is in it may be root's.
func (o *Ownership) Find(name string) (profile string, there bool) {
	for _, as := range []string{name, strings.TrimPrefix(name, service.GatewayPrefix)} {
		if checkForm(as) != nil {
			continue
		}
		if _, err := o.tree.home.Lstat(dirOf(as)); !errors.Is(err, fs.ErrNotExist) {
			return as, true
		}
	}
	return "", false
}

// Repairable are the directories of all profiles, for root, who repairs each. Files whose owner
// had to be changed to look at them are counted beside.
func (o *Ownership) Repairable() (names []string, did durable.Handed, err error) {
	if o.owners == nil {
		return nil, did, o.cannot(profilesDir)
	}
	list := func() error {
		entries, err := o.tree.home.ReadDirOf(profilesDir, maxProfiles, func(e durable.Entry) bool {
			return checkForm(e.Name) == nil && (e.Type == fs.ModeDir || e.Type == fs.ModeIrregular)
		})
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return err
	}
	if err = list(); errors.Is(err, unix.EACCES) || err == nil && len(names) == 0 {
		// No lock is held: there is no profile, or none to which the services get, and so
		// none that is given to anybody.
		if did, err = o.own(""); err == nil {
			err = list()
		}
	}
	return names, did, err
}

// own is the Owners' Own.
func (o *Ownership) own(name string) (did durable.Handed, err error) {
	if did, err = o.owners.Own(name); err != nil {
		err = fmt.Errorf("cannot change owners in %s: %w", o.tree.home.Path(profilesDir), err)
	}
	return did, err
}

// cannot is why no owner is changed: there is one user for us and the services.
func (o *Ownership) cannot(rel string) error {
	return refuse(ErrBroken, "rlminit can change no owners here: it has not the rights of root that takes; as root: chown -R %d %s", os.Geteuid(), o.tree.home.Path(rel))
}

// Repair has all that is root's in a profile's directory be whose the directory is: its
// own user's, or the services'. Files with several names are left alone, and named. If root
// asks, a directory that is root's itself becomes the services', and so does the one that
// holds the profiles: as after a volume was restored without its owners.
func (o *Ownership) Repair(name string, root bool) (did durable.Handed, err error) {
	dir := dirOf(name)
	switch {
	case name == Default:
		return did, refuse(ErrName, "the profile %q is the volume itself, whose owners own in the configuration puts right at boot", name)
	case o.owners == nil:
		return did, o.cannot(dir)
	}
	defer o.tree.names.lock(name)()
	if root && (o.roots(dir) || o.roots(profilesDir)) {
		if did, err = o.own(name); err != nil {
			return did, err
		}
	}
	o.finish(name)
	there, err := o.tree.home.Lstat(dir)
	if err != nil {
		return did, err
	}
	services, to := o.owners.Services(), there.UID
	switch {
	case there.UID == services:
		to = 0
	case there.UID == 0 && !root:
		return did, refuse(ErrBroken, "%s is root's, and only root may give it away: docker exec -u 0 CONTAINER rlminit profile repair %s", o.tree.home.Path(dir), name)
	case !has(o.owners, there.UID):
		return did, refuse(ErrBroken, "%s belongs to uid %d, and is not taken from that; as root: chown -R %d %[1]s", o.tree.home.Path(dir), there.UID, services)
	}
	more, err := o.handOver(dir, to, o.owners.Give)
	more.Changed += did.Changed
	more.Left = slices.Compact(slices.Concat(did.Left, more.Left))
	return more, err
}

// roots tells whether a directory is root's, or cannot be looked at.
func (o *Ownership) roots(dir string) bool {
	there, err := o.tree.home.Lstat(dir)
	return err == nil && there.UID == 0 || errors.Is(err, unix.EACCES)
}

// userOf is the recorded user of a profile.
func (l *ledger) userOf(name string) (uid uint32, known bool) {
	l.view(func() { uid, known = l.users.of(name) })
	return uid, known
}

// Recorded is the recorded user of a profile; 0: it has none of its own, or none yet.
func (o *Ownership) Recorded(name string) uint32 {
	l := o.records.ledger.Load()
	if o.owners == nil || !o.owners.Auto() {
		return 0
	}
	uid, _ := l.userOf(name)
	return uid
}
