// Package places says where the directory is that a profile had at some time, whatever its
// name is by now, as the journal's records of profiles tell: a pure fold. Who follows
// directories keeps the place of each, and takes the moves of each record.
package places

import "strings"

// The types of records that tell of directories, each of one "profile".
const (
	TypeCreated = "profile_created" // "restored": from that entry of the trash
	TypeDeleted = "profile_deleted" // "trash": into that entry
	TypeRenamed = "profile_renamed" // "to" that name
	TypePurged  = "profile_purged"  // "trash": that entry
)

// Place is where a directory is:
//
//	profiles/NAME  a profile's, by its name now
//	trash/ENTRY    in the trash
//	gone           nowhere, or nobody knows
type Place string

// Gone is the place of what is not there any more.
const Gone Place = "gone"

// Nowhere is where a directory comes from that was not there before.
const Nowhere Place = ""

// InProfile is the place of a profile's directory.
func InProfile(name string) Place { return Place("profiles/" + name) }

// InTrash is that of an entry of the trash.
func InTrash(entry string) Place { return Place("trash/" + entry) }

// Profile is whose directory it is; false: no profile's.
func (p Place) Profile() (name string, is bool) { return strings.CutPrefix(string(p), "profiles/") }

// Trashed is what it is in the trash; false: it is not there.
func (p Place) Trashed() (entry string, is bool) { return strings.CutPrefix(string(p), "trash/") }

// Move is a directory that has another place than before.
type Move struct{ From, To Place }

// Moves are what a record says, in order; none if it tells of no directory. decode reads
// its keys. What comes to a name drives out what had it before, whose end nobody has
// recorded.
func Moves(kind string, decode func(any) error) []Move {
	var r struct{ Profile, To, Trash, Restored string }
	switch kind {
	case TypeCreated, TypeDeleted, TypeRenamed, TypePurged:
		if decode(&r) != nil {
			return nil
		}
	}
	trash := Gone
	if r.Trash != "" {
		trash = InTrash(r.Trash)
	}
	switch kind {
	case TypeCreated:
		from := Nowhere
		if r.Restored != "" {
			from = InTrash(r.Restored)
		}
		return []Move{{InProfile(r.Profile), Gone}, {from, InProfile(r.Profile)}}
	case TypeRenamed:
		return []Move{{InProfile(r.To), Gone}, {InProfile(r.Profile), InProfile(r.To)}}
	case TypeDeleted:
		return []Move{{InProfile(r.Profile), trash}}
	case TypePurged:
		return []Move{{trash, Gone}}
	}
	return nil
}
