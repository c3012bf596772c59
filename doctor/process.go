package doctor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"rlminit/usage"
)

// kernelItself: rlminit needs Linux 5.10.
func (e *examination) kernelItself() {
	release := e.read("/proc/sys/kernel/osrelease")
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n < 2 {
		e.add("kernel", Unknown, "/proc does not tell which kernel this is", "mount /proc, as every container engine does")
		return
	}
	if major < 5 || major == 5 && minor < 10 {
		e.add("kernel", Fail, "Linux "+release+" is too old", "use Linux 5.10 or later")
		return
	}
	e.add("kernel", OK, "Linux "+release, "")
}

// process: PID 1 is to be rlminit.
func (e *examination) process() {
	e.status = usage.Status(filepath.Join("/", e.Root, "/proc"), 1)
	switch name := e.status["Name"]; {
	case name == "":
		e.add("init", Unknown, "/proc does not show PID 1", "mount /proc without hidepid")
	case name != "rlminit":
		e.add("init", Warn, "PID 1 is "+name+", and not rlminit: orphans and signals are its affair",
			"make rlminit the ENTRYPOINT, and leave out docker run --init")
	default:
		uid := strings.Fields(e.status["Uid"] + " ?")[0]
		if uid == "0" {
			e.add("init", OK, "rlminit is PID 1, as root; it starts everything else as another user", "")
		} else {
			e.add("init", OK, "rlminit is PID 1, as uid "+uid+": all services have that user, and none is kept from the others", "")
		}
	}
}

// needed are the capabilities that PID 1 uses as root, and what is done without.
var needed = []struct {
	name   string
	number int
	state  string
	lack   string
}{
	{"CHOWN", 0, Warn, "owners of files on the volume cannot be set: its directory stays the services', who can move the supervisor's records away, and profiles have no user of their own"},
	{"DAC_OVERRIDE", 1, Warn, "root cannot enter directories of the service user that are closed to others, so that the supervisor and profiles have no user of their own"},
	{"FOWNER", 3, Warn, "modes of directories that are somebody else's cannot be set, as own with a mode has it"},
	{"KILL", 5, Warn, "signals are sent by a process of the service user"},
	{"SETGID", 6, Fail, "services cannot have another group, nor a tag"},
	{"SETUID", 7, Fail, "services cannot have another user"},
	{"SETPCAP", 8, Warn, "the bounding set of services is left as it is"},
}

func (e *examination) capabilities() {
	if strings.Fields(e.status["Uid"] + " ?")[0] != "0" {
		return
	}
	set, err := strconv.ParseUint(e.status["CapEff"], 16, 64)
	if err != nil {
		e.add("capabilities", Unknown, "/proc does not tell PID 1's capabilities", "")
		return
	}
	missing := 0
	for _, c := range needed {
		if set&(1<<c.number) == 0 {
			missing++
			e.add("capabilities", c.state, "PID 1 lacks CAP_"+c.name+": "+c.lack, "docker run --cap-add "+c.name)
		}
	}
	if missing == 0 {
		e.add("capabilities", OK, "PID 1 has what it uses", "")
	}
	const sysAdmin = 21
	if set&(1<<sysAdmin) != 0 {
		e.add("capabilities", Warn, "PID 1 has CAP_SYS_ADMIN, which rlminit has no use for", "run without --privileged and without --cap-add SYS_ADMIN")
	}
}

