package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Identity tells one container's life from another's.
type Identity struct {
	Container string // its host name, which is the container's id unless somebody chose another
	BootID    string // of the kernel, random(4); "" where that cannot be read
}

// Self is the identity of this container.
func Self() Identity {
	who := Identity{}
	who.Container, _ = os.Hostname() // without a name the volume is held by "another container"
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil { // gVisor has none
		who.BootID = strings.TrimSpace(string(boot))
	}
	return who
}

// containerID is the host name that engines give a container that was not given
// one. No other container has it, on no machine.
var containerID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{12}([0-9a-f]{52})?$`) })

// record is the content of the lock file.
type record struct {
	Container string    `json:"container"`
	BootID    string    `json:"boot_id"`
	Heartbeat time.Time `json:"heartbeat"` // zero: given up
}

// recordSize is the size of the lock file, bytes. It is always written whole in
// one write: no reader finds half of one record.
const recordSize = 512

func (r record) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) >= recordSize {
		return nil, errors.New("the container's host name is too long")
	}
	text = append(text, bytes.Repeat([]byte{' '}, recordSize-1-len(text))...)
	return append(text, '\n'), nil
}

// read reads the lock file; nobody's record if it holds nothing of use, for
// anyone with the services' uid can write there.
func read(f *os.File) record {
	buf := make([]byte, recordSize) // whatever follows is not ours
	n, _ := f.ReadAt(buf, 0)        // an unreadable record protects nobody
	var r record
	if json.Unmarshal(buf[:n], &r) != nil {
		return record{}
	}
	r.Container = printable().ReplaceAllString(r.Container, "?")
	if len(r.Container) > 64 {
		r.Container = r.Container[:64]
	}
	return r
}

// printable matches what has no place in a host name, nor on a terminal.
var printable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9._-]`) })

// Held says that another container has the volume.
type Held struct {
	Volume    string
	Container string        // "" if it did not say
	Age       time.Duration // of its record; negative where the kernel refuses the lock, and no record counts
}

func (h *Held) Error() string {
	holder := "another container"
	if h.Container != "" {
		holder = "container " + h.Container
		if h.Age >= 0 {
			holder += fmt.Sprintf(" (%ds ago)", int(h.Age.Seconds()))
		}
	}
	return fmt.Sprintf("volume %s is held by %s; no profile is started here; stop that container, or set RLMINIT_PROFILES=off", h.Volume, holder)
}
