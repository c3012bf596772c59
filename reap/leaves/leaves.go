// Package leaves keeps a cgroup for each service and job, where PID 1 may write its own.
package leaves

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/reap/proc"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// Leaves are the cgroups of services and jobs, one for each tag, and the main
// command's, where PID 1 may write the cgroup that it was started in: cgroup/CGROUPS.md.
// All of it is root's, so that no service leaves its own or changes what bounds it.
type Leaves struct {
	// Entries is how many of the table's children bear a tag. Set before anything else.
	Entries func(tag uint32) int

	dir    int                    // the directory of leaves
	path   string                 // of that, as /proc/PID/cgroup has it
	bounds map[uint32]wire.Bounds // nil: there are no leaves
	left   []uint32               // leaves to be removed as soon as they are empty
}

// Refusal is why a command cannot begin in its leaf.
type Refusal struct {
	Errno  unix.Errno
	Reason string
}

// There tells whether there are leaves.
func (l *Leaves) There() bool { return l.bounds != nil }

const openDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// Open, where children can be tagged, makes the two cgroups below our own, goes into one of them, and has the
// controllers enforce what they can in the other. Where that cannot be done,
// everything is left as it was.
func (l *Leaves) Open(tagged bool) {
	const mount = "/sys/fs/cgroup"
	var buffer [4096]byte
	path := ownCgroup(proc.Read(buffer[:], "/proc/self/cgroup"))
	var fs unix.Statfs_t
	var st unix.Stat_t
	own := mount + path
	if sys.Getpid() != 1 || unix.Geteuid() != 0 || path == "" || !tagged ||
		unix.Statfs(mount, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC ||
		unix.Stat(own, &st) != nil || st.Uid != 0 || st.Mode&0o022 != 0 {
		return
	}
	dir, err := unix.Open(own, openDir, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	if l.dir = -1; settled(dir) {
		l.dir = openAt(dir, wire.CgroupLeaves)
	}
	if l.dir < 0 {
		writeAt(dir, "cgroup.procs", "0") // back, if we have gone
		unix.Unlinkat(dir, wire.CgroupInit, unix.AT_REMOVEDIR)
		unix.Unlinkat(dir, wire.CgroupLeaves, unix.AT_REMOVEDIR)
		return
	}
	if path == "/" {
		path = ""
	}
	l.path = path + "/" + wire.CgroupLeaves + "/"
	l.Use(l.dir)
	l.clear()
}

// Use takes over the descriptor of a directory that has leaves.
func (l *Leaves) Use(dir int) { l.dir, l.bounds = dir, make(map[uint32]wire.Bounds) }

// ownCgroup is our cgroup of the second version, by /proc/self/cgroup; "" where
// that cannot be told, or is none that the mount shows.
func ownCgroup(b []byte) string {
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		if path, ours := strings.CutPrefix(string(line), "0::"); ours && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/..") {
			return path
		}
	}
	return ""
}

// settled makes the two cgroups and has us go to ours. A cgroup has processes or
// passes controllers on, never both, but for the root of all: whoever else is in
// it goes along, and one who cannot be seen from here keeps us from all of it.
func settled(dir int) bool {
	for _, name := range [...]string{wire.CgroupInit, wire.CgroupLeaves} {
		err := unix.Mkdirat(dir, name, 0o755)
		if err != nil && err != unix.EEXIST || err == unix.EEXIST && keyAt(dir, name+"/cgroup.events", "populated") != 0 {
			return false // read-only; or somebody's
		}
	}
	root := unix.Faccessat(dir, "cgroup.type", unix.F_OK, 0) != nil
	const tries = 5 // somebody may come in just now: docker exec
	for range tries {
		if !root && !emptied(dir) || root && writeAt(dir, wire.CgroupInit+"/cgroup.procs", "0") != nil {
			return false
		}
		if passOn(dir) {
			favour(dir)
			return true
		}
	}
	return false
}

