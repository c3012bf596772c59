package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"rlminit/wire"

	"golang.org/x/sys/unix"
)

// SocketName is the control socket's name in the runtime directory.
const SocketName = "control.sock"

// DefaultRuntimeDir is where rlminit keeps its socket and its published state,
// unless it may not write there.
const DefaultRuntimeDir = wire.RuntimeDir

// sharedDir is the prefix of a user's runtime directory where /run may
// not be written.
const sharedDir = "/dev/shm/rlminit-"

// RuntimeDirs lists the places where a caller with the given uid finds the
// runtime directory of an rlminit that is its own or root's, in the order in
// which they are tried. Named is the value of RLMINIT_RUNTIME_DIR, or "". A named
// directory is the only place: a command meant for one rlminit must not reach
// another.
func RuntimeDirs(named string, uid int) []string {
	if named != "" {
		return []string{filepath.Clean(named)}
	}
	dirs := []string{DefaultRuntimeDir, sharedDir + strconv.Itoa(uid)}
	if uid != 0 {
		dirs = append(dirs, sharedDir+"0") // what PID 1 made before it dropped to us
	}
	return dirs
}

// findRuntimeDir returns the first of dirs that holds a socket. One that somebody else
// could have prepared is passed over, and returned when there is no other. Without any
// it is the first, so that what is said of the failed connection names the place where
// the socket belongs.
func findRuntimeDir(dirs []string, uid int) string {
	refused := ""
	for _, dir := range dirs {
		err := trusted(dir, uid)
		if err == nil {
			if _, err := os.Lstat(filepath.Join(dir, SocketName)); err == nil {
				return dir
			}
		} else if refused == "" && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			refused = dir
		}
	}
	return cmp.Or(refused, dirs[0])
}

// trusted refuses a directory that belongs to neither root nor uid, or where
// anybody may put a socket: whoever answers there could be anyone, and root
// would tell it secrets and do what it says. A link is refused too, for
// /dev/shm is open to all and a link there could name any directory.
func trusted(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if err == nil && dir == DefaultRuntimeDir && info.Mode().Type() == fs.ModeSymlink {
		// PID 1 makes it a link where /run is on a disk, and in /run root alone
		// makes names.
		if link, ok := info.Sys().(*syscall.Stat_t); ok && link.Uid == 0 {
			info, err = os.Stat(dir)
		}
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return NotPermitted("cannot trust %s: it is not a directory; remove it, or set RLMINIT_RUNTIME_DIR", dir)
	case !ok:
		return NotPermitted("cannot trust %s: its owner cannot be told", dir)
	case stat.Uid != 0 && int(stat.Uid) != uid:
		return NotPermitted("cannot trust %s: it belongs to uid %d, which is neither root nor you (uid %d); use docker exec -u %d",
			dir, stat.Uid, uid, stat.Uid)
	case info.Mode().Perm()&0o002 != 0:
		return NotPermitted("cannot trust %s: anybody may write to it (mode %#o)", dir, info.Mode().Perm())
	}
	return nil
}

// trustedListener refuses a socket on which neither root nor uid listens. What
// trusted has looked at may be another directory a moment later, where somebody
// can rename those above it.
func trustedListener(conn syscall.RawConn, socket string, uid int) error {
	var listener *unix.Ucred
	var failure error
	err := conn.Control(func(fd uintptr) {
		listener, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	switch err = errors.Join(err, failure); {
	case err != nil:
		return Failed("cannot trust %s: who listens there cannot be told: %v", socket, err)
	case listener.Uid != 0 && int(listener.Uid) != uid:
		return NotPermitted("cannot trust %s: uid %d listens there, which is neither root nor you (uid %d); set RLMINIT_RUNTIME_DIR to where root alone can write",
			socket, listener.Uid, uid)
	}
	return nil
}

// userFile names the service user, in the runtime directory.
const userFile = "user"

// ServiceOwner returns the uid and gid of the service user, as tier 1 recorded
// them in the runtime directory. What the supervisor says of itself over the
// socket is worth less than this: root's client must not be talked into another
// identity.
func (p *place) ServiceOwner() (uid, gid uint32, err error) {
	uid, gid, _, _, err = p.users()
	return uid, gid, err
}

// ProfileUser tells whether a uid is one of those that profiles can have, as tier 1
// recorded them there.
func (p *place) ProfileUser(uid uint32) bool {
	_, _, low, high, err := p.users()
	return err == nil && low != 0 && low <= uid && uid <= high
}

func (p *place) users() (uid, gid, low, high uint32, err error) {
	if err := p.Trusted(); err != nil {
		return 0, 0, 0, 0, err
	}
	path := filepath.Join(p.dir, userFile)
	info, err := os.Lstat(path)
	if err != nil {
		return 0, 0, 0, 0, fmt.Errorf("cannot tell the service user: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return 0, 0, 0, 0, fmt.Errorf("cannot tell the service user: %s is not root's file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, 0, 0, fmt.Errorf("cannot tell the service user: %w", err)
	}
	first, second, _ := strings.Cut(string(text), "\n")
	if n, err := fmt.Sscanf(first, "%d:%d", &uid, &gid); err != nil || n != 2 {
		return 0, 0, 0, 0, fmt.Errorf("cannot tell the service user: %s does not say", path)
	}
	if n, err := fmt.Sscanf(second, "%d-%d", &low, &high); err != nil || n != 2 {
		low, high = 0, 0 // there are none
	}
	return uid, gid, low, high, nil
}
