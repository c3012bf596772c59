package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
	"rlminit/isolate"
	"rlminit/rights"
	"rlminit/usage"
	"rlminit/wire"
)

// Host is the place where rlminit was started: what Compile has to know of it.
type Host struct {
	UID, GID     uint32
	Groups       []uint32
	Capabilities uint64   // permitted, a bit each, capabilities(7)
	Environ      []string // the container's
	Accounts     Accounts
	Isolation    isolate.Capabilities // abilities that the kernel and the engine allow
	Leaves       cgroup.Leaves        // what PID 1 keeps for services and jobs
	Unguarded    map[string]string    // guards of jobs that are not in force here, and why
	FileSize     uint64               // the largest file that may be written, bytes: RLIMIT_FSIZE; 0: any
	Seconds      uint64               // of CPU that a process may use: RLIMIT_CPU; 0: any
	Pending      uint64               // signals that may wait for a user's processes: RLIMIT_SIGPENDING; 0: any
	Data         uint64               // a process may have, bytes: RLIMIT_DATA; 0: any
	Addresses    uint64               // a process may have, bytes: RLIMIT_AS; 0: any
	Unprepared   bool                 // what environments are made of may not be there yet: see Environments

	// Separable says why the supervisor cannot have a uid of its own here; "": it
	// can, and join tells whether it has to be in the group of the services' user to
	// let that read its logs. nil is an unknown place.
	Separable func(home string, user, supervisor wire.Identity) (join bool, why string)
}

// ThisHost looks at the calling process, /etc/passwd and /etc/group.
func ThisHost() (Host, error) {
	h := Host{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Environ: os.Environ(), Isolation: isolate.Capable(), Leaves: cgroup.Find(), FileSize: limitOf(unix.RLIMIT_FSIZE), Seconds: limitOf(unix.RLIMIT_CPU), Pending: limitOf(unix.RLIMIT_SIGPENDING), Data: limitOf(unix.RLIMIT_DATA), Addresses: limitOf(unix.RLIMIT_AS)}
	for _, guard := range cgroup.Guards {
		if why := cgroup.Unguarded(guard, os.ReadFile); why != "" {
			if h.Unguarded == nil {
				h.Unguarded = map[string]string{}
			}
			h.Unguarded[guard] = why
		}
	}
	groups, err := os.Getgroups()
	if err != nil {
		return h, fmt.Errorf("cannot read the supplementary groups: %w", err)
	}
	for _, g := range groups {
		h.Groups = append(h.Groups, uint32(g))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return h, fmt.Errorf("cannot read the capabilities: %w", err)
	}
	h.Capabilities = uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
	h.Accounts, err = ReadAccounts("/etc/passwd", "/etc/group")
	return h, err
}

// limitOf is a limit of this process, as PID 1 has it too; 0: there is none. One of nothing
// at all is 1.
func limitOf(which int) uint64 {
	var is unix.Rlimit
	if unix.Getrlimit(which, &is) != nil || is.Cur == unix.RLIM_INFINITY {
		return 0
	}
	return max(is.Cur, 1)
}

// leastPending is how many signals must be allowed to wait: threads change their ids by one
// each, and one that cannot be sent is sent again without end.
const leastPending = 64

// leastFileSize is the largest file that must be allowed, bytes: the memory of logs and the
// journal are files.
const leastFileSize = 32 << 20

// Memory that PID 1 and the supervisor must be allowed to have, in bytes, as was measured: with
// less, which is enough to start (package reap/sys), Go's runtime may end them at any time.
const (
	leastData      = 96_000_000
	leastAddresses = 2_000_000_000
)

// limits says which of the container's limits keep rlminit from working; cautions are those
// that only bound it.
func (h Host) limits() (cautions []string, err error) {
	if h.FileSize != 0 && h.FileSize < leastFileSize {
		return nil, fmt.Errorf("cannot start: no file may be larger than %d bytes (RLIMIT_FSIZE), and with a configuration rlminit needs %d; docker run --ulimit fsize=%[2]d or more", h.FileSize, leastFileSize)
	}
	if h.Pending != 0 && h.Pending < leastPending {
		return nil, fmt.Errorf("cannot start: %d signals may wait (RLIMIT_SIGPENDING), and with a configuration rlminit needs %d; docker run --ulimit sigpending=1000 or more", h.Pending, leastPending)
	}
	if h.Data != 0 && h.Data < leastData {
		return nil, fmt.Errorf("cannot start: a process may have %d bytes of data (RLIMIT_DATA), and with a configuration rlminit needs %d; docker run --ulimit data=200000000 or more", h.Data, leastData)
	}
	if h.Addresses != 0 && h.Addresses < leastAddresses {
		return nil, fmt.Errorf("cannot start: a process may have %d bytes of addresses (RLIMIT_AS), and with a configuration rlminit needs %d; run it with ulimit -v 4000000 or more", h.Addresses, leastAddresses)
	}
	if h.FileSize != 0 {
		cautions = append(cautions, fmt.Sprintf("no file may be larger than %d bytes (RLIMIT_FSIZE): logs are rotated before, and more of a job's output is not kept", h.FileSize))
	}
	if h.Seconds != 0 {
		cautions = append(cautions, fmt.Sprintf("each process may use %d s of CPU (RLIMIT_CPU), PID 1 too: the kernel ends the container when it has; docker run --ulimit cpu=-1", h.Seconds))
	}
	return cautions, nil
}

// Of is the place as another process of it finds it, whose user is not the caller's:
// that user, its groups and what it may be given. What that can read and the caller
// cannot is not looked at. Without such a process, or of the same user, it is h.
func (h Host) Of(pid int) Host {
	fields := usage.Status("/proc", pid)
	ids := func(key string) (all []uint32) {
		for word := range strings.FieldsSeq(fields[key]) {
			if id, err := strconv.ParseUint(word, 10, 32); err == nil {
				all = append(all, uint32(id))
			}
		}
		return all
	}
	uids, gids := ids("Uid"), ids("Gid")
	if len(uids) < 2 || len(gids) < 2 || uids[1] == h.UID { // the second is the effective one
		return h
	}
	h.UID, h.GID, h.Groups, h.Unprepared = uids[1], gids[1], ids("Groups"), true
	h.Capabilities = 0
	if h.UID == 0 {
		h.Capabilities, _ = strconv.ParseUint(fields["CapBnd"], 16, 64)
	}
	return h
}

// Lookup gives the container's variables.
func (h Host) Lookup(name string) (string, bool) { return lookup(h.Environ, name) }

func lookup(environ []string, name string) (string, bool) {
	for _, kv := range slices.Backward(environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// Executable tells whether a word is a program: a path to one, or its name in a
// directory of path.
func Executable(word, path string) bool {
	isProgram := func(file string) bool {
		st, err := os.Stat(file)
		return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
	}
	if word == "" {
		return false
	}
	if strings.Contains(word, "/") {
		return isProgram(word)
	}
	for dir := range strings.SplitSeq(path, ":") {
		if isProgram(filepath.Join(dir, word)) {
			return true
		}
	}
	return false
}

// as runs f with the file system rights of id: what root reads for somebody must be what
// he could have read himself, for he may have put a link there.
func (h Host) as(id wire.Identity, f func() error) error {
	if h.UID != 0 || id.UID == 0 || os.Geteuid() != 0 { // root's own look is enough
		return f()
	}
	id.Groups = append([]uint32{id.GID}, id.Groups...)
	return rights.As(id, f)
}
