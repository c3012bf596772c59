// Package runtimedir makes PID 1's runtime directory at boot, empties it, and binds the
// control socket there; and the directory in /tmp below which services have theirs.
package runtimedir

import (
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/say"
	"rlminit/wire"
)

// The places of the runtime directory, the one that is named apart.
const (
	usualDirectory  = wire.RuntimeDir
	sharedDirectory = "/dev/shm/rlminit-"
)

// Directory is the one in which tier 2 publishes, on its way to be
// ours. Whatever else can write where it lies finds no way to have anything but
// that emptied, or to put something in its place.
type Directory struct {
	Root     bool // effective uid 0
	MayChown bool // CAP_CHOWN
	Policy   *wire.Policy
	Watch    func(listener int) error // has the loop wait for a client

	Temporary string // what makeTemporary has made
}

// Open makes the directory, empties it, and binds the control socket. Where that
// cannot be it tells why.
func (d *Directory) Open(environ []string) (path string, listener int, why string) {
	named := pure.Lookup(environ, "RLMINIT_RUNTIME_DIR")
	for _, path := range []string{named, usualDirectory, sharedDirectory + say.Number(unix.Geteuid())} {
		if path == usualDirectory {
			d.linkToMemory()
		}
		listener, err := d.occupy(path) // ENOENT, where none is named
		if err == nil {
			err = d.Watch(listener)
		}
		if err == nil {
			if named != "" && why != "" {
				say.Line(why) // somebody looks for it there
			}
			if !inMemory(path) {
				say.Line("the runtime directory ", path, " is on a disk: it fills and wears that; give the container --tmpfs /run")
			}
			return path, listener, ""
		}
		if why == "" && path != "" {
			why = "cannot use the runtime directory " + path + ": " + reasonOf(err) +
				"; mount a tmpfs there, or name another in RLMINIT_RUNTIME_DIR"
		}
	}
	return "", -1, why
}

// errHeld and errOpen are said of a directory in words of their own.
const (
	errHeld = unix.EBUSY
	errOpen = unix.ELOOP
)

func reasonOf(err error) string {
	switch err {
	case errHeld:
		return "another container that lives has it (--ipc host?)"
	case errOpen:
		return "somebody else could put another directory in its place"
	}
	return err.Error()
}

// occupy makes path ours and empty, with services/ for tier 2 and a bound
// control socket. It is ours for as long as we live: who shares the directory
// with us, as two containers with the host's /dev/shm do, finds it locked.
func (d *Directory) occupy(path string) (int, error) {
	directory, err := d.openOwn(path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(directory)
	var st unix.Stat_t
	if err := unix.Fstat(directory, &st); err != nil {
		return -1, err
	}
	uid := unix.Geteuid()
	if int(st.Uid) != uid {
		if err := unix.Fchown(directory, uid, unix.Getegid()); err != nil {
			return -1, unix.EPERM // somebody else's, who could replace what is in it
		}
	}
	if err := unix.Fchmod(directory, 0o755); err != nil {
		return -1, err
	}
	if err := lockDirectory(directory); err != nil {
		return -1, err
	}
	err = empty(directory)
	if err == unix.EACCES {
		// What the last boot's services have published is theirs, and we lack
		// CAP_DAC_OVERRIDE.
		for _, who := range []*wire.Identity{&d.Policy.User, &d.Policy.Supervisor} {
			as(who, func() { err = emptyServices(directory) })
		}
		if err == nil {
			err = empty(directory)
		}
	}
	if err == nil {
		err = d.makeServices(directory)
	}
	if err == nil {
		err = d.noteUser(directory)
	}
	if err != nil {
		return -1, err
	}
	d.makeBootFile(directory)
	d.makeTemporary(directory)
	return bind(path + "/control.sock")
}

const openDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// lockName is locked by whoever uses a runtime directory. Only its owner may
// open it, so that nobody else can hold the lock.
const lockName = ".lock"

// lockDirectory takes the lock, for good. Whatever else has its name was put
// there when the directory was not ours.
func lockDirectory(directory int) error {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(directory, lockName, flags, 0o600)
	if err == unix.ELOOP || err == unix.ENXIO || err == unix.EISDIR || err == unix.EACCES {
		e := emptying{top: directory, only: lockName}
		if err := e.empty(directory, 0); err != nil {
			return err
		}
		fd, err = unix.Openat(directory, lockName, flags, 0o600)
	}
	if err != nil {
		return err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		unix.Close(fd)
		return errHeld
	}
	return nil // and open until we end; a file system without locks is no other container's
}

// openOwn opens the directory at path, which it makes if need be. As root it
// goes there by directories alone in which nobody else can replace the next:
// otherwise a service could have us empty one of its choice.
func (d *Directory) openOwn(path string) (int, error) {
	if !d.Root {
		if err := unix.Mkdir(path, 0o755); err != nil && err != unix.EEXIST {
			return -1, err
		}
		return unix.Open(path, openDir|unix.O_NOFOLLOW, 0)
	}
	if path == "" || path[0] != '/' {
		return -1, unix.ENOENT
	}
	w := walk{at: -1, left: path, link: path == usualDirectory}
	defer func() { unix.Close(w.at) }()
	return w.open()
}

// walk is a way to a directory that nobody but root can lead elsewhere.
type walk struct {
	at     int    // the directory so far
	left   string // of the path
	links  int    // that were followed
	sticky bool   // others may make names in at, and not replace ours
	link   bool   // the last one may be a link
}

// mostLinks is as many as the kernel follows.
const mostLinks = 40

func (w *walk) open() (int, error) {
	if err := w.start(); err != nil {
		return -1, err
	}
	for {
		name, rest := cut(w.left)
		if name == "" {
			return unix.Openat(w.at, ".", openDir, 0)
		}
		if last, _ := cut(rest); last == "" {
			if err := unix.Mkdirat(w.at, name, 0o755); err != nil && err != unix.EEXIST {
				return -1, err
			}
		}
		if err := w.enter(name, rest); err != nil {
			return -1, err
		}
	}
}

func (w *walk) start() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if w.at >= 0 {
		unix.Close(w.at)
	}
	w.at, w.sticky = root, false
	return nil
}

