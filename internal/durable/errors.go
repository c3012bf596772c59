package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Error says what could not be done, to which path, why, and what a person can
// do about it. Unwrap gives the system's error, so that errors.Is knows
// fs.ErrNotExist and the unix.E… values.
type Error struct {
	Do     string // "write", "read", "remove", …
	Path   string
	Why    string // "" is the text of Err
	Remedy string // may be ""
	Err    error
}

func (e *Error) Error() string {
	text := "cannot " + e.Do + " " + e.Path + ": " + Cause(e)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Cause is what went wrong with a file, without its path and the remedy.
func Cause(err error) string {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Why != "":
		return e.Why
	}
	return e.Err.Error()
}

// Bare is an error of os without the call and the path that it puts around the
// system's, for a sentence that has them.
func Bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// The errors of files that are not what they should be.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooBig     = errors.New("too big")
)

// ErrInDoubt is in the error of a call that could not make durable what it had
// done, and could not take it back either.
var ErrInDoubt = errors.New("it may have been done all the same")

// fail makes err an *Error about rel below d, with the remedy where one is
// known. A nil err stays nil, an *Error stays as it is.
func (d *Dir) fail(do, rel string, err error) error {
	if err == nil {
		return nil
	}
	var made *Error
	if errors.As(err, &made) {
		return err
	}
	e := &Error{Do: do, Path: d.Path(rel), Err: err}
	switch err {
	case unix.EACCES, unix.EPERM:
		e.explainDenied(d, rel)
	case unix.EROFS:
		e.Remedy = "mount the volume read-write"
	case unix.ENOSPC, unix.EDQUOT:
		e.Remedy = Room(err)
	case unix.ELOOP:
		e.Why = "it is, or lies behind, a symbolic link"
		e.Remedy = "put a real file or directory there"
	case unix.EINVAL:
		if !fs.ValidPath(rel) || strings.ContainsRune(rel, 0) { // Path would make another one of it
			e.Path, e.Why = d.path, fmt.Sprintf("%q is no path below it", rel)
		}
	case unix.EBUSY, unix.EXDEV:
		e.Why = "it is a mount point, or lies on another file system than its parent"
		e.Remedy = "unmount it first"
	case ErrNotRegular:
		e.Remedy = "remove it, or put a regular file there"
	}
	return e
}

// Room is what a person can do where err says that a file system has no room; "" for
// any other error.
func Room(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return "free some space on the volume"
	case errors.Is(err, unix.EDQUOT):
		return "free some space, or raise the quota"
	}
	return ""
}

// tooMany is the error of a directory with more entries than somebody wants.
func tooMany(path string, max int) error {
	return &Error{
		Do: "read", Path: path, Err: ErrTooBig,
		Why: fmt.Sprintf("more than %d entries", max), Remedy: "move some of them away",
	}
}

// explainDenied names the owner of what refused: the file itself, or for a change the
// deepest directory on the way, unless that is ours; of another's that is
// moved or removed, itself.
func (e *Error) explainDenied(d *Dir, rel string) {
	uid, gid := rights()
	at := rel
	if e.Do != "read" {
		above, err := lstatBeneath(d.fd, path.Dir(rel))
		st, _ := lstatBeneath(d.fd, rel)
		// To have another parent a directory must be writable itself, rename(2), and to be
		// removed it must be emptied.
		itself := (e.Do == "move" || e.Do == "remove") && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) != uid
		if err != nil || int(above.Uid) != uid || e.Do != "write" && !itself {
			at = path.Dir(rel)
		}
	}
	for ; ; at = path.Dir(at) {
		st, err := lstatBeneath(d.fd, at)
		if err != nil {
			if at == "." {
				return
			}
			continue
		}
		e.Path = d.Path(at)
		if int(st.Uid) == uid {
			e.Why, e.Remedy = fmt.Sprintf("%v, its mode is %04o", e.Err, st.Mode&0o7777), "give its owner access: chmod u+rwX "+e.Path
			return
		}
		e.Why, e.Remedy = fmt.Sprintf("owned by uid %d, services run as %d", st.Uid, uid), fmt.Sprintf("as root: chown -R %d:%d %s", uid, gid, e.Path)
		switch {
		case startedByRoot() && st.Uid == 0: // which gives them a volume that is new, and no other
			e.Remedy += ", or set RLMINIT_UID and RLMINIT_GID"
		case startedByRoot() && st.Gid == 0:
			e.Remedy += fmt.Sprintf(", or set RLMINIT_UID=%d", st.Uid)
		case startedByRoot():
			e.Remedy += fmt.Sprintf(", or set RLMINIT_UID=%d and RLMINIT_GID=%d", st.Uid, st.Gid)
		case st.Uid != 0:
			e.Remedy += fmt.Sprintf(", or use docker run --user %d:%d", st.Uid, st.Gid)
		default:
			e.Remedy += ", or set PUID and PGID in place of docker run --user"
		}
		return
	}
}

// startedByRoot tells whether our parent is root's, as PID 1 is unless the
// container was given a user: only root can give the services another uid.
func startedByRoot() bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getppid()))
	_, uid, _ := strings.Cut(string(status), "\nUid:\t")
	return err != nil || strings.HasPrefix(uid, "0\t")
}
