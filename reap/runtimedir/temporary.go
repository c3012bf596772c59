package runtimedir

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// makeTemporary makes the directory below which isolated services have theirs for
// temporary files, and the link in the runtime directory that names it to tier 2. It lies
// in /tmp, whose size and options (noexec) are what programs expect, and has a name that
// nobody can foresee; in it only root makes names, for each service one. Whoever removes
// what an earlier start has left finds ours locked.
//
// Where there is no Landlock, or /tmp cannot be written to, there is none.
func (d *Directory) makeTemporary(directory int) {
	chance := unforeseen()
	if chance == "" || sys.LandlockABI() == 0 {
		return
	}
	name := wire.TemporaryPrefix + chance[:16] // as prepare looks for what is left of others
	if unix.Mkdir(name, 0o711) != nil {
		return
	}
	fd, err := unix.Open(name, openDir|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	if d.Root && !d.MayChown {
		// Each service makes its own, and nobody can list the others'.
		unix.Fchmod(fd, 0o1733)
	}
	// A file system without locks is no other container's. It is open until we end.
	unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	if unix.Symlinkat(name, directory, wire.TemporaryLink) != nil {
		unix.Rmdir(name)
		unix.Close(fd)
		return
	}
	d.Temporary = name
}
