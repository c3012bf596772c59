package jobs

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/redact"
)

// gauges tell how the container is doing. Its zero value is ready.
type gauges struct {
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
func (g *gauges) pressure() (cpu, memory *float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.pressing) > pressureAgain {
		g.cpu, g.memory, g.pressing = pressure("cpu"), pressure("memory"), time.Now()
	}
	return g.cpu, g.memory
}

// read reads how the container is doing now.
func (g *gauges) read(volume string) *control.Telemetry {
	t := &control.Telemetry{At: time.Now().UTC()}
	if f := strings.Fields(readFile("/proc/loadavg")); len(f) >= 3 {
		for i := range t.Load {
			t.Load[i], _ = strconv.ParseFloat(f[i], 64)
		}
	}
	t.CPUPressure, t.MemoryPressure = g.pressure()
	t.MemoryUsed, t.MemoryLimit = memory()
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
	_, rest, ok := strings.Cut(text, "some avg10=")
	if !ok {
		return nil
	}
	f := strings.Fields(rest)
	if len(f) < 2 {
		return nil
	}
	short, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return nil
	}
	long, err := strconv.ParseFloat(strings.TrimPrefix(f[1], "avg60="), 64)
	if err != nil {
		return nil
	}
	value := min(short, long)
	return &value
}

// memory is what the container has in use, less what the kernel can take back at
// once, and its limit; or the machine's, where it has none.
func memory() (used, limit int64) {
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
	eachProcess(func(pid int) {
		all++
		if !ended(pid) {
			return
		}
		state, parent := stat(pid)
		if state == 'Z' && parent != 1 {
			zombies++
		}
	})
	return all, zombies
}

// ended tells whether a process has no memory any more, proc_pid_statm(5), which takes
// half of what its state does.
func ended(pid int) bool {
	var buffer [16]byte
	return bytes.HasPrefix(readProc(pid, "statm", buffer[:]), []byte("0 "))
}

// mostProcesses bounds what is looked at, for the time that it takes.
const mostProcesses = 20000

func eachProcess(f func(pid int)) {
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	var buffer [8192]byte
	for count := 0; count < mostProcesses; {
		n, err := unix.ReadDirent(dir, buffer[:])
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			if name[0] < '1' || name[0] > '9' {
				continue
			}
			if pid, err := strconv.Atoi(name); err == nil {
				count++
				f(pid)
			}
		}
	}
}

// readProc reads a small file of /proc in three system calls.
func readProc(pid int, file string, buffer []byte) []byte {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, _ := unix.Read(fd, buffer)
	unix.Close(fd)
	return buffer[:max(n, 0)]
}

// stat is the state and the parent of a process, proc_pid_stat(5).
func stat(pid int) (state byte, parent int) {
	var buffer [512]byte
	text := readProc(pid, "stat", buffer[:])
	if i := bytes.LastIndexByte(text, ')'); i >= 0 && len(text) > i+4 {
		state = text[i+2]
		number, _, _ := bytes.Cut(text[i+4:], []byte(" "))
		parent, _ = strconv.Atoi(string(number))
	}
	return state, parent
}

// bearers are the processes that have a tag.
func bearers(tag uint32) []control.LeftBehind {
	if tag == 0 {
		return nil
	}
	var found []control.LeftBehind
	want := []byte(strconv.FormatUint(uint64(tag), 10))
	eachProcess(func(pid int) {
		var buffer [4096]byte
		status := readProc(pid, "status", buffer[:])
		_, rest, ok := bytes.Cut(status, []byte("\nGroups:"))
		if !ok {
			return
		}
		name, _, _ := bytes.Cut(bytes.TrimPrefix(status, []byte("Name:\t")), []byte("\n"))
		bare := "[" + string(name) + "]" // as ps(1) has it
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		for _, group := range bytes.Fields(line) {
			if bytes.Equal(group, want) && len(found) < mostLeft {
				argv := strings.Split(strings.TrimRight(string(readProc(pid, "cmdline", buffer[:200])), "\x00"), "\x00")
				command := strings.Join(redact.Command(argv), " ")
				found = append(found, control.LeftBehind{PID: pid, Command: strings.ToValidUTF8(cmp.Or(command, bare), "\uFFFD")})
				return
			}
		}
	})
	return found
}

// hasCgroup tells whether what is read of the cgroup is the container's: the root
// of all cgroups has no such file.
var hasCgroup = sync.OnceValue(func() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.events")
	return err == nil
})

// mostLeft bounds what is told of what a job left behind.
const mostLeft = 100

// refusal is which guard refuses a job now, with its figure; "": none.
//
// CPU pressure that our own jobs cause (busy) is not for the guard, as the queue
// bounds that, nor that of a whole machine: others make it.
func refusal(t *control.Telemetry, most config.Guards, busy bool) string {
	above := func(share *float64, bound int) bool { return share != nil && *share > float64(bound) }
	switch {
	case above(t.MemoryPressure, most.MemoryPressure):
		return fmt.Sprintf("memory pressure is %.1f %%, above %d %%; see telemetry_before, and jobs.guards", *t.MemoryPressure, most.MemoryPressure)
	case t.MemoryLimit > 0 && 100*t.MemoryUsed > int64(most.Memory)*t.MemoryLimit:
		return fmt.Sprintf("memory in use is %d of %d bytes, above %d %%; see jobs.guards", t.MemoryUsed, t.MemoryLimit, most.Memory)
	case !busy && hasCgroup() && above(t.CPUPressure, most.CPUPressure):
		return fmt.Sprintf("CPU pressure is %.1f %%, above %d %%; see telemetry_before, and jobs.guards", *t.CPUPressure, most.CPUPressure)
	case t.Zombies > most.Zombies:
		return fmt.Sprintf("there are %d zombies whose parents do not collect them, more than %d; see ps -eo pid,ppid,stat,args, and jobs.guards", t.Zombies, most.Zombies)
	}
	return ""
}
