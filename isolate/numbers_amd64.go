package isolate

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_X86_64
	otherNumbers = 0x40000000 // __X32_SYSCALL_BIT
)

// deniedHere are the calls that only this architecture has.
var deniedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE, unix.SYS_USELIB,
	unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
}
