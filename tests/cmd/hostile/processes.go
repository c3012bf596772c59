package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errnoOf is an error of a raw system call.
func errnoOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// processes tries what ends, stops, limits or slows down a process.
func processes(a *attack, who string, needs Needs, pid int) {
	kind := "signal, limit or reschedule " + who
	try := func(what string, f func() error) { a.try(kind, needs, what, f) }
	for _, signal := range []unix.Signal{0, unix.SIGCONT, unix.SIGURG, unix.SIGWINCH} { // which harm nobody: the right is that to SIGKILL
		try("kill "+signal.String(), func() error { return unix.Kill(pid, signal) })
		try("tgkill "+signal.String(), func() error { return unix.Tgkill(pid, pid, signal) })
	}
	try("pidfd_send_signal", func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	})
	try("rt_sigqueueinfo", func() error {
		info := [128]byte{0: byte(unix.SIGURG), 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff} // si_code SI_QUEUE
		_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&info)))
		return errnoOf(errno)
	})
	for resource := range unix.RLIMIT_NOFILE + 9 {
		try(fmt.Sprintf("prlimit %d", resource), func() error {
			var limit unix.Rlimit
			if err := unix.Prlimit(pid, resource, nil, &limit); err != nil {
				return err
			}
			return unix.Prlimit(pid, resource, &limit, nil)
		})
	}
	try("sched_setaffinity", func() error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &set)
	})
	try("setpriority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 0) })
	try("sched_setattr", func() error {
		attr, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			return err
		}
		return unix.SchedSetAttr(pid, attr, 0)
	})
	try("ioprio_set", func() error {
		_, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|4)
		return errnoOf(errno)
	})
	try("setpgid", func() error { return unix.Setpgid(pid, pid) })
	for _, file := range []string{"oom_score_adj", "oom_adj", "coredump_filter", "timerslack_ns", "autogroup", "sched", "comm", "clear_refs"} {
		try("/proc "+file, func() error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, file), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			if file == "timerslack_ns" { // open to all, and refused when it is written
				_, err = f.WriteString("50000")
			}
			return err
		})
	}
}

// secrets tries to look into a process, to change its memory or to take its
// descriptors.
func secrets(a *attack, who string, needs Needs, pid int) {
	kind := "look into " + who
	try := func(what string, f func() error) { a.try(kind, needs, what, f) }
	try("ptrace", func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		if errno == 0 {
			_ = unix.PtraceDetach(pid)
		}
		return errnoOf(errno)
	})
	buffer := make([]byte, 8)
	local := []unix.Iovec{{Base: &buffer[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
	try("process_vm_readv", func() error { _, err := unix.ProcessVMReadv(pid, local, remote, 0); return err })
	try("process_vm_writev", func() error { _, err := unix.ProcessVMWritev(pid, local, remote, 0); return err })
	for fd := range 32 {
		try(fmt.Sprintf("pidfd_getfd %d", fd), func() error {
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			defer unix.Close(pidfd)
			taken, err := unix.PidfdGetfd(pidfd, fd, 0)
			if err != nil {
				return err
			}
			return unix.Close(taken)
		})
		try(fmt.Sprintf("/proc fd/%d", fd), func() error {
			f, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
			if err != nil {
				return err
			}
			return f.Close()
		})
	}
	for _, file := range []string{"mem", "environ", "maps", "smaps", "auxv", "stack", "syscall", "io", "pagemap", "map_files", "ns/pid", "root/etc", "cwd/."} {
		try("/proc "+file, func() error {
			f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				return err
			}
			defer f.Close()
			if info, err := f.Stat(); err != nil || info.IsDir() {
				return err
			}
			_, err = f.Read(buffer)
			return err
		})
	}
	try("kcmp", func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(pid), uintptr(os.Getpid()), 0, 0, 0, 0)
		return errnoOf(errno)
	})
	try("perf_event_open", func() error {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}, pid, -1, -1, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
	try("move_pages", func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_MOVE_PAGES, uintptr(pid), 0, 0, 0, 0, 0)
		return errnoOf(errno)
	})
	try("get_robust_list", func() error {
		var head, size uintptr
		_, _, errno := unix.RawSyscall(unix.SYS_GET_ROBUST_LIST, uintptr(pid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size)))
		return errnoOf(errno)
	})
}
