package prepare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/wire"
)

// AsRoot does what takes root's rights, for the service user id: its entries in
// passwd and group, the volume where it is absent or new, the owners of what own
// lists, the directories of other users, and what is the supervisor's where that
// is somebody of its own. What is a profile's stays so, and what is root's in its
// directory becomes its own. Notes are what the place
// does not allow and is done without, a line each.
func AsRoot(c *config.Config, id, supervisor wire.Identity, profiles wire.Profiles) (notes []string) {
	return asRoot(c, id, supervisor, profiles, "/etc/passwd", "/etc/group")
}

func asRoot(c *config.Config, id, supervisor wire.Identity, profiles wire.Profiles, passwd, group string) (notes []string) {
	note := func(err error) {
		if err != nil {
			notes = append(notes, err.Error())
		}
	}
	if c.UID != 0 || c.GID != 0 {
		giveHome(c.Home, FormerUser(c), id) // before passwd forgets who that was
		note(rename(passwd, group, c.User, id))
	}
	note(makeHome(c.Home, id))
	separated := supervisor.UID != id.UID
	if separated {
		if passwd != "/etc/passwd" || inContainer() {
			account(passwd, group, supervisor)
		}
	}
	others := slices.DeleteFunc(slices.Clone(c.Dirs), func(d config.Dir) bool { return d.Owner == "" })
	if len(c.Own)+len(others) == 0 && !separated && c.Gateway == nil {
		return notes
	}
	home, err := durable.Open(c.Home)
	if err != nil {
		return append(notes, err.Error())
	}
	defer home.Close()
	for _, o := range c.Own {
		note(own(home, below(c.Home, o.Path), o.Deep, separated, id, profiles.Has))
	}
	if c.Gateway != nil {
		deep := slices.ContainsFunc(c.Own, func(o config.Owned) bool { return o.Deep })
		if err := reclaim(home, id, profiles.Has, deep); !c.Strict { // which is about the place, and this about files
			note(err)
		}
	}
	for _, d := range others {
		note(dirOf(home, below(c.Home, d.Path), d, c.Home, id))
	}
	if separated {
		for _, err := range separate(home, id, supervisor) {
			note(err)
		}
		if what := Reach(c.Home, id); what != "" {
			notes = append(notes, Reached(c.Home, what))
		}
	}
	return notes
}

