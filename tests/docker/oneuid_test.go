package docker

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"rlminit/tests/box"
)

// oneUID is a file system of which everything belongs to one uid, and stays its,
// whoever it is given to: as those of virtual machines, of desktops and of network
// drives are.
type oneUID struct {
	fuse.RawFileSystem
	owner fuse.Owner
	given atomic.Int32 // how often something was to have another owner
}

// owned has an answer say that what it is about is the one's.
func (o *oneUID) owned(status fuse.Status, owner *fuse.Owner) fuse.Status {
	*owner = o.owner
	return status
}

func (o *oneUID) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return o.owned(o.RawFileSystem.Lookup(cancel, in, name, out), &out.Owner)
}

func (o *oneUID) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return o.owned(o.RawFileSystem.GetAttr(cancel, in, out), &out.Owner)
}

func (o *oneUID) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
		o.given.Add(1)
	}
	in.Valid &^= fuse.FATTR_UID | fuse.FATTR_GID // and says that it has worked
	return o.owned(o.RawFileSystem.SetAttr(cancel, in, out), &out.Owner)
}

func (o *oneUID) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return o.owned(o.RawFileSystem.Mknod(cancel, in, name, out), &out.Owner)
}

func (o *oneUID) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return o.owned(o.RawFileSystem.Mkdir(cancel, in, name, out), &out.Owner)
}

func (o *oneUID) Symlink(cancel <-chan struct{}, in *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	return o.owned(o.RawFileSystem.Symlink(cancel, in, to, name, out), &out.Owner)
}

func (o *oneUID) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return o.owned(o.RawFileSystem.Link(cancel, in, name, out), &out.Owner)
}

func (o *oneUID) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return o.owned(o.RawFileSystem.Create(cancel, in, name, out), &out.Owner)
}

func (o *oneUID) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return fuse.ENOSYS
}

func (o *oneUID) Statx(<-chan struct{}, *fuse.StatxIn, *fuse.StatxOut) fuse.Status {
	return fuse.ENOSYS // GetAttr is asked then
}

// TestOneUID: where every file is one uid's, supervisor and profiles do without uids of
// their own, which is said once for each; nothing is given to anybody again and again.
func TestOneUID(t *testing.T) {
	t.Parallel()
	fileSystem, at := mountOneUID(t, box.Service.UID)
	b := startImage(t, built.based, box.Spec{
		Config: "version: 1\nuser: app\ngateway: {command: [sleep, infinity], user: auto}\n",
		Docker: []string{"--tmpfs", "/run", "-v", at + ":/data"},
	})
	p := b.Place.(*Place)
	awaitAnswer(b)
	b.Must("profile", "create", "alice", "bob")
	for boot := 1; boot <= 2; boot++ {
		awaitAnswer(b)
		b.Await("gateway-alice", "running")
		b.Must("restart", "alice", "bob")
		b.Must("profile", "clone", "bob", fmt.Sprint("carol", boot))
		printed := b.Printed()
		for _, said := range []string{"it cannot be given files on /data: CAP_CHOWN is missing, or the file system knows no owners", "profiles have no user of their own"} {
			if n := strings.Count(printed, said); n != boot {
				t.Errorf("after boot %d %q was said %d times: %s", boot, said, n, printed)
			}
		}
		if n := fileSystem.given.Swap(0); n > 2 { // one directory, to see
			t.Errorf("boot %d gave something to somebody %d times", boot, n)
		}
		if boot == 1 {
			if _, err := must(nil, "restart", p.name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// mountOneUID mounts one for the length of the test, and returns where.
func mountOneUID(t *testing.T, uid int) (*oneUID, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a file system of its own")
	}
	lower, err := fs.NewLoopbackRoot(directory(t, uid))
	if err != nil {
		t.Fatal(err)
	}
	at := directory(t, 0)
	fileSystem := &oneUID{RawFileSystem: fs.NewNodeFS(lower, &fs.Options{}), owner: fuse.Owner{Uid: uint32(uid), Gid: uint32(uid)}}
	server, err := fuse.NewServer(fileSystem, at, &fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, DisableReadDirPlus: true, Name: "oneuid", Options: []string{"default_permissions"},
	})
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return fileSystem, at
}
