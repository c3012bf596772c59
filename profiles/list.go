package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/profiles/ports"
	"rlminit/profiles/secrets"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

const (
	// maxProfiles bounds how many names of the profiles directory are looked
	// at: a gateway can make millions.
	maxProfiles = 100_000
	// maxOverrides is the size of the largest profile.yaml that is read, bytes.
	maxOverrides = 256 << 10
	// maxLarge is what all those of more than smallOverrides bytes may have
	// together, when all profiles are read: decoded they take several times as
	// much, and a gateway that makes hundreds would leave no memory at any boot.
	smallOverrides, maxLarge = 8 << 10, 8 << 20
	// overridesFile has the values a profile overrides of the gateway template.
	overridesFile = "profile.yaml"
)

// Profile is one profile as found on the volume.
type Profile struct {
	Name   string
	Dir    string // absolute
	Record service.Record
	Port   int // 0: none
	// Unrecorded: the port, or all of the record, is not in the state file yet;
	// SaveIntent puts it there.
	Unrecorded bool
	Fault      error // why it cannot be run; nil: it can
	Secrets    int   // which of its sets of secrets is in force; 0: it has none

	overrides []byte // profile.yaml; nil: there is none
}

// Unread tells whether the fault says nothing about the profile: it cannot be read now,
// and may well be soon, without anything being put right.
func (p Profile) Unread() bool {
	var failed *durable.Error
	if errors.As(p.Fault, &failed) && failed.Do == durable.DoReach {
		return true
	}
	for _, errno := range []unix.Errno{unix.EIO, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ESTALE, unix.ETIMEDOUT} {
		if errors.Is(p.Fault, errno) {
			return true
		}
	}
	return false
}

// Service is the name of the profile's service.
func (p Profile) Service() string { return GatewayName(p.Name) }

// catalogue is which profiles there are, as the volume has them at the moment, and
// which port each has.
//
// Invariant: with primed, ports has that of every profile that there was.
type catalogue struct {
	tree      *tree
	records   *Records
	ownership *Ownership
	ports     *ports.Book
	secrets   *secrets.Sets // nil: they are not looked at
	primed    atomic.Bool   // the ports on the volume are known
}

// list reads the profiles of these names, or all, sorted by name, the default
// profile first. A broken one has its Fault set; what is no profile at all but looks
// meant as one is said and left out. An error means that the profiles directory itself
// cannot be read: it says nothing about which profiles exist.
func (c *catalogue) list(names ...string) ([]Profile, error) {
	settings := c.tree.settings.Load()
	if settings.Marker == "" {
		return nil, nil
	}
	if err := c.tree.unmoved(); err != nil {
		return nil, err
	}
	asked := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	if len(names) > 0 {
		if err := c.prime(); err != nil {
			return nil, err
		}
	}
	known := slices.DeleteFunc(c.ports.Settled(), func(name string) bool { return !asked(name) })
	dir, err := c.tree.home.OpenDir(profilesDir)
	var entries []durable.Entry
	var left skipped
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		defer dir.Close()
		entries, err = entriesOf(dir, names, &left)
		if errors.Is(err, durable.ErrTooBig) {
			c.tree.told.once(err.Error())
		} else if err != nil {
			return nil, err
		}
	}
	found, err := c.considerAll(dir, entries, settings, &left)
	if err == nil {
		err = c.tree.unmoved() // it may have been moved away meanwhile
	}
	if err != nil {
		return nil, err
	}
	c.tellLeft(dir, entries, found, &left, len(names) == 0)
	list := make([]Profile, 0, len(entries)+1)
	for _, p := range found {
		if p != nil {
			p.shadow(settings.Services)
			list = append(list, *p)
		}
	}
	if settings.Default && asked(Default) {
		p := Profile{Name: Default, Dir: c.tree.home.Path(".")}
		c.fill(&p, c.tree.home, settings, new(atomic.Int64))
		list = append(list, p)
	}
	slices.SortFunc(list, compare)
	c.forgetMissing(known, list)
	c.settlePorts(list, settings)
	c.settleSecrets(list)
	if len(names) == 0 {
		c.primed.Store(true)
	}
	return list, nil
}

// tellLeft names entries that look like profiles and are none.
func (c *catalogue) tellLeft(dir *durable.Dir, entries []durable.Entry, found []*Profile, left *skipped, all bool) {
	if all {
		c.tree.told.entries(left, c.tree.home.Path(profilesDir))
	} else if oddAmong(dir, entries, found, left) {
		_, _ = c.list() // what is to be said of such depends on how many there are
	}
}

