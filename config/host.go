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
	Isolation    isolate.Capabilities // what the kernel and the engine allow
	Leaves       cgroup.Leaves        // what PID 1 keeps for services and jobs
	Unguarded    map[string]string    // guards of jobs that are not in force here, and why
	Unprepared   bool                 // what environments are made of may not be there yet: see Environments

	// Separable says why the supervisor cannot have a uid of its own here; "": it
	// can, and join tells whether it has to be in the group of the services' user to
	// let that read its logs. nil is a place of which nothing is known.
	Separable func(home string, user, supervisor wire.Identity) (join bool, why string)
}

// ThisHost looks at the calling process, /etc/passwd and /etc/group.
func ThisHost() (Host, error) {
	h := Host{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Environ: os.Environ(), Isolation: isolate.Capable(), Leaves: cgroup.Find()}
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
	if h.UID != 0 || id.UID == 0 || os.Geteuid() != 0 { // who looks for root sees what he may
		return f()
	}
	id.Groups = append([]uint32{id.GID}, id.Groups...)
	return rights.As(id, f)
}
