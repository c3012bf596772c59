package notify

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Message is one datagram, decoded. What it does not mention is zero or nil.
type Message struct {
	// The sender, SCM_CREDENTIALS of unix(7). PID is 0 if it lives in another PID
	// namespace, and may be gone already: systemd-notify exits at once.
	PID int
	UID uint32

	Ready     bool
	Reloading bool
	Stopping  bool

	Status     *string // printable, one line, at most maxStatus bytes; "" clears it
	MainPID    int     // 1 or more; 0: not given
	Errno      *int
	ExitStatus *int // 0 to 255

	Watchdog         bool          // WATCHDOG=1
	WatchdogTrigger  bool          // WATCHDOG=trigger
	WatchdogInterval time.Duration // WATCHDOG_USEC; 0: not given
	ExtendTimeout    time.Duration // EXTEND_TIMEOUT_USEC; 0: not given

	FDStore       bool
	FDStoreRemove bool   // FDSTOREREMOVE=1, with FDName
	FDName        string // "stored" if an FDStore gives no name, as systemd has it

	// Barrier asks that its one descriptor be closed when every message before
	// it has been acted upon: it is when the handler returns.
	Barrier bool

	// Faults say what was ignored, each in a few words fit for a log.
	Faults []string

	files []*os.File
}

// Files are the descriptors of an FDStore or a Barrier. They are closed when the
// handler returns.
func (m *Message) Files() []*os.File { return m.files }

// Bounds on what is accepted.
const (
	maxDatagram = 4096 // bytes, as in systemd
	maxStatus   = 1024 // bytes
	MaxFiles    = 64   // descriptors in one message
	maxName     = 255  // bytes of FDNAME
	maxFaults   = 8    // a datagram of nothing but faults does not fill the log
)

func (m *Message) fault(format string, args ...any) {
	if len(m.Faults) < maxFaults {
		m.Faults = append(m.Faults, fmt.Sprintf(format, args...))
	}
}

// close closes its descriptors.
func (m *Message) close() {
	for _, f := range m.files {
		// The descriptor is gone whatever close(2) says.
		_ = f.Close()
	}
	m.files = nil
}

// Parse decodes the text of a datagram. Unknown keys are ignored, as sd_notify(3)
// demands; an assignment that is known and malformed is left out, and named in
// Faults. Where a key is repeated the last one counts.
func Parse(text []byte) Message {
	var m Message
	s := strings.TrimRight(string(text), "\x00")
	if strings.ContainsRune(s, 0) {
		m.fault("the message holds a zero byte")
		return m
	}
	for line := range strings.SplitSeq(s, "\n") {
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			m.fault("%s is no assignment", quote(line))
			continue
		}
		m.assign(key, value)
	}
	m.complete()
	return m
}

// complete checks what only the whole message tells.
func (m *Message) complete() {
	if m.FDStore && m.FDStoreRemove {
		m.fault("FDSTORE and FDSTOREREMOVE in one message")
		m.FDStore, m.FDStoreRemove = false, false
	}
	if m.FDStore && m.FDName == "" {
		m.FDName = "stored"
	}
	if m.FDStoreRemove && m.FDName == "" {
		m.fault("FDSTOREREMOVE without FDNAME")
		m.FDStoreRemove = false
	}
	if m.Barrier && m.FDStore {
		m.fault("BARRIER and FDSTORE in one message")
		m.FDStore = false
	}
}
