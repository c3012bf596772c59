package profiles

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles/ports"
	"rlminit/rights"
	"rlminit/service"
)

// Outside reads a volume that somebody else has, or nobody: it takes no lock, makes and
// changes nothing, and looks at no secrets. Root reads each profile with the rights of the
// user that its directory belongs to, the supervisor's files with those of theirs, and all
// else with those of the volume's.
type Outside struct{ store *Store }

// OpenOutside opens the volume at a path, whose profiles are read as the settings say. say
// is told what looks meant as a profile and is none.
func OpenOutside(home string, settings Settings, say func(string)) (*Outside, error) {
	ours, err := durable.Open(home)
	if err != nil {
		return nil, err
	}
	tree := &tree{home: ours, ours: ours, told: newTold(say)}
	s := rooms(tree, nil, ports.New())
	s.list.secrets = nil
	s.Configure(settings)
	if os.Geteuid() == 0 && as(ours, ".").able() {
		tree.home = ours.By(byOwner{
			home: ours.By(as(ours, ".")), user: as(ours, "."), owners: anybody{services: ownerAt(ours, ".")},
			recorded: func(string) uint32 { return 0 },
		})
		tree.ours = ours.By(as(ours, journal.Home))
	}
	return &Outside{s}, nil
}

// Close gives the descriptor back.
func (o *Outside) Close() error { return o.store.tree.ours.Close() }

// Supervisors is the volume's directory as the supervisor's files on it are read.
func (o *Outside) Supervisors() *durable.Dir { return o.store.tree.ours }

// List is Store.List.
func (o *Outside) List() ([]Profile, error) { return o.store.list.list() }

// Deleted is a profile in the trash, with the text of its profile.yaml; err is why that
// cannot be read.
type Deleted struct {
	Trashed
	Text []byte
	Err  error
}

// Deleted are the profiles in the trash.
func (o *Outside) Deleted() (all []Deleted, err error) {
	list, err := o.store.Trash.List()
	for _, t := range list {
		text, _, err := o.store.Trash.Look(t.Entry)
		all = append(all, Deleted{t, text, err})
	}
	return all, err
}

// Running tells whether a profile's gateway runs after a boot, as far as its state file
// says.
func (p Profile) Running(g *config.Gateway) bool {
	switch p.Record.Desired {
	case service.Running:
		return true
	case service.Stopped:
		return false
	}
	return p.Record.Origin == service.Missing && service.Intent(g.FoundState) == service.Running
}

// as is who touches what lies at a path of the volume with the rights of its owner; of one
// that is not there, with those of the volume's.
func as(volume *durable.Dir, rel string) reader {
	info, err := volume.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Type != fs.ModeDir {
		info, err = volume.Lstat(".")
	}
	if err != nil {
		info.UID, info.GID = nobody, nobody
	}
	return reader{rights.Threads{UID: info.UID, GID: info.GID}}
}

// reader is one user.
type reader struct{ rights.Threads }

// able tells whether this process can have the user's rights. Root without the privilege
// reads with what it has.
func (r reader) able() bool { return r.Try() == nil }

// nobody has no right to anything of anybody's.
const nobody = 65534

func ownerAt(volume *durable.Dir, rel string) uint32 {
	info, err := volume.Lstat(rel)
	if err != nil {
		return nobody
	}
	return info.UID
}

// anybody are the users that directories of profiles can have on a volume whose owners
// are not known. It gives nothing to anybody.
type anybody struct{ services uint32 }

func (anybody) Auto() bool                { return false }
func (anybody) Range() (low, high uint32) { return 1, math.MaxUint32 - 1 }
func (a anybody) Services() uint32        { return a.services }
func (anybody) Helper(uid uint32) durable.Helper {
	return rights.Threads{UID: uid, GID: uid}
}

func (anybody) Give(uint32, int) (did durable.Handed, err error) { return did, unix.EROFS }
func (anybody) Take(uint32, int) (did durable.Handed, err error) { return did, unix.EROFS }
func (anybody) Own(string) (did durable.Handed, err error)       { return did, unix.EROFS }
func (anybody) Settle() error                                    { return unix.EROFS }
