package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// exchange puts a new directory in the place of an old one.
//
//	what is done            what a kill behind it leaves
//	remove what was left    the old one
//	make the new one        the old one, and a part of the new one beside it
//	fill it, fsync          the old one, and the new one beside it
//	rename(2), exchanging   the new one, or the old one after a power cut; the other beside it
//	fsync of the parent     the new one, and the old one beside it
//	remove the old one      the new one
type exchange struct {
	parent *durable.Dir
	fd     int // of the parent, for what durable.Dir does not do
	name   string
	new    string // the name beside; the old directory's after the exchange
	mode   uint32
	there  bool // an old one is
	done   bool // the new one is in its place
	step   func(what string) error
}

// defaultMode is that of a profile's directory which is new.
const defaultMode = 0o750

// open looks at what there is.
func (e *exchange) open(dir string) error {
	dir = filepath.Clean(dir)
	e.name = filepath.Base(dir)
	var err error
	if e.parent, err = durable.Open(filepath.Dir(dir)); err != nil {
		return err
	}
	if e.fd, err = unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		e.parent.Close()
		return fmt.Errorf("cannot open %s: %w", filepath.Dir(dir), err)
	}
	if err := e.look(); err != nil {
		e.close()
		return err
	}
	return nil
}

func (e *exchange) look() error {
	// Always the same name, so that the next restore finds what this one leaves, and one
	// that the supervisor takes for unfinished.
	sum := sha256.Sum256([]byte("restore of " + e.name))
	e.new = fmt.Sprintf(".rlminit-%x.tmp", sum[:8])
	info, err := e.parent.Lstat(e.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.mode = defaultMode
		return nil
	case err != nil:
		return err
	case info.Type != fs.ModeDir:
		return fmt.Errorf("%s is no directory; move it away", e.parent.Path(e.name))
	case info.UID != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to uid %d, and this is uid %d, whose files would be in it",
			e.parent.Path(e.name), info.UID, os.Geteuid())
	}
	e.there, e.mode = true, uint32(info.Perm)&0o777|0o700
	return nil
}

func (e *exchange) close() {
	unix.Close(e.fd)
	e.parent.Close()
}

// begin makes the directory beside.
func (e *exchange) begin() error {
	if err := e.step("remove what was left"); err != nil {
		return err
	}
	if err := e.parent.RemoveAll(e.new); err != nil {
		return err
	}
	if err := e.step("make the directory"); err != nil {
		return err
	}
	return e.parent.Mkdir(e.new, 0o700)
}

// exchange puts what was filled, and is on the disk, into its place.
func (e *exchange) exchange() error {
	if err := e.step("mode"); err != nil {
		return err
	}
	if err := e.parent.Chmod(e.new, e.mode); err != nil {
		return err
	}
	if err := e.step("sync the directory"); err != nil {
		return err
	}
	if err := e.parent.SyncDir(e.new); err != nil {
		return err
	}
	if err := e.step("exchange"); err != nil {
		return err
	}
	if err := e.rename(); err != nil {
		return err
	}
	e.done = true
	if err := e.step("sync the parent"); err != nil {
		return err
	}
	if err := e.parent.SyncDir("."); err != nil {
		return err
	}
	if e.step("remove the old one") != nil {
		return nil
	}
	if e.there {
		_ = e.parent.RemoveAll(e.new) // or the next restore does, or the next boot
	}
	return nil
}

func (e *exchange) rename() error {
	if !e.there {
		return e.parent.RenameNew(e.new, e.name)
	}
	err := unix.Renameat2(e.fd, e.new, e.fd, e.name, unix.RENAME_EXCHANGE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		return fmt.Errorf("the file system of %s cannot exchange two directories; put the home of the profiles onto another", e.parent.Path("."))
	}
	if err != nil {
		return fmt.Errorf("cannot put %s in its place: %w", e.parent.Path(e.name), err)
	}
	return nil
}

// undo takes away what was begun. What was exchanged stays: the new directory is whole,
// and the restore has failed only since a power cut may bring the old one back.
func (e *exchange) undo() error {
	if e.done {
		return nil
	}
	return e.parent.RemoveAll(e.new)
}
