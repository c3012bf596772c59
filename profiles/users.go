package profiles

import (
	"encoding/json"
	"iter"

	"rlminit/journal"
)

// TypeUser is the record of a profile's user: a "uid", which is no other profile's
// ever. With "from" it was that one's, whose directory has this name now.
const TypeUser = "profile_user"

type userBody struct {
	Profile string `json:"profile"`
	UID     uint32 `json:"uid"`
	From    string `json:"from,omitempty"`
}

// Users is the fold of the profiles' users. That of a profile that is
// deleted stays its name's, so that it is the same when it is restored; a new profile of
// the name gets another one while the trash has a directory of that user's.
type Users struct {
	by   map[string]uint32
	next uint32 // Invariant: above each that was ever given
}

// UsersSection is the fold's name.
const UsersSection = "users"

// NewUsers knows of no user.
func NewUsers() *Users { return &Users{by: map[string]uint32{}} }

// Apply is journal.Fold's.
func (u *Users) Apply(r journal.Record) {
	switch r.Type {
	case TypeUser:
		var b userBody
		if r.Decode(&b) == nil && b.UID != 0 {
			delete(u.by, b.From)
			u.by[b.Profile] = b.UID
			u.next = max(u.next, b.UID+1)
		}
	case TypeRenamed:
		var p profileBody
		if r.Decode(&p) != nil {
			return
		}
		if uid, has := u.by[p.Profile]; has {
			delete(u.by, p.Profile)
			u.by[p.To] = uid
		}
	}
}

type usersSection struct {
	By   map[string]uint32 `json:"by"`
	Next uint32            `json:"next"`
}

// Snapshot is journal.Fold's.
func (u *Users) Snapshot() any { return usersSection{u.by, u.next} }

// Restore is journal.Fold's.
func (u *Users) Restore(section json.RawMessage) error {
	s := usersSection{By: map[string]uint32{}}
	if err := json.Unmarshal(section, &s); err != nil {
		return err
	}
	u.by, u.next = s.By, s.Next
	return nil
}

// of is the user of a profile.
func (u *Users) of(profile string) (uid uint32, known bool) {
	uid, known = u.by[profile]
	return uid, known
}

// whose is the profile that has a user; "": none.
func (u *Users) whose(uid uint32) string {
	for name, is := range u.by {
		if is == uid {
			return name
		}
	}
	return ""
}

// free is the next user of a range that was never any profile's; 0: there is none.
func (u *Users) free(low, high uint32) uint32 {
	next := low
	for _, uid := range u.by {
		if low <= uid && uid <= high {
			next = max(next, uid+1)
		}
	}
	if low <= u.next && u.next <= high+1 {
		next = max(next, u.next)
	}
	if low == 0 || next > high {
		return 0
	}
	return next
}

// cutShort is the profile's user to or from whom a directory was on its way when that
// was cut short; 0: it was not. top is whose it is, entries whose is what lies in it
// itself: durable.HandOver sees to it that these tell.
func cutShort(top uint32, owners Owners, entries iter.Seq[uint32]) uint32 {
	if top != owners.Services() {
		return 0
	}
	for uid := range entries {
		if has(owners, uid) {
			return uid
		}
	}
	return 0
}

// standing is how a profile's directory stands to its user: whose it is, and whose
// it should be.
type standing struct {
	auto      bool // profiles have users of their own
	is        owner
	recorded  bool // the profile has a user
	elsewhere bool // whose another directory is, or one in the trash
}

// owner is whose a directory is.
type owner uint8

const (
	services  owner = iota // the services' user's
	itsOwn                 // the profile's own
	others                 // that of another profile, whose directory is its own too
	departed               // that of another profile, which has no such directory: this is it, renamed
	nobodys                // a profile's without a record: of another volume
	strangers              // a user's that is no profile's
	owners
)

// measure is the act before the profile's user touches it.
type measure uint8

const (
	leave    measure = iota // it is as it should be
	allot                   // a user is recorded, and then the directory given
	give                    // the directory is given to the recorded user
	yield                   // that user is recorded for the other directory, unless it is in the trash, and then as allot
	adopt                   // the directory's user is recorded
	follow                  // the same, and no more for the other name
	takeBack                // the directory is given back to the services
	refuseIt                // it is not for us to say whose it is
)

// decide is every case. Nothing is ever given that is not the services', and a user
// goes where its directory has gone, so that whoever can rename directories gets no
// profile's files for another one. A kill between record and gift leaves a directory
// that is the services', with a user recorded: give. One that is partly given, or
// partly taken back, is the services' too, and may not be readable: whoever reads it
// takes it back, whole, first.
func (s standing) decide() measure {
	switch {
	case !s.auto && (s.is == itsOwn || s.is == departed || s.is == nobodys):
		return takeBack
	case !s.auto && s.is == others:
		return refuseIt
	case !s.auto:
		return leave
	case s.is == itsOwn:
		return leave
	case s.is == services && s.recorded && s.elsewhere:
		return yield
	case s.is == services && s.recorded:
		return give
	case s.is == services:
		return allot
	case s.is == departed:
		return follow
	case s.is == nobodys:
		return adopt
	}
	return refuseIt
}
