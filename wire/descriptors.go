package wire

import "golang.org/x/sys/unix"

// Descriptors that tier 1 gives to the programs that it executes of itself.
const (
	// To `rlminit supervise`.
	LinkFD    = 3 // the SOCK_SEQPACKET pair
	ControlFD = 4 // the listening control socket
	BundleFD  = 5 // memfd: the configuration
	PolicyFD  = 6 // memfd: Policy

	// To `rlminit compile`, which fills them, and to their readers.
	CompiledPolicyFD = 3
	CompiledBundleFD = 4
	EnclosureFD      = 5 // a ruleset, where the kernel has Landlock
	PreparedBundleFD = 3
	PreparedPolicyFD = 4
	PreparedStepsFD  = 5 // to be filled by NoteBootStep; of the second part, the environments
)

// RuntimeDir is where rlminit keeps its socket and its published state, unless
// another place was given, or it cannot be had.
const RuntimeDir = "/run/rlminit"

// DefaultPath is PATH where the container has none, as in Docker's images.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Closing is how long close(2) of a descriptor may take.
type Closing uint8

// The grades of Closing.
const (
	Prompt  Closing = iota // no time
	Lingers                // a socket's last close may wait for its peer, until a signal comes: SO_LINGER of socket(7)
	Hangs                  // for ever, whatever signals come: see MayBeSilent
)

// ClosingOf tells how long close(2) of a descriptor may take.
func ClosingOf(fd int) Closing {
	const alone = unix.AT_STATX_DONT_SYNC
	var file, root unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|alone, unix.STATX_TYPE, &file); err != nil {
		if err == unix.ENOSYS || err == unix.EPERM { // the place refuses the call, and nothing is known
			return Lingers
		}
		return Hangs
	}
	switch {
	case file.Mode&unix.S_IFMT == unix.S_IFSOCK:
		return Lingers
	case file.Mode&unix.S_IFMT != unix.S_IFREG || file.Dev_major != 0:
		return Prompt
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil {
		return Prompt // memory
	}
	err := unix.Statx(unix.AT_FDCWD, "/", alone, unix.STATX_TYPE, &root)
	if err != nil || file.Dev_minor != root.Dev_minor || root.Dev_major != 0 {
		return Hangs
	}
	return Prompt
}

// MayBeSilent tells whether close(2) of a descriptor may wait for ever, whatever
// signals come: it is a file of FUSE or a network, whose server is told of that, and
// need not answer. All file systems without a device count as such, but memory and
// the root directory's. None is asked.
func MayBeSilent(fd int) bool { return ClosingOf(fd) == Hangs }
