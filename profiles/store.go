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
	"rlminit/rights"
	"rlminit/service"
)

// Settings are what the configuration says about profiles. They may change
// while rlminit runs.
type Settings struct {
	Marker       string         // the file that makes a directory a profile; "": no profiles
	Template     string         // directory that is copied into a new profile; "": none
	StateFile    string         // ours, in the profile's directory
	ImportState  string         // an application's, read where StateFile is missing; "": none
	InitialState service.Intent // of a profile just created
	RemoveAtBoot []string       // relative to the profile's directory; patterns
	Ports        PortRange
	Default      bool     // the home directory itself is the profile "default"
	Services     []string // names of static services, which no profile may have
}

// Store is the profiles of one volume.
type Store struct {
	home     *durable.Dir // for what is the services' user's
	ours     *durable.Dir // and for what is the supervisor's
	user     *rights.User
	owners   Owners // nil: every profile is the services' user's
	settings atomic.Pointer[Settings]
	say      func(string)
	now      func() time.Time

	ports  *ports
	names  keyedLock              // one change at a time of one profile or service
	primed atomic.Bool            // the ports on the volume are known
	ledger atomic.Pointer[ledger] // nil: the state files are all there is

	mu       sync.Mutex
	promised uint32                     // above the last user that a profile was given
	intents  map[Subject]service.Intent // as this Store has read or saved them; of a Store with a ledger unused
	said     map[string]bool
	skipped  map[string]int // how many were said to be left out, by why
}

// profilesDir holds the profiles, below the home directory.
const (
	profilesDir = config.ProfilesDir
	trashDir    = "trash"
	servicesDir = "state/services"
	dirMode     = 0o750
)

// Open opens the profiles below home, which must exist. say is told, once each,
// what a person should know and no caller asked for; it may be called from any
// goroutine. Open only what the volume's lock protects: what is read is
// remembered.
func Open(home string, settings Settings, say func(string)) (*Store, error) {
	return OpenAs(nil, nil, home, settings, say)
}

// OpenAs is Open for a supervisor who is somebody else than the user whose the
// profiles are, or the users of their own that they have: owners, nil for none.
func OpenAs(user *rights.User, owners Owners, home string, settings Settings, say func(string)) (*Store, error) {
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
	s := &Store{
		home: dir, ours: ours, user: user, owners: owners, say: say, now: time.Now, ports: newPorts(),
		intents: map[Subject]service.Intent{}, said: map[string]bool{}, skipped: map[string]int{},
	}
	if owners != nil {
		s.home = dir.By(byOwner{home: dir, user: user, owners: owners, recorded: s.UserOf})
	}
	s.Configure(settings)
	if err := s.home.MkdirAll(profilesDir, dirMode); err != nil {
		s.sayOnce(err.Error())
	}
	return s, nil
}

// Configure puts new settings in the place of the old ones.
func (s *Store) Configure(settings Settings) { s.settings.Store(&settings) }

// Close gives the descriptors back. No other call may be under way.
func (s *Store) Close() error {
	err := s.ours.Close()
	if s.home != s.ours {
		err = errors.Join(err, s.home.Close())
	}
	return err
}

// Ours is the volume's directory with the supervisor's own rights, for what else
// lives there: logs, the journal, the lock.
func (s *Store) Ours() *durable.Dir { return s.ours }

// CheckWritable says why nothing can be written to the volume, if so.
func (s *Store) CheckWritable() error {
	temp := durable.TempName()
	if err := s.home.WriteFile(temp, nil, durable.Write{Mode: 0o600}); err != nil {
		var e *durable.Error
		if errors.As(err, &e) {
			e.Path = s.home.Path(".") // the file's own name says nothing to anybody
		}
		return err
	}
	return s.home.RemoveAll(temp)
}

// maxSaid bounds what sayOnce remembers; hostile names must not fill memory.
const maxSaid = 4096

