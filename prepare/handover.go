package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/wire"
)

// HandOver gives the directory of a profile to its user, or back to the services'
// user, as wire.GiveProgram and wire.TakeProgram say; own is 0 where only what is root's
// in it is to be the services'. The directory is that of the descriptor: no name is
// followed to it, nor in it. An error names what in it could not be given, if it is not
// itself.
func HandOver(program string, directory int, services wire.Identity, own uint32) (durable.Handed, error) {
	const top = "."
	hand := durable.Hand{From: services.UID, UID: own, GID: own}
	switch {
	case program == wire.TakeProgram && own != 0:
		hand = durable.Hand{From: own, UID: services.UID, GID: services.GID, Back: true}
	case program != wire.GiveProgram:
		return durable.Handed{}, fmt.Errorf("there is no %s", program)
	case own == 0:
		hand.UID, hand.GID = services.UID, services.GID
	}
	did, err := durable.HandOver(directory, top, hand)
	for i, path := range did.Left {
		did.Left[i] = strings.TrimPrefix(path, top+"/")
	}
	var failed *durable.Error
	if !errors.As(err, &failed) {
		return did, err
	}
	if below, inside := strings.CutPrefix(failed.Path, top+"/"); inside {
		return did, fmt.Errorf("%s: %w", below, failed.Err)
	}
	return did, failed.Err
}

// TakeRoots has what is root's in the directory of a profile, or (a name of "") below the
// directory of all of them, be the services' user's, those directories themselves too. What
// is another user's is left alone, with all below.
func TakeRoots(home, profile string, user wire.Identity) (did durable.Handed, err error) {
	volume, err := durable.Open(home)
	if err != nil {
		return did, err
	}
	defer volume.Close()
	take := func(rel string, alone bool) error {
		there, err := volume.Lstat(rel)
		if err != nil || there.Type != fs.ModeDir || there.UID != 0 && (alone || there.UID != user.UID) {
			return err
		}
		some, err := volume.Take(rel, durable.Ownership{UID: user.UID, GID: user.GID, Alone: alone, Keep: func(uid uint32) bool { return uid != 0 && uid != user.UID }})
		did.Changed += some.Changed
		did.Left = append(did.Left, some.Left...)
		return err
	}
	if profile == "" {
		if err := take(config.ProfilesDir, true); err != nil {
			return did, err
		}
		entries, err := volume.ReadDirOf(config.ProfilesDir, mostProfiles, func(e durable.Entry) bool { return e.Name[0] != '.' })
		for _, e := range entries {
			err = errors.Join(err, take(config.ProfilesDir+"/"+e.Name, false))
		}
		return did, err
	}
	if strings.Contains(profile, "/") || profile[0] == '.' {
		return did, fmt.Errorf("%q is no profile", profile)
	}
	err = take(config.ProfilesDir, true)
	return did, errors.Join(err, take(config.ProfilesDir+"/"+profile, false))
}

// longestName is how much is answered of the path of a file that was left alone, in bytes.
const longestName = 300

// Answer is what the process that hands over answers when it has come to its end.
func Answer(did durable.Handed) string {
	answer := wire.Done + "\n" + strconv.Itoa(did.Changed)
	for _, path := range did.Left {
		answer += "\n" + strconv.QuoteToASCII(path[:min(len(path), longestName)])
	}
	return answer
}

// ParseAnswer is the inverse of Answer; false: it says why it was not done.
func ParseAnswer(text string) (did durable.Handed, done bool) {
	lines := strings.Split(text, "\n")
	if lines[0] != wire.Done {
		return did, false
	}
	for i, line := range lines[1:] {
		if i == 0 {
			did.Changed, _ = strconv.Atoi(line)
		} else if path, err := strconv.Unquote(line); err == nil {
			did.Left = append(did.Left, path)
		}
	}
	return did, true
}

