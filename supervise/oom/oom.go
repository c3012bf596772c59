// Package oom tells whether a process that was killed was killed for want of
// memory: the kernel counts that for the container's cgroup, and says it to nobody
// else who is inside.
//
// It reads a small file when a process has ended and at no other time, and owns
// the descriptor of that and the count of the last look.
package oom

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
)

// Watch knows how often it has happened. Its methods are for one goroutine.
type Watch struct {
	counts int    // the descriptor of the file that counts; -1: there is none
	key    string // what stands before the number in there
	limit  string // the file of the container's limit
	sure   bool   // what is counted are kills, and all of them
	last   int64
}

// Open looks for the count below a directory where cgroups are mounted,
// /sys/fs/cgroup. Where there is none, nothing is ever told.
func Open(cgroups string) *Watch {
	for _, is := range []struct {
		counts, key, limit string
		sure               bool
	}{
		// The second version of cgroups counts every kill, whoever's memory was short.
		{"memory.events", "oom_kill ", "memory.max", true},
		// The first may be mounted such that it shows a cgroup above the container's.
		{"memory/memory.oom_control", "oom_kill ", "memory/memory.limit_in_bytes", false},
	} {
		fd, err := unix.Open(filepath.Join(cgroups, is.counts), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		w := Watch{counts: fd, key: is.key, limit: filepath.Join(cgroups, is.limit), sure: is.sure}
		if w.last = w.count(); w.last >= 0 {
			return &w
		}
		unix.Close(fd)
	}
	return &Watch{counts: -1}
}

// Struck tells, of a process that has just ended, what is to be said of memory
// if it was killed by KILL: "" if the kernel has killed nothing since the last call.
func (w *Watch) Struck() string {
	count := w.count()
	if count <= w.last {
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
	content, _ := os.ReadFile(w.limit)
	if limit := cgroup.Number(content, ""); limit >= 0 && limit < 1<<62 { // which is no limit
		text += fmt.Sprintf("; the container's limit is %s", size(uint64(limit)))
	}
	return text
}

// count is what the kernel has counted; -1: nobody knows.
func (w *Watch) count() int64 {
	var content [512]byte // such a file has a few lines
	n, _ := unix.Pread(w.counts, content[:], 0)
	return cgroup.Number(content[:max(n, 0)], w.key)
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
