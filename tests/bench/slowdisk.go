package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// slowDiskSize is that of the file system on it, in bytes.
const slowDiskSize = 512 << 20

// hasSlowDisk tells whether slowDisk works here.
func hasSlowDisk() bool {
	_, absent := os.Stat("/dev/fuse")
	_, unmade := exec.LookPath("mkfs.ext4")
	return absent == nil && unmade == nil && os.Geteuid() == 0
}

// slowDisk has an ext4 file system at a directory, on a disk that makes an fsync take
// some 4 ms: a loop device on the one file of a FUSE file system, whose content lies in
// memory. Nothing but the disk is slow, and nobody who writes there is traced.
func slowDisk(at string) (leave func() error, err error) {
	var undo []func() error
	leave = func() error {
		var problems []error
		for len(undo) > 0 {
			last := len(undo) - 1
			problems = append(problems, undo[last]())
			undo = undo[:last]
		}
		return errors.Join(problems...)
	}
	defer func() {
		if err != nil {
			_ = leave()
		}
	}()
	image, err := os.CreateTemp("/dev/shm", "rlminit-bench-")
	if err != nil {
		return nil, err
	}
	undo = append(undo, image.Close, func() error { return os.Remove(image.Name()) })
	if err := image.Truncate(slowDiskSize); err != nil {
		return nil, err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", image.Name()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	dir, err := os.MkdirTemp("/var/tmp", "rlminit-bench-")
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() error { return os.Remove(dir) })
	server, err := fs.Mount(dir, slowRoot(image), &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, Name: "rlminit-bench"}})
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() error { return freed(server.Unmount) })
	if out, err := exec.Command("mount", "-o", "loop", filepath.Join(dir, slowName), at).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount: %w: %s", err, out)
	}
	undo = append(undo, func() error { return freed(func() error { return unix.Unmount(at, 0) }) })
	return leave, nil
}

// freed unmounts what a container that has just ended may still use.
func freed(unmount func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if err := unmount(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// slowName is the name of the disk's file.
const slowName = "disk"

// slowRoot is a directory with one file, whose content is that of another.
func slowRoot(of *os.File) fs.InodeEmbedder {
	return &slowDirectory{file: &slowFile{of: of}}
}

type slowDirectory struct {
	fs.Inode
	file *slowFile
}

var _ fs.NodeOnAdder = (*slowDirectory)(nil)

func (d *slowDirectory) OnAdd(ctx context.Context) {
	d.AddChild(slowName, d.NewPersistentInode(ctx, d.file, fs.StableAttr{Mode: fuse.S_IFREG}), false)
}

type slowFile struct {
	fs.Inode
	of      *os.File
	flushes atomic.Uint64
}

var (
	_ fs.NodeGetattrer = (*slowFile)(nil)
	_ fs.NodeOpener    = (*slowFile)(nil)
	_ fs.NodeReader    = (*slowFile)(nil)
	_ fs.NodeWriter    = (*slowFile)(nil)
	_ fs.NodeFsyncer   = (*slowFile)(nil)
)

func (f *slowFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, slowDiskSize
	return 0
}

func (f *slowFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (f *slowFile) Read(_ context.Context, _ fs.FileHandle, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultFd(f.of.Fd(), at, len(into)), 0
}

func (f *slowFile) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	n, err := f.of.WriteAt(data, at)
	return uint32(n), fs.ToErrno(err)
}

// Fsync is slow every other time: a commit of ext4 has two flushes, and the clock of a
// machine may tick only every 4 ms, which makes that of each pause. It keeps its thread
// meanwhile, for a timer of the runtime's is late where all else waits for requests.
func (f *slowFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if f.flushes.Add(1)%2 == 0 {
		pause := unix.NsecToTimespec((3 * time.Millisecond).Nanoseconds())
		_ = unix.Nanosleep(&pause, nil)
	}
	return 0
}
