package durable

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	fuse "github.com/hanwen/go-fuse/v2/fs"
	raw "github.com/hanwen/go-fuse/v2/fuse"
)

// plain is a directory of a file system that knows no flags of renameat2(2), and
// whose lookup of the name "to" fails the time that blind counts down to.
type plain struct {
	fuse.LoopbackNode
	blind *atomic.Int32
}

func (p *plain) Rename(ctx context.Context, name string, parent fuse.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL
	}
	return p.LoopbackNode.Rename(ctx, name, parent, to, flags)
}

func (p *plain) Lookup(ctx context.Context, name string, out *raw.EntryOut) (*fuse.Inode, syscall.Errno) {
	if name == "to" && p.blind.Add(-1) == 0 {
		return nil, syscall.EIO
	}
	return p.LoopbackNode.Lookup(ctx, name, out)
}

// openPlain returns a directory of such a file system, and where its files are.
func openPlain(t *testing.T) (d *Dir, behind string, blind *atomic.Int32) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	behind, at, blind := t.TempDir(), t.TempDir(), new(atomic.Int32)
	tree := &fuse.LoopbackRoot{Path: behind}
	tree.RootNode = &plain{fuse.LoopbackNode{RootData: tree}, blind}
	server, err := fuse.Mount(at, tree.RootNode, &fuse.Options{MountOptions: raw.MountOptions{DirectMount: true}})
	if err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = server.Unmount() })
	if d, err = Open(at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, behind, blind
}

func TestRenameNewWhereTheFileSystemCannot(t *testing.T) {
	d, behind, blind := openPlain(t)
	must(t, d.WriteFile("from", []byte("new"), Write{Mode: 0o600}))
	// The kernel looks first, and then we do.
	blind.Store(2)
	if err := d.RenameNew("from", "to"); !errors.Is(err, syscall.EIO) {
		t.Errorf("where nobody can look: %v", err)
	}
	must(t, d.RenameNew("from", "to"))
	must(t, d.WriteFile("from", []byte("newer"), Write{Mode: 0o600}))
	if err := d.RenameNew("from", "to"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if is, err := os.ReadFile(filepath.Join(behind, "to")); string(is) != "new" {
		t.Errorf("there is %q, %v", is, err)
	}
}