// emptied moves all processes of a cgroup into ours.
func emptied(dir int) bool {
	var buffer [4096]byte
	for range 64 {
		b := readAt(dir, "cgroup.procs", buffer[:])
		if len(b) == 0 {
			return true
		}
		for _, line := range linesOf(b) {
			if line == "0" { // of another PID namespace
				return false
			}
		}
		for _, line := range linesOf(b) {
			if err := writeAt(dir, wire.CgroupInit+"/cgroup.procs", line); err != nil && err != unix.ESRCH {
				return false
			}
		}
	}
	return false
}

// passOn enables the controllers that can be had, down to the leaves. It fails
// where a process is in the way.
func passOn(dir int) bool {
	for _, name := range [...]string{"memory", "pids", "cpu"} {
		for _, file := range [...]string{"cgroup.subtree_control", wire.CgroupLeaves + "/cgroup.subtree_control"} {
			if writeAt(dir, file, "+"+name) == unix.EBUSY {
				return false
			}
		}
	}
	return true
}

// What the two tiers have before all services together, whose limit is the
// container's: their share of the processors where those are short, the memory that
// is taken from nobody else but them last, and processes.
const (
	ownWeight = "1000"     // cpu.weight: ten times that of all services
	ownMemory = "33554432" // memory.low
	ownPids   = 64
	amplePids = 200 // with fewer all of the limit is for whoever takes it
)

// favour gives the two tiers what all services together shall not take from them.
func favour(dir int) {
	writeAt(dir, wire.CgroupInit+"/cpu.weight", ownWeight)
	writeAt(dir, wire.CgroupInit+"/memory.low", ownMemory)
	var buffer [32]byte
	if most := proc.Number(readAt(dir, "pids.max", buffer[:])); most >= amplePids {
		writeAt(dir, wire.CgroupLeaves+"/pids.max", sys.Decimal(most-ownPids))
	}
}

// clear removes what an earlier start of the container has left.
func (l *Leaves) clear() {
	var buffer [8192]byte
	for {
		n, err := unix.ReadDirent(l.dir, buffer[:])
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			unix.Unlinkat(l.dir, name, unix.AT_REMOVEDIR) // of files it is refused
		}
	}
}

// leafName is that of a tag; 0 stands for the main command, which has none.
func leafName(tag uint32) string {
	if tag == 0 {
		return wire.MainService
	}
	return sys.Decimal(tag)
}

// Enter has a command begin in the leaf of a tag, which is made where it is not
// there, with bounds in force.
func (l *Leaves) Enter(c *sys.Command, tag uint32, bounds wire.Bounds) *Refusal {
	name := leafName(tag)
	err := unix.Mkdirat(l.dir, name, 0o755)
	if err != nil && err != unix.EEXIST {
		return &Refusal{err.(unix.Errno), "cannot make it"}
	}
	leaf := openAt(l.dir, name)
	if leaf < 0 {
		return &Refusal{unix.ENOENT, "cannot open it"}
	}
	was, known := l.bounds[tag]
	for _, b := range [...]struct {
		file, value string
		same        bool
	}{
		{"memory.max", amount(bounds.Memory), was.Memory == bounds.Memory},
		{"memory.swap.max", swapFor(bounds.Memory), was.Memory == bounds.Memory},
		{"pids.max", amount(bounds.Pids), was.Pids == bounds.Pids},
		{"cpu.max", quota(bounds.CPU), was.CPU == bounds.CPU},
	} {
		if b.same && (known || err == nil) { // a new one has no bounds
			continue
		}
		if errno := writeAt(leaf, b.file, b.value); errno != nil && errno != unix.ENOENT { // a controller that cannot be had: said at start
			unix.Close(leaf)
			delete(l.bounds, tag)
			return &Refusal{errno.(unix.Errno), b.file + " refuses " + b.value}
		}
	}
	l.bounds[tag] = bounds
	c.Cgroup = int32(leaf)
	return nil
}

