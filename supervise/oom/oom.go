// Package oom tells whether a process that was killed was killed for want of
// memory: the kernel counts that for the container's cgroup, and says it to nobody
// else who is inside.
//
// It reads a small file when a process has ended and at no other time, and owns
// nothing but the count of the last look.
package oom

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Watch knows how often it has happened. Its methods are for one goroutine.
type Watch struct {
	counts, key string // the file, and the word before the number; "": there is none
	limit       string // the file of the container's limit
	sure        bool   // what is counted are kills, and all of them
	last        uint64
}

// Open looks for the count below a directory where cgroups are mounted,
// /sys/fs/cgroup. Where there is none, nothing is ever told.
func Open(cgroups string) *Watch {
	for _, w := range []Watch{
		// The second version of cgroups counts every kill, whoever's memory was short.
		{"memory.events", "oom_kill", "memory.max", true, 0},
		// The first may be mounted such that it shows a cgroup above the container's.
		{"memory/memory.oom_control", "oom_kill", "memory/memory.limit_in_bytes", false, 0},
		{"memory/memory.failcnt", "", "memory/memory.limit_in_bytes", false, 0},
	} {
		w.counts, w.limit = filepath.Join(cgroups, w.counts), filepath.Join(cgroups, w.limit)
		if count, ok := w.count(); ok {
			w.last = count
			return &w
		}
	}
	return &Watch{}
}

// Struck tells, of a process that has just ended, what is to be said of memory
// if it was killed by KILL: "" if the kernel has killed nothing since the last call.
func (w *Watch) Struck() string {
	count, ok := w.count()
	if !ok || count <= w.last {
		return ""
	}
	w.last = count
	if w.sure {
		return w.Certain(0)
	}
	return w.limited("probably out of memory")
}

// Certain is what is to be said of a process whose own cgroup has counted the kill,
// and of its limit, 0 for none: then the container's counts.
func (w *Watch) Certain(limit int64) string {
	if limit > 0 {
		return Own(limit)
	}
	return w.limited("out of memory")
}

// Own is Certain of one that has a limit.
func Own(limit int64) string { return "out of memory; its limit is " + size(uint64(limit)) }

func (w *Watch) limited(text string) string {
	if limit, ok := number(w.limit, ""); ok && limit < 1<<62 { // which is no limit
		text += fmt.Sprintf("; the container's limit is %s", size(limit))
	}
	return text
}

func (w *Watch) count() (uint64, bool) {
	if w.counts == "" {
		return 0, false
	}
	return number(w.counts, w.key)
}

// number is the one in a file, or the one behind a word in a file of several.
func number(path, key string) (uint64, bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(content) {
		fields := bytes.Fields(line)
		if key != "" {
			if len(fields) != 2 || string(fields[0]) != key {
				continue
			}
			fields = fields[1:]
		}
		if len(fields) != 1 {
			return 0, false
		}
		n, err := strconv.ParseUint(string(fields[0]), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// size is a limit as people write it.
func size(bytes uint64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if bytes >= 1<<unit.shift {
			return strconv.FormatFloat(float64(bytes)/float64(uint64(1)<<unit.shift), 'g', 4, 64) + " " + unit.name
		}
	}
	return strconv.FormatUint(bytes, 10) + " bytes"
}
