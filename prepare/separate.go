package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/rights"
	"rlminit/wire"
)

// What is the supervisor's on the volume, below its directory.
const (
	privateDir = journal.Home
	logsDir    = "logs"
	lockFile   = journal.OldLock
)

// Its modes. What a service's user may read is of that user's group, and what is
// made there later too: set-group-id.
const (
	homeMode    = 0o1775
	privateMode = 0o700
	logsMode    = 0o2750
	lockMode    = 0o640
)

// ours tells whether a path below the volume's directory is the supervisor's.
func ours(rel string) bool {
	top, _, _ := strings.Cut(rel, "/")
	return top == privateDir || top == logsDir || top == lockFile
}

// Separable says why the supervisor cannot have a uid of its own where this
// process is root; "": it can. join tells whether it needs the group of user as
// well, for its logs to be that group's: where a file system does not give what is
// made in a set-group-id directory that group. former is who the volume's files may
// belong to besides. Nothing is changed by it.
func Separable(home string, user, supervisor wire.Identity, former uint32) (join bool, why string) {
	if filepath.Clean(home) == "/" {
		return false, "its volume is the root directory"
	}
	if !canSetGroups() {
		return false, "setgroups(2) does not work here"
	}
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) { // it is made, or there is no volume
		return true, ""
	}
	if err != nil {
		return false, fmt.Sprintf("cannot open %s: %v", home, err)
	}
	defer unix.Close(fd)
	if err := reachable(home, supervisor); err != nil {
		return false, fmt.Sprintf("it could not get to %s: %v", home, err)
	}
	var st unix.Stat_t
	var where unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &where)); err != nil {
		return false, fmt.Sprintf("cannot look at %s: %v", home, err)
	}
	readOnly := where.Flags&unix.ST_RDONLY != 0
	done := inOrder(fd, user, supervisor)
	if !done {
		switch {
		case readOnly:
			return false, home + " is read-only, and nothing there is the supervisor's yet"
		case st.Uid != 0 && st.Uid != user.UID && st.Uid != former:
			return false, fmt.Sprintf("%s belongs to uid %d, and not to the services", home, st.Uid)
		case held(fd):
			return false, "another container has " + home + ", whose files are not the supervisor's yet"
		}
	} else if readOnly {
		return false, ""
	}
	join, err = givable(fd, user, supervisor, giveTo)
	if errors.Is(err, unix.EPERM) && !done && oursOr(fd, user, supervisor, true) && reachable(home+"/.", supervisor) == nil {
		join, err = givable(fd, user, supervisor, makeAs) // the services could move it, which Reach will find
	}
	switch {
	case err == nil:
	case done: // somebody with more rights did it
		join = true
	default:
		if errors.Is(err, unix.EPERM) {
			err = errors.New("CAP_CHOWN is missing, or the file system knows no owners")
		}
		why = fmt.Sprintf("it cannot be given files on %s: %v", home, err)
	}
	return join, why
}

// Separated tells whether nothing has to be done for a supervisor that has a uid
// of its own.
func Separated(home string, user, supervisor wire.Identity) bool {
	if inContainer() && !hasAccount("/etc/passwd", supervisor) && unix.Access("/etc", unix.W_OK) == nil {
		return false
	}
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return inOrder(fd, user, supervisor)
}

// inOrder looks at what is the supervisor's, and two directories deep.
func inOrder(home int, user, supervisor wire.Identity) bool {
	var st unix.Stat_t
	err := unix.Fstat(home, &st)
	whole := err == nil && st.Uid == 0 && st.Gid == user.GID && st.Mode == unix.S_IFDIR|homeMode
	return (whole || everybodys(home)) && oursOr(home, user, supervisor, false)
}

// oursOr tells whether what is the supervisor's below the volume's directory is so,
// or, where that is enough, absent.
func oursOr(home int, user, supervisor wire.Identity, absent bool) bool {
	is := func(rel string, gid, mode, kind uint32, deep int) bool {
		var st unix.Stat_t
		if err := unix.Fstatat(home, rel, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return absent && err == unix.ENOENT
		}
		return st.Uid == supervisor.UID && st.Gid == gid && st.Mode == kind|mode && (deep == 0 || allOf(home, rel, supervisor.UID, deep))
	}
	return is(privateDir, supervisor.GID, privateMode, unix.S_IFDIR, 1) &&
		is(logsDir, user.GID, logsMode, unix.S_IFDIR, 2) && is(lockFile, user.GID, lockMode, unix.S_IFREG, 0)
}

// everybodys tells whether a directory is as /tmp is: of root's, and nobody can move
// what is another's in it. It stays so.
func everybodys(fd int) bool {
	var st unix.Stat_t
	const mode = unix.S_ISVTX | 0o002
	return unix.Fstat(fd, &st) == nil && st.Uid == 0 && st.Mode&mode == mode
}

