package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// memory is what an agent leaves for the next one in the same box: a file, and a lock on
// another that keeps two of them from deciding at once.
type memory struct {
	dir  string
	lock *os.File
	last remembered
}

// remembered is a session.
type remembered struct {
	Box    string `json:"box"` // of any other box it says nothing
	Fleet  string `json:"fleet"`
	Member string `json:"member"`
	Lease  int64  `json:"lease"`
	TTL    int64  `json:"ttl_ns"`
	Sent   int64  `json:"sent_ns"` // of CLOCK_BOOTTIME: when the last keep-alive that was confirmed was sent
}

// openMemory takes the lock, for which it waits: an agent that ends lets it go. waits is
// called if it has to.
func openMemory(dir string, waits func()) (*memory, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of the agent: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the directory of the agent: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		waits()
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		}
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("cannot lock the directory of the agent: %w", err)
	}
	return &memory{dir: dir, lock: lock}, nil
}

// read is the session that the agent before has left; the zero value: none.
func (m *memory) read(fleet, member string) remembered {
	var r remembered
	text, err := os.ReadFile(filepath.Join(m.dir, "session.json"))
	if err != nil || json.Unmarshal(text, &r) != nil || r.Box == "" || r.Box != thisBox() || r.Fleet != fleet || r.Member != member {
		return remembered{}
	}
	return r
}

// write replaces it. What is lost of it by a fault costs a session, and is not safety.
func (m *memory) write(r remembered) error {
	if r.Box = thisBox(); r == m.last {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(m.dir, "session.json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	m.last = r
	return os.Rename(path+".new", path)
}

// thisBox names this life of this container: the boot of the machine, the PID namespace and
// the start of its PID 1. "": it cannot be known, and nothing is taken over.
var thisBox = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return ""
	}
	// Field 22 is the start; the name, which may hold spaces, ends with the last bracket.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space + " " + fields[19]
})
