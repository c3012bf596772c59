// Package self tells a process what it is: its credentials, limits,
// descriptors, signal state and environment, as the kernel sees them.
//
// The example gateway serves it as JSON, and the tests compare it with what a
// service was promised. It reads /proc/self alone and opens nothing that stays
// open.
package self

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Report is a process as the kernel sees it.
type Report struct {
	PID     int    `json:"pid"`
	PPID    int    `json:"ppid"`
	Session int    `json:"session"` // getsid(2)
	Group   int    `json:"group"`   // getpgid(2)
	Threads int    `json:"threads"`
	TTY     bool   `json:"tty"` // standard input is a terminal
	Dir     string `json:"dir"`

	UID    [4]int `json:"uid"` // real, effective, saved, file system
	GID    [4]int `json:"gid"`
	Groups []int  `json:"groups"` // supplementary, sorted by the kernel

	// Capability sets by their name in proc(5): CapInh, CapPrm, CapEff, CapBnd,
	// CapAmb.
	Capabilities map[string]uint64 `json:"capabilities"`
	NoNewPrivs   bool              `json:"no_new_privs"`
	Seccomp      int               `json:"seccomp"` // 0 off, 1 strict, 2 filter

	// Signal sets as in proc(5), bit n-1 for signal n.
	Blocked uint64 `json:"blocked"`
	Ignored uint64 `json:"ignored"`

	Umask       string              `json:"umask"` // octal
	OOMScoreAdj int                 `json:"oom_score_adj"`
	Limits      map[string][2]int64 `json:"limits"` // soft and hard, -1: unlimited
	Descriptors map[int]string      `json:"descriptors"`
	Args        []string            `json:"args"`
	Environment []string            `json:"environment"`
}

// limits are those of setrlimit(2) that the tests and people ask for.
var limits = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
	"fsize": unix.RLIMIT_FSIZE, "memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

// Read reports on the calling process. Descriptors are those open when it is
// called: a program that wants only the inherited ones calls it first thing.
func Read() (Report, error) {
	r := Report{
		PID: os.Getpid(), PPID: os.Getppid(), Group: unix.Getpgrp(),
		Capabilities: map[string]uint64{}, Limits: map[string][2]int64{},
		Descriptors: descriptors(), Args: os.Args, Environment: os.Environ(),
	}
	var err error
	if r.Session, err = unix.Getsid(0); err != nil {
		return r, fmt.Errorf("cannot read the session: %w", err)
	}
	if r.Dir, err = os.Getwd(); err != nil {
		r.Dir = "?"
	}
	_, err = unix.IoctlGetTermios(0, unix.TCGETS)
	r.TTY = err == nil
	for name, resource := range limits {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			return r, fmt.Errorf("cannot read the limit %s: %w", name, err)
		}
		r.Limits[name] = [2]int64{limit(l.Cur), limit(l.Max)}
	}
	if b, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		r.OOMScoreAdj, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return r, fmt.Errorf("cannot read /proc/self/status: %w", err)
	}
	return r, r.parseStatus(string(b))
}

// limit turns RLIM_INFINITY into -1, which JSON can carry.
func limit(v uint64) int64 {
	if v == ^uint64(0) {
		return -1
	}
	return int64(v)
}

// descriptors reads the links one by one, for to list the directory would
// open another descriptor.
func descriptors() map[int]string {
	open := map[int]string{}
	for fd := range 1024 {
		if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil {
			open[fd] = link
		}
	}
	return open
}

// parseStatus fills in what /proc/PID/status tells, proc_pid_status(5).
func (r *Report) parseStatus(text string) error {
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		fields := strings.Fields(value)
		if err := r.set(key, fields); err != nil {
			return fmt.Errorf("cannot read %s of /proc/self/status: %w", key, err)
		}
	}
	return nil
}

func (r *Report) set(key string, fields []string) (err error) {
	first := ""
	if len(fields) > 0 {
		first = fields[0]
	}
	switch key {
	case "Uid":
		err = four(&r.UID, fields)
	case "Gid":
		err = four(&r.GID, fields)
	case "Groups":
		r.Groups = make([]int, len(fields))
		for i, f := range fields {
			if r.Groups[i], err = strconv.Atoi(f); err != nil {
				return err
			}
		}
	case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
		r.Capabilities[key], err = strconv.ParseUint(first, 16, 64)
	case "SigBlk":
		r.Blocked, err = strconv.ParseUint(first, 16, 64)
	case "SigIgn":
		r.Ignored, err = strconv.ParseUint(first, 16, 64)
	case "NoNewPrivs":
		r.NoNewPrivs = first == "1"
	case "Seccomp":
		r.Seccomp, err = strconv.Atoi(first)
	case "Threads":
		r.Threads, err = strconv.Atoi(first)
	case "Umask":
		r.Umask = first
	}
	return err
}

func four(into *[4]int, fields []string) error {
	if len(fields) != len(into) {
		return fmt.Errorf("%d numbers in place of %d", len(fields), len(into))
	}
	for i, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil {
			return err
		}
		into[i] = n
	}
	return nil
}
