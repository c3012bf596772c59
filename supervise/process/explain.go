package process

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/kernel"
	"rlminit/rights"
	"rlminit/wire"
)

// steps says in words what a spawn was doing when it failed.
var steps = map[wire.Step]string{
	wire.StepThreads:      "start a process",
	wire.StepFork:         "start a process",
	wire.StepSession:      "make a session",
	wire.StepTerminal:     "give it the terminal",
	wire.StepOOMScore:     "raise its oom_score_adj",
	wire.StepRlimit:       "set its limits",
	wire.StepBounding:     "drop its capabilities",
	wire.StepGroups:       "set its groups",
	wire.StepGID:          "set its group",
	wire.StepUID:          "set its user",
	wire.StepCapabilities: "set its capabilities",
	wire.StepNoNewPrivs:   "set no_new_privs",
	wire.StepDescriptors:  "pass its descriptors",
	wire.StepSignals:      "reset its signals",
	wire.StepPrivate:      "make its directories",
	wire.StepLandlock:     "isolate it by Landlock",
	wire.StepSeccomp:      "isolate it by seccomp",
	wire.StepCgroup:       "join its cgroup",
}

// NoProcess is why a spawn failed where the container may have no more processes.
const NoProcess = "cannot start a process: the container's limit on processes (--pids-limit) is reached"

// ExplainSpawn says why a spawn failed, and whether trying again may help.
func ExplainSpawn(user *rights.User, command []string, program, dir string, m *wire.SpawnFailed) (reason string, retry bool) {
	errno := syscall.Errno(m.Errno)
	switch {
	case errno == unix.ETIME: // by PID 1, as the next
		return "its deadline has passed", false
	case errno == unix.ETIMEDOUT && m.Step != wire.StepExec && m.Step != wire.StepDir:
		return tooLate(cmp.Or(append(slices.Clone(command), program)...)), true
	}
	switch m.Step {
	case wire.StepPolicy, wire.StepMessage:
		return "refused by PID 1: " + m.Reason, false
	case wire.StepThreads:
		return "cannot start a process: PID 1 still waits for file systems that do not answer", true
	case wire.StepDir:
		if errno == unix.ETIMEDOUT {
			return fmt.Sprintf("cannot enter working_dir %s: its file system does not answer, or the machine is overloaded: it took more than 2 s", dir), true
		}
		return fmt.Sprintf("cannot enter working_dir %s: %v", dir, errno), durable.Temporary(errno)
	case wire.StepExec:
		name := program
		if len(command) > 0 { // else its definition was taken away meanwhile
			name = command[0]
		}
		return explainExec(user, name, program, errno), durable.Temporary(errno)
	case wire.StepPrivate:
		return explainPrivate(errno), durable.Temporary(errno)
	case wire.StepCgroup:
		if m.Reason != "" {
			return explainCgroup(m.Reason, errno)
		}
	case wire.StepRlimit:
		if _, err := kernel.Rlimit(unix.RLIMIT_DATA); err != nil {
			return "cannot set its limits: " + err.Error(), false
		}
		if errno == unix.EPERM {
			return "cannot set its limits: one is above the container's, and only the container can raise that; lower it, or use docker run --ulimit", false
		}
	case wire.StepFork:
		if errno == unix.EAGAIN {
			return NoProcess, true
		}
	}
	return fmt.Sprintf("cannot %s: %v", steps[m.Step], errno), durable.Temporary(errno)
}

// explainCgroup says what is wrong with its cgroup: one of its limits is refused,
// as a retry would be, or it cannot be made.
func explainCgroup(reason string, errno syscall.Errno) (string, bool) {
	if errno == unix.EINVAL || errno == unix.ERANGE {
		return "cannot set its limits: " + reason + "; write another in limits", false
	}
	return fmt.Sprintf("cannot have a cgroup: %s: %v", reason, errno), true
}

// explainPrivate says why a directory for its temporary files, or its secrets,
// cannot be had.
func explainPrivate(errno syscall.Errno) string {
	if errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOTDIR || errno == unix.ELOOP {
		return "cannot make its directory for temporary files: another process of its user has put something else in its place; the next start of the container makes it anew"
	}
	return fmt.Sprintf("cannot make its directory for temporary files: %v", errno)
}

// tooLate says that a spawn took so long that PID 1 has ended it.
func tooLate(name string) string {
	return fmt.Sprintf("cannot run %q: it had not begun after 2 s: its file system does not answer, or the machine is overloaded", name)
}

// explainExec says why execve(2) refused a program that exists.
func explainExec(user *rights.User, name, path string, errno syscall.Errno) string {
	switch errno {
	case unix.E2BIG:
		return fmt.Sprintf("cannot run %q: its arguments and environment are larger than the kernel takes (a variable: 128 KB, all: a quarter of the stack limit)", name)
	case unix.ETIMEDOUT: // by PID 1
		return tooLate(name)
	case unix.ENOENT, unix.ENOEXEC, unix.EACCES:
	default:
		return fmt.Sprintf("cannot run %q: %v", name, errno)
	}
	subject := named(name, path)
	line, isScript := interpreter(user, path)
	program := strings.Fields(line + " ?")[0]
	switch {
	case isScript && strings.HasSuffix(line, "\r"):
		return fmt.Sprintf("cannot run %q: the first line of %s ends in CR LF; convert it with: sed -i 's/\\r$//' %s", name, path, path)
	case isScript && line == "":
		return fmt.Sprintf("cannot run %q: the #! line of %s names no interpreter; write one, such as #!/bin/sh", name, path)
	case isScript && errno == unix.ENOENT:
		return fmt.Sprintf("cannot run %q: %s wants the interpreter %q, which does not exist", name, subject, program)
	case isScript && errno == unix.EACCES && denied(user, program):
		return fmt.Sprintf("cannot run %q: %s wants the interpreter %q, which is not executable", name, subject, program)
	case errno == unix.ENOENT:
		return fmt.Sprintf("cannot run %q: %s wants a dynamic loader that this image does not have", name, subject)
	case errno == unix.ENOEXEC:
		return fmt.Sprintf("cannot run %q: %s is no program for this machine and has no #! line; add one, such as #!/bin/sh", name, subject)
	}
	return fmt.Sprintf("cannot run %q: %v", name, errno)
}

// named is how a fault of the program at path is worded behind the name that
// was asked for: nobody wants to read one path twice.
func named(name, path string) string {
	if name == path {
		return "it"
	}
	return path
}

// interpreter returns what the #! line of a script names, arguments included.
func interpreter(user *rights.User, path string) (line string, isScript bool) {
	file, err := user.Open(path)
	if err != nil {
		return "", false
	}
	defer file.Close()
	start := make([]byte, 256)
	n, _ := file.Read(start)
	rest, isScript := bytes.CutPrefix(start[:n], []byte("#!"))
	first, _, _ := bytes.Cut(rest, []byte("\n"))
	return strings.Trim(string(first), " \t"), isScript
}

// denied tells whether a user cannot execute a file.
func denied(user *rights.User, path string) bool {
	looks, err := user.LookAlong([]string{path}, unix.X_OK)
	return err != nil || len(looks) != 1 || cmp.Or(looks[0].Err, looks[0].Denied) != nil
}
