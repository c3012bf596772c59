package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxOwnDepth bounds the directories of a tree whose owner is put right: each
// costs a descriptor.
const maxOwnDepth = 256

// errSpent ends the walk of a directory: enough has been looked at.
var errSpent = errors.New("enough")

// mostLeft is how many of the files that keep their owner are named.
const mostLeft = 8

// Ownership is whose a tree shall be.
type Ownership struct {
	UID, GID uint32
	Mode     uint32   // of the topmost, and of every directory below; 0: as they are
	Alone    bool     // nothing below is looked at
	Trust    bool     // a topmost directory that is so says that all below is
	Within   bool     // what is mounted at the topmost is left alone
	Except   []string // names in the topmost directory that are left alone
	// Keep tells whose is left alone, with all that is below; nil: nobody's.
	Keep func(uid uint32) bool
}

// Own gives rel, and everything below it, what as says, where it is another's. The
// topmost directory is changed last, so that a walk that was cut short is done again.
//
// Everything is reached by descriptor, by root, among files that others may
// have made: no link is followed (it gets the owner itself), no mount crossed,
// and files with several names, and devices, keep their owner. Errors do not end
// the walk; the first one is returned.
func (d *Dir) Own(rel string, as Ownership) error {
	_, err := d.own(rel, as, false)
	return err
}

// Take is Own of what is root's and of nothing else: whoever a file belongs to chose its group.
// It tells what it has changed.
func (d *Dir) Take(rel string, as Ownership) (Handed, error) { return d.own(rel, as, true) }

func (d *Dir) own(rel string, as Ownership, roots bool) (Handed, error) {
	top, err := openBeneath(d.fd, rel, unix.O_PATH, 0)
	if err != nil {
		return Handed{}, d.fail("own", rel, err)
	}
	defer unix.Close(top)
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		return Handed{}, d.fail("own", rel, err)
	}
	o := newOwning(as)
	o.roots = roots
	if as.Within && mountOf(top) != mountOf(d.fd) || o.keeps(&st) || o.right(&st) && (as.Alone || as.Trust) && as.Mode == 0 {
		return Handed{}, nil
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && !as.Alone {
		o.walk(top, d.Path(rel), 0)
	}
	if o.first == nil {
		o.becomes(top, d.Path(rel))
	}
	return o.handed, o.first
}

// Hand is who gives a directory to whom.
type Hand struct {
	From     uint32 // whose it is, and is changed beside what is root's; UID: root's alone
	UID, GID uint32 // whose it becomes
	Back     bool   // it was given before, and is given back
	Top      bool   // only the topmost and what lies in it itself
	Most     int    // how many entries are looked at; 0: all
	Until    time.Time
}

// Handed is what a walk that changes owners has come to.
type Handed struct {
	Changed int      // how many have another owner now
	Left    []string // files with several names that would have one; the first of them
	Deeper  bool     // there is more below than was looked at
}

// HandOver gives a directory, and all in it that is from's or root's, to a user. What
// is anybody else's keeps its owner, and so do files with several names, for another
// one of them may lie elsewhere. The directory is the last to change, after all below
// it from the top down. With Back, which undoes that, it is the first, before all below
// it from the bottom up, once what is root's in it itself is from's. So a walk that was cut short, either way, is seen at the top:
// an entry of the directory is not its owner's. One whose topmost is the user's already
// puts right what is below. It is an error where the directory is neither the one's nor
// the other's: root's is not taken, for whoever asks is not root. top is a descriptor of
// it, and path what to call it.
func HandOver(top int, path string, h Hand) (Handed, error) {
	o := newOwning(Ownership{UID: h.UID, GID: h.GID})
	o.hand, o.down = &h, !h.Back
	var st unix.Stat_t
	err := unix.Fstat(top, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.ENOTDIR
	case st.Uid != h.From && st.Uid != h.UID:
		err = fmt.Errorf("it belongs to uid %d", st.Uid)
	}
	if err != nil {
		return Handed{}, &Error{Do: "change the owner of", Path: path, Err: err}
	}
	if h.Back && st.Uid == h.From {
		// A directory of root's would hide that what is in it is still from's.
		if _, err := HandOver(top, path, Hand{From: h.From, UID: h.From, GID: st.Gid, Top: true}); err != nil {
			return Handed{}, err
		}
	}
	if h.Back {
		o.give(top, path)
	}
	o.walk(top, path, 0)
	if !h.Back && o.first == nil {
		o.give(top, path)
	}
	return o.handed, o.first
}

