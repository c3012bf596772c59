package isolate

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newest is the newest ABI whose rights are known here. A later kernel is asked
// for no more than these.
const newest = 9

// Rights to files, as Landlock counts them, landlock(7).
const (
	readFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readDir   = unix.LANDLOCK_ACCESS_FS_READ_DIR
	execute   = unix.LANDLOCK_ACCESS_FS_EXECUTE
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	truncate  = unix.LANDLOCK_ACCESS_FS_TRUNCATE     // ABI 3
	ioctl     = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV    // ABI 5
	refer     = unix.LANDLOCK_ACCESS_FS_REFER        // ABI 2
	speak     = unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX // ABI 9

	devices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	change  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | refer

	// What a rule on anything but a directory may hold.
	ofFiles = execute | writeFile | readFile | truncate | ioctl | speak

	reading   = readFile | readDir
	executing = reading | execute
	writing   = reading | writeFile | truncate | change | ioctl | speak
	all       = writing | execute | devices
)

// handled are the rights to files that a kernel of the ABI can hold back.
func handled(abi int) uint64 {
	rights := uint64(all)
	for _, since := range []struct {
		abi   int
		right uint64
	}{{2, refer}, {3, truncate}, {5, ioctl}, {9, speak}} {
		if abi < since.abi {
			rights &^= since.right
		}
	}
	return rights
}

// rulesetAttr is struct landlock_ruleset_attr, which has grown with the ABI.
type rulesetAttr struct {
	files  uint64
	ports  uint64 // ABI 4
	scoped uint64 // ABI 6
}

// size is what a kernel of the ABI knows of the structure, in bytes.
func (rulesetAttr) size(abi int) uintptr {
	switch {
	case abi < 4:
		return 8
	case abi < 6:
		return 16
	}
	return 24
}

// attr is what a ruleset of the rules holds back on a kernel of the ABI.
func attr(abi int, r Rules) rulesetAttr {
	a := rulesetAttr{files: handled(abi)}
	if abi >= 4 {
		if !r.Connect.Any {
			a.ports |= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
		if !r.Bind.Any {
			a.ports |= unix.LANDLOCK_ACCESS_NET_BIND_TCP
		}
	}
	if abi >= 6 {
		a.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return a
}

// abi asks the kernel once. 0 is none: an old kernel, Landlock switched off, or a
// seccomp filter of the container engine that does not know it.
var abi = sync.OnceValue(func() int {
	version, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return min(int(version), newest)
})

// A Ruleset is a Landlock ruleset that is being made.
type Ruleset struct {
	fd    int
	files uint64 // the rights that it holds back
	ports uint64
}

// create makes an empty ruleset.
func create(abi int, a rulesetAttr) (*Ruleset, error) {
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), a.size(abi), 0)
	if errno != 0 {
		return nil, fmt.Errorf("cannot make a Landlock ruleset: %w", errno)
	}
	r := &Ruleset{fd: int(fd), files: a.files, ports: a.ports}
	runtime.SetFinalizer(r, (*Ruleset).Close) // of a spawn that nobody waited for
	return r, nil
}

// FD is the ruleset's descriptor, which is close-on-exec and stays the
// ruleset's.
func (r *Ruleset) FD() int { return r.fd }

// Duplicate returns another descriptor of the ruleset, which is the caller's.
func (r *Ruleset) Duplicate() (int, error) {
	fd, err := unix.FcntlInt(uintptr(r.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, fmt.Errorf("cannot hand on a Landlock ruleset: %w", err)
	}
	return fd, nil
}

// AllowReading lets what is in an open directory be read.
func (r *Ruleset) AllowReading(directory *os.File) error {
	return r.allow(int(directory.Fd()), true, reading)
}

// Close gives the descriptor back. A process that has restricted itself by then
// stays restricted. A second Close does nothing.
func (r *Ruleset) Close() {
	if r.fd >= 0 {
		unix.Close(r.fd)
		runtime.SetFinalizer(r, nil)
	}
	r.fd = -1
}

// Directory are the rights to what is a service's own, as landlock_add_rule(2)
// takes them for this ruleset.
func (r *Ruleset) Directory() uint64 { return r.files &^ devices }

// allow lets rights be used on the open file, and beneath it.
func (r *Ruleset) allow(fd int, directory bool, rights uint64) error {
	rights &= r.files
	if !directory {
		rights &= ofFiles
	}
	if rights == 0 {
		return nil
	}
	// struct landlock_path_beneath_attr is packed: 12 bytes, the same as these.
	rule := [3]uint32{uint32(rights), uint32(rights >> 32), uint32(fd)}
	return r.add(unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&rule))
}

// allowPort lets a TCP port be used.
func (r *Ruleset) allowPort(port int, right uint64) error {
	const netPort = 2 // LANDLOCK_RULE_NET_PORT
	rule := [2]uint64{right, uint64(port)}
	return r.add(netPort, unsafe.Pointer(&rule))
}

func (r *Ruleset) add(kind uintptr, rule unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), kind, uintptr(rule), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// open opens a path for a rule. Links are followed if follow says so.
func open(path string, follow bool) (file *os.File, directory bool, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if !follow {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err == unix.ENOSYS || err == unix.EPERM { // a filter that does not know it
		flags := unix.O_PATH | unix.O_CLOEXEC
		if !follow {
			flags |= unix.O_NOFOLLOW
		}
		fd, err = unix.Open(path, flags, 0)
	}
	if err != nil {
		return nil, false, err
	}
	return opened(fd, path)
}

// openBy is open by whom by stands for, if it does.
func openBy(by func(string, bool) (int, error), path string, follow bool) (file *os.File, directory bool, err error) {
	if by == nil {
		return open(path, follow)
	}
	fd, err := by(path, follow)
	if err != nil {
		return nil, false, err
	}
	return opened(fd, path)
}

// opened is what a descriptor refers to.
func opened(fd int, path string) (file *os.File, directory bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, false, err
	}
	return os.NewFile(uintptr(fd), path), st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}
