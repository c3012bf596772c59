package isolate

import (
	"encoding/binary"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// The calls that strict denies with EPERM: those by which a process looks into
// or changes others, makes namespaces and mounts, loads code into the kernel, or
// sets what is the whole machine's. None of them is for the work of a service.
// Numbers that the two architectures do not share are in numbers_*.go.
var denied = []uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_PROCESS_MRELEASE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PERF_EVENT_OPEN, unix.SYS_MOVE_PAGES,
	unix.SYS_MIGRATE_PAGES,
	// namespaces and mounts; clone is looked at below
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// the kernel
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_SYSLOG, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_FANOTIFY_INIT, unix.SYS_NFSSERVCTL,
	// the machine
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
}

// families are the kinds of socket that strict leaves: local ones, the Internet,
// and what getifaddrs(3) asks.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// newNamespaces are the flags by which clone(2) makes some.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Where struct seccomp_data has what, seccomp(2). Both architectures are little
// endian: the lower half of an argument comes first.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	dataArg1   = 24
	dataArg2   = 32
	dataArg4   = 48
	upper      = 4 // of an argument, its upper half
)

// What a filter answers.
const (
	answerAllow = 0x7fff0000
	answerErrno = 0x00050000
)

// a filter under way: instructions that return or go on with the next.
type filter []unix.SockFilter

func (f *filter) put(code uint16, k uint32, jt, jf uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

func (f *filter) load(offset uint32) { f.put(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }
func (f *filter) answer(k uint32)    { f.put(unix.BPF_RET|unix.BPF_K, k, 0, 0) }

// deny answers with an error if what was loaded is equal to k.
func (f *filter) deny(k uint32, errno unix.Errno) {
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, 1)
	f.answer(answerErrno | uint32(errno))
}

// only runs the instructions if the number of the call is nr. They end with an
// answer.
func (f *filter) only(nr uint32, inner func(*filter)) {
	var part filter
	inner(&part)
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, uint8(len(part)))
	*f = append(*f, part...)
}

// Filter is the seccomp filter of the rules, an array of struct sock_filter in
// bytes; none where none is needed. It needs no_new_privs.
func (r Rules) Filter() []byte {
	switch {
	case r.Level == Strict:
		return strictFilter()
	case r.Level == Profile && !(r.Connect.Any && r.Bind.Any):
		return portsFilter()
	}
	return nil
}

// portsFilter denies multipath TCP, for which Landlock's lists of ports do not
// hold. Whoever asks for it goes on with plain TCP where it is refused.
var portsFilter = sync.OnceValue(func() []byte {
	f := begun()
	f.only(unix.SYS_SOCKET, func(f *filter) {
		f.load(dataArg2)
		f.deny(unix.IPPROTO_MPTCP, unix.EPERM)
		f.answer(answerAllow)
	})
	f.answer(answerAllow)
	return f.bytes()
})

// begun is a filter that has loaded the number of the call, and denies those
// whose numbers mean something else.
func begun() filter {
	var f filter
	f.load(dataArch)
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, auditArch, 1, 0)
	f.answer(answerErrno | uint32(unix.EPERM)) // calls of 32 bits have other numbers
	f.load(dataNumber)
	if otherNumbers != 0 { // those of x32, with a bit that tells
		f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, otherNumbers, 0, 1)
		f.answer(answerErrno | uint32(unix.EPERM))
	}
	return f
}

// strictFilter is that of strict.
var strictFilter = sync.OnceValue(func() []byte {
	f := begun()
	for _, nr := range slices.Concat(denied, deniedHere) {
		f.deny(nr, unix.EPERM)
	}
	f.namespaces()
	f.only(unix.SYS_SOCKET, func(f *filter) {
		f.load(dataArg2)
		f.deny(unix.IPPROTO_MPTCP, unix.EPERM) // as in portsFilter
		f.load(dataArg0)
		for _, family := range families {
			f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, family, 0, 1)
			f.answer(answerAllow)
		}
		f.answer(answerErrno | uint32(unix.EPERM))
	})
	f.only(unix.SYS_IOCTL, func(f *filter) {
		f.load(dataArg1)
		f.deny(unix.TIOCSTI, unix.EPERM) // types into a terminal
		f.deny(unix.TIOCLINUX, unix.EPERM)
		f.answer(answerAllow)
	})
	f.only(unix.SYS_PRLIMIT64, func(f *filter) {
		f.load(dataArg0) // of others: 0 is the caller
		f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, 0)
		f.answer(answerErrno | uint32(unix.EPERM))
		f.answer(answerAllow)
	})
	f.answer(answerAllow)
	return f.bytes()
})

// namespaces denies clones with namespaces of their own.
func (f *filter) namespaces() {
	// Its flags are behind a pointer. C libraries use clone where it is unknown.
	f.deny(unix.SYS_CLONE3, unix.ENOSYS)
	f.only(unix.SYS_CLONE, func(f *filter) {
		f.load(dataArg0)
		f.put(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, newNamespaces, 0, 1)
		f.answer(answerErrno | uint32(unix.EPERM))
		f.answer(answerAllow)
	})
}

func (f filter) bytes() []byte {
	var out []byte
	for _, i := range f {
		out = binary.LittleEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.LittleEndian.AppendUint32(out, i.K)
	}
	return out
}
