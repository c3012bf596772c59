package isolate

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Capabilities are what this place can do of isolation.
type Capabilities struct {
	// Landlock is the kernel's ABI, landlock(7), as far as it is known here; 0
	// where there is none.
	Landlock int `json:"landlock"`
	// Seccomp tells whether filters can be installed.
	Seccomp bool `json:"seccomp"`

	Truncate bool `json:"truncate"` // Landlock holds back truncate(2): ABI 3
	Ports    bool `json:"ports"`    // TCP by port lists: ABI 4
	Devices  bool `json:"devices"`  // ioctl(2) of devices: ABI 5
	Signals  bool `json:"signals"`  // signals and abstract sockets end at the service: ABI 6
	Sockets  bool `json:"sockets"`  // connecting to a socket by its path: ABI 9
}

// Capable finds out once what this place can do.
var Capable = sync.OnceValue(func() Capabilities { return capable(abi(), hasSeccomp()) })

func capable(abi int, seccomp bool) Capabilities {
	return Capabilities{
		Landlock: abi, Seccomp: seccomp,
		Truncate: abi >= 3, Ports: abi >= 4, Devices: abi >= 5, Signals: abi >= 6, Sockets: abi >= 9,
	}
}

// hasSeccomp asks for an action of filters that every kernel with filters has.
func hasSeccomp() bool {
	_, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil
}

// Lacks is what this place does not do of what a level is asked for, a line
// each; nothing for None. What no kernel did before the last ones is not told
// again at every start: the documents tell it, and the fields.
func (c Capabilities) Lacks(l Level) []string {
	if !l.Above(None) {
		return nil
	}
	var lines []string
	say := func(lacks bool, line string) {
		if lacks {
			lines = append(lines, line)
		}
	}
	say(c.Landlock == 0, "no Landlock: files, ports and signals are held back by the user alone")
	if c.Landlock > 0 {
		say(!c.Ports && l == Strict, "TCP is not limited to the listed ports (Landlock before ABI 4)")
		say(!c.Signals, "signals reach other processes of the same user (Landlock before ABI 6)")
	}
	say(!c.Seccomp && l == Strict, "no seccomp: no system call is denied")
	return lines
}

// Lack is why a level cannot be had in full here; "" if it can.
func (c Capabilities) Lack(level Level) string {
	switch {
	case !level.Above(None):
		return ""
	case c.Landlock == 0:
		return "the kernel, or the container engine's seccomp profile, offers no Landlock"
	case level == Strict && !c.Ports:
		return "Landlock before ABI 4 does not limit TCP"
	case level == Strict && !c.Seccomp:
		return "there is no seccomp"
	}
	return ""
}
