package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Names in a slot, which is what we call a service's directory.
const (
	definitionFile = "service.yaml"
	statusFile     = "status.json"
	notifySocket   = "notify"

	definitionMax = 4 << 20 // bytes of a service.yaml
	statusMax     = 1 << 20
)

// slots is the service directory on tmpfs. A name with a leading dot is being
// made or taken away, and is nobody's business.
type slots struct {
	dir string
}

func (s slots) path(name string, file ...string) string {
	return filepath.Join(append([]string{s.dir, name}, file...)...)
}

// publish makes a slot appear with its definition in it, or renames the new
// definition over the old: nobody ever sees half of either.
func (s slots) publish(name string, definition []byte) error {
	if _, err := os.Lstat(s.path(name)); err == nil {
		return s.replace(name, definitionFile, definition, 0o640)
	}
	staging, err := os.MkdirTemp(s.dir, "."+name+".")
	if err != nil {
		return fmt.Errorf("cannot publish %s: %w", name, err)
	}
	err = os.WriteFile(filepath.Join(staging, definitionFile), definition, 0o640)
	if err == nil {
		err = os.Chmod(staging, 0o755)
	}
	if err == nil {
		err = os.Rename(staging, s.path(name))
	}
	if err != nil {
		os.RemoveAll(staging)
		return fmt.Errorf("cannot publish %s: %w", name, err)
	}
	return nil
}

// occupy makes the slot of a service that has no definition to publish, for its
// status.
func (s slots) occupy(name string) error {
	if err := os.Mkdir(s.path(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot publish %s: %w", name, err)
	}
	return nil
}

// replace writes a file of a slot beside its place and renames it there. What
// was left beside it, a pipe perhaps by which a service would make us wait, is
// never opened.
func (s slots) replace(name, file string, content []byte, mode os.FileMode) error {
	staged := s.path(name, "."+file)
	if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.RemoveAll(staged)
	}
	out, err := os.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", s.path(name, file), err)
	}
	_, err = out.Write(content)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(staged, s.path(name, file))
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", s.path(name, file), err)
	}
	return nil
}

// withdraw takes a slot away: first out of sight, then for good.
func (s slots) withdraw(name string) error {
	gone := s.path(fmt.Sprintf(".%s.gone.%d", name, os.Getpid()))
	os.RemoveAll(gone)
	if err := os.Rename(s.path(name), gone); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot take away %s: %w", s.path(name), err)
	}
	return os.RemoveAll(gone)
}

// read returns a file of a slot. A link, a pipe or more than limit bytes in its
// place are refused, for any process of the service user can write here.
func (s slots) read(name, file string, limit int64) ([]byte, error) {
	path := s.path(name, file)
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

// list returns the names of all slots.
func (s slots) list() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
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

// sweep removes what a predecessor that was killed left half-made.
func (s slots) sweep() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			os.RemoveAll(filepath.Join(s.dir, entry.Name()))
		}
	}
}
