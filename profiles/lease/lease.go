// Package lease keeps two containers from running the profiles of one volume.
//
// The lock is File in the volume's directory, where only the supervisor gets. Its
// holder has it locked with flock(2), which the kernel gives back when the last
// descriptor is closed, and writes its name and the time into it.
// flock is the authority wherever it works. Only where the file system is known to
// keep locks from other hosts is a holder on another kernel (the record's boot_id
// differs) honoured until its record is Stale, and so is everyone where there is
// no flock. In these two cases the holder writes its record every Interval. OldFile is
// locked too, for containers that look at nothing else; what stands in it counts for
// nothing, since services could once write there.
//
// The descriptor of File outlives a supervisor when another process holds a copy
// of it: Lease.Files gives it out, Claim.Adopt takes it back. OldFile is locked
// anew by the next one.
package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/kernel"
	"rlminit/journal"
)

// File and OldFile are the names of the locks in the volume's directory.
const (
	File    = journal.Lock
	OldFile = journal.OldLock
)

// How often a holder writes its record, and how old one is that no longer
// counts.
const (
	Interval = 10 * time.Second
	Stale    = 30 * time.Second
)

// Claim is a wish for a volume. One goroutine uses it.
type Claim struct {
	home *durable.Dir
	who  Identity
	say  func(string)
	now  func() time.Time

	// The last foreign record, and since when it has not changed, by this
	// kernel's clock: other clocks may be wrong.
	seen      record
	seenSince time.Time
}

// NewClaim makes a claim on the volume home. say is told, once each, what a
// person should know about how well the lock works there.
func NewClaim(home *durable.Dir, who Identity, say func(string)) *Claim {
	said := map[string]bool{}
	once := func(line string) {
		if !said[line] {
			said[line] = true
			say(line)
		}
	}
	return &Claim{home: home, who: who, say: once, now: time.Now}
}

// Lease is a volume held. One goroutine uses it.
type Lease struct {
	claim *Claim
	file  *os.File // nil: a read-only volume without a lock file
	name  string   // of the file
	old   *os.File // OldFile, locked; nil: it cannot be had
	// locked: flock works here, and we have it.
	locked   bool
	readOnly bool
}

// Try takes the volume, or says in a *Held who has it.
func (c *Claim) Try() (*Lease, error) {
	old, err := c.takeOld()
	if err != nil {
		return nil, err
	}
	l, err := c.try()
	var held *Held
	switch {
	case old == nil:
	case err == nil:
		l.old = old
	case errors.As(err, &held):
		old.Close()
	default:
		// Whatever is in the place of what is ours, the volume is locked.
		return &Lease{claim: c, file: old, name: OldFile, locked: true, readOnly: cannotWrite(old)}, nil
	}
	return l, err
}

// takeOld locks OldFile. Where that cannot be opened or locked at all, File alone
// counts.
func (c *Claim) takeOld() (*os.File, error) {
	f, err := c.open(OldFile)
	if err != nil {
		f, err = c.home.OpenRegular(OldFile, unix.O_RDONLY, 0)
	}
	if err != nil {
		return nil, nil
	}
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return f, nil
	case unix.EWOULDBLOCK:
		r := read(f)
		if newer, err := c.home.OpenRegular(File, unix.O_RDONLY, 0); err == nil {
			if kept := read(newer); !kept.Heartbeat.IsZero() {
				r = kept
			}
			newer.Close()
		}
		f.Close()
		return nil, c.locked(r)
	}
	f.Close()
	return nil, nil
}

func (c *Claim) try() (*Lease, error) {
	const tries = 5
	for range tries {
		if err := c.home.MkdirAll(path.Dir(File), 0o700); err != nil {
			return c.readOnly(err)
		}
		f, err := c.open(File)
		if err != nil {
			return c.readOnly(err)
		}
		l, err := c.take(f, File, false)
		if err != nil {
			f.Close()
			return nil, err
		}
		if c.home.Same(File, f) {
			return l, nil
		}
		f.Close() // somebody has put another file there meanwhile
	}
	return nil, fmt.Errorf("cannot lock %s: the file keeps being replaced; see what does so", c.home.Path(File))
}

