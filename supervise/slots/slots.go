// Package slots is the service directory on tmpfs: a directory, called a slot,
// for each service, with its definition, its status and its notify socket. It
// knows how to read and write there when others write too, and nothing of what
// stands in the files.
package slots

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// Names in a slot, which is what we call a service's directory.
const (
	DefinitionFile = "service.yaml"
	StatusFile     = "status.json"
	DownFile       = "down" // is there while the service is not to run, as in s6's directories
	NotifySocket   = "notify"

	DefinitionMax = 4 << 20 // bytes of a service.yaml
)

// Dir is the service directory. A name with a leading dot is being
// made or taken away, and is nobody's business.
type Dir struct {
	Path string
}

// File is the path of a slot, or of a file in it.
func (s Dir) File(name string, file ...string) string {
	return filepath.Join(append([]string{s.Path, name}, file...)...)
}

// ErrNoSlot is why a service is not started that needs its slot: the service directory is not
// there now, or cannot be read.
var ErrNoSlot = errors.New("its directory in the service directory is not there now")

// Place tells the directory from others that come to be at its path, and whether it can be
// read.
func (s Dir) Place() (string, error) {
	fd, err := unix.Open(s.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("cannot read the service directory %s: %w", s.Path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", fmt.Errorf("cannot read the service directory %s: %w", s.Path, err)
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

// Stamp tells one definition in a slot from another, and from one that was written over:
// the file's inode, its size and when it was changed. Moving the slot, or the file, away
// and back changes none of that. "" is no definition.
func (s Dir) Stamp(name string) string { return stampOf(os.Lstat(s.File(name, DefinitionFile))) }

func stampOf(info fs.FileInfo, err error) string {
	if err != nil {
		return ""
	}
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	return fmt.Sprintf("%x.%x.%x", inode, info.Size(), info.ModTime().UnixNano())
}

// Publish renames a new definition into a slot, over the one that is there: nobody ever
// sees half of it. It returns the stamp of what it has written, whatever somebody has put
// there since.
func (s Dir) Publish(name string, definition []byte) (stamp string, err error) {
	if err := s.Occupy(name); err != nil {
		return "", err
	}
	return s.replace(name, DefinitionFile, definition, 0o640)
}

// Occupy makes the slot of a service, if it has none: for its status, and for what its
// process has there before its definition is published.
func (s Dir) Occupy(name string) error {
	if err := os.Mkdir(s.File(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot publish %s: %w", name, err)
	}
	return nil
}

// Replace writes a file of a slot beside its place and renames it there. What
// was left beside it, a pipe perhaps by which a service would make us wait, is
// never opened, and is moved out of sight.
func (s Dir) Replace(name, file string, content []byte, mode os.FileMode) error {
	_, err := s.replace(name, file, content, mode)
	return err
}

// Mark makes an empty file of a slot, or takes it away.
func (s Dir) Mark(name, file string, there bool) error {
	_, err := os.Lstat(s.File(name, file))
	switch {
	case there && err != nil:
		return s.Replace(name, file, nil, 0o644)
	case !there && err == nil:
		return os.Remove(s.File(name, file))
	}
	return nil
}

func (s Dir) replace(name, file string, content []byte, mode os.FileMode) (stamp string, err error) {
	staged := s.File(name, "."+file)
	fresh := func() (*os.File, error) { // which needs no poller, as package os would try
		fd, err := unix.Open(staged, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode))
		return os.NewFile(uintptr(fd), staged), err
	}
	out, err := fresh()
	if errors.Is(err, fs.ErrExist) {
		gone := outOfSight()
		if err = os.Rename(staged, s.File(gone)); err == nil {
			go s.discard(gone)
			out, err = fresh()
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", s.File(name, file), err)
	}
	if _, err = out.Write(content); err == nil {
		stamp = stampOf(out.Stat())
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = unix.Rename(staged, s.File(name, file))
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", s.File(name, file), err)
	}
	return stamp, nil
}

// Withdraw takes a slot away: at once out of sight, and for good beside the
// caller, for its service may have put a great deal there.
func (s Dir) Withdraw(name string) error {
	gone, err := s.hide(name)
	if gone != "" {
		go s.discard(gone)
	}
	return err
}

// hide takes a slot out of sight, and returns what it is called there; "": there is none.
func (s Dir) hide(name string) (gone string, err error) {
	gone = outOfSight()
	switch err := os.Rename(s.File(name), s.File(gone)); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot take away %s: %w", s.File(name), err)
	}
	return gone, nil
}

// outOfSight makes a name for what is to be discarded.
func outOfSight() string { return fmt.Sprintf(".gone.%016x", rand.Uint64()) }

// discarding lets one discard run at a time: each may take a thread for long.
var discarding sync.Mutex

// discard removes what is out of sight, however much and deep it is. What it
// cannot remove harms nobody.
func (s Dir) discard(names ...string) {
	discarding.Lock()
	defer discarding.Unlock()
	dir, err := durable.Open(s.Path)
	if err != nil {
		return
	}
	defer dir.Close()
	for _, name := range names {
		_ = dir.RemoveAll(name)
	}
}

// Clear takes away what is left of a slot that somebody took the definition out
// of, and leaves one that has a definition again.
func (s Dir) Clear(name string) error {
	if s.defined(name) {
		return nil
	}
	gone, err := s.hide(name)
	if gone == "" {
		return err
	}
	// It may have come between the look and the rename. Back with it, unless
	// there is a newer one by now.
	if s.defined(gone) &&
		durable.RenameNewAt(unix.AT_FDCWD, s.File(gone), unix.AT_FDCWD, s.File(name)) == nil {
		return nil
	}
	go s.discard(gone)
	return nil
}

// defined tells whether there is something in the place of a slot's definition.
func (s Dir) defined(name string) bool {
	_, err := os.Lstat(s.File(name, DefinitionFile))
	return err == nil
}

// Read returns a file of a slot. A link, a pipe or more than limit bytes in its
// place are refused, for any process of the service user can write here.
func (s Dir) Read(name, file string, limit int64) ([]byte, error) {
	path := s.File(name, file)
	in, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes; the most is %d", path, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(in, limit))
}

// List returns the names of all slots.
func (s Dir) List() ([]string, error) {
	entries, err := os.ReadDir(s.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the service directory: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Sweep removes, beside the caller, what a predecessor that was killed left
// half-made.
func (s Dir) Sweep() {
	entries, err := os.ReadDir(s.Path)
	if err != nil {
		return
	}
	var left []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			left = append(left, entry.Name())
		}
	}
	go s.discard(left...)
}
