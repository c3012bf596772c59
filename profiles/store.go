package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles/bootlog"
	"rlminit/profiles/ports"
	"rlminit/profiles/secrets"
	"rlminit/profiles/statefile"
	"rlminit/rights"
	"rlminit/service"
)

// Settings are the configuration's for profiles. They may change
// while rlminit runs.
type Settings struct {
	Marker       string               // the file that makes a directory a profile; "": no profiles
	Beginning                         // of the kind default
	Kinds        map[string]Beginning // of the others, by name
	StateFile    string               // ours, in the profile's directory
	ImportState  string               // an application's, read where StateFile is missing; "": none
	RemoveAtBoot []string             // relative to the profile's directory; patterns
	Ports        PortRange
	Held         map[int]string // ports that no profile gets, with the holder of each: a service, metrics.listen
	Default      bool           // the home directory itself is the profile "default"
	Services     []string       // names of static services, which no profile may have
}

// Beginning is the first state of a new profile of a kind.
type Beginning struct {
	Template     string         // directory that is copied into it; "": none
	InitialState service.Intent // its desired state
	Range        PortRange      // that its port is from, of another kind than the default

	kind string // "": the default
}

// beginning is that of a kind; of one that is not there it is that of the default.
func (s *Settings) beginning(kind string) Beginning {
	if b, there := s.Kinds[kind]; there {
		b.kind = kind
		return b
	}
	b := s.Beginning
	if kind == "" {
		b.Range = s.Ports
	}
	return b
}

// Store is the profiles of one volume: it finds, makes, changes, renames and takes
// them away, each under its name's lock. What is kept about them is its rooms', of
// which those that others use are exported.
type Store struct {
	Records   *Records   // desired and observed state of each service
	Ownership *Ownership // whose directory is whose
	Secrets   *secrets.Sets
	Trash     *Trash
	BootLog   bootlog.Log

	tree      *tree
	list      *catalogue
	furnisher *furnisher
	ports     *ports.Book
}

// tree is the volume as all rooms see it: its directories with the rights to them,
// the settings in force, what was said, and the locks of names.
type tree struct {
	home     *durable.Dir // for the services' user's files
	ours     *durable.Dir // and for the supervisor's
	user     *rights.User // the profiles' user; nil: the supervisor's own
	settings atomic.Pointer[Settings]
	told     *told
	now      func() time.Time
	names    keyedLock // one change at a time of one profile or service
	place    string    // the directories that this is about, as placeOf tells them; "": unknown
}

// profilesDir holds the profiles, below the home directory.
const (
	profilesDir = config.ProfilesDir
	trashDir    = config.TrashDir
	servicesDir = "state/services"
	dirMode     = 0o750
)

// Open opens the profiles below home, which must exist, for a supervisor who may be
// somebody else than the user whose the profiles are, or the users of their own that
// they have: owners, nil for none. say gets, once each, news for people
// that no caller asked for; it may be called from any goroutine. Open only a volume
// whose lock is held: the content is remembered.
func Open(user *rights.User, owners Owners, home string, settings Settings, say func(string)) (*Store, error) {
	return Reopen(user, owners, home, settings, say, "")
}

