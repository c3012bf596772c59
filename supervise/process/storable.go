package process

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// PID 1 holds what a service stores, and closes it some time. So it takes only
// what close(2) never waits for: not a file on a file system that somebody else
// answers for, FUSE or NFS, and no terminal. Nothing here asks such a file system.

// localFileSystems are those whose files may be stored, as mountinfo names them.
var localFileSystems = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "overlay", "tmpfs", "ramfs", "erofs", "squashfs"}

// anonymousFiles are the kernel's own files that may be.
var anonymousFiles = []string{"eventfd", "timerfd", "signalfd", "pidfd", "eventpoll", "inotify"}

// The mounts of this process, and those of PID 1, which are the supervisor's too.
const (
	OwnMounts  = "/proc/self/mountinfo"
	InitMounts = "/proc/1/mountinfo"
)

// MayStore tells whether a descriptor may be stored, and what kind it is.
func MayStore(fd int) (kind string, ok bool) { return mayStore(fd, OwnMounts) }

func mayStore(fd int, mounts string) (kind string, ok bool) {
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
		return "socket", true
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil {
		return "memory", true
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "unknown: " + err.Error(), false
	}
	if !strings.HasPrefix(name, "/") {
		kind, of, _ := strings.Cut(name, ":")
		if kind == "anon_inode" {
			kind = strings.Trim(of, "[]")
			return kind, slices.Contains(anonymousFiles, kind)
		}
		return kind, kind == "pipe" || kind == "pidfd"
	}
	kind = fileSystemOf(fd, mounts)
	if !slices.Contains(localFileSystems, kind) || wire.MayBeSilent(fd) { // which PID 1 would not pass on
		return "file on " + kind, false
	}
	var st unix.Stat_t // which that file system answers from memory
	if err := unix.Fstat(fd, &st); err != nil {
		return "unknown: " + err.Error(), false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO:
		return "file on " + kind, true
	}
	return "device", false
}

// MayPass tells whether a descriptor may be passed on by PID 1, which closes it then,
// and what kind it is: what may be stored, terminals and other devices. A file must lie
// on one of the mounts that a file of proc_pid_mountinfo(5) has.
func MayPass(fd int, mounts string) (kind string, ok bool) {
	kind, ok = mayStore(fd, mounts)
	of, isFile := strings.CutPrefix(kind, "file on ")
	return kind, (ok || !isFile || of == "devpts" || of == "devtmpfs") && !wire.MayBeSilent(fd)
}

// fileSystemOf is the type of the file system on which an open file lies, by its
// mount: proc_pid_fdinfo(5), proc_pid_mountinfo(5), of which file has the mounts.
func fileSystemOf(fd int, file string) string {
	const unknown = "a mount of elsewhere"
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return unknown
	}
	mount := ""
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			mount = strings.TrimSpace(id)
		}
	}
	mounts, err := os.ReadFile(file)
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == mount {
			if _, after, ok := strings.Cut(line, " - "); ok {
				kind, _, _ := strings.Cut(after, " ")
				return kind
			}
		}
	}
	return unknown
}
