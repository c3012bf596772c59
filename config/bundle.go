package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder"
	"rlminit/internal/document"
	"rlminit/internal/durable"
)

// Bundle is the configuration as it is on disk: bytes, not yet understood. Both
// tiers are given the same ones.
type Bundle struct {
	Path  string            // of rlminit.yaml
	Files []File            // rlminit.yaml first, then services.d in order
	Flags map[string]string // of the command line, as keys: home, stop_timeout, …
	Args  []string          // of the main command, after --
	Run   Run               // what Compile made of Args
	Own   []Own             // files read later for some services alone: a Config's, on its way to a successor

	// Services are the lines of Files[0] that its key services takes up; none before it is
	// parsed, where there is no such key, or where lines cannot be told.
	Services document.Block

	lines map[string]document.Block // of Files[0], by service, and of main: those that it stands on; nil before it is parsed
}

// Own is a bundle that counts for some services.
type Own struct {
	Names  []string // of services
	Bundle Bundle
}

// holds tells whether a bundle has these files.
func (b Bundle) holds(files []File) bool {
	return slices.EqualFunc(b.Files, files, func(x, y File) bool { return x.Name == y.Name && bytes.Equal(x.Data, y.Data) })
}

// File is one file of a Bundle.
type File struct {
	Name string // as faults call it: rlminit.yaml, services.d/web.yaml
	Data []byte
}

// maxServices bounds the files of services.d, and maxBundle the bytes of all.
const (
	maxServices = 10_000
	maxBundle   = 64 << 20
)

// Encode lays a bundle out in bytes. Arguments keep theirs, whether UTF-8 or not.
func (b Bundle) Encode() []byte {
	return coder.Encode(nil, b.fields)
}

func (b *Bundle) fields(c *coder.Coder) {
	c.Str(&b.Path)
	coder.List(c, &b.Files, func(f *File) {
		c.Str(&f.Name)
		c.Bytes(&f.Data)
	})
	coder.Map(c, &b.Flags, c.Str, c.Str)
	c.Strings(&b.Args)
	c.Strings(&b.Run.Argv)
	c.Str(&b.Run.Start)
	c.Bool(&b.Run.Wait)
	c.Bool(&b.Run.Profiles)
	c.Bool(&b.Run.Alone)
	c.I32(&b.Services.First)
	c.I32(&b.Services.Last)
	coder.List(c, &b.Own, func(o *Own) {
		c.Strings(&o.Names)
		o.Bundle.fields(c)
	})
}

// DecodeBundle is the inverse of Encode.
func DecodeBundle(data []byte) (Bundle, error) {
	var b Bundle
	if err := coder.Decode(data, b.fields); err != nil {
		return b, fmt.Errorf("cannot read the configuration that was passed on: %w", err)
	}
	return b, nil
}

// ReadBundle reads a configuration from disk: the file, and services.d beside
// it. As root, what another user could have written is refused, and so is a
// directory in which one could put another file in its place. A missing file is
// an error that errors.Is(err, fs.ErrNotExist) knows; a missing services.d is
// none.
func ReadBundle(path string) (Bundle, error) {
	return readBundle(path, unix.Geteuid() == 0)
}

// ReadUntrusted is ReadBundle for a configuration that is only looked at: it may
// be anybody's.
func ReadUntrusted(path string) (Bundle, error) { return readBundle(path, false) }

func readBundle(path string, trustNobody bool) (Bundle, error) {
	b := Bundle{Path: path}
	data, err := readFile(path, document.MaxSize, trustNobody)
	if err != nil {
		return b, err
	}
	b.Files = append(b.Files, File{Name: filepath.Base(path), Data: data})
	if trustNobody {
		if err := trustDir(filepath.Dir(path)); err != nil {
			return b, err
		}
	}

	dir := filepath.Join(filepath.Dir(path), "services.d")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, fmt.Errorf("cannot read %s: %w", dir, durable.Bare(err))
	}
	if trustNobody {
		if err := trustDir(dir); err != nil {
			return b, err
		}
	}
	total := len(data)
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if strings.HasSuffix(name, ".yml") {
			return b, fmt.Errorf("cannot read %s: only .yaml is read; rename it to %s.yaml",
				filepath.Join(dir, name), strings.TrimSuffix(name, ".yml"))
		}
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		data, err := readFile(filepath.Join(dir, name), document.MaxSize, trustNobody)
		if err != nil {
			return b, err
		}
		if total += len(data); total > maxBundle || len(b.Files) > maxServices {
			return b, fmt.Errorf("cannot read %s: more than %d files or %d bytes", dir, maxServices, maxBundle)
		}
		b.Files = append(b.Files, File{Name: "services.d/" + name, Data: data})
	}
	return b, nil
}

// ReadUntrustedFile reads one file that is only looked at: it may be anybody's,
// and of any size. Beyond limit bytes it is cut.
func ReadUntrustedFile(path string, limit int) ([]byte, error) { return readFile(path, limit, false) }

// readFile reads one file, without waiting for anything that only looks like
// one.
func readFile(path string, limit int, trustNobody bool) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("cannot read %s: it is no regular file", path)
	}
	if trustNobody {
		if err := trusted(fd, path, st); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, durable.Bare(err))
	}
	return data, nil
}

// trustDir holds a directory of the configuration to the rule of its files: who
// may write it can rename them. A sticky one, such as /tmp, keeps root's files.
func trustDir(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if st.Mode&unix.S_ISVTX != 0 {
		st.Mode &^= 0o022
	}
	return trusted(fd, path, st)
}

// overflowUID is the owner that a user namespace shows of a file if it does not have the real
// one, user_namespaces(7).
const overflowUID = 65534

// trusted holds the rule that only root could have written the file, or the
// directory: it decides what runs with privilege.
func trusted(fd int, path string, st unix.Stat_t) error {
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(fd, &sfs); err == nil && sfs.Flags&unix.ST_RDONLY != 0 {
		return nil
	}
	const remedy = "; chown root and chmod go-w it, or mount it read-only (:ro)"
	switch {
	case st.Uid == overflowUID && !mapped("/proc/self/uid_map", overflowUID):
		return fmt.Errorf("cannot trust %s: its owner is not among those that the container's user namespace has; have root of the container own it, or mount it read-only (:ro)", path)
	case st.Uid != 0:
		return fmt.Errorf("cannot trust %s: it belongs to uid %d%s", path, st.Uid, remedy)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("cannot trust %s: its mode %04o lets others than root write it%s", path, st.Mode&0o7777, remedy)
	}
	return nil
}