// Adopt goes on with the locks of an earlier supervisor of this container, whose
// Files these are, at least one; they belong to the Lease from now on.
func (c *Claim) Adopt(files []*os.File) (*Lease, error) {
	f, rest := files[0], files[1:]
	name := File
	if c.home.Same(OldFile, f) {
		name = OldFile
	}
	if !c.home.Same(name, f) {
		closeAll(files)
		return c.Try()
	}
	l, err := c.take(f, name, cannotWrite(f))
	switch {
	case err != nil:
		closeAll(files)
		return nil, err
	case len(rest) == 1 && c.home.Same(OldFile, rest[0]) && flock(rest[0], unix.LOCK_EX|unix.LOCK_NB) == nil:
		l.old = rest[0]
	case name == File:
		closeAll(rest)
		if l.old, err = c.takeOld(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return l, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Wait tries every so often until the volume is free or ctx ends, which is the only
// error. waits is told of every one in between: that somebody has the volume, or what
// is wrong with it, which may be mended meanwhile.
func (c *Claim) Wait(ctx context.Context, every time.Duration, waits func(error)) (*Lease, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		l, err := c.Try()
		if err == nil {
			return l, nil
		}
		waits(err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// open opens the lock file. What is no regular file has no business there, and
// is moved to a name that is cleaned up at boot.
func (c *Claim) open(name string) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT
	f, err := c.home.OpenRegular(name, flags, 0o640)
	if errors.Is(err, durable.ErrNotRegular) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) {
		if err := c.home.Rename(name, path.Join(path.Dir(name), durable.TempName())); err != nil {
			return nil, err
		}
		f, err = c.home.OpenRegular(name, flags, 0o640)
	}
	return f, err
}

// readOnly takes a volume that cannot be written to, for which err is the
// reason. Where there is a lock file, a holder elsewhere is honoured.
func (c *Claim) readOnly(err error) (*Lease, error) {
	if !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return nil, err
	}
	c.say(fmt.Sprintf("%v; the volume is not locked against other containers", err))
	f, e := c.home.OpenRegular(File, unix.O_RDONLY, 0)
	if e != nil {
		return &Lease{claim: c, readOnly: true}, nil
	}
	l, e := c.take(f, File, true)
	if e != nil {
		f.Close()
		return nil, e
	}
	return l, nil
}

// take locks the open lock file and, unless a record forbids it, makes it ours.
func (c *Claim) take(f *os.File, name string, readOnly bool) (*Lease, error) {
	l := &Lease{claim: c, file: f, name: name, readOnly: readOnly}
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		l.locked = true
	case unix.EWOULDBLOCK:
		return nil, c.locked(read(f))
	case unix.ENOLCK, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.EBADF:
		// EBADF: NFS wants a file open for writing.
		c.say(fmt.Sprintf("volume %s has no working flock (%v); another container on it is known by its heartbeat alone", c.home.Path("."), err))
	default:
		return nil, fmt.Errorf("cannot lock %s: %w", c.home.Path(File), err)
	}
	if r := read(f); c.honours(r, l) {
		if l.locked {
			_ = flock(f, unix.LOCK_UN) // closing it does the same
		}
		return nil, c.held(r)
	}
	if readOnly {
		return l, nil
	}
	err := l.write(c.now())
	if err != nil && l.locked {
		c.say(err.Error()) // the lock is ours all the same, and Keep writes it later
		err = nil
	}
	return l, err
}

// cannotWrite tells whether f was opened for reading alone.
func cannotWrite(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY
}

// honours tells whether a record found in the lock file belongs to a holder
// that must be left alone by l.
func (c *Claim) honours(r record, l *Lease) bool {
	sameKernel := r.BootID != "" && r.BootID == c.who.BootID
	switch {
	case r.Heartbeat.IsZero():
		return false
	case l.locked && (sameKernel || l.name == OldFile || !blind(l.file)):
		return false // the kernel knows better than the record
	case r.Container == c.who.Container && (sameKernel || containerID().MatchString(r.Container)):
		return false // our own earlier life
	}
	if r != c.seen {
		c.seen, c.seenSince = r, c.now()
	}
	age := c.now().Sub(r.Heartbeat)
	return age < Stale && c.now().Sub(c.seenSince) < Stale
}

func (c *Claim) held(r record) error {
	return &Held{Volume: c.home.Path("."), Container: r.Container, Age: max(0, c.now().Sub(r.Heartbeat))}
}

// locked is the error where the kernel refuses the lock. How old the record is says
// nothing then: its holder does not write it again.
func (c *Claim) locked(r record) error {
	return &Held{Volume: c.home.Path("."), Container: r.Container, Age: -1}
}

// Files are the locked descriptors, to be kept by whoever shall keep the locks when
// this process dies. They stay the Lease's own.
func (l *Lease) Files() (files []*os.File) {
	for _, f := range []*os.File{l.file, l.old} {
		if f != nil {
			files = append(files, f)
		}
	}
	return files
}

// ReadOnly tells whether the volume could not be written to when it was locked.
func (l *Lease) ReadOnly() bool { return l.readOnly }

// Beat says that we are still here. A *Held means that
// the volume has been lost to a container on another kernel, to which this one
// was silent for too long. replaced: somebody has removed the lock file, and
// Files are others now.
func (l *Lease) Beat() (replaced bool, err error) {
	c := l.claim
	if l.readOnly {
		return false, nil
	}
	if !c.home.Same(l.name, l.file) {
		next, err := c.try()
		if err != nil {
			return false, err
		}
		next.old = l.old
		l.file.Close()
		*l = *next
		return true, nil
	}
	r := read(l.file)
	if r.BootID != c.who.BootID || r.Container != c.who.Container {
		if c.honours(r, l) {
			return false, c.held(r)
		}
	}
	return false, l.write(c.now())
}

// Keep beats every Interval, until ctx ends (nil) or the volume is lost (*Held); where the
// kernel keeps the lock from everybody, only when one of looks finds that the file is not
// in its place any more. moved is called with the new Files whenever one had to be taken
// anew. A record that cannot be written is said, and tried again.
func (l *Lease) Keep(ctx context.Context, looks <-chan struct{}, moved func([]*os.File)) error {
	var beat <-chan time.Time
	if !l.readOnly && (!l.locked || blind(l.file)) {
		tick := time.NewTicker(Interval)
		defer tick.Stop()
		beat, looks = tick.C, nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat:
		case <-looks:
			if l.file == nil || l.claim.home.Same(l.name, l.file) {
				continue
			}
		}
		replaced, err := l.Beat()
		var held *Held
		switch {
		case errors.As(err, &held):
			return err
		case err != nil:
			l.claim.say(err.Error())
		case replaced:
			moved(l.Files())
		}
	}
}

