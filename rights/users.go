package rights

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/isolate"
	"rlminit/wire"
)

// Users are those that a process can be where files are concerned: the services' user,
// and those of profiles.
type Users struct {
	own, services          wire.Identity
	profiles               wire.Profiles
	ofServices, ofProfiles isolate.Groups
}

// as does something as one of the users. What is done must begin no goroutine that
// touches files. Where there are no users, nobody else is to be had.
//
// Ids are a thread's own, setfsuid(2) and setgroups(2). The runtime makes no thread from
// one that is locked, and ends one whose goroutine ends without having unlocked it: so no
// other goroutine ever runs as somebody else, even where the kernel would not change back.
func (u *Users) as(uid uint32, do func()) error {
	if u == nil {
		do()
		return nil
	}
	gid, groups := uid, u.ofProfiles
	if uid == u.services.UID {
		gid, groups = u.services.GID, u.ofServices
	} else if !u.profiles.Has(uid) {
		return unix.EPERM
	}
	runtime.LockOSThread()
	err := become(uid, gid, groups)
	if err == nil {
		do()
	}
	if become(u.own.UID, u.own.GID, isolate.Groups{}) == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// become makes the calling thread a user's where files are concerned. The right to is in
// force for no longer.
func become(uid, gid uint32, groups isolate.Groups) error {
	if err := raise(changeIDs); err != nil {
		return err
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(groups.Length), uintptr(groups.Address), 0)
	err := assume(uid, gid)
	if errno != 0 {
		err = errno
	}
	return cmp.Or(raise(0), err)
}

// assume gives the calling thread, and it alone, a uid and gid for files, setfsuid(2),
// which does not say what it has done.
func assume(uid, gid uint32) error {
	_, _ = unix.SetfsgidRetGid(int(gid))
	_, _ = unix.SetfsuidRetUid(int(uid))
	if is, err := unix.SetfsuidRetUid(-1); err != nil || is != int(uid) {
		return fmt.Errorf("cannot take on uid %d for files: the kernel refuses", uid)
	}
	if is, err := unix.SetfsgidRetGid(-1); err != nil || is != int(gid) {
		return fmt.Errorf("cannot take on gid %d for files: the kernel refuses", gid)
	}
	return nil
}

// As does something with somebody's rights to files, as root, which has no process that
// serves: with its groups too, unless they are nil.
func As(who wire.Identity, do func() error) error {
	failed := make(chan error)
	go func() {
		// The thread is never unlocked, and so ends with the goroutine: nobody inherits
		// its rights.
		runtime.LockOSThread()
		if who.Groups != nil {
			first := unsafe.Pointer(unsafe.SliceData(who.Groups))
			if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(who.Groups)), uintptr(first), 0); errno != 0 {
				failed <- fmt.Errorf("cannot take on the groups of user %s: %w", who.Name, errno)
				return
			}
		}
		err := assume(who.UID, who.GID)
		if err == nil {
			err = do()
		}
		failed <- err
	}()
	return <-failed
}

// Threads does what is asked of directories as a user, in threads of this process, which
// must be root: where no process serves, and none is to be started for one look.
type Threads struct{ UID, GID uint32 }

// Do is durable.Helper's.
func (t Threads) Do(r durable.Request, fds ...int) (durable.Answer, []int, error) {
	a, opened := durable.CarryAs(t.UID, r, fds, t.as)
	return a, opened, nil
}

// Try says why the user's rights cannot be had; nil: they can.
func (t Threads) Try() error { return t.as(t.UID, func() {}) }

func (t Threads) as(uid uint32, do func()) error {
	who := wire.Identity{UID: uid, GID: uid, Groups: []uint32{}}
	if uid == t.UID {
		who.GID = t.GID
	}
	return As(who, func() error { do(); return nil })
}

// raise makes the effective capabilities of the calling thread those.
func raise(effective uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: effective, Permitted: changeIDs}}
	return unix.Capset(&header, &data[0])
}

// sealed puts lists of groups into memory that nobody can write any more, where a filter
// can tell them by their addresses, isolate.Groups.
func sealed(lists ...[]uint32) (at []isolate.Groups, err error) {
	var content []byte
	for _, list := range lists {
		at = append(at, isolate.Groups{Address: uint64(len(content)), Length: uint64(len(list))})
		content = append(content, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), 4*len(list))...)
	}
	fd, err := wire.Sealed("rlminit-groups", content)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	memory, err := place(fd, isolate.Memory())
	for i := range at {
		at[i].Address += memory
	}
	return at, err
}

// place maps a memfd to read from at the first address where nothing is.
func place(fd int, addresses []uint64) (uint64, error) {
	const flags = unix.MAP_SHARED | unix.MAP_FIXED_NOREPLACE
	for _, want := range addresses {
		got, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(want), isolate.GroupsBytes, unix.PROT_READ, flags, uintptr(fd), 0)
		switch {
		case errno == unix.EEXIST:
			continue
		case errno != 0:
			return 0, errno
		case uint64(got) == want:
			return want, nil
		}
		// A kernel before 4.17 takes the address for a wish.
		if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, got, isolate.GroupsBytes, 0); errno != 0 {
			return 0, errno
		}
	}
	return 0, unix.EEXIST
}
