package reap

import (
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// Bounds of what isolates one process.
const (
	mostPrivate   = 8
	longestFilter = 4096 // instructions, BPF_MAXINSNS
)

// extra is how many of a message's descriptors have no target.
func extra(m *wire.Spawn) (n int) {
	if m.Credentials {
		n++
	}
	if m.Notify {
		n++
	}
	if m.Ruleset {
		n++
	}
	return n
}

// makeEnclosure makes the ruleset that the reader of the configuration fills:
// whatever tier 2 allows a service, nothing of ours is among it. The paths are
// not opened here, for a file system that does not answer would hold PID 1.
func (o *commands) makeEnclosure() {
	o.enclosure.Ruleset = 0
	version := sys.LandlockABI()
	if version == 0 {
		return
	}
	if fd, errno := sys.NewRuleset(wire.EnclosureRights(version)); errno == 0 {
		o.enclosure.Ruleset = int32(fd)
	}
}

// keepEnclosure keeps it where the policy wants it.
func (o *commands) keepEnclosure() {
	if o.enclosure.Ruleset == 0 {
		return
	}
	if !o.policy.Enclosed {
		sys.Close(o.enclosure.Ruleset)
		o.enclosure.Ruleset = 0
		return
	}
	o.enclosure.Open(o.policy.Opened, o.policy.Published, o.policy.Temporary, wire.EnclosureRights(sys.LandlockABI()))
}

// isolate fills in the restrictions of the process.
func (o *commands) isolate(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	if (m.Ruleset || len(m.Filter) > 0) && !c.NoNewPrivs {
		return &refusal{wire.StepPolicy, unix.EPERM, "isolation needs no_new_privs, which the policy does not give it"}
	}
	if m.Tag != 0 && o.place.tags {
		c.Isolation.Owner, c.Isolation.Tag = o.policy.Supervisor.UID, m.Tag
		next := len(m.Targets)
		if m.Credentials {
			c.Isolation.Credentials = int32(fds[next])
			next++
		}
		if m.Notify {
			c.Isolation.Notify = int32(fds[next])
		}
	}
	if m.Ruleset {
		c.Isolation.Ruleset = int32(fds[len(fds)-1])
		c.Isolation.Private(m.Private, m.Rights, o.gives(m.Private))
		if m.Name != o.policy.Unenclosed {
			c.Enclosure = o.enclosure
		}
	}
	c.Isolation.Filter(m.Filter)
	return nil
}

// gives tells whether all directories lie in the one in which only we make names: those
// alone are made with our rights, whatever tier 2 asks for.
func (o *commands) gives(paths []string) bool {
	for _, path := range paths {
		name, inside := strings.CutPrefix(path, o.temporary+"/")
		if !inside || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return false
		}
	}
	return o.temporary != ""
}
