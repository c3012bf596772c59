// Package files does what jobs need done with a profile's files, with the rights
// of its user: it is run as a job itself, rlminit files. Paths are resolved beneath
// a directory that is opened once, and never anywhere else, whatever is renamed
// or linked meanwhile.
package files

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/job"
)

// mostKept bounds what is kept in job.UndoDir.
const mostKept = 100

// What Run does that others ask for: to write a file, and to make the directories above
// it that are missing first, with mode 0700.
const (
	Write        = "write"
	WriteParents = "write-parents"
)

// Run does one thing: write, write-parents or undo, below args[1]. It returns the exit code, having said on err why it is not 0.
func Run(args []string, in io.Reader, out, err io.Writer) int {
	failure := run(args, in, out)
	if failure == nil {
		return 0
	}
	fmt.Fprintln(err, failure)
	if Refused(failure) {
		return exitRefused
	}
	return 1
}

// exitRefused is the exit code where nothing was touched for a reason that is not
// the system's.
const exitRefused = 10

// refusal is something that is not done, with nothing touched.
type refusal struct{ what string }

func (r *refusal) Error() string { return r.what }

// Refused tells whether an error says that something is not done, with nothing touched.
func Refused(err error) bool {
	var no *refusal
	return errors.As(err, &no)
}

// Refusal is an error for which Refused is true.
func Refusal(what string) error { return &refusal{what} }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 3 {
		return errors.New("files wants what to do, a directory and a path below it")
	}
	name, err := below(args[2])
	if err != nil {
		return err
	}
	root, err := openRoot(args[1])
	if err != nil {
		return err
	}
	defer unix.Close(root)
	switch what := args[0]; {
	case (what == Write || what == WriteParents) && len(args) == 4:
		if above := path.Dir(name); what == WriteParents && above != "." {
			if err := makeDirs(args[1], above); err != nil {
				return err
			}
		}
		return write(root, name, args[3], in, out)
	case what == "undo" && len(args) == 5:
		return undo(root, name, args[3], args[4])
	}
	return fmt.Errorf("files cannot %s", args[0])
}

// below is a path as it is looked up: relative, and with no way up.
func below(name string) (string, error) {
	clean := path.Clean(name)
	switch {
	case name == "" || clean == ".":
		return "", refuse("a path of a file is needed")
	case path.IsAbs(name):
		return "", refuse("%s is absolute; name it as it is below the profile's directory", name)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", refuse("%s is not below the profile's directory", name)
	case strings.HasSuffix(name, "/"):
		return "", refuse("%s names a directory", name)
	}
	return clean, nil
}

// open opens a file beneath root without following a link at its end; those on
// the way may lead wherever below root they like.
func open(root int, name string, flags uint64, mode uint64) (int, error) {
	for {
		fd, err := unix.Openat2(root, name, &unix.OpenHow{
			Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
			Mode:    mode,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // something was renamed meanwhile
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM) && flags&unix.O_CREAT == 0:
			// No openat2 here: then without any link on the way.
			return durable.OpenBeneath(root, name, int(flags), uint32(mode))
		}
		return fd, err
	}
}

