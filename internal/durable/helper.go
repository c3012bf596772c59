package durable

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Helper does what a Dir is asked for in the place of the process that holds it:
// another process, with the rights to files of another user.
type Helper interface {
	// Do carries a request out on the directories fds, which stay the caller's.
	// What it opened is the caller's too. An error is that of the way there; what
	// became of the request is in the answer.
	Do(r Request, fds ...int) (a Answer, opened []int, err error)
}

// DoReach is Error.Do of a request that nobody has answered: it says nothing about the
// files.
const DoReach = "reach"

// Op is a method of Dir.
type Op uint8

// The operations, each the method of its name.
const (
	OpOpen Op = iota // of a path, which is Request.Base
	OpOpenDir
	OpLstat
	OpReadDir
	OpMkdir
	OpMkdirAll
	OpSyncDir
	OpRename
	OpRenameNew
	OpRemoveAll
	OpCopyTree
	OpChmod
	OpReadFile
	OpOpenRegular
	OpWriteFile
	OpAppend
	OpWritable
	OpSymlink
	OpReadlink
	OpDate
	OpHandle
	OpGlances
	OpTidy
	OpTake
	OpAbsent // a step alone
	OpWriteFiles
	OpEmpty // of a helper alone: CarryAs
)

// Request is one operation on a directory: the arguments of the method.
type Request struct {
	Op      Op
	Base    string // the directory's path, for people
	Rel, To string
	From    string // the path of the directory that is copied, for people
	Data    []byte
	Mode    uint32
	Flags   int
	Max     int64
	Names   bool
	Loose   bool
	Rels    []string
	Others  []string
	UIDs    []uint32 // as whom each of Rels is looked at; none: as whoever is asked
	Steps   Steps    // of OpTake and OpWriteFiles
	Again   bool     // it was asked for before, and nobody knows how far that came
	Reader  uint32   // the uid that reads the source of OpCopyTree; 0: the one that is asked

	// Whose, where it is set, is a directory below the first of the descriptors, "."
	// for that itself: if it belongs to one of the uids from Low to High, nothing is
	// done, and Answer.Owner is that uid. Each of Steps has its own.
	Whose     string
	Low, High uint32
}

// Answer is what the method returned.
type Answer struct {
	Failure  *Failure
	Owner    uint32 // of Request.Whose, where nothing was done for it; else 0
	Info     Info
	Entries  []Entry
	Data     []byte
	Glances  []Glance
	Done     int             // of Request.Steps
	Failures map[int]Failure // of which of Request.Steps: OpWriteFiles
	owners   map[int]uint32  // whose those are that another is to write, which is not done yet
}

// Failure is an error in a form that can be sent.
type Failure struct {
	Do, Path, Why, Remedy string // of an *Error, where Do is set
	Errno                 unix.Errno
	Known                 uint8 // which of known it is; 0: none
	Text                  string
}

// known are the errors that a caller asks for.
var known = [...]error{1: ErrNotRegular, 2: ErrTooBig, 3: ErrInDoubt, 4: ErrApart}

// FailureOf lays an error out; nil is nil.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Text: err.Error()}
	var made *Error
	if errors.As(err, &made) {
		f.Do, f.Path, f.Why, f.Remedy, f.Text = made.Do, made.Path, made.Why, made.Remedy, made.Err.Error()
		err = made.Err
	}
	_ = errors.As(err, &f.Errno)
	for i, one := range known {
		if one != nil && errors.Is(err, one) {
			f.Known = uint8(i)
		}
	}
	return f
}

// Err is the inverse of FailureOf, as far as a caller may look inside.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	err := errors.New(f.Text)
	switch {
	case int(f.Known) >= len(known):
	case f.Known > 0 && f.Errno != 0: // ErrInDoubt says why
		err = fmt.Errorf("%w; %w", f.Errno, known[f.Known])
	case f.Known > 0:
		err = known[f.Known]
	case f.Errno != 0:
		err = f.Errno
	}
	if f.Do == "" {
		return err
	}
	return &Error{Do: f.Do, Path: f.Path, Why: f.Why, Remedy: f.Remedy, Err: err}
}

// OpenBy is Open by a helper, who does all that is done below the directory.
func OpenBy(helper Helper, path string) (*Dir, error) {
	_, opened, err := ask(helper, Request{Op: OpOpen, Base: path})
	if err != nil {
		return nil, err
	}
	return &Dir{fd: opened[0], path: path, helper: helper}, nil
}

// By is d, by a helper, below the same directory. It is not to be
// closed, and of no use when d is.
func (d *Dir) By(helper Helper) *Dir { return &Dir{fd: d.fd, path: d.path, helper: helper} }

// OpenLike opens the directory at path as Open does, with the rights that d has.
func (d *Dir) OpenLike(path string) (*Dir, error) {
	if d.helper != nil {
		return OpenBy(d.helper, path)
	}
	return Open(path)
}

