package move

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is read: bytes of a file, entries of a directory, and files in all.
const (
	maxFile    = 1 << 20
	maxEntries = 10_000
	maxFiles   = 20_000
)

// ErrOutside is of a path that leads out of what may be read.
var ErrOutside = errors.New("it leads out of what was given to import; name it as a PATH too, or give --root")

// Tree are the files that may be read: what lies below the paths that a person named.
// Root is the directory that is the container's /, and is what a path of the source is
// told from: of /img/etc/services.d in the root /img, the container has /etc/services.d.
type Tree struct {
	Root string // absolute

	// Images is a file with what docker image inspect prints, "" for none.
	Images string

	within []string // real paths that are read, with all below
	read   int
}

// marks are directories by which the root of an image is known.
var marks = []string{
	"/etc/services.d", "/etc/s6-overlay", "/etc/cont-init.d", "/etc/supervisord", "/etc/supervisor",
	"/etc/systemd", "/usr/lib/systemd", "/lib/systemd",
}

// NewTree is the tree of the paths that a person named. root is the image's; "": it is
// found by the paths, and else it is /.
func NewTree(root string, paths []string) (*Tree, error) {
	t := &Tree{}
	for _, path := range paths {
		full, err := filepath.Abs(path)
		if err == nil {
			full, err = filepath.EvalSymlinks(full)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, plain(err))
		}
		info, err := os.Stat(full)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, plain(err))
		}
		if t.Root == "" {
			t.Root = rootOf(full, info.IsDir())
		}
		t.within = append(t.within, full)
		if !info.IsDir() { // what a file includes lies beside it
			t.within = append(t.within, filepath.Dir(full))
		}
	}
	if root != "" {
		full, err := filepath.Abs(root)
		if err == nil {
			full, err = filepath.EvalSymlinks(full)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", root, plain(err))
		}
		t.Root = full
		t.within = append(t.within, full)
	}
	if t.Root == "" {
		t.Root = "/"
	}
	return t, nil
}

// ReadImages has the tree hold a file with what docker image inspect prints.
func (t *Tree) ReadImages(path string) {
	t.Images = path
	if full, err := filepath.Abs(path); err == nil {
		t.within = append(t.within, real(full))
	}
}

// rootOf is the root of the image that a path lies in, or is; "" if nothing tells.
func rootOf(full string, dir bool) string {
	for _, mark := range marks {
		if i := strings.Index(full+"/", mark); i > 0 {
			return full[:i]
		}
	}
	if dir && full != "/" {
		for _, mark := range marks {
			if _, err := os.Stat(full + mark); err == nil {
				return full
			}
		}
	}
	return ""
}

// Target is a path as the container has it.
func (t *Tree) Target(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if t.Root == "/" {
		return full
	}
	for _, path := range []string{full, real(full)} { // a person may name the root by a link
		if rest, is := strings.CutPrefix(path, t.Root+"/"); is {
			return "/" + rest
		}
	}
	return full
}

// real is a path without symbolic links, or as it is where that cannot be told.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

// Source is where a path of the container lies here.
func (t *Tree) Source(path string) string { return filepath.Join(t.Root, path) }

// Read reads a regular file of the tree, of at most 1 MiB. An error is one that a line can
// quote.
func (t *Tree) Read(path string) ([]byte, error) {
	if t.read++; t.read > maxFiles {
		return nil, fmt.Errorf("import reads at most %d files; import the source in parts", maxFiles)
	}
	at, err := t.inside(path)
	if err != nil {
		return nil, err
	}
	// A FIFO must not keep import waiting for a writer.
	f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, plain(err)
	}
	if len(data) > maxFile {
		return nil, errors.New("it is larger than 1 MiB, which is more than import reads")
	}
	return data, nil
}

// List are the names in a directory of the tree, sorted.
func (t *Tree) List(dir string) ([]fs.DirEntry, error) {
	at, err := t.inside(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, plain(err)
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("it has more than %d entries; import the source in parts", maxEntries)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Has tells whether there is something by a path of the tree, and whether that is a
// directory. Symbolic links are followed.
func (t *Tree) Has(path string) (there, dir bool) {
	at, err := t.inside(path)
	if err != nil {
		return false, false
	}
	info, err := os.Stat(at)
	return err == nil, err == nil && info.IsDir()
}

// Executable tells whether a file has a mode with which somebody may execute it.
func (t *Tree) Executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// inside is the real path of one in the tree.
func (t *Tree) inside(path string) (string, error) {
	full, err := filepath.Abs(path)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return "", plain(err)
	}
	for _, dir := range t.within {
		if dir == "/" || full == dir || strings.HasPrefix(full, dir+"/") {
			return full, nil
		}
	}
	return "", ErrOutside
}

// plain is an error without the path and the system call, which the line has already.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