// owning is one walk, by several goroutines.
type owning struct {
	Ownership
	hand  *Hand         // nil: what is everybody's is changed
	roots bool          // what is root's alone is changed
	down  bool          // a directory is changed before what is in it
	free  chan struct{} // room for one goroutine each

	mu     sync.Mutex
	first  error
	looked int
	handed Handed
}

// changes tells whether what is one's is changed at all.
func (o *owning) changes(uid uint32) bool {
	return uid == 0 || o.hand == nil && !o.roots || o.hand != nil && uid == o.hand.From && uid != o.hand.UID
}

// spent tells whether enough has been looked at, one entry more.
func (o *owning) spent() bool {
	if o.hand == nil || o.hand.Most == 0 && o.hand.Until.IsZero() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looked++
	if o.hand.Most > 0 && o.looked > o.hand.Most || !o.hand.Until.IsZero() && o.looked%64 == 1 && time.Now().After(o.hand.Until) {
		o.handed.Deeper = true
	}
	return o.handed.Deeper && !o.hand.Top
}

// goesInto tells whether what a directory holds is looked at.
func (o *owning) goesInto() bool {
	if o.hand == nil || !o.hand.Top {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handed.Deeper = true
	return false
}

func newOwning(as Ownership) *owning {
	return &owning{Ownership: as, free: make(chan struct{}, 2*runtime.GOMAXPROCS(0)+2)}
}

func (o *owning) keeps(st *unix.Stat_t) bool { return o.Keep != nil && o.Keep(st.Uid) }

func (o *owning) right(st *unix.Stat_t) bool { return st.Uid == o.UID && st.Gid == o.GID }

func (o *owning) fail(path string, err error) {
	o.failTo("change the owner of", path, err, "add --cap-add CHOWN, or chown it on the host")
}

// failTo is fail with what a person can do where a right is missing.
func (o *owning) failTo(do, path string, err error, remedy string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first == nil {
		e := &Error{Do: do, Path: path, Err: err}
		if err == unix.EPERM {
			e.Remedy = remedy
		}
		o.first = e
	}
}

// walk puts right what is in a directory, and not that itself. It returns when
// all below is done.
func (o *owning) walk(at int, path string, depth int) {
	var above unix.Stat_t
	if o.Keep != nil && unix.Fstat(at, &above) == nil && o.keeps(&above) {
		return
	}
	if depth > maxOwnDepth {
		o.fail(path, fmt.Errorf("more than %d directories deep", maxOwnDepth))
		return
	}
	list, err := openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		o.fail(path, err)
		return
	}
	var below sync.WaitGroup
	err = eachEntry(list, func(name string, kind fs.FileMode) error {
		if depth == 0 && slices.Contains(o.Except, name) {
			return nil
		}
		if o.spent() {
			return errSpent
		}
		if kind != fs.ModeDir && kind != fs.ModeIrregular {
			o.file(list, name, path)
			return nil
		}
		fd, err := openSameMount(list, name, unix.O_PATH|unix.O_DIRECTORY)
		switch err {
		case nil:
			o.beside(&below, func() { o.directory(fd, path+"/"+name, depth+1) })
		case unix.ENOTDIR, unix.ELOOP:
			o.file(list, name, path)
		case unix.EXDEV, unix.ENOENT:
		default:
			o.fail(path+"/"+name, err)
		}
		return nil
	})
	if err != nil && err != errSpent {
		o.fail(path, err)
	}
	below.Wait()
	unix.Close(list)
}

// directory puts right a directory and what is in it, and closes it.
func (o *owning) directory(fd int, path string, depth int) {
	defer unix.Close(fd)
	if o.down {
		o.becomes(fd, path)
	}
	if o.goesInto() {
		o.walk(fd, path, depth)
	}
	if !o.down {
		o.becomes(fd, path)
	}
}

// beside calls f on a goroutine of its own where there is room for one.
func (o *owning) beside(all *sync.WaitGroup, f func()) {
	select {
	case o.free <- struct{}{}:
		all.Go(func() {
			f()
			<-o.free
		})
	default:
		f()
	}
}