func (s *Store) sayOnce(line string) {
	s.mu.Lock()
	if s.said[line] || len(s.said) >= maxSaid {
		s.mu.Unlock()
		return
	}
	s.said[line] = true
	s.mu.Unlock()
	s.say(line)
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
// supervisor's logs, or else the services' user's.
func (s *Store) dirFor(rel string) *durable.Dir {
	if rel == gatewayLogs || strings.HasPrefix(rel, gatewayLogs+"/") {
		return s.ours
	}
	return s.home
}

// PrepareBoot removes what an earlier life left unfinished, and of each profile
// what remove_at_boot names. Only before anything is started: not when a
// supervisor takes over from another. What cannot be removed is said. changed: the
// list may not be what List returns now.
func (s *Store) PrepareBoot(list []Profile) (changed bool) {
	for _, dir := range []string{".", profilesDir, servicesDir, trashDir, gatewayLogs} {
		s.takeBackTemps(dir)
		if err := s.dirFor(dir).CleanTemps(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.sayOnce(err.Error())
		}
	}
	settings := s.settings.Load()
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
	changed = changed || settings.ImportState != "" && len(settings.RemoveAtBoot) > 0
	if len(names) == 0 {
		return changed
	}
	dir, err := s.home.OpenDir(profilesDir)
	if err != nil {
		s.sayOnce(err.Error())
		return changed
	}
	defer dir.Close()
	chunks := (len(names) + atOnce - 1) / atOnce
	share(chunks, chunks, func(chunk int) {
		from := chunk * atOnce
		for _, name := range dir.Tidy(names[from:min(from+atOnce, len(names))], settings.RemoveAtBoot) {
			s.tidy(dirOf(name), settings.RemoveAtBoot)
		}
	})
	return changed
}

// tidy removes from one profile's directory what is not finished and what must not
// outlive a boot, and says what it cannot.
func (s *Store) tidy(dir string, patterns []string) {
	if dir != "." {
		if err := s.home.CleanTemps(dir); err != nil {
			s.sayOnce(err.Error())
			return
		}
	}
	for _, pattern := range patterns {
		if err := s.removeAll(dir, pattern); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.sayOnce(err.Error())
		}
	}
}

// takeBackTemps has what is not finished in a directory be the services', who remove
// it: a clone was its profile's while it was made.
func (s *Store) takeBackTemps(dir string) {
	if s.owners == nil || dir != profilesDir {
		return
	}
	entries, err := s.home.ReadDirOf(dir, maxProfiles, func(e durable.Entry) bool { return durable.IsTemp(e.Name) })
	if err != nil {
		return // who cleans up says it
	}
	for _, e := range entries {
		if err := s.takeBackDir(dir + "/" + e.Name); err != nil {
			s.sayOnce(err.Error())
		}
	}
}

// SweepUnfinished removes what a predecessor was making when it was killed, before
// this Store makes anything itself: a directory of gigabytes would stay until the
// next boot.
func (s *Store) SweepUnfinished() {
	var left []string
	for _, dir := range []string{profilesDir, gatewayLogs} {
		entries, err := s.dirFor(dir).ReadDir(dir, maxProfiles)
		if err != nil && !errors.Is(err, durable.ErrTooBig) {
			continue // who needs the directory says it
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
		s.takeBackTemps(profilesDir)
		for _, rel := range left {
			if err := s.dirFor(rel).RemoveAll(rel); err != nil {
				s.sayOnce(err.Error())
			}
		}
	}()
}

// removeAll removes what a pattern names in a profile's directory, and returns
// the first error. That of the default profile is the home directory, where we
// keep things too.
func (s *Store) removeAll(dir, pattern string) error {
	found, first := s.home.Glob(below(dir, pattern))
	for _, rel := range found {
		if what := keptAt(rel); what != "" && dir == "." {
			s.sayOnce(fmt.Sprintf("remove_at_boot leaves %s alone: it is where rlminit keeps %s", s.home.Path(rel), what))
			continue
		}
		if err := s.home.RemoveAll(rel); err != nil && first == nil {
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
		"logs/gateways": "logs", "logs/services": "logs", bootLogFile: "logs", journal.OldLock: "the volume's lock", journal.Home: "its records",
	} {
		if rel == place || strings.HasPrefix(place, rel+"/") || strings.HasPrefix(rel, place+"/") {
			return what
		}
	}
	return ""
}

// dated makes a name with the date in it that sorts by time and needs no
// quoting.
func (s *Store) dated(prefix string) string {
	return prefix + s.now().UTC().Format("20060102T150405Z")
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
	if k.locks == nil {
		k.locks = map[string]*countedLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &countedLock{}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
	}
}