// Reopen is Open for a successor that knows the Place of its predecessor's store: "" if it
// does not. It fails, and makes nothing, where another directory is there now.
func Reopen(user *rights.User, owners Owners, home string, settings Settings, say func(string), place string) (*Store, error) {
	ours, err := durable.Open(home)
	if err != nil {
		return nil, err
	}
	dir := ours
	if user != nil {
		if dir, err = user.Dir(home); err != nil {
			ours.Close()
			return nil, err
		}
	}
	tree := &tree{home: dir, ours: ours, user: user, told: newTold(say), now: time.Now}
	s := rooms(tree, owners, ports.New())
	if owners != nil {
		tree.home = dir.By(byOwner{home: dir, user: user, owners: owners, recorded: s.Ownership.Recorded})
	}
	s.Configure(settings)
	if place != "" {
		tree.place = place
		if err := tree.unmoved(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	tree.told.failure(tree.home.MkdirAll(profilesDir, dirMode))
	tree.place, _ = placeOf(tree.home) // its readers report a path that cannot be looked at now
	return s, nil
}

// Place tells the store's directories from others that come to be under their names; "":
// that is unknown.
func (s *Store) Place() string { return s.tree.place }

// placeOf are the devices and inodes of the home directory and of the one with the profiles.
func placeOf(home *durable.Dir) (string, error) {
	var place strings.Builder
	for _, rel := range []string{".", profilesDir} {
		fd, err := home.Handle(rel)
		if err != nil {
			return "", err
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil {
			return "", fmt.Errorf("cannot look at %s: %w", home.Path(rel), err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK { // which may have the inode of a directory that is gone
			return "", &fs.PathError{Op: "open", Path: home.Path(rel), Err: unix.ELOOP}
		}
		fmt.Fprintf(&place, "%d:%d ", st.Dev, st.Ino)
	}
	return place.String(), nil
}

// unmoved says why nothing can be concluded from the absence of a name in the directory with
// the profiles: it cannot be read, or is another one than it was.
func (v *tree) unmoved() error {
	if v.place == "" {
		return nil
	}
	switch now, err := placeOf(v.home); {
	case err != nil:
		return err
	case now != v.place:
		return fmt.Errorf("%s is another directory than before; mount the volume there again, or put %s back", v.home.Path("."), v.home.Path(profilesDir))
	}
	return nil
}

// rooms wires a Store.
func rooms(tree *tree, owners Owners, book *ports.Book) *Store {
	records := &Records{tree: tree, ports: book, earlier: &statefile.Earlier{Path: servicesDir, Most: maxProfiles}, others: map[string]statefile.File{}}
	records.RefuseIntents(errNoJournal)
	ownership := &Ownership{tree: tree, records: records, owners: owners}
	sets := secrets.In(tree.ours, tree.told.once)
	list := &catalogue{tree: tree, records: records, ownership: ownership, ports: book, secrets: sets}
	return &Store{
		Records: records, Ownership: ownership, Secrets: sets, Trash: &Trash{tree, ownership}, BootLog: bootlog.Log{Volume: tree.ours, Now: func() time.Time { return tree.now() }},
		tree: tree, list: list, furnisher: &furnisher{tree: tree, ownership: ownership, list: list}, ports: book,
	}
}

// Configure puts new settings in the place of the old ones.
func (s *Store) Configure(settings Settings) { s.tree.settings.Store(&settings) }

// Close gives the descriptors back. No other call may be under way.
func (s *Store) Close() error {
	err := s.tree.ours.Close()
	if s.tree.home != s.tree.ours {
		err = errors.Join(err, s.tree.home.Close())
	}
	return err
}

// Ours is the volume's directory with the supervisor's own rights, for what else
// lives there: logs, the journal, the lock.
func (s *Store) Ours() *durable.Dir { return s.tree.ours }

// CheckWritable says why nothing can be written to the volume, if so.
func (s *Store) CheckWritable() error {
	temp := durable.TempName()
	if err := s.tree.home.WriteFile(temp, nil, durable.Write{Mode: 0o600}); err != nil {
		var e *durable.Error
		if errors.As(err, &e) {
			e.Path = s.tree.home.Path(".") // the file's own name says nothing to anybody
		}
		return err
	}
	return s.tree.home.RemoveAll(temp)
}

// dirOf is the profile's directory, relative to the home directory.
func dirOf(name string) string {
	if name == Default {
		return "."
	}
	return profilesDir + "/" + name
}

// below joins a directory of dirOf and a path.
func below(dir, rel string) string {
	if dir == "." {
		return rel
	}
	return dir + "/" + rel
}

// dirFor is the volume's directory for whose what lies at a path below it is: the
// supervisor's logs and secrets, or else the services' user's.
func (v *tree) dirFor(rel string) *durable.Dir {
	for _, is := range []string{gatewayLogs, secrets.Home} {
		if rel == is || strings.HasPrefix(rel, is+"/") {
			return v.ours
		}
	}
	return v.home
}

// PrepareBoot removes what an earlier life left unfinished, copies of secrets that are no
// profile's, and of each profile what remove_at_boot names. Only before anything is
// started: not when a supervisor takes over from another. What cannot be removed is
// said. changed: the list may not be what List returns now.
func (s *Store) PrepareBoot(list []Profile) (changed bool) {
	for _, dir := range []string{".", profilesDir, servicesDir, trashDir, gatewayLogs, secrets.Home} {
		s.tree.told.failure(s.Ownership.cleanTemps(dir))
	}
	settings := s.tree.settings.Load()
	var names []string
	for _, p := range list {
		if was := p.Record.Profile; was != "" && was != p.Name {
			s.finishRename(p.Name)
			changed = true
		}
		if p.Name != Default {
			names = append(names, p.Name)
			continue
		}
		s.tidy(".", settings.RemoveAtBoot)
	}
	s.sweepSecrets(names)
	s.Records.sweepServices()
	changed = changed || settings.ImportState != "" && len(settings.RemoveAtBoot) > 0
	if len(names) == 0 {
		return changed
	}
	dir, err := s.tree.home.OpenDir(profilesDir)
	if err != nil {
		s.tree.told.once(err.Error())
		return changed
	}
	defer dir.Close()
	inChunks(len(names), atOnce, len(names), func(from, to int) {
		for _, name := range dir.Tidy(names[from:to], settings.RemoveAtBoot) {
			s.tidy(dirOf(name), settings.RemoveAtBoot)
		}
	})
	return changed
}

// tidy removes from one profile's directory unfinished files and those that must not
// outlive a boot, and names those it cannot.
func (s *Store) tidy(dir string, patterns []string) {
	if dir != "." {
		if err := s.tree.home.CleanTemps(dir); err != nil {
			s.tree.told.once(err.Error())
			return
		}
	}
	for _, pattern := range patterns {
		s.tree.told.failure(s.tree.removeAll(dir, pattern))
	}
}

// SweepUnfinished removes the files that a predecessor was making when it was killed, before
// this Store makes anything itself: a directory of gigabytes would stay until the
// next boot.
func (s *Store) SweepUnfinished() {
	var left []string
	for _, dir := range []string{profilesDir, gatewayLogs, secrets.Home} {
		entries, err := s.tree.dirFor(dir).ReadDir(dir, maxProfiles)
		if err != nil && !errors.Is(err, durable.ErrTooBig) {
			continue // its user says it
		}
		for _, e := range entries {
			if durable.IsTemp(e.Name) {
				left = append(left, dir+"/"+e.Name)
			}
		}
	}
	if len(left) == 0 {
		return
	}
	go func() {
		for _, rel := range left {
			s.tree.told.failure(s.Ownership.removeAll(rel))
		}
	}()
}

// removeAll removes the files of a pattern in a profile's directory, and returns
// the first error. That of the default profile is the home directory, where we
// keep things too.
func (v *tree) removeAll(dir, pattern string) error {
	found, first := v.home.Glob(below(dir, pattern))
	for _, rel := range found {
		if what := keptAt(rel); what != "" && dir == "." {
			v.told.once(fmt.Sprintf("remove_at_boot leaves %s alone: it is where rlminit keeps %s", v.home.Path(rel), what))
			continue
		}
		if err := v.home.RemoveAll(rel); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// keptAt tells what we keep at a path in the home directory, or below it, or
// what it is a part of; "" where that is nothing.
func keptAt(rel string) string {
	for place, what := range map[string]string{
		profilesDir: "profiles", trashDir: "deleted profiles", servicesDir: "the state of services",
		"logs/gateways": "logs", "logs/services": "logs", bootlog.File: "logs", journal.OldLock: "the volume's lock", journal.Home: "its records",
	} {
		if rel == place || strings.HasPrefix(place, rel+"/") || strings.HasPrefix(rel, place+"/") {
			return what
		}
	}
	return ""
}

// dated makes a name with the date in it that sorts by time and needs no
// quoting.
func (v *tree) dated(prefix string) string {
	return prefix + v.now().UTC().Format("20060102T150405Z")
}

// moveNew renames from to the name to, or to-2, to-3 … if that is taken, and
// returns the name that it got.
func moveNew(dir *durable.Dir, from, to string) (string, error) {
	const tries = 1000
	name := to
	for i := 2; ; i++ {
		err := dir.RenameNew(from, name)
		if !errors.Is(err, unix.EEXIST) || i > tries {
			return name, err
		}
		name = fmt.Sprintf("%s-%d", to, i)
	}
}

// keyedLock is one lock a key. Its zero value is ready.
type keyedLock struct {
	mu    sync.Mutex
	locks map[string]*countedLock
}

type countedLock struct {
	sync.Mutex
	users int
}

// lock waits for the key's lock and returns what gives it back.
func (k *keyedLock) lock(key string) (unlock func()) {
	k.mu.Lock()
	l := k.locks[key]
	if l == nil {
		l = k.add(key)
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() { k.unlock(key, l) }
}

// tryLock is lock where nobody has the key's lock, or waits for it.
func (k *keyedLock) tryLock(key string) (unlock func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.locks[key] != nil {
		return nil, false
	}
	l := k.add(key)
	l.users++
	l.Lock() // it is nobody else's
	return func() { k.unlock(key, l) }, true
}

// add makes the key's lock. The caller holds mu.
func (k *keyedLock) add(key string) *countedLock {
	if k.locks == nil {
		k.locks = map[string]*countedLock{}
	}
	l := &countedLock{}
	k.locks[key] = l
	return l
}

func (k *keyedLock) unlock(key string, l *countedLock) {
	l.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}