// ask has a request carried out. Where a directory or file is to be opened, there
// is one descriptor when err is nil.
func ask(helper Helper, r Request, fds ...int) (Answer, []int, error) {
	a, opened, err := helper.Do(r, fds...)
	if err == nil {
		err = a.Failure.Err()
	} else {
		err = &Error{Do: DoReach, Path: r.Base, Err: err}
	}
	opens := r.Op == OpOpen || r.Op == OpOpenDir || r.Op == OpOpenRegular || r.Op == OpHandle
	if err == nil && opens != (len(opened) == 1) {
		err = &Error{Do: "open", Path: r.Base, Err: unix.EPROTO}
	}
	if err != nil {
		for _, fd := range opened {
			unix.Close(fd)
		}
		return a, nil, err
	}
	return a, opened, nil
}

func (d *Dir) ask(r Request, more ...int) (Answer, []int, error) {
	r.Base = d.path
	return ask(d.helper, r, append([]int{d.fd}, more...)...)
}

// order is ask for what returns nothing.
func (d *Dir) order(r Request, more ...int) error {
	_, _, err := d.ask(r, more...)
	return err
}

// Carry carries a request out: the other side of Helper. The descriptors are the
// caller's to close, those that it opens too.
func Carry(r Request, fds []int) (a Answer, opened []int) {
	if r.Op == OpOpen {
		d, err := Open(r.Base)
		if err != nil {
			return Answer{Failure: FailureOf(err)}, nil
		}
		return Answer{}, []int{d.fd}
	}
	needed := 1
	if r.Op == OpCopyTree {
		needed = 2
	}
	if len(fds) != needed {
		return Answer{Failure: FailureOf(unix.EPROTO)}, nil
	}
	d := &Dir{fd: fds[0], path: r.Base}
	if r.isAnothers(d, &a) {
		return a, nil
	}
	if r.Again && r.isDone(d, &a) {
		return a, nil
	}
	switch r.Op {
	case OpTake:
		r.Steps.take(d, &a)
		return a, nil
	case OpWriteFiles:
		r.Steps.writeFiles(d, &a)
		return a, nil
	case OpEmpty:
		a.Failure = FailureOf(d.empty(r.Rel))
		return a, nil
	}
	err := r.carry(d, fds, &a, &opened)
	a.Failure = FailureOf(err)
	return a, opened
}

func (r Request) carry(d *Dir, fds []int, a *Answer, opened *[]int) (err error) {
	fd := -1
	switch r.Op {
	case OpOpenDir:
		fd, err = d.open(r.Op, r.Rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	case OpLstat:
		a.Info, err = d.Lstat(r.Rel)
	case OpReadDir:
		a.Entries, err = d.ReadDir(r.Rel, int(r.Max))
	case OpMkdir:
		err = d.Mkdir(r.Rel, r.Mode)
	case OpMkdirAll:
		err = d.MkdirAll(r.Rel, r.Mode)
	case OpSyncDir:
		err = d.SyncDir(r.Rel)
	case OpHandle:
		fd, err = d.Handle(r.Rel)
	case OpRename:
		err = d.Rename(r.Rel, r.To)
	case OpRenameNew:
		err = d.RenameNew(r.Rel, r.To)
	case OpRemoveAll:
		err = d.RemoveAll(r.Rel)
	case OpCopyTree:
		err = d.CopyTree(&Dir{fd: fds[1], path: r.From}, r.To, Copy{DirMode: r.Mode, Pass: r.Loose})
	case OpChmod:
		err = d.Chmod(r.Rel, r.Mode)
	case OpReadFile:
		a.Data, err = d.ReadFile(r.Rel, r.Max)
	case OpOpenRegular:
		fd, err = d.open(r.Op, r.Rel, r.Flags, r.Mode)
	case OpWriteFile:
		err = d.WriteFile(r.Rel, r.Data, Write{Mode: r.Mode, Max: r.Max, Names: r.Names, Loose: r.Loose})
	case OpAppend:
		err = d.Append(r.Rel, r.Data, r.Mode, r.Max)
	case OpSymlink:
		err = d.Symlink(r.To, r.Rel)
	case OpDate:
		err = d.Date(r.Rel, time.Unix(0, r.Max))
	case OpReadlink:
		var target string
		target, err = d.Readlink(r.Rel)
		a.Data = []byte(target)
	case OpWritable:
		err = d.Writable(r.Rel)
	case OpGlances:
		a.Glances, err = d.Glances(r.Rels, r.Rel, r.Others, r.Max)
	case OpTidy:
		for _, name := range d.Tidy(r.Rels, r.Others) {
			a.Entries = append(a.Entries, Entry{Name: name})
		}
	default:
		err = unix.EOPNOTSUPP
	}
	if err == nil && fd >= 0 {
		*opened = []int{fd}
	}
	return err
}

func infoOf(st *unix.Stat_t) Info {
	return Info{Type: typeOf(st.Mode), Perm: st.Mode & 0o7777, Size: st.Size, UID: st.Uid, GID: st.Gid, Dev: st.Dev, Ino: st.Ino, Modified: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix())}
}

// doing is what opening a file with these flags is for.
func doing(flags int) string {
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		return "write"
	}
	return "read"
}

// rights are the ids that the kernel holds against the owners of files,
// setfsuid(2).
func rights() (uid, gid int) {
	uid, _ = unix.SetfsuidRetUid(-1)
	gid, _ = unix.SetfsgidRetGid(-1)
	return uid, gid
}