// enter goes one name further.
func (w *walk) enter(name, rest string) error {
	next, err := unix.Openat(w.at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(next) }()
	var st unix.Stat_t
	if err := unix.Fstat(next, &st); err != nil {
		return err
	}
	last, _ := cut(rest)
	switch kind := st.Mode & unix.S_IFMT; {
	case st.Uid != 0 && (w.sticky || last != ""), kind == unix.S_IFLNK && (st.Uid != 0 || last == "" && !w.link):
		// A last one of somebody's in a directory of root's is where root has
		// put it, and is taken over.
		return errOpen
	case kind == unix.S_IFLNK:
		return w.follow(next, rest)
	case kind != unix.S_IFDIR:
		return unix.ENOTDIR
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 && last != "":
		return errOpen
	}
	w.at, next = next, w.at // the one before is closed
	w.left, w.sticky = rest, st.Mode&0o022 != 0
	return nil
}

// follow goes on where root's link leads.
func (w *walk) follow(link int, rest string) error {
	var buffer [unix.PathMax]byte
	n, err := unix.Readlinkat(link, "", buffer[:])
	if err != nil {
		return err
	}
	if w.links++; w.links > mostLinks || n == 0 || n == len(buffer) {
		return unix.ELOOP
	}
	target := string(buffer[:n])
	w.left, w.link = target+"/"+rest, false
	if target[0] == '/' {
		return w.start()
	}
	return nil
}

// cut splits a path behind its first name. "." is no name.
func cut(path string) (name, rest string) {
	for {
		name, rest, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
		if name != "." {
			return name, rest
		}
		path = rest
	}
}

// linkToMemory makes usualDirectory a link to a fresh directory on /dev/shm,
// where it would lie on a disk, and root can. The directory's name cannot be
// foreseen: nobody can have prepared it.
func (d *Directory) linkToMemory() {
	if !d.Root || inMemory("/run") || inMemory(usualDirectory) && !isLink(usualDirectory) || !roomInMemory() {
		return
	}
	d.dropLink()
	name := unforeseen()
	if name == "" {
		return
	}
	fresh := sharedDirectory + name
	if err := unix.Mkdir(fresh, 0o755); err != nil {
		return
	}
	if err := unix.Symlink(fresh, usualDirectory); err != nil {
		unix.Rmdir(fresh) // a read-only /run has what is there
	}
}

// dropLink takes away what the last boot of this container has left in the place
// of the link: the link and where it leads, or a directory.
func (d *Directory) dropLink() {
	directory, err := d.openOwn(usualDirectory)
	if err != nil {
		return
	}
	defer unix.Close(directory)
	if lockDirectory(directory) != nil || empty(directory) != nil {
		return
	}
	unix.Unlinkat(directory, lockName, 0)
	if !isLink(usualDirectory) {
		unix.Rmdir(usualDirectory)
		return
	}
	var buffer [unix.PathMax]byte
	if n, err := unix.Readlink(usualDirectory, buffer[:]); err == nil && strings.HasPrefix(string(buffer[:n]), sharedDirectory) {
		unix.Rmdir(string(buffer[:n]))
	}
	unix.Unlink(usualDirectory)
}

