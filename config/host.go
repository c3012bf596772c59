package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is the place where rlminit was started: what Compile has to know of it.
type Host struct {
	UID, GID     uint32
	Groups       []uint32
	Capabilities uint64   // permitted, a bit each, capabilities(7)
	Environ      []string // the container's
	Accounts     Accounts
}

// ThisHost looks at the calling process, /etc/passwd and /etc/group.
func ThisHost() (Host, error) {
	h := Host{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Environ: os.Environ()}
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
