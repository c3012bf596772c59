package rights

import (
	"runtime"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// Users are those that a process can be where files are concerned, beside itself.
type Users struct {
	own wire.Identity // real, effective and saved
	of  wire.Profiles
}

// as does something as one of the users, 0 for ourselves. What is done must begin no
// goroutine that touches files.
//
// Ids are a thread's own, setfsuid(2). The runtime makes no thread from one that is
// locked, and ends one whose goroutine ends without having unlocked it: so no other
// goroutine ever runs as somebody else, even where the kernel would not change back.
func (u *Users) as(uid uint32, do func()) error {
	if uid == 0 {
		do()
		return nil
	}
	if u == nil || !u.of.Has(uid) {
		return unix.EPERM
	}
	runtime.LockOSThread()
	err := become(uid)
	if err == nil {
		do()
	}
	if u.back() == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// become makes the calling thread a user's. The right to is in force for no longer.
func become(uid uint32) error {
	if err := raise(changeIDs); err != nil {
		return err
	}
	_, _ = unix.SetfsgidRetGid(int(uid)) // isFor tells
	_, _ = unix.SetfsuidRetUid(int(uid))
	if err := raise(0); err != nil {
		return err
	}
	return isFor(uid, uid)
}

// back makes the calling thread ours again, which takes no right.
func (u *Users) back() error {
	_, _ = unix.SetfsuidRetUid(int(u.own.UID))
	_, _ = unix.SetfsgidRetGid(int(u.own.GID))
	if err := raise(0); err != nil {
		return err
	}
	return isFor(u.own.UID, u.own.GID)
}

// raise makes the effective capabilities of the calling thread those.
func raise(effective uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: effective, Permitted: changeIDs}}
	return unix.Capset(&header, &data[0])
}
