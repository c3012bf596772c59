package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
)

// A configuration is put in the place of another by a short-lived child of PID 1,
// which is root and is told nothing but a digest: it puts a text there that
// root has approved before, in a directory beside the file that is root's alone.
// Approve is root's part, in the process that applies a plan; Place is the child's.

// approvedKept is how many approved texts are kept.
const approvedKept = 100

// approvedDir is where the approved texts of a configuration are.
func approvedDir(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".approved")
}

// TextDigest is what an approved text is found by.
func TextDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Approve keeps a text that may be put in the place of the configuration, durably.
func Approve(path string, text []byte) error {
	if err := trustDir(filepath.Dir(path)); err != nil {
		return err
	}
	dir := approvedDir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot keep an approved configuration: %w", err)
	}
	if err := trustDir(dir); err != nil {
		return err
	}
	return keepApproved(dir, text)
}

func keepApproved(dir string, text []byte) error {
	if err := durable.WriteWhole(filepath.Join(dir, TextDigest(text)), text, 0o600); err != nil {
		return fmt.Errorf("cannot keep an approved configuration: %w", err)
	}
	forgetOldest(dir)
	return nil
}

// forgetOldest keeps the directory from growing for ever.
func forgetOldest(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= approvedKept {
		return
	}
	age := func(e fs.DirEntry) time.Time {
		if info, err := e.Info(); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return age(a).Compare(age(b)) })
	for _, e := range entries[:len(entries)-approvedKept] {
		_ = os.Remove(filepath.Join(dir, e.Name())) // it only takes room
	}
}

// Place puts the approved text of that digest in the place of the configuration,
// atomically. The one that was there, root's as well, is kept: it may have to come
// back.
func Place(path, digest string) error {
	if err := Replaceable(path); err != nil {
		return err
	}
	dir := approvedDir(path)
	if err := errors.Join(trustDir(filepath.Dir(path)), trustDir(dir)); err != nil {
		return err
	}
	text, err := readFile(filepath.Join(dir, digest), document.MaxSize, true)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot put another %s in place: root has approved no configuration with that digest in this container", path)
	case err != nil:
		return err
	case TextDigest(text) != digest:
		return fmt.Errorf("cannot put another %s in place: what root has approved was changed since", path)
	}
	before, err := readFile(path, document.MaxSize, true)
	if err != nil || TextDigest(before) == digest {
		return err
	}
	if err := keepApproved(dir, before); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err == nil {
		err = durable.WriteWhole(path, text, info.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("cannot put another %s in place: %w", path, durable.Bare(err))
	}
	return nil
}

// Replaceable says why another file cannot take the place of a configuration.
func Replaceable(path string) error {
	const how = "; change it where it comes from, and start the container again"
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("cannot put another %s in place: %w", path, durable.Bare(err))
	}
	var dir unix.Statfs_t
	var file, parent unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &file)
	if err == nil {
		err = unix.Statx(unix.AT_FDCWD, filepath.Dir(path), 0, unix.STATX_MNT_ID, &parent)
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot put another %s in place: it is no regular file%s", path, how)
	case err == nil && file.Mnt_id != parent.Mnt_id:
		return fmt.Errorf("cannot put another %s in place: it is mounted from outside%s", path, how)
	case unix.Statfs(filepath.Dir(path), &dir) == nil && dir.Flags&unix.ST_RDONLY != 0:
		return fmt.Errorf("cannot put another %s in place: its file system is read-only%s", path, how)
	}
	return nil
}