// file puts the owner of anything but a directory right.
func (o *owning) file(at int, name, path string) {
	st, err := lstatAt(at, name)
	if err != nil || o.right(&st) {
		return // it is gone, or right
	}
	fd, err := openSameMount(at, name, unix.O_PATH)
	switch err {
	case nil:
		o.give(fd, path+"/"+name)
		unix.Close(fd)
	case unix.EXDEV, unix.ENOENT:
	default:
		o.fail(path+"/"+name, err)
	}
}

// give changes the owner of what a descriptor refers to, which nobody can
// exchange any more.
func (o *owning) give(fd int, path string) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		o.fail(path, err)
		return
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case o.right(&st), kind == unix.S_IFCHR, kind == unix.S_IFBLK, !o.changes(st.Uid), o.keeps(&st):
		return
	case kind != unix.S_IFDIR && st.Nlink > 1: // another name of it may lie elsewhere
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.handed.Left) < mostLeft {
			o.handed.Left = append(o.handed.Left, path)
		}
		return
	}
	if err := unix.Fchownat(fd, "", int(o.UID), int(o.GID), unix.AT_EMPTY_PATH); err != nil {
		o.fail(path, err)
		return
	}
	o.mu.Lock()
	o.handed.Changed++
	o.mu.Unlock()
}

// becomes puts right owner and mode of what a descriptor refers to. The mode of what
// belongs to the caller is put right first: afterwards that takes CAP_FOWNER.
func (o *owning) becomes(fd int, path string) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && !o.keeps(&st) && o.changes(st.Uid) {
		o.chmod(fd, path)
	}
	o.give(fd, path)
	if unix.Fstat(fd, &st) == nil && o.right(&st) {
		o.chmod(fd, path)
	}
}

// chmod puts the mode right of what a descriptor refers to.
func (o *owning) chmod(fd int, path string) {
	var st unix.Stat_t
	if o.Mode == 0 || unix.Fstat(fd, &st) != nil || st.Mode&0o7777 == o.Mode {
		return
	}
	// An O_PATH descriptor takes no fchmod(2) before Linux 6.6, and its name in
	// /proc none where that is not mounted.
	err := unix.Chmod(procPath(fd), o.Mode)
	if err == unix.ENOENT && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		var open int
		if open, err = openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			err = unix.Fchmod(open, o.Mode)
			unix.Close(open)
		}
	}
	if err != nil && err != unix.ENOENT {
		o.failTo("change the mode of", path, err, "add --cap-add FOWNER, or chmod it on the host")
	}
}

// Inherit gives what was made in a set-group-id directory that one's group, and a
// directory the bit too, where the file system has not (fuse-overlayfs). It takes
// that the group is one of ours; else it stays as it is.
func Inherit(parent, made int) {
	var above, st unix.Stat_t
	if unix.Fstat(parent, &above) != nil || above.Mode&unix.S_ISGID == 0 || unix.Fstat(made, &st) != nil {
		return
	}
	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Gid == above.Gid && (!directory || st.Mode&unix.S_ISGID != 0) {
		return
	}
	if unix.Fchown(made, -1, int(above.Gid)) == nil && directory {
		_ = unix.Fchmod(made, st.Mode&0o7777|unix.S_ISGID)
	}
}

// Chmod gives the file or directory rel exactly this mode. A link, or anything
// else, is refused.
func (d *Dir) Chmod(rel string, mode uint32) error {
	if d.helper != nil {
		return d.order(Request{Op: OpChmod, Rel: rel, Mode: mode})
	}
	fd, err := openBeneath(d.fd, rel, unix.O_PATH, 0)
	if err != nil {
		return d.fail("set the mode of", rel, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return d.fail("set the mode of", rel, err)
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		return d.fail("set the mode of", rel, unix.ELOOP)
	case kind != unix.S_IFREG && kind != unix.S_IFDIR:
		return d.fail("set the mode of", rel, ErrNotRegular)
	case st.Mode&0o7777 == mode:
		return nil
	}
	// fchmod(2) takes no O_PATH descriptor, and a mode of 0 lets nobody open it.
	err = unix.Chmod(procPath(fd), mode)
	if err == unix.ENOENT { // there is no /proc
		var open int
		if open, err = openBeneath(d.fd, rel, unix.O_RDONLY, 0); err == nil {
			err = unix.Fchmod(open, mode)
			unix.Close(open)
		}
	}
	return d.fail("set the mode of", rel, err)
}
