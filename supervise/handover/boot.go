package handover

import (
	"encoding/binary"
	"log/slog"
	"time"
)

// Duty is a piece of what is to be done once a boot. A supervisor that dies during the
// boot has a successor that finishes what is left, and does nothing twice.
type Duty string

const (
	Cleaned    Duty = "boot/cleaned"    // the profiles are rid of what must not outlive a boot; nothing of them runs yet
	Registered Duty = "boot/registered" // what was found at boot is registered, and told in container-boot.log
	Fulfilled  Duty = "boot/fulfilled"  // what the container's arguments ask for was started

	logBegins = "boot/log" // where the lines of this boot begin in container-boot.log
)

// Done tells whether a duty was done in this boot.
func (t *Table) Done(d Duty) bool { return t.Get(string(d)) != nil }

// Finish notes that a duty is done. It returns when a successor would know, which takes
// memory.
func (t *Table) Finish(d Duty) {
	for t.Put(string(d), []byte{1}) != nil {
		slog.Error("a successor would begin a part of the boot again; tried again until it knows", "part", d)
		time.Sleep(time.Second)
	}
}

// LogFrom is where the lines of this boot begin in container-boot.log: at its
// end, as size tells it, when this is asked first.
func (t *Table) LogFrom(size func() int64) int64 {
	if known := t.Get(logBegins); len(known) == 8 {
		return int64(binary.NativeEndian.Uint64(known))
	}
	from := size()
	if err := t.Put(logBegins, binary.NativeEndian.AppendUint64(nil, uint64(from))); err != nil {
		slog.Warn("a successor would not know where the lines of this boot begin", "err", err)
	}
	return from
}
