// Package usage tells from /proc how much memory and CPU time processes use, and
// which of them belong together.
//
// It looks when it is asked and at no other time, reads one small file for each
// process, and owns nothing.
package usage

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one, as /proc/PID/stat has it, proc_pid_stat(5).
type Process struct {
	PID, Parent, Session int
	Name                 string
	State                byte          // R, S, D, Z, T, …
	CPU                  time.Duration // its own, and that of its children that have ended and been waited for
	Memory               int64         // bytes that are resident; what it shares with others is in it
	Threads              int
	Started              uint64 // ticks since boot
}

// tick is the unit of times in /proc, sysconf(_SC_CLK_TCK): 100 a second on
// every architecture of Linux that Go knows.
const tick = time.Second / 100

// Processes reads those that there are. One that ends meanwhile is left out.
func Processes(proc string) ([]Process, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	// A thousand take the kernel several milliseconds: two processors share them.
	var ahead []Process
	done := make(chan struct{})
	half := len(names) / 2
	go func() {
		defer close(done)
		ahead = these(dir, names[:half])
	}()
	rest := these(dir, names[half:])
	<-done
	return append(ahead, rest...), nil
}

// these reads the processes among names of a directory, from which their paths are
// shorter for the kernel to walk.
func these(dir *os.File, names []string) []Process {
	page, at := int64(os.Getpagesize()), int(dir.Fd())
	all, buf := make([]Process, 0, len(names)), make([]byte, statSize)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readAt(at, name+"/stat", pid, page, buf); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// Began is when a process began, since the machine was started, to a hundredth of
// a second; 0 where that cannot be read.
func Began(proc string, pid int) time.Duration {
	p, _ := Of(proc, pid)
	return time.Duration(p.Started) * tick
}

// Related reads those processes that may belong to a root: what descends from it,
// and what PID 1 has inherited, with what descends from that. Of thousands of
// services that is a handful. Where the kernel does not tell whose children are
// whose, or the root is no child of PID 1, all are read.
func Related(proc string, root int) ([]Process, error) {
	top, ok := Of(proc, root)
	// Its own children PID 1 has by its other threads, and orphans by the first.
	orphans, told := children(filepath.Join(proc, "1/task/1"))
	if !ok || !told || top.Parent != 1 {
		return Processes(proc)
	}
	var all []Process
	seen := map[int]bool{}
	for next := append([]int{root}, orphans...); len(next) > 0; next = next[1:] {
		pid := next[0]
		p, ok := Of(proc, pid)
		if !ok || seen[pid] {
			continue
		}
		seen[pid] = true
		all = append(all, p)
		below, _ := ofThreads(proc, pid)
		next = append(next, below...)
	}
	return all, nil
}

// Children are those of all threads of a process; where the kernel keeps no such list,
// those whose parent it is.
func Children(proc string, pid int) []int {
	found, told := ofThreads(proc, pid)
	if told {
		return found
	}
	all, _ := Processes(proc)
	for _, p := range all {
		if p.Parent == pid {
			found = append(found, p.PID)
		}
	}
	return found
}

// ofThreads are the children of all threads of a process.
func ofThreads(proc string, pid int) (pids []int, told bool) {
	tasks, _ := filepath.Glob(filepath.Join(proc, strconv.Itoa(pid), "task/*"))
	for _, task := range tasks {
		below, ok := children(task)
		pids, told = append(pids, below...), told || ok
	}
	return pids, told
}

// children are those of a thread, proc_pid_task_children(5).
func children(task string) (pids []int, told bool) {
	content, err := os.ReadFile(filepath.Join(task, "children"))
	if err != nil {
		return nil, false
	}
	for _, word := range bytes.Fields(content) {
		if pid, err := strconv.Atoi(string(word)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, true
}

// Of reads one of them; false: it is not there.
func Of(proc string, pid int) (Process, bool) {
	return readAt(unix.AT_FDCWD, proc+"/"+strconv.Itoa(pid)+"/stat", pid, int64(os.Getpagesize()), make([]byte, statSize))
}

// statSize is more than the 52 numbers and the name in /proc/PID/stat can have.
const statSize = 1024

func readAt(dir int, path string, pid int, page int64, buf []byte) (p Process, ok bool) {
	// Three system calls for each: a container may have thousands.
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return p, false
	}
	n, err := unix.Read(fd, buf)
	unix.Close(fd)
	if err != nil {
		return p, false
	}
	content := buf[:n]
	open, shut := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')') // a name may have either
	if open < 0 || shut < open || shut+2 > len(content) {
		return p, false
	}
	// The third field, the state, is the first behind the name.
	var fields [22][]byte
	found := 0
	for field := range bytes.FieldsSeq(content[shut+1:]) {
		fields[found] = field
		if found++; found == len(fields) {
			break
		}
	}
	if found < len(fields) {
		return p, false
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	return Process{
		PID: pid, Parent: int(number(4)), Session: int(number(6)),
		Name: string(content[open+1 : shut]), State: fields[0][0],
		CPU:    time.Duration(number(14)+number(15)+number(16)+number(17)) * tick,
		Memory: number(24) * page, Threads: int(number(20)), Started: uint64(number(22)),
	}, true
}

// Sum is what several processes use.
type Sum struct {
	Memory    int64
	CPU       time.Duration
	Threads   int
	Processes []Process // the root first
}

func (s *Sum) add(p Process) {
	s.Memory += p.Memory
	s.CPU += p.CPU
	s.Threads += p.Threads
	s.Processes = append(s.Processes, p)
}

// ByRoot adds up, for each of the roots, the process itself, what descends from
// it, and what is in its session. A process that left both, as a daemon that
// forks twice does, belongs to the root that owner names for it; 0 is none, and
// a nil owner knows of none.
func ByRoot(all []Process, roots []int, owner func(pid int) int) map[int]*Sum {
	sums := make(map[int]*Sum, len(roots))
	for _, root := range roots {
		sums[root] = &Sum{}
	}
	byPID := make(map[int]*Process, len(all))
	for i := range all {
		byPID[all[i].PID] = &all[i]
	}
	known := make(map[int]int, len(all)) // root by pid; 0: none
	var rootOf func(p *Process, depth int) int
	rootOf = func(p *Process, depth int) int {
		if root, ok := known[p.PID]; ok {
			return root
		}
		root := 0
		switch parent := byPID[p.Parent]; {
		case sums[p.PID] != nil:
			root = p.PID
		case sums[p.Session] != nil:
			root = p.Session
		case parent != nil && p.Parent > 1 && depth < len(all): // a table read over some time may have circles
			root = rootOf(parent, depth+1)
		case p.Parent <= 1 && p.PID > 1 && owner != nil:
			root = owner(p.PID)
		}
		known[p.PID] = root
		return root
	}
	for i := range all {
		p := &all[i]
		if p.State == 'Z' {
			continue // uses nothing; its time is its parent's to account for
		}
		if sum := sums[rootOf(p, 0)]; sum != nil {
			sum.add(*p)
			if last := len(sum.Processes) - 1; p.PID == rootOf(p, 0) && last > 0 {
				sum.Processes[0], sum.Processes[last] = sum.Processes[last], sum.Processes[0]
			}
		}
	}
	return sums
}

// Status are the lines of a process, NAME: VALUE, of proc_pid_status(5); none if it cannot
// be looked at.
func Status(proc string, pid int) map[string]string {
	text, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}