func isLink(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// inMemory tells whether a path lies on a file system in memory.
func inMemory(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
}

// leastShared is what must be free on /dev/shm, in bytes.
const leastShared = 16 << 20

func roomInMemory() bool {
	var fs unix.Statfs_t
	return unix.Statfs("/dev/shm", &fs) == nil && fs.Type == unix.TMPFS_MAGIC && fs.Bavail*uint64(fs.Bsize) >= leastShared
}

// unforeseen makes a name of 128 bits of chance, 32 digits; "" where there is none yet.
func unforeseen() string {
	var chance [16]byte
	if n, err := unix.Getrandom(chance[:], unix.GRND_NONBLOCK); err != nil || n < len(chance) {
		return ""
	}
	const digits = "0123456789abcdef"
	name := make([]byte, 0, 2*len(chance))
	for _, b := range chance {
		name = append(name, digits[b>>4], digits[b&15])
	}
	return string(name)
}

// noteUser records who the service user is, and the range of profiles' users, for clients: what tier 2 says of
// itself over the socket is worth less to root than what root has written.
func (d *Directory) noteUser(directory int) error {
	fd, err := unix.Openat(directory, "user", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	text := say.Number(int(d.Policy.User.UID)) + ":" + say.Number(int(d.Policy.User.GID)) + "\n"
	if of := &d.Policy.Profiles; of.Low != 0 {
		text += say.Number(int(of.Low)) + "-" + say.Number(int(of.High)) + "\n"
	}
	_, err = unix.Write(fd, []byte(text))
	return err
}

// BootFile names the boot step that is running to clients; the service user
// writes it until tier 2 is there.
const BootFile = "boot"

// makeBootFile makes it. It is a courtesy: without the right to give it away
// there is none.
func (d *Directory) makeBootFile(directory int) {
	if !d.Policy.Prepare {
		return
	}
	fd, err := unix.Openat(directory, BootFile, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Fchown(fd, int(d.Policy.User.UID), int(d.Policy.User.GID))
		unix.Close(fd)
	}
}

// makeServices makes the directory in which tier 2 publishes, as its own.
// Without CAP_CHOWN it is made by that user, for whom the runtime directory is
// open meanwhile: nothing of anybody's runs yet.
func (d *Directory) makeServices(directory int) error {
	const name = "services"
	if err := unix.Mkdirat(directory, name, 0o755); err != nil {
		return err
	}
	user := &d.Policy.Supervisor
	if int(user.UID) == unix.Geteuid() {
		return nil
	}
	err := unix.Fchownat(directory, name, int(user.UID), int(user.GID), unix.AT_SYMLINK_NOFOLLOW)
	if err != unix.EPERM {
		return err
	}
	if err := unix.Unlinkat(directory, name, unix.AT_REMOVEDIR); err != nil {
		return err
	}
	if err := unix.Fchmod(directory, 0o1777); err != nil {
		return err
	}
	as(user, func() { err = unix.Mkdirat(directory, name, 0o755) })
	if closed := unix.Fchmod(directory, 0o755); err == nil {
		err = closed
	}
	return err
}

// as runs f with somebody's rights to files, setfsuid(2). They are this thread's
// alone, which is the first and never changes.
func as(who *wire.Identity, f func()) {
	unix.SetfsgidRetGid(int(who.GID))
	unix.SetfsuidRetUid(int(who.UID))
	f()
	unix.SetfsuidRetUid(unix.Geteuid())
	unix.SetfsgidRetGid(unix.Getegid())
}

// emptyServices removes what is in services/, and not that itself.
func emptyServices(directory int) error {
	below, err := unix.Openat(directory, "services", openDir|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	err = empty(below)
	unix.Close(below)
	return err
}

// deepest is how deep directories are opened below each other.
const deepest = 32

// empty removes what is in a directory, by descriptor and without following a
// link: the last boot's services could write below it. However deep they made
// it, the next boot must come: what lies too deep is moved up first.
func empty(directory int) error {
	for round := 0; ; round++ {
		e := emptying{top: directory, round: round}
		if err := e.empty(directory, 0); err != nil || e.moved == 0 {
			return err
		}
	}
}

// emptying is one round through a directory.
type emptying struct {
	top          int
	round, moved int
	only         string // of top's names; "": all but the lock
}

func (e *emptying) empty(directory, depth int) error {
	var names []string
	buffer := make([]byte, 16<<10)
	if _, err := unix.Seek(directory, 0, unix.SEEK_SET); err != nil {
		return err
	}
	for {
		n, err := unix.ReadDirent(directory, buffer)
		if err != nil {
			return err
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
	for _, name := range names {
		if directory == e.top && (e.only == "" && name == lockName || e.only != "" && name != e.only) {
			continue
		}
		err := unix.Unlinkat(directory, name, 0)
		if err == unix.EISDIR || err == unix.EPERM {
			err = e.below(directory, name, depth)
		}
		if err != nil && err != unix.ENOENT {
			return err
		}
	}
	return nil
}

func (e *emptying) below(directory int, name string, depth int) error {
	if depth == deepest {
		for {
			e.moved++
			err := unix.Renameat(directory, name, e.top, ".deep."+say.Number(e.round)+"."+say.Number(e.moved))
			if err != unix.EEXIST && err != unix.ENOTEMPTY && err != unix.ENOTDIR {
				return err
			}
		}
	}
	below, err := unix.Openat(directory, name, openDir|unix.O_NOFOLLOW, 0)
	if err == unix.EACCES && unix.Fchmodat(directory, name, 0o700, 0) == nil {
		below, err = unix.Openat(directory, name, openDir|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return err
	}
	err = e.empty(below, depth+1)
	unix.Close(below)
	if err != nil {
		return err
	}
	return unix.Unlinkat(directory, name, unix.AT_REMOVEDIR)
}

// bind makes the control socket. Anyone may connect: the peer's credentials
// decide what it may do.
func bind(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	mask := unix.Umask(0)
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	unix.Umask(mask)
	if err == nil {
		err = unix.Chmod(path, 0o666)
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