// Release gives the volume up, whoever holds copies of the descriptor. Nobody
// waits for a stale record then.
func (l *Lease) Release() error {
	if l.file == nil {
		return nil
	}
	var err error
	if !l.readOnly {
		err = l.write(time.Time{})
	}
	if l.locked {
		err = errors.Join(err, flock(l.file, unix.LOCK_UN))
	}
	if l.old != nil {
		err = errors.Join(err, flock(l.old, unix.LOCK_UN), l.old.Close())
	}
	return errors.Join(err, l.file.Close())
}

// blind tells whether a file lies where a lock is not seen by other hosts that
// have the same files; a variable, for tests.
var blind = func(f *os.File) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return false
	}
	const vboxsf, virtiofs = 0x786f4256, 0x6a656a63
	switch int64(fs.Type) {
	case unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, vboxsf, virtiofs:
		return true
	}
	return false
}

// write puts our record into the lock file, and onto the disk: a network file
// system shows it to others only then.
func (l *Lease) write(at time.Time) error {
	c := l.claim
	text, err := record{c.who.Container, c.who.BootID, at.UTC()}.encode()
	if err == nil {
		_, err = l.file.WriteAt(text, 0)
	}
	if err == nil {
		err = kernel.Named("fdatasync", unix.Fdatasync(int(l.file.Fd())))
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", c.home.Path(File), durable.Bare(err))
	}
	return nil
}

// flock is flock(2); a variable, for tests on file systems that have it.
var flock = func(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}
