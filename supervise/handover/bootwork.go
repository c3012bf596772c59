package handover

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// BootWork is how much of what is to be done once a boot has been done. It stands
// at the beginning of the file of states: a supervisor that dies during the boot has
// a successor that finishes what is left, and does nothing twice.
type BootWork struct{ fd int }

// Duty is a piece of it: its byte in the file is 1 when it is done.
type Duty int64

const (
	Cleaned    Duty = iota // the profiles are rid of what must not outlive a boot; nothing of them runs yet
	Registered             // what was found at boot is registered, and told in container-boot.log
	Fulfilled              // what the container's arguments ask for was started

	logBegins     = 8 // where the lines of this boot begin in container-boot.log, plus 1; 0: not known
	bootWorkBytes = 16
)

// Done tells whether a duty was done in this boot. What cannot be read was not.
func (w BootWork) Done(d Duty) bool {
	var b [1]byte
	n, err := unix.Pread(w.fd, b[:], int64(d))
	return err == nil && n == 1 && b[0] == 1
}

// Finish notes that a duty is done.
func (w BootWork) Finish(d Duty) { w.put(int64(d), []byte{1}) }

// put writes to memory that was given already, which does not fail.
func (w BootWork) put(at int64, b []byte) { _, _ = unix.Pwrite(w.fd, b, at) }

// LogFrom is where the lines of this boot begin in container-boot.log: at its
// end, as size tells it, when this is asked first.
func (w BootWork) LogFrom(size func() int64) int64 {
	var b [8]byte
	if n, err := unix.Pread(w.fd, b[:], logBegins); err == nil && n == len(b) {
		if known := binary.NativeEndian.Uint64(b[:]); known > 0 {
			return int64(known - 1)
		}
	}
	from := size()
	binary.NativeEndian.PutUint64(b[:], uint64(from)+1)
	w.put(logBegins, b[:])
	return from
}
