package handover

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
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
	bootID    = "boot/id"  // of this start of the container
	volume    = "boot/volume"
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
	from := t.once(logBegins, 8, func() []byte { return binary.NativeEndian.AppendUint64(nil, uint64(size())) })
	return int64(binary.NativeEndian.Uint64(from))
}

// BootID is the id of this start of the container, 32 hexadecimal digits: the same for
// each supervisor of it, and another after a restart. It is random, for nothing that could
// tell one start from another can be read everywhere: /proc may be missing.
func (t *Table) BootID() string {
	return string(t.once(bootID, 32, func() []byte {
		id := make([]byte, 16)
		rand.Read(id) // never fails
		return hex.AppendEncode(nil, id)
	}))
}

// once is a value of so many bytes that is made when it is asked for first in a boot.
func (t *Table) once(key string, size int, value func() []byte) []byte {
	if known := t.Get(key); len(known) == size {
		return known
	}
	made := value()
	if err := t.Put(key, made); err != nil {
		slog.Warn("a successor would not know a part of what this boot began with", "part", key, "err", err)
	}
	return made
}

// Volume is the place of the volume that this boot has taken, as profiles.Store.Place tells
// it; "": none was taken.
func (t *Table) Volume() string { return string(t.Get(volume)) }

// NoteVolume notes the place of the volume that was taken.
func (t *Table) NoteVolume(place string) {
	if err := t.Put(volume, []byte(place)); err != nil {
		slog.Warn("a successor would not know which volume this is", "err", err)
	}
}
