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
	"rlminit/service"
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
// is another user's is left alone, with all below, and so is what is no profile's or is
// mounted there. The error is the first one, with how many more there are.
func TakeRoots(home, profile string, user wire.Identity) (did durable.Handed, err error) {
	if why := service.CheckProfileForm(profile); profile != "" && why != "" {
		return did, errors.New(why)
	}
	volume, err := durable.Open(home)
	if err != nil {
		return did, err
	}
	defer volume.Close()
	if _, err := takeRoots(volume, config.ProfilesDir, user, true); err != nil {
		return did, err
	}
	dir, err := volume.OpenDir(config.ProfilesDir)
	if err != nil {
		return did, err
	}
	defer dir.Close()
	names := []string{profile}
	if profile == "" {
		entries, err := dir.ReadDirOf(".", mostProfiles, func(e durable.Entry) bool { return service.CheckProfileForm(e.Name) == "" })
		if err != nil {
			return did, err
		}
		names = names[:0]
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
	more := 0
	for _, name := range names {
		some, failed := takeRoots(dir, name, user, false)
		did.Changed += some.Changed
		if did.Left = append(did.Left, some.Left...); len(did.Left) > mostLeft {
			did.Left = did.Left[:mostLeft]
		}
		switch {
		case failed == nil:
		case err == nil:
			err = failed
		default:
			more++
		}
	}
	if more > 0 {
		err = fmt.Errorf("%w; and so in %d more", err, more)
	}
	return did, err
}

// mostLeft is how many files with several names are named, of one profile or of all.
const mostLeft = 8

// takeRoots takes what is root's in one directory, or that alone, for the services' user.
func takeRoots(in *durable.Dir, rel string, user wire.Identity, alone bool) (durable.Handed, error) {
	there, err := in.Lstat(rel)
	if err != nil || there.Type != fs.ModeDir || there.UID != 0 && (alone || there.UID != user.UID) {
		return durable.Handed{}, err
	}
	return in.Take(rel, durable.Ownership{
		UID: user.UID, GID: user.GID, Alone: alone, Within: !alone,
		Keep: func(uid uint32) bool { return uid != 0 && uid != user.UID },
	})
}

// Bounds of an answer, in bytes: of the path of a file that was left alone, and of all, for
// which a pipe is read once. Further files are not named.
const (
	longestName   = 300
	longestAnswer = 4000
)

// Answer is what the process that hands over answers when it has come to its end.
func Answer(did durable.Handed) string {
	answer := wire.Done + "\n" + strconv.Itoa(did.Changed)
	for _, path := range did.Left {
		line := "\n" + strconv.QuoteToASCII(path[:min(len(path), longestName)])
		if len(answer)+len(line) > longestAnswer {
			break
		}
		answer += line
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