// sandbox: what services can be kept from.
func (e *examination) sandbox() {
	for _, wall := range e.Walls {
		e.add("walls", Fail, wall, "give the container what it lacks, or ask for no more in rlminit.yaml than is to be had here")
	}
	switch abi := e.kernel.Landlock(); {
	case abi == 0:
		e.add("landlock", Warn, "the kernel has no Landlock, or the container's seccomp profile refuses it: services cannot be kept from each other's files by it",
			"use a kernel with CONFIG_SECURITY_LANDLOCK and lsm=landlock, and a container engine of 2022 or later")
	case abi < 6:
		e.add("landlock", OK, fmt.Sprintf("Landlock ABI %d: files; signals and abstract sockets need ABI 6, Linux 6.12", abi), "")
	default:
		e.add("landlock", OK, fmt.Sprintf("Landlock ABI %d", abi), "")
	}
	switch e.status["Seccomp"] {
	case "":
	case "0":
		e.add("seccomp", Warn, "the container has no seccomp filter", "run without --security-opt seccomp=unconfined")
	default:
		e.add("seccomp", OK, "the container has a seccomp filter", "")
	}
	if e.status["NoNewPrivs"] == "1" {
		e.add("no_new_privs", OK, "no program in this container gains rights by set-uid: sudo does not work in it", "")
	}
	if scope := e.read("/proc/sys/kernel/yama/ptrace_scope"); scope == "0" || scope == "" {
		e.add("ptrace", Warn, "processes of one user can trace each other: services that share a user are not kept from one another",
			"on the host: sysctl kernel.yama.ptrace_scope=1")
	} else {
		e.add("ptrace", OK, "Yama's ptrace_scope is "+scope, "")
	}
}

// zombies that somebody else than PID 1 does not collect.
func (e *examination) zombies() {
	all, _ := usage.Processes(filepath.Join("/", e.Root, "/proc"))
	uncollected := map[int]int{}
	for _, p := range all {
		if p.State == 'Z' && p.Parent > 1 {
			uncollected[p.Parent]++
		}
	}
	for parent, n := range uncollected {
		if n > 10 {
			e.add("zombies", Warn, fmt.Sprintf("process %d (%s) does not collect %d children that have ended", parent, e.read(fmt.Sprintf("/proc/%d/comm", parent)), n),
				"mend it, or restart its service: nobody else can collect them")
		}
	}
}

// services says which services are ill, by the verdict that status and health go by, and
// which of the others are marked.
func (e *examination) services() {
	counts := map[string]int{}
	marked := 0
	for _, s := range e.Services {
		counts[s.Verdict]++
		if s.Verdict == "ill" {
			e.add("services", Fail, s.Name+" is ill: "+illness(s), remedyOf(s))
			continue
		}
		if s.Flapping {
			marked++
			e.add("services", Warn, fmt.Sprintf("%s has restarted three times within ten minutes, and %d times since rlminit started: %s", s.Name, s.Restarts, s.Reason), "rlminit logs "+s.Name)
		}
		if s.Refused != "" {
			marked++
			e.add("services", Warn, s.Name+" goes on with its earlier definition; the newer one is refused: "+s.Refused, "mend it, then rlminit reload")
		}
	}
	if n := len(e.Services); n > 0 && counts["ill"] == 0 && marked == 0 {
		e.add("services", OK, fmt.Sprintf("%d services, none ill: %d ok, %d pending, %d off", n, counts["ok"], counts["pending"], counts["off"]), "")
	}
}

// illness is the state of a service that is ill, and the reason.
func illness(s Service) string {
	text := s.State
	if s.Code == "unhealthy" {
		text = "unhealthy"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	if s.Flapping {
		text += "; it restarts again and again"
	}
	return text
}

// remedyOf is the next step for a service that is ill.
func remedyOf(s Service) string {
	switch s.Code {
	case "definition_refused":
		return "mend its definition, then rlminit reload"
	case "waiting_ill":
		return "rlminit list-dependencies " + s.Name + "; mend the service that it waits for"
	case "failed", "exited_failed":
		return "rlminit logs " + s.Name + ", then rlminit start " + s.Name
	}
	return "rlminit logs " + s.Name
}

// jobs are those of hooks and schedules: nobody waits for them.
func (e *examination) jobs() {
	bad := 0
	for _, j := range e.Jobs {
		if j.Failed != "" {
			bad++
			e.add("jobs", Warn, "the latest job of "+j.Of+" has failed: "+j.Failed, "rlminit job show "+j.ID)
		}
	}
	if n := len(e.Jobs); n > 0 && bad == 0 {
		e.add("jobs", OK, fmt.Sprintf("%d hooks and schedules, the latest job of each has not failed", n), "")
	}
}

// forwarding: where logs are sent on to.
func (e *examination) forwarding() {
	for _, unsent := range e.Unsent {
		e.add("logs", Warn, unsent, "start what receives there, or mend log.forward in rlminit.yaml; lines are sent later, as long as they are not rotated away")
	}
}