// allOf tells whether all in a directory is a user's, links aside.
func allOf(at int, rel string, uid uint32, deep int) bool {
	fd, err := durable.OpenBeneath(at, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return errors.Is(err, unix.EACCES) // without CAP_DAC_OVERRIDE: it is closed to us, and so not somebody else's
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return false
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if st.Uid != uid && (st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Nlink == 1) {
			return false
		}
		if deep > 1 && st.Mode&unix.S_IFMT == unix.S_IFDIR && !allOf(fd, e.Name(), uid, deep-1) {
			return false
		}
	}
	return true
}

// held tells whether somebody has the volume's lock, as it was before the
// supervisor had a uid of its own. We let go of it at once.
func held(home int) bool {
	fd, err := durable.OpenBeneath(home, lockFile, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// givable tries whether a directory can be made that is somebody else's: a network
// file system, or one of the host's, may not take another owner. join tells whether
// what is made in a set-group-id directory gets another group than that.
func givable(home int, user, to wire.Identity, dir func(at int, name string, uid, gid, mode uint32) error) (join bool, err error) {
	name := durable.TempName()
	defer func() { _ = unix.Unlinkat(home, name, unix.AT_REMOVEDIR) }()
	if err := dir(home, name, to.UID, user.GID, logsMode); err != nil {
		return false, err
	}
	fd, err := durable.OpenBeneath(home, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	const below = "below"
	var is, above unix.Stat_t
	if err := unix.Fstat(fd, &above); err != nil || above.Uid != to.UID || above.Gid != user.GID {
		return false, errors.Join(err, errors.New("the file system knows no owners"))
	}
	err = as(to, func() error { return unix.Mkdirat(fd, below, privateMode) })
	if err == nil {
		err = unix.Fstatat(fd, below, &is, unix.AT_SYMLINK_NOFOLLOW)
		err = errors.Join(err, as(to, func() error { return unix.Unlinkat(fd, below, unix.AT_REMOVEDIR) }))
	}
	if err == nil && is.Uid != to.UID {
		err = errors.New("the file system knows no owners")
	}
	return is.Gid != user.GID || is.Mode&unix.S_ISGID == 0, err
}

// giveTo makes a directory and gives it away, which takes CAP_CHOWN. Where that fails
// nothing is left of it: as root's it would be in the way of whose it is to be.
func giveTo(at int, name string, uid, gid, mode uint32) error {
	fd, err := makePrivate(at, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !isNew(fd) {
		return unix.EPERM
	}
	err = unix.Fchmod(fd, mode)
	if err == nil {
		err = unix.Fchown(fd, int(uid), int(gid))
	}
	if err != nil {
		_ = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	return err
}

// isNew tells whether an open directory is ours and empty. Whoever owns the directory
// around it may have put another one of root's in the place of what we have made.
func isNew(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != os.Geteuid() {
		return false
	}
	entries := make([]byte, 4096)
	n, err := unix.ReadDirent(fd, entries)
	if err != nil {
		return false
	}
	_, found, _ := unix.ParseDirent(entries[:n], 1, nil)
	return found == 0
}

// makeAs makes a directory as its owner, which takes CAP_DAC_OVERRIDE where that may
// not write to what it is made in.
func makeAs(at int, name string, uid, gid, mode uint32) error {
	return as(wire.Identity{UID: uid, GID: gid}, func() error {
		raise(unix.CAP_DAC_OVERRIDE)
		fd, err := makePrivate(at, name)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, mode)
	})
}

// makePrivate makes a directory for its owner alone, and opens it.
func makePrivate(at int, name string) (fd int, err error) {
	if err := unix.Mkdirat(at, name, privateMode); err != nil {
		return -1, err
	}
	return durable.OpenBeneath(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// raise gives the calling thread back a capability that setfsuid(2) has taken.
func raise(capability int) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil {
		data[0].Effective |= data[0].Permitted & (1 << capability)
		_ = unix.Capset(&header, &data[0])
	}
}

// reachable tries whether somebody may go to where home is.
func reachable(home string, who wire.Identity) error {
	return as(who, func() error {
		fd, err := unix.Open(filepath.Dir(home)+"/.", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
}

// as is rights.As with our groups: a user namespace may allow no others.
func as(who wire.Identity, do func() error) error {
	who.Groups = nil
	return rights.As(who, do)
}

// canSetGroups tries, with what we have: a user namespace may deny it.
func canSetGroups() bool {
	groups, err := os.Getgroups()
	return err == nil && unix.Setgroups(groups) == nil
}

// separate gives the supervisor what is its own on the volume. All goes by
// descriptor: what lies there may have been made by a service. Several-linked
// files keep their owner. Where nothing can be given away, what is absent is made as
// the supervisor, and the volume's directory stays whose it is.
func separate(home *durable.Dir, user, supervisor wire.Identity) []error {
	var failed []error
	try := func(err error) {
		if err != nil {
			failed = append(failed, err)
		}
	}
	if there, err := home.Lstat("."); err != nil || there.UID != 0 || there.Perm&0o1002 != 0o1002 {
		err := home.Own(".", durable.Ownership{UID: 0, GID: user.GID, Mode: homeMode, Alone: true})
		if errors.Is(err, unix.EPERM) {
			return makeOurs(home, user, supervisor)
		}
		try(err)
	}
	for _, d := range []struct {
		name string
		durable.Ownership
	}{
		{privateDir, durable.Ownership{UID: supervisor.UID, GID: supervisor.GID, Mode: privateMode}},
		{logsDir, durable.Ownership{UID: supervisor.UID, GID: user.GID, Mode: logsMode}},
	} {
		if err := home.Mkdir(d.name, privateMode); err != nil && !errors.Is(err, fs.ErrExist) {
			try(err)
			continue
		}
		if there, err := home.Lstat(d.name); err != nil || there.Type != fs.ModeDir {
			continue // what is in its place is said by who uses it
		}
		try(home.Own(d.name, d.Ownership))
	}
	try(ownLock(home, user, supervisor))
	return failed
}

// Missing are those of the supervisor's directories on the volume that are not there.
func Missing(home string) (missing []string) {
	for _, dir := range []string{privateDir, logsDir} {
		if _, err := os.Lstat(filepath.Join(home, dir)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, dir)
		}
	}
	return missing
}

// Directories makes those of the supervisor's directories on the volume again that are not
// there, and returns which. Anything else in the place of one is left alone.
func Directories(home string, user, supervisor wire.Identity) (made []string, err error) {
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", home, err)
	}
	defer unix.Close(fd)
	for _, dir := range Missing(home) {
		gid, mode := user.GID, uint32(logsMode)
		if dir == privateDir {
			gid, mode = supervisor.GID, privateMode
		}
		err = giveTo(fd, dir, supervisor.UID, gid, mode)
		if errors.Is(err, unix.EPERM) {
			err = makeAs(fd, dir, supervisor.UID, gid, mode)
		}
		switch {
		case err == nil:
			made = append(made, dir)
		case !errors.Is(err, unix.EEXIST):
			return made, fmt.Errorf("cannot make %s again: %w", filepath.Join(home, dir), err)
		}
	}
	return made, nil
}

// makeOurs makes what is absent of the supervisor's as that.
func makeOurs(home *durable.Dir, user, supervisor wire.Identity) (failed []error) {
	fd, err := unix.Open(home.Path("."), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return []error{err}
	}
	defer unix.Close(fd)
	for _, err := range []error{
		makeAs(fd, privateDir, supervisor.UID, supervisor.GID, privateMode),
		makeAs(fd, logsDir, supervisor.UID, user.GID, logsMode),
		as(wire.Identity{UID: supervisor.UID, GID: user.GID}, func() error {
			raise(unix.CAP_DAC_OVERRIDE)
			file, err := durable.OpenBeneath(fd, lockFile, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL, lockMode)
			if err == nil {
				err = errors.Join(unix.Fchmod(file, lockMode), unix.Close(file))
			}
			return err
		}),
	} {
		if err != nil && !errors.Is(err, unix.EEXIST) {
			failed = append(failed, fmt.Errorf("cannot make what is the supervisor's in %s: %w", home.Path("."), err))
		}
	}
	return failed
}

// ownLock makes the lock of a container that is older than the supervisor's uid.
func ownLock(home *durable.Dir, user, supervisor wire.Identity) error {
	const flags = unix.O_RDONLY | unix.O_CREAT | unix.O_EXCL
	f, err := home.OpenRegular(lockFile, flags, lockMode)
	if err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if there, err := home.Lstat(lockFile); err != nil || there.Type != 0 {
		return nil
	}
	return home.Own(lockFile, durable.Ownership{UID: supervisor.UID, GID: user.GID, Mode: lockMode})
}

// Reach says what of the supervisor's the services' user can change all the same,
// which is tried with that user's rights and changes nothing; "": nothing. There
// are file systems that keep owners and do not heed them.
func Reach(home string, user wire.Identity) (what string) {
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	_ = as(user, func() error {
		for _, file := range []string{journal.Lock, lockFile} {
			if open, err := durable.OpenBeneath(fd, file, unix.O_WRONLY, 0); err == nil {
				unix.Close(open)
				what = "write " + file
			}
		}
		for _, dir := range []string{privateDir, logsDir} {
			// A directory is never put in the place of a file; but whether it may be
			// taken from where it is, is looked at first.
			if err := unix.Renameat(fd, dir, fd, lockFile); errors.Is(err, unix.ENOTDIR) {
				what = "move " + dir
			}
		}
		return nil
	})
	return what
}

// Reached is what to say of what Reach has found.
func Reached(home, what string) string {
	why := "its file system does not heed owners"
	var st unix.Stat_t
	if unix.Stat(home, &st) == nil && st.Uid != 0 {
		why = "without CAP_CHOWN the directory stays theirs"
	}
	return fmt.Sprintf("the services can %s in %s, though that is the supervisor's: %s, and they could forge its records", what, home, why)
}