// own gives a tree of the volume to the service user. Where only the top of it is
// looked at, so is that of each profile in it: a profile that was copied in, or
// restored by root, is another's though all around it is right. What is the
// supervisor's stays so.
func own(home *durable.Dir, rel string, deep, separated bool, id wire.Identity, keep func(uid uint32) bool) error {
	as := durable.Ownership{UID: id.UID, GID: id.GID, Trust: !deep, Keep: keep}
	var err error
	switch {
	case separated && ours(rel):
		return nil
	case separated && rel == ".":
		err = ownHome(home, deep, as)
	default:
		err = home.Own(rel, as)
	}
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	if deep || rel != "." && rel != config.ProfilesDir {
		return nil
	}
	entries, err := home.ReadDir(config.ProfilesDir, mostProfiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Type != fs.ModeDir && e.Type != fs.ModeIrregular {
			continue
		}
		as.Within = true
		if failed := home.Own(config.ProfilesDir+"/"+e.Name, as); failed != nil && !errors.Is(failed, unix.ENOENT) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// ownHome is own of the volume's directory itself, which is root's once it is in
// order.
func ownHome(home *durable.Dir, deep bool, as durable.Ownership) error {
	there, err := home.Lstat(".")
	if err != nil || !deep && there.GID == as.GID && (there.UID == 0 || there.UID == as.UID) {
		return err
	}
	as.Trust, as.Except = false, []string{privateDir, logsDir, lockFile}
	return home.Own(".", as)
}

// mostProfiles bounds the directories that are looked at one by one.
const mostProfiles = 100_000

// dirOf makes the directory of a service that has a user of its own. What is made
// on the way there is the service user's.
func dirOf(home *durable.Dir, rel string, d config.Dir, path string, id wire.Identity) error {
	host, err := config.ThisHost()
	if err != nil {
		return err
	}
	owner, err := host.Accounts.Resolve(d.Owner, "", nil, path)
	if err != nil {
		return fmt.Errorf("cannot make %s: owner: %w", d.Path, err)
	}
	if inTheWay(home, rel) != "" {
		return nil // which is said by whoever makes the other directories
	}
	var made string
	for part := range strings.SplitSeq(filepath.Dir(rel), "/") {
		made = filepath.Join(made, part)
		if _, err := home.Lstat(made); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := home.MkdirAll(made, parentMode); err != nil {
			return err
		}
		if err := home.Own(made, durable.Ownership{UID: id.UID, GID: id.GID, Trust: true}); err != nil {
			return err
		}
	}
	if err := home.MkdirAll(rel, d.Mode); err != nil {
		return err
	}
	if err := home.Own(rel, durable.Ownership{UID: owner.UID, GID: owner.GID, Trust: true}); err != nil {
		return err
	}
	return home.Chmod(rel, d.Mode)
}

// Needed tells whether there is anything to do for a configuration.
func Needed(c *config.Config) bool {
	var st unix.Stat_t
	return c.Strict || c.UID != 0 || c.GID != 0 || len(c.Own)+len(c.Dirs)+len(c.Seed)+len(c.Boot) > 0 ||
		unix.Lstat(c.Home, &st) == unix.ENOENT
}

// below is an absolute path at or below home, relative to it.
func below(home, path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, home), "/")
	if rel == "" {
		return "."
	}
	return rel
}

// FormerUser is the uid that the image gives the service user; root's where
// nobody knows.
func FormerUser(c *config.Config) uint32 {
	host, err := config.ThisHost()
	if err != nil {
		return 0
	}
	id, err := host.Accounts.Resolve(c.User, "", nil, c.Home)
	if err != nil {
		return 0
	}
	return id.UID
}

// giveHome gives the user a volume that nothing was written to yet: an empty
// directory of root's, or of the user that the image was made for. Whoever names
// another uid for the services means it for that. By descriptor, and not through
// a link. Where it cannot be, that is said by who writes to the volume.
func giveHome(home string, former uint32, id wire.Identity) {
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	directory := os.NewFile(uintptr(fd), home)
	defer directory.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Uid != 0 && st.Uid != former || st.Uid == id.UID && st.Gid == id.GID {
		return
	}
	if names, err := directory.Readdirnames(1); len(names) == 0 && errors.Is(err, io.EOF) {
		_ = directory.Chown(int(id.UID), int(id.GID))
	}
}

// makeHome makes the volume's directory where it is absent, as the user's.
// Nothing on the way is a link: each directory is opened in the one above it.
func makeHome(home string, id wire.Identity) error {
	fail := func(err error) error {
		return fmt.Errorf("cannot make %s: %w; mount a volume there", home, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(home, &st); err != unix.ENOENT {
		return nil // it is there, or what is wrong with it is said by who uses it
	}
	const directory = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open("/", directory, 0)
	if err != nil {
		return fail(err)
	}
	defer func() { unix.Close(at) }()
	names := strings.Split(strings.Trim(filepath.Clean(home), "/"), "/")
	for i, name := range names {
		made := unix.Mkdirat(at, name, 0o755)
		if made != nil && made != unix.EEXIST {
			return fail(made)
		}
		next, err := unix.Openat(at, name, directory, 0)
		if err != nil {
			return fail(err)
		}
		unix.Close(at)
		at = next
		if made != nil || i < len(names)-1 {
			continue
		}
		if err := unix.Fchownat(at, "", int(id.UID), int(id.GID), unix.AT_EMPTY_PATH); err != nil {
			return fail(err)
		}
	}
	return nil
}
