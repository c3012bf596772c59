package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// MachineBoot is the id of this start of the machine, random(4).
func MachineBoot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot tell which start of the machine this is: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Exit is how a boot ended, as the next one finds it.
type Exit string

// What became of the boot before.
const (
	ExitClean   Exit = "clean"   // the container was stopped, and the supervisor recorded it
	ExitKilled  Exit = "killed"  // it ended without that, on a machine that went on
	ExitHost    Exit = "host"    // the machine was started anew meanwhile
	ExitOOM     Exit = "oom"     // the kernel had killed a service for want of memory within OOMOutlived before, which was not up again
	ExitUnknown Exit = "unknown" // there is no record of a boot before
)

// The types of records about boots.
const (
	TypeBootBegun = "boot_begun" // a BootBegun, once a boot, durable
	TypeBootEnded = "boot_ended" // an orderly end: no keys that are needed
	TypeOOMSeen   = "oom_seen"   // the kernel killed for want of memory: an OOMSeen

	// The container has outlived the latest of these by OOMOutlived: no keys.
	TypeOOMOutlived = "oom_outlived"
)

// OOMOutlived is how long after a kill for want of memory the end of the container
// counts as its consequence.
const OOMOutlived = 10 * time.Second

// BootBegun is the body of a boot's first record.
type BootBegun struct {
	Machine   string `json:"machine"` // MachineBoot
	Version   string `json:"version,omitempty"`
	PriorBoot string `json:"prior_boot,omitempty"`
	PriorExit Exit   `json:"prior_exit"`
}

// OOMSeen is the body of the record of such a kill.
type OOMSeen struct {
	Service string `json:"service"`
	Reason  string `json:"reason"`
}

// Boots is the fold of how boots began and ended. It remembers the newest one
// and how the one before that ended.
type Boots struct{ last boot }

type boot struct {
	Boot      string    `json:"boot"`
	Machine   string    `json:"machine"`
	At        time.Time `json:"at"`
	Ended     bool      `json:"ended,omitempty"`
	OOM       string    `json:"oom_of,omitempty"` // the service that was killed for want of memory, and is not up again
	PriorBoot string    `json:"prior_boot,omitempty"`
	PriorExit Exit      `json:"prior_exit,omitempty"`
}

// Apply is Fold's.
func (b *Boots) Apply(r Record) {
	switch r.Type {
	case TypeBootBegun:
		var begun BootBegun
		if r.Decode(&begun) == nil {
			b.last = boot{Boot: r.Boot, Machine: begun.Machine, At: r.At, PriorBoot: begun.PriorBoot, PriorExit: begun.PriorExit}
		}
	case TypeBootEnded:
		b.last.Ended = b.last.Ended || r.Boot == b.last.Boot
	case TypeOOMSeen:
		var seen OOMSeen
		if r.Boot == b.last.Boot && r.Decode(&seen) == nil {
			b.last.OOM = seen.Service
		}
	case TypeOOMOutlived:
		if r.Boot == b.last.Boot {
			b.last.OOM = ""
		}
	case TypeTransition:
		if b.last.OOM == "" {
			return
		}
		var to struct{ Service, To string }
		if r.Decode(&to) == nil && to.Service == b.last.OOM && to.To == "running" {
			b.last.OOM = ""
		}
	}
}

// Snapshot is Fold's.
func (b *Boots) Snapshot() any { return b.last }

// Restore is Fold's.
func (b *Boots) Restore(section json.RawMessage) error {
	b.last = boot{}
	return json.Unmarshal(section, &b.last)
}

// Begin returns the record of the boot id that is to be, and whether it is there
// already: a supervisor of this boot wrote it.
func (b *Boots) Begin(id, machine string) (begun BootBegun, recorded bool) {
	if b.last.Boot == id {
		return BootBegun{Machine: b.last.Machine, PriorBoot: b.last.PriorBoot, PriorExit: b.last.PriorExit}, true
	}
	return BootBegun{Machine: machine, PriorBoot: b.last.Boot, PriorExit: b.last.exit(machine)}, false
}

// exit is how a boot ended, seen from a boot on a machine.
func (b boot) exit(machine string) Exit {
	switch {
	case b.Boot == "":
		return ExitUnknown
	case b.Ended:
		return ExitClean
	case b.Machine != machine:
		return ExitHost
	case b.OOM != "":
		return ExitOOM
	}
	return ExitKilled
}