// explain says of an error what it means for a person.
func explain(name string, err error) error {
	switch {
	case errors.Is(err, unix.EXDEV):
		return refuse("%s leads out of the profile's directory", name)
	case errors.Is(err, unix.ELOOP):
		return refuse("%s is a link; name what it points to", name)
	case errors.Is(err, unix.ENAMETOOLONG):
		return refuse("a part of %s is longer than a name can be", shorten(name))
	case errors.Is(err, unix.ENOTDIR):
		return refuse("%s: a part of it is no directory", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

func shorten(name string) string {
	if len(name) > 60 {
		return name[:60] + "…"
	}
	return name
}

// parent opens the directory that a file is in.
func parent(root int, name string) (dir int, last string, err error) {
	where, last := path.Split(name)
	if where == "" {
		where = "."
	}
	dir, err = open(root, strings.TrimSuffix(where, "/"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, "", explain(name, err)
	}
	return dir, last, nil
}

// regular refuses all but regular files of ours.
func regular(name string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFLNK:
		return refuse("%s is a link; name what it points to", name)
	case unix.S_IFDIR:
		return refuse("%s is a directory", name)
	case unix.S_IFIFO:
		return refuse("%s is a FIFO", name)
	case unix.S_IFSOCK:
		return refuse("%s is a socket", name)
	}
	return refuse("%s is a device", name)
}

// makeDirs makes a directory below another, and those above it.
func makeDirs(root, name string) error {
	dir, err := durable.Open(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.MkdirAll(name, 0o700); err != nil {
		return explain(name, err)
	}
	return nil
}

// Open opens a regular file below a directory, for reading.
func Open(dir, name string) (fd int, err error) {
	if name, err = below(name); err != nil {
		return -1, err
	}
	root, err := openRoot(dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	fd, err = open(root, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, explain(name, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = regular(name, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func openRoot(dir string) (int, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open %s: %w", dir, err)
	}
	return root, nil
}

// Written is what a write says on its stdout.
type Written struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Before bool   `json:"before"` // there was a file, and it is kept
	Kept   string `json:"kept"`   // the entry of job.UndoDir that is of this write
}

// keepFlags are those by which job.UndoDir is opened.
const keepFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// keeping opens the directory of what is kept. It is locked by the one write or undo at a
// time that puts something in place.
func keeping(root int) (int, error) {
	if err := unix.Mkdirat(root, job.UndoDir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("cannot make %s: %w", job.UndoDir, err)
	}
	keep, err := unix.Openat(root, job.UndoDir, keepFlags, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open %s: %w", job.UndoDir, err)
	}
	return keep, nil
}

// write replaces a file by what comes in, and keeps what was there as an entry of its own:
// a hard link, so that it stays as it was, mode and owner too. Where there was nothing the
// entry is an empty file: by it an undo knows the directory, whatever that is called. The
// number of a job in memory is given again, by another container too, so that it is not
// all of the entry's name.
func write(root int, name, id string, in io.Reader, out io.Writer) error {
	dir, last, err := parent(root, name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	keep, err := keeping(root)
	if err != nil {
		return err
	}
	defer unix.Close(keep)
	mode := uint32(0o640)
	if st, err := writable(dir, last, name); err != nil {
		return err
	} else if st != nil {
		mode = st.Mode & 0o7777
	}
	kept := fmt.Sprintf("%s-%08x", id, rand.Uint32())
	fresh := kept + ".new"
	defer func() { _ = unix.Unlinkat(keep, fresh, 0) }() // as a rule it is gone
	w, err := fill(keep, fresh, mode, in)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	if err := unix.Flock(keep, unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock %s: %w", job.UndoDir, err)
	}
	st, err := writable(dir, last, name) // again: somebody else may have written
	if err != nil {
		return err
	}
	w.Kept = kept
	if w.Before = st != nil; w.Before {
		err = unix.Linkat(dir, last, keep, kept, 0)
	} else {
		err = unix.Mknodat(keep, kept, unix.S_IFREG|0o600, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot keep what is in %s: %w", name, err)
	}
	if err := unix.Renameat(keep, fresh, dir, last); err != nil {
		_ = unix.Unlinkat(keep, kept, 0) // nothing was changed
		if errors.Is(err, unix.EXDEV) {
			return refuse("%s is on another file system than the profile's directory", name)
		}
		return explain(name, err)
	}
	_ = unix.Fsync(keep) // the names; the content is on the disk already
	syncDir(dir)
	prune(keep)
	return json.NewEncoder(out).Encode(w)
}

// writable tells whether a file may be replaced: it is regular and its owner's is
// ours, so that it can have the same owner again. nil: there is none.
func writable(dir int, last, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, last, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(name, err)
	}
	if err := regular(name, &st); err != nil {
		return nil, err
	}
	if int(st.Uid) != unix.Geteuid() {
		return nil, refuse("%s belongs to uid %d, and could not be given back to it", name, st.Uid)
	}
	return &st, nil
}

// fill makes a file of what comes in, on the disk.
func fill(dir int, name string, mode uint32, in io.Reader) (Written, error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return Written{}, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), in)
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return Written{Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// syncDir brings a directory's names onto the disk; dir is O_PATH.
func syncDir(dir int) {
	if fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Fsync(fd) // as far as the file system does that
		unix.Close(fd)
	}
}

// undo puts back what a write has kept, if the file is what it wrote: sum is that
// of it, and kept tells in before whether there was one.
func undo(root int, name, id, written string) error {
	var w Written
	if err := json.Unmarshal([]byte(written), &w); err != nil {
		return fmt.Errorf("cannot tell what job %s has written: %w", id, err)
	}
	dir, last, err := parent(root, name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	kept := cmp.Or(w.Kept, id)
	forgotten := refuse("what was in %s before job %s is not kept in this directory, or not any more: the last %d writes are", name, id, mostKept)
	keep, err := unix.Openat(root, job.UndoDir, keepFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		return forgotten
	}
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", job.UndoDir, err)
	}
	defer unix.Close(keep)
	if err := unix.Flock(keep, unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock %s: %w", job.UndoDir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(keep, kept, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
		return forgotten
	}
	if err := unchanged(dir, last, name, id, w); err != nil {
		return err
	}
	if w.Before {
		err = unix.Renameat(keep, kept, dir, last)
	} else if err = unix.Unlinkat(dir, last, 0); err == nil {
		_ = unix.Unlinkat(keep, kept, 0) // or a later write does
	}
	if err != nil {
		return explain(name, err)
	}
	_ = unix.Fsync(keep) // the names
	syncDir(dir)
	return nil
}

// unchanged refuses where somebody has written since.
func unchanged(dir int, last, name, id string, w Written) error {
	fd, err := unix.Openat(dir, last, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return refuse("%s is not there any more: somebody has removed it since job %s", name, id)
	}
	if err != nil {
		return explain(name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	changed := refuse("%s has changed since job %s; nothing was undone", name, id)
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != w.Size {
		return changed
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(file, w.Size+1)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != w.SHA256 {
		return changed
	}
	return nil
}

// prune forgets the oldest of what is kept.
func prune(keep int) {
	fd, err := unix.Openat(keep, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), job.UndoDir)
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var kept []string
	for _, name := range names {
		if !strings.HasSuffix(name, ".new") {
			kept = append(kept, name)
		}
	}
	sortByNumber(kept)
	for len(kept) > mostKept {
		_ = unix.Unlinkat(keep, kept[0], 0) // the next write tries again
		kept = kept[1:]
	}
}

func sortByNumber(ids []string) { slices.SortFunc(ids, job.Compare) }