func amount(n int64) string {
	if n <= 0 {
		return "max"
	}
	return sys.Decimal(n)
}

// swapFor bounds what of it is swapped out: nothing, or a service would have more
// memory than it may.
func swapFor(memory int64) string {
	if memory <= 0 {
		return "max"
	}
	return "0"
}

// quota is cpu.max: microseconds, of which 1000 are the least, in a period.
func quota(thousandths int64) string {
	switch {
	case thousandths <= 0:
		return "max"
	case thousandths < 10:
		return sys.Decimal(uint64(thousandths)*1000) + " 1000000"
	}
	return sys.Decimal(uint64(thousandths)*100) + " 100000"
}

// Close is called when the command was started, or not.
func (l *Leaves) Close(c *sys.Command) {
	if c.Cgroup != 0 {
		sys.Close(c.Cgroup)
		c.Cgroup = 0
	}
}

// OOMKills is how many processes of a leaf the kernel has killed for want of memory.
func (l *Leaves) OOMKills(tag uint32) uint64 {
	if l.bounds == nil {
		return 0
	}
	return keyAt(l.dir, leafName(tag)+"/memory.events", "oom_kill")
}

// Of is the tag in whose leaf a process is, 0 for none.
func (l *Leaves) Of(pid int32) uint32 {
	if l.bounds == nil {
		return 0
	}
	var buffer [4096]byte
	name, in := strings.CutPrefix(ownCgroup(proc.Read(buffer[:], "/proc/", sys.Decimal(pid), "/cgroup")), l.path)
	if !in {
		return 0
	}
	return uint32(proc.Number([]byte(name)))
}

// Leave is told that a process of a tag was forgotten. Its leaf goes with the last
// Of them, now or when what is dying in it has gone.
func (l *Leaves) Leave(tag uint32) {
	if l.bounds == nil || tag == 0 || slices.Contains(l.left, tag) {
		return
	}
	l.left = append(l.left, tag)
	l.Tidy()
}

// Tidy removes the leaves that nobody needs. A process in one that was orphaned by
// nobody ends without a word to us, and its leaf goes with the next that does.
func (l *Leaves) Tidy() {
	kept := l.left[:0]
	for _, tag := range l.left {
		if l.Entries(tag) > 0 {
			continue // and the last of them will be forgotten, too
		}
		if err := unix.Unlinkat(l.dir, leafName(tag), unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
			kept = append(kept, tag)
			continue
		}
		delete(l.bounds, tag)
	}
	l.left = kept
}

// Kill kills all that is in a leaf at once, so that nothing in it can be faster,
// unless another process of ours shares it: a probe, say.
func (l *Leaves) Kill(tag uint32) {
	if l.bounds != nil && tag != 0 && l.Entries(tag) == 1 {
		writeAt(l.dir, leafName(tag)+"/cgroup.kill", "1")
	}
}

// openAt returns -1 where there is no such directory.
func openAt(dir int, name string) int {
	fd, err := unix.Openat(dir, name, openDir|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1
	}
	return fd
}

func writeAt(dir int, file, value string) error {
	fd, err := unix.Openat(dir, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	unix.Close(fd)
	return err
}

func readAt(dir int, file string, buffer []byte) []byte {
	fd, err := unix.Openat(dir, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return proc.ReadAll(fd, buffer)
}

// keyAt is the number behind a key at the beginning of a line, 0 for none.
func keyAt(dir int, file, key string) uint64 {
	var buffer [512]byte
	for _, line := range linesOf(readAt(dir, file, buffer[:])) {
		if len(line) > len(key) && line[:len(key)] == key && line[len(key)] == ' ' {
			return proc.Number([]byte(line[len(key)+1:]))
		}
	}
	return 0
}

// linesOf splits a text; one that was cut off is left out.
func linesOf(b []byte) (list []string) {
	start := 0
	for i, c := range b {
		if c == '\n' {
			list = append(list, string(b[start:i]))
			start = i + 1
		}
	}
	return list
}