// compare puts the default profile first, and the others in the order of their names.
func compare(a, b Profile) int {
	if (a.Name == Default) != (b.Name == Default) {
		if a.Name == Default {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// entriesOf are those of the profiles directory, or of these names whether they are
// there or not.
func entriesOf(dir *durable.Dir, names []string, left *skipped) (entries []durable.Entry, err error) {
	if len(names) == 0 {
		return dir.ReadDirOf(".", maxProfiles, func(e durable.Entry) bool { return mayBeOne(dir, e, left) })
	}
	for _, name := range names {
		entries = append(entries, durable.Entry{Name: name, Type: fs.ModeIrregular})
	}
	return entries, nil
}

// oddAmong tells whether something is there, under a name that was asked for, of which
// is to be said that it is no profile.
func oddAmong(dir *durable.Dir, entries []durable.Entry, found []*Profile, left *skipped) bool {
	for i, e := range entries {
		if found[i] != nil || !ValidName(e.Name) {
			continue
		}
		if info, err := dir.Lstat(e.Name); err == nil {
			mayBeOne(dir, durable.Entry{Name: e.Name, Type: info.Type}, left)
		}
	}
	return len(left.all) > 0
}

// List reads the profiles of these names, or all, as catalogue.list says.
func (s *Store) List(names ...string) ([]Profile, error) { return s.list.list(names...) }

// Preview is List as other settings would have it. Nothing is changed by it: no
// port is given away, and nothing is said.
func (s *Store) Preview(settings Settings) ([]Profile, error) {
	is := s.tree
	tree := &tree{home: is.home, ours: is.ours, user: is.user, told: newTold(func(string) {}), now: is.now, place: is.place}
	view := rooms(tree, s.Ownership.owners, s.ports.Copy())
	view.Records.ledger.Store(s.Records.ledger.Load())
	view.Configure(settings)
	return view.list.list()
}

// Load reads one profile. It fails with ErrNotFound if there is none of that
// name.
func (s *Store) Load(name string) (Profile, error) {
	p, release, err := s.list.hold(name)
	release()
	return p, err
}

// hold is Load, and has nobody else change the profile until release is called.
func (c *catalogue) hold(name string) (p Profile, release func(), err error) {
	if err := c.prime(); err != nil {
		return p, func() {}, err
	}
	release = c.tree.names.lock(name)
	p, err = c.load(name)
	return p, release, err
}

// change has f change a profile, and returns it as it is then. It fails with ErrNotFound
// if there is none of that name.
func (c *catalogue) change(name string, f func(Profile) error) (Profile, error) {
	p, release, err := c.hold(name)
	defer release()
	if err == nil {
		err = f(p)
	}
	if err != nil {
		return Profile{}, err
	}
	return c.load(name)
}

// load is Load for a caller that holds the name's lock.
func (c *catalogue) load(name string) (Profile, error) {
	settings := c.tree.settings.Load()
	missing := refuse(ErrNotFound, "no profile %s", document.Quote(name))
	if name == Default {
		if !settings.Default {
			return Profile{}, missing
		}
		list := []Profile{{Name: Default, Dir: c.tree.home.Path(".")}}
		c.fill(&list[0], c.tree.home, settings, new(atomic.Int64))
		c.settlePorts(list, settings)
		c.settleSecrets(list)
		return list[0], nil
	}
	if settings.Marker == "" || checkForm(name) != nil {
		return Profile{}, missing
	}
	dir, err := c.tree.home.OpenDir(profilesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, missing
	}
	if err != nil {
		return Profile{}, err
	}
	defer dir.Close()
	seen, err := glances(dir, []string{name}, settings)
	if err != nil {
		seen = []durable.Glance{{Odd: true}}
	}
	p := c.look(dir, durable.Entry{Name: name, Type: fs.ModeIrregular}, seen[0], settings, new(atomic.Int64), nil, func() func() { return func() {} })
	if p == nil {
		return Profile{}, missing
	}
	p.shadow(settings.Services)
	list := []Profile{*p}
	c.settlePorts(list, settings)
	c.settleSecrets(list)
	return list[0], nil
}

// prime makes sure that the ports on the volume are known before one is given
// away.
func (c *catalogue) prime() error {
	if c.primed.Load() {
		return nil
	}
	_, err := c.list()
	return err
}

// mayBeOne tells, by its name and type alone, whether an entry of the profiles
// directory may be a profile. However many there are that may not, they keep no
// profile from being found.
func mayBeOne(dir *durable.Dir, e durable.Entry, left *skipped) bool {
	switch {
	case e.Name[0] == '.':
		return false
	case e.Type == fs.ModeDir, e.Type == fs.ModeSymlink, e.Type == fs.ModeIrregular:
		return true
	case ValidName(e.Name):
		left.add(noDirectory, e.Name, dir.Path(e.Name)+" is skipped: it is no directory")
	}
	return false
}

// atOnce is how many profiles are looked at in one request.
const atOnce = 256

// considerAll is consider for every entry. What is as it should be, is seen at a
// glance; thousands of profiles are thousands of requests otherwise.
func (c *catalogue) considerAll(dir *durable.Dir, entries []durable.Entry, settings *Settings, left *skipped) ([]*Profile, error) {
	found := make([]*Profile, len(entries))
	var large atomic.Int64
	failures := make([]error, len(entries))
	inChunks(len(entries), atOnce, len(entries), func(from, to int) {
		some := entries[from:to]
		names := make([]string, len(some))
		for i, e := range some {
			names[i] = e.Name
		}
		seen, err := glances(dir, names, settings)
		if failures[from] = err; err != nil {
			return
		}
		for i, e := range some {
			found[from+i] = c.look(dir, e, seen[i], settings, &large, left, func() func() { return c.tree.names.lock(e.Name) })
		}
	})
	return found, errors.Join(failures...)
}

// look is what there is of an entry of which so much was seen; nil: no profile. lock is for
// its name.
func (c *catalogue) look(dir *durable.Dir, e durable.Entry, seen durable.Glance, settings *Settings, large *atomic.Int64, left *skipped, lock func() func()) (p *Profile) {
	switch {
	case seen.Odd || checkForm(e.Name) != nil:
		p = c.consider(dir, e, settings, large, left)
	case seen.Marked:
		p = &Profile{Name: e.Name, Dir: dir.Path(e.Name)}
		c.glanced(p, dir, seen, settings)
	}
	if p != nil && c.ownership.owners != nil && p.Fault != nil {
		// It may have been on its way to another owner, which is over by then, or was
		// cut short.
		defer lock()()
		c.ownership.finish(p.Name)
		p = c.consider(dir, e, settings, large, left)
	}
	return p
}

// glances looks at profiles of these names, in one request.
func glances(dir *durable.Dir, names []string, settings *Settings) ([]durable.Glance, error) {
	return dir.Glances(names, settings.Marker, []string{settings.StateFile, overridesFile}, smallOverrides)
}

// glanced is fill after a glance.
func (c *catalogue) glanced(p *Profile, dir *durable.Dir, seen durable.Glance, settings *Settings) {
	state, overrides := seen.Files[0], seen.Files[1]
	err := error(fs.ErrNotExist)
	if state.There {
		err = nil
	}
	f, _ := statefile.Understood(state.Data, err) // no other error comes of that
	if f.Origin == service.Missing && settings.ImportState != "" {
		if own, err := dir.OpenDir(p.Name); err == nil {
			defer own.Close()
			c.fill(p, own, settings, new(atomic.Int64))
			return
		}
	}
	p.Record = c.records.known(p.Name, f)
	if overrides.There {
		p.overrides = slices.Concat([]byte{}, overrides.Data) // an empty file is one
	}
}

// consider looks at one entry of the profiles directory; nil: it is none.
func (c *catalogue) consider(dir *durable.Dir, e durable.Entry, settings *Settings, large *atomic.Int64, left *skipped) *Profile {
	if !mayBeOne(dir, e, left) {
		return nil
	}
	if err := checkForm(e.Name); err != nil {
		if ok, _ := isRegular(dir, e.Name+"/"+settings.Marker); ok {
			left.add(noName, e.Name, fmt.Sprintf("a directory in %s is skipped: %v", dir.Path("."), err))
		}
		return nil
	}
	p := &Profile{Name: e.Name, Dir: dir.Path(e.Name)}
	own, err := dir.OpenDir(e.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil: // a symbolic link in place of a profile, or not ours to read
		p.Fault = err
		return p
	}
	defer own.Close()
	marked, err := isRegular(own, settings.Marker)
	if err != nil {
		p.Fault = err
		return p
	}
	if !marked {
		return nil
	}
	c.fill(p, own, settings, large)
	return p
}

// isRegular tells whether rel is a regular file. Something else there is an
// error, nothing at all is not.
func isRegular(dir *durable.Dir, rel string) (bool, error) {
	info, err := dir.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.Type != 0 {
		return false, fmt.Errorf("%s is no regular file; put one there", dir.Path(rel))
	}
	return true, nil
}

// fill reads the profile's directory. large counts the bytes of the
// large profile.yaml that were read along with it.
func (c *catalogue) fill(p *Profile, dir *durable.Dir, settings *Settings, large *atomic.Int64) {
	state, err := statefile.Read(dir, settings.StateFile)
	p.Record = state.Record
	if err != nil {
		p.Fault, p.Record = c.unreadable(p.Name, err), c.records.known(p.Name, state)
		return
	}
	if p.Record.Origin == service.Missing && settings.ImportState != "" {
		p.Record = c.records.readImport(dir, settings.ImportState)
		state.Record = p.Record
		if p.Record.Origin == service.Corrupt {
			c.tree.told.once(fmt.Sprintf("cannot take over the state of %s: %s; its gateway stays stopped", p.Name, p.Record.Fault))
		}
	}
	p.Record = c.records.known(p.Name, state)
	p.overrides, err = dir.ReadFile(overridesFile, maxOverrides)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Fault = c.unreadable(p.Name, err)
	}
	if n := len(p.overrides); n > smallOverrides && large.Add(int64(n)) > maxLarge {
		p.overrides = nil
		p.Fault = fmt.Errorf("cannot read %s: those of more than %d KB have more than %d MB together; make it smaller, or remove others",
			dir.Path(overridesFile), smallOverrides>>10, maxLarge>>20)
	}
}

// unreadable is why a profile's file cannot be read now. One that is somebody else's is
// no fault of what is in it, and its owner can be put right.
func (c *catalogue) unreadable(name string, err error) error {
	var failed *durable.Error
	if !errors.As(err, &failed) || !errors.Is(err, unix.EACCES) || name == Default || c.ownership.owners == nil {
		return err
	}
	now := *failed
	now.Do, now.Remedy = failed.Do+" now", "rlminit profile repair "+name
	return &now
}

// forgetMissing frees the ports of profiles that were there before the scan
// and are not in it.
func (c *catalogue) forgetMissing(known []string, list []Profile) {
	there := make(map[string]bool, len(list))
	for _, p := range list {
		there[p.Name] = true
	}
	for _, name := range known {
		if !there[name] {
			c.records.forget(name)
		}
	}
}

// settlePorts gives every profile in the list its port: the recorded one where
// it may have it, first those whose record bears their own name (a directory
// that was copied carries the original's port), else a new one.
func (c *catalogue) settlePorts(list []Profile, settings *Settings) {
	for _, own := range []bool{true, false} {
		for _, p := range list {
			if p.Record.Port != 0 && (p.Record.Profile == p.Name) == own {
				c.ports.Claim(p.Name, p.Record.Port)
			}
		}
	}
	full, without, line := map[PortRange]bool{}, 0, ""
	for i := range list {
		p := &list[i]
		r := settings.beginning(p.Kind()).Range
		if !full[r] {
			p.Port = c.ports.Allot(p.Name, r, settings.Held)
		} else {
			p.Port = c.ports.Of(p.Name)
		}
		if p.Port == 0 && r.Size() > 0 {
			full[r] = true
			if without++; without == 1 {
				line = fullRange(p.Name, p.Kind(), r)
			}
		}
		p.Unrecorded = p.Port != p.Record.Port || p.Record.Origin != service.Recorded
	}
	if without > 1 {
		line += fmt.Sprintf("; so it is with %d more", without-1)
	}
	if line != "" {
		c.tree.told.once(line)
	}
}

// fewProfiles are looked at one by one; of more it is looked first which have secrets.
const fewProfiles = 8

// settleSecrets tells of every profile in the list which of its sets of secrets counts.
func (c *catalogue) settleSecrets(list []Profile) {
	if c.secrets == nil {
		return
	}
	var holders map[string]bool
	if len(list) > fewProfiles {
		holders = c.secrets.Holders()
	}
	for i := range list {
		p := &list[i]
		if holders != nil && !holders[p.Name] {
			continue
		}
		var err error
		if p.Secrets, err = c.secrets.Version(p.Name); err != nil && p.Fault == nil {
			p.Fault = err
		}
	}
}

// inChunks calls f for the parts of 0 to n, each of at most size, on a few goroutines, at
// most so many, and waits for all.
func inChunks(n, size, most int, f func(from, to int)) {
	chunks := (n + size - 1) / size
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < chunks; i = int(next.Add(1)) - 1 {
			f(i*size, min((i+1)*size, n))
		}
	}
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8, most, chunks) - 1 {
		all.Go(work)
	}
	work()
	all.Wait()
}
