// Package process tells what a process is, as the kernel sees it: its
// credentials, limits, descriptors, signal state and environment.
//
// The example gateway serves its own as JSON, and the tests compare it with
// what a service was promised. It reads /proc alone, as proc(5) has it.
package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Info is a process as the kernel sees it.
type Info struct {
	PID        int    `json:"pid"`
	Name       string `json:"name"`  // the first 15 bytes of the program's name
	State      string `json:"state"` // R, S, D, T, Z …
	Parent     int    `json:"parent"`
	Group      int    `json:"group"`
	Session    int    `json:"session"`
	Terminal   int    `json:"terminal"`   // device number of the controlling terminal, 0: none
	Foreground int    `json:"foreground"` // process group in the terminal's foreground, -1: none
	Start      uint64 `json:"start"`      // clock ticks since boot
	Threads    int    `json:"threads"`
	Cgroup     string `json:"cgroup"` // of version 2, below the root that is seen from here; "" for none

	UID    [4]int `json:"uid"` // real, effective, saved, file system
	GID    [4]int `json:"gid"`
	Groups []int  `json:"groups"` // supplementary

	// Capability sets by their names in proc(5): CapInh, CapPrm, CapEff, CapBnd,
	// CapAmb.
	Capabilities map[string]uint64 `json:"capabilities"`
	NoNewPrivs   bool              `json:"no_new_privs"`
	Seccomp      int               `json:"seccomp"` // 0 off, 1 strict, 2 filter

	// Signal sets, bit n-1 for signal n.
	Blocked uint64 `json:"blocked"`
	Ignored uint64 `json:"ignored"`

	Umask       string               `json:"umask"` // octal
	OOMScoreAdj int                  `json:"oom_score_adj"`
	Limits      map[string][2]string `json:"limits"` // soft and hard, by the names of proc(5): "Max open files"
	Args        []string             `json:"args"`

	// What only a process's own user may read; empty for others.
	Dir         string         `json:"dir"`
	Descriptors map[int]string `json:"descriptors"`
	Environment []string       `json:"environment"`
}

// Self reports on the calling process.
func Self() (Info, error) { return Read(os.Getpid()) }

// All reports on every process that /proc shows. Those that end meanwhile are
// left out.
func All() ([]Info, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var all []Info
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if info, err := Read(pid); err == nil {
			all = append(all, info)
		}
	}
	return all, nil
}

// Read reports on one process.
func Read(pid int) (Info, error) {
	info := Info{PID: pid, Capabilities: map[string]uint64{}, Limits: map[string][2]string{}}
	dir := "/proc/" + strconv.Itoa(pid)
	for name, parse := range map[string]func(string) error{
		"stat": info.parseStat, "status": info.parseStatus, "limits": info.parseLimits,
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = parse(string(b))
		}
		if err != nil {
			return info, fmt.Errorf("cannot read %s of process %d: %w", name, pid, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "oom_score_adj")); err == nil {
		info.OOMScoreAdj, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		if _, path, ok := strings.Cut("\n"+string(b), "\n0::"); ok {
			info.Cgroup = strings.TrimSuffix(path, "\n")
		}
	}
	info.Args = list(filepath.Join(dir, "cmdline"))
	info.Environment = list(filepath.Join(dir, "environ"))
	info.Dir, _ = os.Readlink(filepath.Join(dir, "cwd"))
	info.Descriptors = descriptors(filepath.Join(dir, "fd"))
	return info, nil
}

// list reads a file of strings that end in NUL.
func list(name string) []string {
	b, err := os.ReadFile(name)
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
}

// descriptors reads the links one by one: to list the directory would open
// another descriptor, which is no matter of the process's.
func descriptors(dir string) map[int]string {
	open := map[int]string{}
	for fd := range 1024 {
		if link, err := os.Readlink(filepath.Join(dir, strconv.Itoa(fd))); err == nil {
			open[fd] = link
		}
	}
	return open
}

// parseStat reads /proc/PID/stat. The name stands in parentheses and may hold
// some itself, so the last one counts.
func (i *Info) parseStat(text string) error {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return fmt.Errorf("no name in %q", text)
	}
	i.Name = text[open+1 : end]
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return fmt.Errorf("%d fields", len(fields))
	}
	i.State = fields[0]
	for n, into := range []*int{&i.Parent, &i.Group, &i.Session, &i.Terminal, &i.Foreground} {
		var err error
		if *into, err = strconv.Atoi(fields[n+1]); err != nil {
			return err
		}
	}
	var err error
	i.Start, err = strconv.ParseUint(fields[19], 10, 64)
	return err
}

func (i *Info) parseStatus(text string) error {
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		if err := i.set(key, strings.Fields(value)); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (i *Info) set(key string, fields []string) (err error) {
	first := ""
	if len(fields) > 0 {
		first = fields[0]
	}
	switch key {
	case "Uid":
		return four(&i.UID, fields)
	case "Gid":
		return four(&i.GID, fields)
	case "Groups":
		i.Groups = make([]int, len(fields))
		for n, f := range fields {
			if i.Groups[n], err = strconv.Atoi(f); err != nil {
				return err
			}
		}
	case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
		i.Capabilities[key], err = strconv.ParseUint(first, 16, 64)
	case "SigBlk":
		i.Blocked, err = strconv.ParseUint(first, 16, 64)
	case "SigIgn":
		i.Ignored, err = strconv.ParseUint(first, 16, 64)
	case "NoNewPrivs":
		i.NoNewPrivs = first == "1"
	case "Seccomp":
		i.Seccomp, err = strconv.Atoi(first)
	case "Threads":
		i.Threads, err = strconv.Atoi(first)
	case "Umask":
		i.Umask = first
	}
	return err
}

func four(into *[4]int, fields []string) error {
	if len(fields) != len(into) {
		return fmt.Errorf("%d numbers in place of %d", len(fields), len(into))
	}
	for n, f := range fields {
		v, err := strconv.Atoi(f)
		if err != nil {
			return err
		}
		into[n] = v
	}
	return nil
}

// parseLimits reads /proc/PID/limits, whose columns have fixed places.
func (i *Info) parseLimits(text string) error {
	const nameWidth = 26
	for line := range strings.Lines(text) {
		if len(line) < nameWidth || strings.HasPrefix(line, "Limit ") {
			continue
		}
		fields := strings.Fields(line[nameWidth:])
		if len(fields) < 2 {
			return fmt.Errorf("bad line %q", line)
		}
		i.Limits[strings.TrimSpace(line[:nameWidth])] = [2]string{fields[0], fields[1]}
	}
	return nil
}
