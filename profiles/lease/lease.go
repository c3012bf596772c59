// Package lease keeps two containers from running the profiles of one volume.
//
// The lock is File in the volume's directory. Its holder has it locked with
// flock(2), which the kernel gives back when the last descriptor is closed, and
// writes its name and the time into it every Interval. flock is the authority
// among the containers of one kernel. A holder on another kernel (a network
// volume; the record's boot_id differs) is honoured until its record is Stale,
// and so is everyone where the volume has no flock.
//
// The descriptor outlives a supervisor when another process holds a copy of it:
// File gives it out, Claim.Adopt takes it back.
package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// File is the lock's name in the volume's directory.
const File = ".rlminit.lock"

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
	// locked: flock works here, and we have it.
	locked   bool
	readOnly bool
}

// Try takes the volume, or says in a *Held who has it.
func (c *Claim) Try() (*Lease, error) {
	const tries = 5
	for range tries {
		f, err := c.open()
		if err != nil {
			return c.readOnly(err)
		}
		l, err := c.take(f, false)
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

// Adopt goes on with the lock of an earlier supervisor of this container, whose
// descriptor f is; it belongs to the Lease from now on.
func (c *Claim) Adopt(f *os.File) (*Lease, error) {
	if !c.home.Same(File, f) {
		f.Close()
		return c.Try()
	}
	l, err := c.take(f, cannotWrite(f))
	if err != nil {
		f.Close()
	}
	return l, err
}

// Wait tries every so often until the volume is free or ctx ends.
func (c *Claim) Wait(ctx context.Context, every time.Duration) (*Lease, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		l, err := c.Try()
		var held *Held
		if !errors.As(err, &held) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// open opens the lock file. What is no regular file has no business there, and
// is moved to a name that is cleaned up at boot.
func (c *Claim) open() (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT
	f, err := c.home.OpenRegular(File, flags, 0o640)
	if errors.Is(err, durable.ErrNotRegular) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) {
		if err := c.home.Rename(File, durable.TempName()); err != nil {
			return nil, err
		}
		f, err = c.home.OpenRegular(File, flags, 0o640)
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
	l, e := c.take(f, true)
	if e != nil {
		f.Close()
		return nil, e
	}
	return l, nil
}

// take locks the open lock file and, unless a record forbids it, makes it ours.
func (c *Claim) take(f *os.File, readOnly bool) (*Lease, error) {
	l := &Lease{claim: c, file: f, readOnly: readOnly}
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		l.locked = true
	case unix.EWOULDBLOCK:
		return nil, c.held(read(f))
	case unix.ENOLCK, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.EBADF:
		// EBADF: NFS wants a file open for writing.
		c.say(fmt.Sprintf("volume %s has no working flock (%v); another container on it is known by its heartbeat alone", c.home.Path("."), err))
	default:
		return nil, fmt.Errorf("cannot lock %s: %w", c.home.Path(File), err)
	}
	if r := read(f); c.honours(r, l.locked) {
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
// that must be left alone; locked tells whether we have the flock.
func (c *Claim) honours(r record, locked bool) bool {
	sameKernel := r.BootID != "" && r.BootID == c.who.BootID
	switch {
	case r.Heartbeat.IsZero():
		return false
	case locked && sameKernel:
		return false // the kernel knows better than the record
	case r.Container == c.who.Container && (sameKernel || containerID.MatchString(r.Container)):
		return false // our own earlier life
	}
	if r != c.seen {
		c.seen, c.seenSince = r, c.now()
	}
	age := c.now().Sub(r.Heartbeat)
	return age < Stale && c.now().Sub(c.seenSince) < Stale
}

func (c *Claim) held(r record) error {
	return &Held{Volume: c.home.Path("."), Container: r.Container, Age: c.now().Sub(r.Heartbeat)}
}

// File is the locked descriptor, to be kept by whoever shall keep the lock when
// this process dies; nil: there is none. It stays the Lease's own.
func (l *Lease) File() *os.File { return l.file }

// ReadOnly tells whether the volume could not be written to when it was locked.
func (l *Lease) ReadOnly() bool { return l.readOnly }

// Beat says that we are still here. Call it every Interval. A *Held means that
// the volume has been lost to a container on another kernel, to which this one
// was silent for too long. replaced: somebody has removed the lock file, and
// File is another one now.
func (l *Lease) Beat() (replaced bool, err error) {
	c := l.claim
	if l.readOnly {
		return false, nil
	}
	if !c.home.Same(File, l.file) {
		next, err := c.Try()
		if err != nil {
			return false, err
		}
		l.file.Close()
		*l = *next
		return true, nil
	}
	r := read(l.file)
	if r.BootID != c.who.BootID || r.Container != c.who.Container {
		if c.honours(r, l.locked) {
			return false, c.held(r)
		}
	}
	return false, l.write(c.now())
}

// Keep beats until ctx ends (nil) or the volume is lost (*Held). moved is
// called with the new descriptor whenever it had to be taken anew. A record
// that cannot be written is said, and tried again.
func (l *Lease) Keep(ctx context.Context, moved func(*os.File)) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		replaced, err := l.Beat()
		var held *Held
		switch {
		case errors.As(err, &held):
			return err
		case err != nil:
			l.claim.say(err.Error())
		case replaced:
			moved(l.file)
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
	return errors.Join(err, l.file.Close())
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
		err = unix.Fdatasync(int(l.file.Fd()))
	}
	var why *fs.PathError
	if errors.As(err, &why) {
		err = why.Err
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", c.home.Path(File), err)
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
