package profiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// to whose it is (0: the services' user), it is what is root's alone.
	Give(uid uint32, directory int) (durable.Handed, error)
	Take(uid uint32, directory int) (durable.Handed, error)
	// Own has what is root's in the directory of a profile, or of all ("") and the directory
	// that they are in, be the services' user's.
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
// or not that is recorded yet.
type Ownership struct {
	tree    *tree
	records *Records
	owners  Owners // nil: every profile is the services' user's

	mu       sync.Mutex
	promised uint32
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
		err = o.passable()
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
		if what == yield {
			if err := l.user(ctx, userBody{Profile: elsewhere, UID: uid, From: name}); err != nil {
				return 0, err
			}
		}
		if uid, err = o.free(l); err != nil {
			return 0, fmt.Errorf("profile %s has no user: %w", name, err)
		}
		if err := l.user(ctx, userBody{Profile: name, UID: uid}); err != nil {
			return 0, fmt.Errorf("profile %s has no user: it cannot be recorded: %w", name, err)
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

// stands is how a profile, its user and its directory stand, and the profile that has
// the directory of its user.
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
	l.view(func() { uid = l.users.free(max(low, o.promised), high) })
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
// when nobody could record it; "": there is none.
func (o *Ownership) elsewhere(uid uint32, name string) (other string, err error) {
	entries, err := o.tree.home.ReadDir(profilesDir, maxProfiles)
	if err != nil && !errors.Is(err, durable.ErrTooBig) {
		return "", err
	}
	for _, e := range entries {
		if e.Name == name || CheckName(e.Name, nil) != nil {
			continue
		}
		if ownerOf(o.tree.home, o.owners, dirOf(e.Name)) == uid {
			return e.Name, nil
		}
	}
	return "", nil
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

// passable has profiles' users get to their directories.
func (o *Ownership) passable() error {
	above, err := o.tree.home.Lstat(profilesDir)
	if err != nil || above.Perm&0o001 != 0 {
		return err
	}
	return o.tree.home.Chmod(profilesDir, above.Perm|0o001)
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

// takeBack makes a directory the services' again, if it is a profile's, or was when a
// walk that gave it, or took it back, was cut short.
func (o *Ownership) takeBack(dir string) error {
	if o.owners == nil {
		return nil
	}
	if err := o.owners.Settle(); err != nil {
		return err
	}
	uid := ownerOf(o.tree.home, o.owners, dir)
	if uid == 0 {
		uid = o.partlyOf(dir)
	}
	if uid == 0 {
		return nil
	}
	_, err := o.handOver(dir, uid, o.owners.Take)
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

// finish ends, for whoever meets it, a hand-over of a profile's directory that was cut
// short: it is the services' again, whole, and given when its service starts. It tells
// whether something was done. The caller holds the name's lock.
func (o *Ownership) finish(name string) bool {
	if o.owners == nil || name == Default || o.partlyOf(dirOf(name)) == 0 {
		return false
	}
	if err := o.takeBack(dirOf(name)); err != nil {
		o.tree.told.once(err.Error())
		return false
	}
	return true
}

// copyFrom copies a profile's directory aside. Who may read one that is its own
// user's is that user, who is given the copy to write it, and only for that.
func (o *Ownership) copyFrom(source *durable.Dir, temp string, uid uint32) error {
	if uid != 0 {
		if err := o.give(temp, uid); err != nil {
			return err
		}
	}
	if err := o.tree.home.CopyTree(source, temp, durable.Copy{DirMode: dirMode, Pass: true}); err != nil {
		return err
	}
	return o.takeBack(temp)
}

// takeBackTemps has what is not finished in a directory be the services', who remove
// it: a clone was its profile's while it was made.
func (o *Ownership) takeBackTemps(dir string) {
	if o.owners == nil || dir != profilesDir {
		return
	}
	entries, err := o.tree.home.ReadDirOf(dir, maxProfiles, func(e durable.Entry) bool { return durable.IsTemp(e.Name) })
	if err != nil {
		return // who cleans up says it
	}
	for _, e := range entries {
		o.tree.told.failure(o.takeBack(dir + "/" + e.Name))
	}
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

// mend is Repair of what is not a profile any more, after err was met there. Nil: it is
// worth another try.
func (o *Ownership) mend(dir string, err error) error {
	if o.owners == nil || !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return err
	}
	_, failed := o.handOver(dir, 0, o.owners.Give)
	return failed
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
