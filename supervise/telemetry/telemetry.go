// Package telemetry tells how the container is doing, which guard refuses a job for that,
// and which processes bear a tag. It looks when it is asked.
package telemetry

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/usage"
)

// Gauges tell how the container is doing. Its zero value is ready.
type Gauges struct {
	mu       sync.Mutex
	pressing time.Time // when pressure was read
	cpu      *float64
	memory   *float64
}

// pressureAgain is how long what was read of pressure counts: it costs as much as all
// the rest, and the kernel makes it anew every two seconds (PSI_FREQ of
// kernel/sched/psi.c).
const pressureAgain = 250 * time.Millisecond

// pressure is that of CPU and memory.
func (g *Gauges) pressure() (cpu, memory *float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.pressing) > pressureAgain {
		g.cpu, g.memory, g.pressing = pressure("cpu"), pressure("memory"), time.Now()
	}
	return g.cpu, g.memory
}

// Read reads how the container is doing now.
func (g *Gauges) Read(volume string) *control.Telemetry {
	t := &control.Telemetry{At: time.Now().UTC()}
	if f := strings.Fields(readFile("/proc/loadavg")); len(f) >= 3 {
		for i := range t.Load {
			t.Load[i], _ = strconv.ParseFloat(f[i], 64)
		}
	}
	t.CPUPressure, t.MemoryPressure = g.pressure()
	t.MemoryUsed, t.MemoryLimit = Memory()
	if volume != "" {
		var fs unix.Statfs_t
		if unix.Statfs(volume, &fs) == nil {
			t.DiskSize = int64(fs.Blocks) * fs.Bsize
			t.DiskUsed = int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	t.Processes, t.Zombies = processes()
	return t
}

// readFile reads the beginning of a small file of the kernel's; "": it cannot be read.
// Nothing waits for such a file, so that package os would only take three times the
// system calls.
func readFile(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var buffer [8192]byte // memory.stat of a cgroup takes half of it
	n, _ := unix.Read(fd, buffer[:])
	return string(buffer[:max(n, 0)])
}

// pressure is the share of the time in which something waited for a resource, in
// per cent, of the last 10 s or the last minute, whichever is less: of the container's
// cgroup where that can be read, else of the machine (Documentation/accounting/psi.rst).
func pressure(of string) *float64 {
	text := readFile("/sys/fs/cgroup/" + of + ".pressure")
	if text == "" {
		text = readFile("/proc/pressure/" + of)
	}
	short, long, ok := cgroup.Pressures(text)
	if !ok {
		return nil
	}
	value := min(short, long)
	return &value
}

// Memory is what the container has in use, less what the kernel can take back at
// once, and its limit; or the machine's, where it has none.
func Memory() (used, limit int64) {
	all := readFile("/proc/meminfo")
	size := valueOf(all, "MemTotal:") << 10
	machine := size - valueOf(all, "MemAvailable:")<<10
	for _, v := range []struct{ limit, used, stat, cache string }{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file "},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file "},
	} {
		limit, err := strconv.ParseInt(strings.TrimSpace(readFile(v.limit)), 10, 64)
		if err != nil || limit <= 0 || limit > size {
			continue // "max", or a number that means it
		}
		used, err := strconv.ParseInt(strings.TrimSpace(readFile(v.used)), 10, 64)
		if err != nil {
			continue
		}
		return max(0, used-valueOf(readFile(v.stat), v.cache)), limit
	}
	return machine, size
}

// CPU is the CPU time that the container has used, and how many processors it may use: by
// its cgroup where that says so, else of the machine.
func CPU() (used time.Duration, cores float64, ok bool) {
	cores = float64(runtime.NumCPU())
	quota := strings.Fields(readFile("/sys/fs/cgroup/cpu.max"))
	if len(quota) != 2 { // version 1
		quota = []string{strings.TrimSpace(readFile("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")), strings.TrimSpace(readFile("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))}
	}
	most, err := strconv.ParseFloat(quota[0], 64) // "max", or below 0: there is none
	if period, bad := strconv.ParseFloat(quota[1], 64); err == nil && bad == nil && most > 0 && period > 0 {
		cores = min(cores, most/period)
	}
	if micros := valueOf(readFile("/sys/fs/cgroup/cpu.stat"), "usage_usec "); micros > 0 {
		return time.Duration(micros) * time.Microsecond, cores, true
	}
	if nanos, err := strconv.ParseInt(strings.TrimSpace(readFile("/sys/fs/cgroup/cpuacct/cpuacct.usage")), 10, 64); err == nil {
		return time.Duration(nanos), cores, true
	}
	// user nice system idle iowait irq softirq steal, in hundredths of a second, proc_stat(5).
	words := strings.Fields(readFile("/proc/stat"))
	if len(words) < 9 || words[0] != "cpu" {
		return 0, cores, false
	}
	for i, word := range words[1:9] {
		if n, _ := strconv.ParseInt(word, 10, 64); i != 3 && i != 4 {
			used += time.Duration(n) * time.Second / 100
		}
	}
	return used, cores, true
}

// Disk is how much of the file system of a path is in use, in per cent, as df(1) has it.
func Disk(path string) (percent float64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	used := fs.Blocks - fs.Bfree
	if used+fs.Bavail == 0 {
		return 0, fmt.Errorf("%s is on a file system that has no size", path)
	}
	return 100 * float64(used) / float64(used+fs.Bavail), nil
}

// valueOf is the number behind a key at the beginning of a line.
func valueOf(text, key string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n
		}
	}
	return 0
}

// processes counts those of this PID namespace, and the zombies among them that
// PID 1 does not collect: their parent lives and does not care.
func processes() (all, zombies int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what there is of them
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		all++
		// What has memory is no zombie, proc_pid_statm(5), which takes half of what the state does.
		if !strings.HasPrefix(readFile("/proc/"+name+"/statm"), "0 ") {
			continue
		}
		if p, there := usage.Of("/proc", pid); there && p.State == 'Z' && p.Parent != 1 {
			zombies++
		}
	}
	return all, zombies
}

// Most bounds what is told of what bears a tag.
const Most = 100

// Bearers are the processes that bear a tag, with secrets masked in their commands; of tag 0
// none.
func Bearers(tag uint32, secrets redact.Set) (found []control.LeftBehind) {
	list, _ := usage.Processes("/proc")
	group := strconv.FormatUint(uint64(tag), 10)
	for _, p := range list {
		if tag == 0 || len(found) == Most || !slices.ContainsFunc(usage.Groups("/proc", p.PID), func(g []byte) bool { return string(g) == group }) {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		argv := strings.Split(strings.TrimRight(string(line[:min(len(line), mostRead)]), "\x00"), "\x00")
		command := cmp.Or(strings.Join(secrets.Command(argv), " "), "["+p.Name+"]") // as ps(1) has it
		command = strings.ToValidUTF8(command[:min(len(command), mostCommand)], "\uFFFD")
		found = append(found, control.LeftBehind{PID: p.PID, Command: command})
	}
	return found
}

// Bounds of the command of each, in bytes: more is read, for what is cut off a secret would
// leave the rest of it unmasked.
const (
	mostCommand = 200
	mostRead    = 16 << 10
)

// Zombies counts the processes that nobody has collected whose groups fit.
func Zombies(fits func(groups []uint32) bool) (count int) {
	list, _ := usage.Processes("/proc")
	for _, p := range list {
		if p.State != 'Z' || p.Parent == 1 {
			continue
		}
		var groups []uint32
		for _, text := range usage.Groups("/proc", p.PID) {
			if n, err := strconv.ParseUint(string(text), 10, 32); err == nil {
				groups = append(groups, uint32(n))
			}
		}
		if fits(groups) {
			count++
		}
	}
	return count
}

// Own is what a job's owner has, its profile or service; of a job of nobody, what bears no
// tag.
type Own struct {
	Name    string
	Zombies func() int // asked for if the container has more than the guard allows
	Memory  func() (used, limit int64)
}

// Refusal is which guard refuses a job now, with its figure; "": none. One owner's zombies and
// memory keep nobody else's job out.
//
// CPU pressure that our own jobs cause (busy) is not for the guard, as the queue
// bounds that, nor that of a whole machine: others make it.
func Refusal(t *control.Telemetry, most config.Guards, own Own, busy bool) string {
	above := func(share *float64, bound int) bool { return share != nil && *share > float64(bound) }
	used, limit := own.Memory()
	processes, mostProcesses := cgroup.PIDs(os.ReadFile)
	switch {
	case above(t.MemoryPressure, most.MemoryPressure):
		return fmt.Sprintf("memory pressure is %.1f %%, above %d %%; see telemetry_before, and jobs.guards", *t.MemoryPressure, most.MemoryPressure)
	case t.MemoryLimit > 0 && 100*t.MemoryUsed > int64(most.Memory)*t.MemoryLimit:
		return fmt.Sprintf("memory in use is %d of %d bytes, above %d %%; see jobs.guards", t.MemoryUsed, t.MemoryLimit, most.Memory)
	case limit > 0 && 100*used > int64(most.Memory)*limit:
		return fmt.Sprintf("%s uses %d of the %d bytes of memory that it may have, above %d %%; see jobs.guards", own.Name, used, limit, most.Memory)
	case mostProcesses > 0 && 100*processes > int64(most.PIDs)*mostProcesses:
		return fmt.Sprintf("there are %d processes and threads of the %d that the container may have, above %d %%; see jobs.guards", processes, mostProcesses, most.PIDs)
	case !busy && cgroup.Unguarded("cpu_pressure", os.ReadFile) == "" && above(t.CPUPressure, most.CPUPressure):
		return fmt.Sprintf("CPU pressure is %.1f %%, above %d %%; see telemetry_before, and jobs.guards", *t.CPUPressure, most.CPUPressure)
	case t.Zombies > most.Zombies:
		if count := own.Zombies(); count > most.Zombies {
			return fmt.Sprintf("%s has %d zombies whose parents do not collect them, more than %d; see ps -eo pid,ppid,stat,args, and jobs.guards", own.Name, count, most.Zombies)
		}
	}
	return ""
}
