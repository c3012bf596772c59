package service

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"rlminit/isolate"
)

// A service's process has the values that its definition had when it was started. The
// fields in startFields act only then: a process must be started again for another value
// to hold. All other fields (restart, exits, stop, log, health, requires) hold at once, for
// the supervisor acts on them.

// startFields are the fields that act at the start, each with the bytes that tell two
// values apart. The order is that of a Start.
var startFields = [...]struct {
	name  string
	write func(w hash.Hash32, d *Definition)
}{
	{"command", func(w hash.Hash32, d *Definition) { words(w, d.Command) }},
	{"user", func(w hash.Hash32, d *Definition) { words(w, []string{d.User}) }},
	{"group", func(w hash.Hash32, d *Definition) { words(w, []string{d.Group}) }},
	{"groups", func(w hash.Hash32, d *Definition) { words(w, d.Groups) }},
	{"working_dir", func(w hash.Hash32, d *Definition) { words(w, []string{d.WorkingDir}) }},
	{"umask", func(w hash.Hash32, d *Definition) { fmt.Fprint(w, d.Umask) }},
	{"environment", func(w hash.Hash32, d *Definition) {
		for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
			words(w, []string{name, d.Environment[name].Text, d.Environment[name].File})
		}
	}},
	{"env_file", func(w hash.Hash32, d *Definition) { words(w, d.EnvFile) }},
	{"type", func(w hash.Hash32, d *Definition) { words(w, []string{string(d.Type)}) }},
	{"profile", func(w hash.Hash32, d *Definition) { words(w, []string{d.Profile}) }},
	{"port", func(w hash.Hash32, d *Definition) { fmt.Fprint(w, d.Port) }},
	// NOTIFY_SOCKET and WATCHDOG_USEC are in the environment.
	{"ready", func(w hash.Hash32, d *Definition) { fmt.Fprint(w, notifies(d)) }},
	{"watchdog", func(w hash.Hash32, d *Definition) { fmt.Fprint(w, int64(d.Watchdog)) }},
	{"deadline", func(w hash.Hash32, d *Definition) { words(w, []string{string(d.Deadline)}) }},
	{"sockets", func(w hash.Hash32, d *Definition) {
		for _, s := range d.Sockets {
			words(w, []string{s.Network, s.Address, s.Name})
		}
	}},
	{"limits", func(w hash.Hash32, d *Definition) {
		for _, number := range slices.Sorted(maps.Keys(d.Limits.Rlimits)) {
			fmt.Fprint(w, number, d.Limits.Rlimits[number], ";")
		}
		fmt.Fprint(w, d.Limits.Memory, d.Limits.Pids, d.Limits.CPU)
	}},
	{"sandbox", func(w hash.Hash32, d *Definition) {
		words(w, d.Sandbox.Capabilities)
		fmt.Fprint(w, d.Sandbox.NoNewPrivs)
	}},
	{"isolation", func(w hash.Hash32, d *Definition) {
		i := d.Isolation
		words(w, []string{string(i.Level)})
		words(w, i.Read)
		words(w, i.Write)
		words(w, i.Exec)
		for _, ports := range []*isolate.Ports{i.Connect, i.Bind} {
			if fmt.Fprint(w, ports == nil); ports != nil {
				fmt.Fprint(w, ports.Any, ports.Ranges)
			}
		}
	}},
	{"secrets", func(w hash.Hash32, d *Definition) {
		for _, name := range slices.Sorted(maps.Keys(d.Secrets)) {
			words(w, []string{name, d.Secrets[name]})
		}
		fmt.Fprint(w, d.SecretsVersion)
	}},
}

// words writes a list so that no two lists are written alike.
func words(w hash.Hash32, list []string) {
	fmt.Fprint(w, len(list), ":")
	for _, word := range list {
		fmt.Fprint(w, len(word), ":", word)
	}
}

// Start is the digests of the fields of a definition that act at the start of a process,
// four bytes for each: of the definition that a process was started with it is kept for
// its life, so that it can be compared with any that follows. Secrets count by their
// version.
type Start string

// StartOf is the Start of a definition.
func StartOf(d *Definition) Start {
	digests := make([]byte, 0, 4*len(startFields))
	for _, f := range startFields {
		w := fnv.New32a()
		f.write(w, d)
		digests = binary.BigEndian.AppendUint32(digests, w.Sum32())
	}
	return Start(digests)
}

// Differs says which fields of two Starts differ: "command and environment changed"; "":
// none but those that are left out. A Start of another number of fields, which another
// version of rlminit kept, differs in nothing that can be named.
func (s Start) Differs(from Start, without ...string) string {
	if len(s) != 4*len(startFields) || len(from) != len(s) {
		return ""
	}
	var changed []string
	for i, f := range startFields {
		if s[4*i:4*i+4] != from[4*i:4*i+4] && !slices.Contains(without, f.name) {
			changed = append(changed, f.name)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	last := len(changed) - 1
	why := changed[last]
	if last > 0 {
		why = strings.Join(changed[:last], ", ") + " and " + why
	}
	return why + " changed"
}

// Started is the part of a definition that a run was started with. A successor of the
// supervisor compares it with the definition in force.
type Started struct {
	Run  uint64 `json:"run,omitempty"` // of another run nothing is known
	With []byte `json:"with,omitempty"`
}

// Older says which fields of the definition in force, which act at the start, are others
// than the run was started with; "": none.
func (s Started) Older(run uint64, force Start) string {
	if run == 0 || s.Run != run {
		return ""
	}
	return force.Differs(Start(s.With))
}

// NeedsRestart tells whether a process that was started with one definition has to be
// started again for another to hold, and why: "command and environment changed".
func NeedsRestart(old, new *Definition) (needed bool, why string) {
	why = StartOf(new).Differs(StartOf(old))
	return why != "", why
}

func notifies(d *Definition) bool { return d.Ready != nil && d.Ready.Notify }

// NotifySocket tells whether its process has a notify socket.
func (d *Definition) NotifySocket() bool { return d.Watchdog > 0 || notifies(d) }