// What a boot looks at to find what is root's in the directories of profiles, beside
// what lies in each itself: a volume may have millions of files.
const (
	reclaimMost   = 10_000 // entries of one profile
	reclaimWithin = time.Second
)

// HasProfiles tells whether there is a directory whose owners a boot puts right.
func HasProfiles(c *config.Config) bool {
	home, err := durable.Open(c.Home)
	if err != nil || c.Gateway == nil {
		return false
	}
	defer home.Close()
	for _, dir := range []string{config.ProfilesDir, config.TrashDir} {
		if first, err := home.ReadDir(dir, 1); len(first) > 0 || errors.Is(err, durable.ErrTooBig) {
			return true
		}
	}
	return false
}

// reclaim gives what is root's in the directory of a profile, or of one in the trash, to
// whose that directory is: who has written there as root has not meant to take it away.
// First it looks at what lies in each directory itself, where a profile's own files are,
// and then below, within the bounds unless whole is set.
func reclaim(home *durable.Dir, services wire.Identity, owned func(uid uint32) bool, whole bool) error {
	var all []string
	for _, dir := range []string{config.ProfilesDir, config.TrashDir} {
		entries, err := home.ReadDir(dir, mostProfiles)
		if err != nil && !errors.Is(err, durable.ErrTooBig) {
			continue // there is none, or who needs it says so
		}
		for _, e := range entries {
			if e.Type == fs.ModeDir {
				all = append(all, dir+"/"+e.Name)
			}
		}
	}
	var mu sync.Mutex
	var failures error
	each := func(dirs []string, bound durable.Hand) (deeper []string) {
		inParallel(dirs, func(rel string) {
			did, err := reclaimOne(home, rel, services, owned, bound)
			mu.Lock()
			defer mu.Unlock()
			if did.Deeper {
				deeper = append(deeper, rel)
			}
			if err != nil && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EXDEV) { // what cannot be looked at is said by who needs it
				failures = errors.Join(failures, err)
			}
		})
		return deeper
	}
	deeper := each(all, durable.Hand{Top: true})
	bound := durable.Hand{Most: reclaimMost, Until: time.Now().Add(reclaimWithin)}
	if whole {
		bound = durable.Hand{}
	}
	return errors.Join(failures, leftAlone(each(deeper, bound)))
}

// leftAlone says of which profiles not all was looked at; nil: of none. What is in the
// trash is looked at when it is restored or purged.
func leftAlone(dirs []string) error {
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !strings.HasPrefix(dir, config.ProfilesDir+"/") })
	if len(dirs) == 0 {
		return nil
	}
	slices.Sort(dirs)
	first, more := filepath.Base(dirs[0]), ""
	if len(dirs) > 1 {
		more = fmt.Sprintf(" and %d more", len(dirs)-1)
	}
	return fmt.Errorf("of profile %s%s not all files were looked at for those that are root's (a start looks at %d of each, for %v): rlminit profile repair %s looks at the rest",
		first, more, reclaimMost, reclaimWithin, first)
}

func reclaimOne(home *durable.Dir, rel string, services wire.Identity, owned func(uid uint32) bool, bound durable.Hand) (durable.Handed, error) {
	top, err := home.Handle(rel)
	if err != nil {
		return durable.Handed{}, err
	}
	defer unix.Close(top)
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		return durable.Handed{}, err
	}
	bound.From = services.UID
	switch {
	case st.Uid == services.UID:
		bound.UID, bound.GID = services.UID, services.GID
	case owned(st.Uid):
		bound.UID, bound.GID = st.Uid, st.Uid
	default:
		return durable.Handed{}, nil
	}
	return durable.HandOver(top, home.Path(rel), bound)
}

// inParallel calls f for each on a few goroutines, and waits for all.
func inParallel(all []string, f func(string)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(4, len(all)) {
		running.Go(func() {
			for i := next.Add(1); i <= int64(len(all)); i = next.Add(1) {
				f(all[i-1])
			}
		})
	}
	running.Wait()
}
