package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
	"rlminit/wire"
)

// ofJobs is what holds of the limits of jobs without a cgroup.
const ofJobs = "nor those of jobs, but for memory, which holds for each of their processes by itself"

// cgroup: its version, whether it can be written, and the container's limits.
func (e *examination) cgroup() {
	switch {
	case e.read("/sys/fs/cgroup/cgroup.controllers") == "" && e.read("/sys/fs/cgroup/pids/pids.max") == "":
		e.add("cgroup", Unknown, "no cgroup is mounted: limits of memory, pids and CPU are not in force, "+ofJobs, "mount /sys/fs/cgroup, as every container engine does")
		return
	case e.read("/sys/fs/cgroup/cgroup.controllers") == "":
		e.add("cgroup", Warn, "cgroup v1: limits of memory, pids and CPU of single services are not in force, "+ofJobs, "boot the host with systemd.unified_cgroup_hierarchy=1")
		e.guards()
		return
	case e.leaves().Dir != "":
		if missing := e.leaves().Missing(); len(missing) > 0 {
			e.add("cgroup", Warn, "each service has a cgroup, in which limits of "+strings.Join(missing, " and ")+" are not in force: the container has no such controller",
				"have the engine or the manager above it delegate it, with systemd by Delegate=")
		} else {
			e.add("cgroup", OK, "each service has a cgroup: limits of memory, pids and CPU of single services are in force", "")
		}
	case e.kernel.Writable("/sys/fs/cgroup/cgroup.procs"):
		e.add("cgroup", Warn, "cgroup v2, and it can be written, but PID 1 makes no cgroups in it: limits of memory, pids and CPU of single services are not in force, "+ofJobs,
			"PID 1 must be root and rlminit, services must have tags, and the cgroup must be root's, with no process in it that is of another container: docker run --cgroupns private")
	default:
		e.add("cgroup", Warn, "cgroup v2, read-only: limits of memory, pids and CPU of single services are not in force, "+ofJobs,
			"docker run --security-opt writable-cgroups=true, where Docker knows that; with Podman it can be written")
	}
	e.guards()
	e.bound("memory", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max", bytesText, "give the container more: docker run --memory")
	e.bound("pids", "/sys/fs/cgroup/pids.current", "/sys/fs/cgroup/pids.max", strconv.FormatInt, "give the container more: docker run --pids-limit")
	if limit := strings.Fields(e.read("/sys/fs/cgroup/cpu.max")); len(limit) == 2 && limit[0] != "max" {
		quota, _ := strconv.ParseFloat(limit[0], 64)
		period, _ := strconv.ParseFloat(limit[1], 64)
		if period > 0 {
			e.add("cpu", OK, fmt.Sprintf("the container has %.2g processors", quota/period), "")
		}
	}
	if _, some, _ := cgroup.Pressures(e.read("/sys/fs/cgroup/memory.pressure")); some > 10 {
		e.add("memory", Warn, fmt.Sprintf("for %.0f %% of the last minute something waited for memory", some), "give the container more: docker run --memory")
	}
}

// leaves are the cgroups that PID 1 keeps.
func (e *examination) leaves() cgroup.Leaves { return cgroup.From(e.content) }

func (e *examination) content(path string) ([]byte, error) {
	if text := e.read(path); text != "" {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// guards says which guards of jobs see nothing here.
func (e *examination) guards() {
	for _, guard := range []string{"memory_pressure", "cpu_pressure"} {
		if why := cgroup.Unguarded(guard, e.content); why != "" {
			e.add("guards", Warn, "jobs.guards."+guard+" is not in force: "+why, "boot the host with systemd.unified_cgroup_hierarchy=1 psi=1; no job is refused for that pressure until then")
		}
	}
}

// bound looks at what is used of a limit of the container.
func (e *examination) bound(check, current, limit string, text func(int64, int) string, remedy string) {
	used, err := strconv.ParseInt(e.read(current), 10, 64)
	if err != nil {
		return
	}
	most, err := strconv.ParseInt(e.read(limit), 10, 64)
	switch {
	case err != nil:
		e.add(check, OK, text(used, 10)+" are used, and the container has no limit", "")
	case check == "pids" && most < wire.FewestPIDs:
		e.add(check, Fail, fmt.Sprintf("a limit of %d processes is too low for rlminit", most), fmt.Sprintf("docker run --pids-limit %d or more", wire.FewestPIDs))
	case used > most/10*9:
		e.add(check, Warn, fmt.Sprintf("%s of at most %s are used", text(used, 10), text(most, 10)), remedy)
	default:
		e.add(check, OK, fmt.Sprintf("%s of at most %s are used", text(used, 10), text(most, 10)), "")
	}
}

// bytesText writes a size for a person.
func bytesText(n int64, _ int) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	size, unit := float64(n)/1000, 0
	for size >= 999.5 && unit < len(units)-1 {
		size, unit = size/1000, unit+1
	}
	return fmt.Sprintf("%.3g %cB", size, units[unit])
}

// perService is about how many descriptors PID 1 holds for a service.
const perService = 8

func (e *examination) limits() {
	for line := range strings.Lines(e.read("/proc/1/limits")) {
		rest, ok := strings.CutPrefix(line, "Max open files")
		words := strings.Fields(rest)
		if !ok || len(words) < 2 {
			continue
		}
		soft, err := strconv.Atoi(words[0])
		if err != nil {
			continue // unlimited
		}
		room := (soft - 64) / perService
		switch {
		case room < max(2*len(e.Services), 10):
			e.add("descriptors", Warn, fmt.Sprintf("PID 1 may have %d descriptors, which is enough for about %d services", soft, max(room, 0)), "docker run --ulimit nofile=65536")
		default:
			e.add("descriptors", OK, fmt.Sprintf("PID 1 may have %d descriptors, enough for about %d services", soft, room), "")
		}
	}
}

func (e *examination) runtimeDirectory() {
	if e.Runtime == "" {
		return
	}
	st, err := e.kernel.Statfs(e.Runtime)
	switch {
	case err != nil:
		e.add("runtime", Fail, fmt.Sprintf("cannot look at %s: %v", e.Runtime, err), "is rlminit running here? docker exec CONTAINER rlminit doctor")
	case st.Type != unix.TMPFS_MAGIC:
		e.add("runtime", Warn, fmt.Sprintf("%s is on %s: what changes there is written to a disk", e.Runtime, fsName(st.Type)), "docker run --tmpfs /run")
	case int64(st.Bavail)*st.Bsize < 4<<20:
		e.add("runtime", Fail, fmt.Sprintf("%s has %s free", e.Runtime, bytesText(int64(st.Bavail)*st.Bsize, 0)), "docker run --tmpfs /run:size=64m, or --shm-size")
	default:
		e.add("runtime", OK, fmt.Sprintf("%s is on tmpfs, with %s free", e.Runtime, bytesText(int64(st.Bavail)*st.Bsize, 0)), "")
	}
}
