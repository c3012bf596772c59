package reap

import (
	"bytes"

	"golang.org/x/sys/unix"

	"rlminit/reap/leaves"
	"rlminit/reap/proc"
	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// orphans finds the processes that were reparented to us, and tells whose they
// are. There may be thousands, and they are asked for at each end of a service.
//
// Invariant: with a list, pids is what stands on it before offset, and tags has an
// entry for each of them and for no process that was collected.
type orphans struct {
	list   int  // /proc/self/task/TID/children of the first thread, -1 without
	known  bool // by the list, or by looking through /proc
	buffer [64 << 10]byte

	pids   []int32
	offset int64            // how far the list was read
	tags   map[int32]uint32 // of each pid on the list: its tag, 0 for none
	kept   []int32          // of the pids, those that were asked for

	place  *place
	policy *wire.Policy
	leaves *leaves.Leaves
	ours   func(pid int32) bool // whether tier 1 itself has started it
}

// unread is the tag of an orphan that was not looked at yet.
const unread = ^uint32(0)

// fewOrphans is up to where the list is read anew each time.
const fewOrphans = 256

// open opens the list that the kernel keeps, CONFIG_PROC_CHILDREN.
func (o *orphans) open() {
	fd, err := unix.Open("/proc/thread-self/children", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	o.list, o.tags = fd, make(map[int32]uint32)
	o.known = fd >= 0 || sys.Exists("/proc/self")
}

// all returns the orphans' pids, good until the next call. They stay good as
// long as none is collected, which only the loop does. What tier 1 itself has
// started hangs on other threads and is not among them.
//
// A long list is read on from where it ended: the kernel appends to it, and
// takes from it what reapOrphans collects. Writing out 10,000 entries takes it
// 10 ms, skipping them 0.3.
func (o *orphans) all() []int32 {
	if o.list < 0 {
		o.pids = o.pids[:0]
		o.scan()
		return o.pids
	}
	if len(o.pids) <= fewOrphans {
		o.rewind()
	}
	var pid int32
	for {
		n, err := unix.Pread(o.list, o.buffer[:], o.offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return o.pids
		}
		o.offset += int64(n)
		for _, b := range o.buffer[:n] {
			switch {
			case b >= '0' && b <= '9':
				pid = pid*10 + int32(b-'0')
			case pid != 0:
				o.add(pid)
				pid = 0
			}
		}
	}
}

func (o *orphans) add(pid int32) {
	o.pids = append(o.pids, pid)
	if _, seen := o.tags[pid]; !seen {
		o.tags[pid] = unread
	}
}

func (o *orphans) rewind() { o.pids, o.offset = o.pids[:0], 0 }

// collected is told of each orphan that is no more. Its number may be another's
// from here on, and the list no longer ends where it did if it was on it.
func (o *orphans) collected(pid int32) {
	if _, seen := o.tags[pid]; seen {
		delete(o.tags, pid)
		o.rewind()
	}
}

// scan looks at every process instead. It finds our own children as well: they
// are told apart by those who ask.
func (o *orphans) scan() {
	self := sys.Getpid()
	o.eachProcess(func(pid int32) {
		if proc.Parent(pid) == self {
			o.pids = append(o.pids, pid)
		}
	})
}

// eachProcess calls each for every process there is, by /proc.
func (o *orphans) eachProcess(each func(pid int32)) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		n, err := unix.ReadDirent(fd, o.buffer[:])
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(o.buffer[:n], -1, nil)
		for _, name := range names {
			if pid := int32(proc.Number([]byte(name))); pid > 0 {
				each(pid)
			}
		}
	}
}

// leftovers returns the orphans that belong to a child, good until the next
// call: by its tag, which no process without privilege can shed, or where there
// are no tags by its session and process group.
func (o *orphans) leftovers(c *child) []int32 {
	kept := o.kept[:0]
	for _, pid := range o.all() {
		if o.belongs(pid, c) {
			kept = append(kept, pid)
		}
	}
	o.kept = kept
	return kept
}

func (o *orphans) belongs(pid int32, c *child) bool {
	if pid == c.pid || o.list < 0 && o.ours(pid) { // which only a scan can meet
		return false
	}
	if c.tag != 0 && o.place.tags {
		return o.tagOf(pid) == c.tag
	}
	return c.leads(pid)
}

// tagOf returns an orphan's tag, 0 for none. Each is asked once, for that takes
// some system calls.
func (o *orphans) tagOf(pid int32) uint32 {
	tag, listed := o.tags[pid]
	if listed && tag != unread {
		return tag
	}
	var buffer [4096]byte
	status := proc.Read(buffer[:], "/proc/", say.Number(int(pid)), "/status")
	if len(status) == 0 {
		return 0
	}
	if tag = tagIn(status, o.policy); tag == 0 {
		tag = o.leaves.Of(pid) // one with CAP_SETGID may have shed it
	}
	if listed { // a process of the scan may be collected as a child of ours
		o.tags[pid] = tag
	}
	return tag
}

// bears tells whether any process belongs to a child, read anew.
func (o *orphans) bears(pid int32, c *child) bool {
	if c.tag == 0 || !o.place.tags {
		return c.leads(pid)
	}
	var buffer [4096]byte
	return tagIn(proc.Read(buffer[:], "/proc/", say.Number(int(pid)), "/status"), o.policy) == c.tag
}

// leads tells whether a process is of the child's session or group.
func (c *child) leads(pid int32) bool {
	return c.pid != 0 && (sys.Getsid(pid) == c.pid || sys.Getpgid(pid) == c.pid)
}

// tagIn returns the group in /proc/PID/status that the policy has as a tag, or 0.
func tagIn(status []byte, policy *wire.Policy) uint32 {
	_, groups, _ := bytes.Cut(status, []byte("\nGroups:"))
	for n := 1; ; n++ {
		group := proc.Field(groups, n)
		if len(group) == 0 {
			return 0
		}
		if tag := proc.Number(group); tag >= uint64(policy.TagLow) && tag <= uint64(policy.TagHigh) {
			return uint32(tag)
		}
	}
}
