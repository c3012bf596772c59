package sys

// Numbers of system calls, asm/unistd_64.h.
const (
	sysRead          = 0
	sysWrite         = 1
	sysClose         = 3
	sysWritev        = 20
	sysRtSigaction   = 13
	sysRtSigprocmask = 14
	sysIoctl         = 16
	sysNanosleep     = 35
	sysClockGettime  = 228
	sysGetpid        = 39
	sysExecve        = 59
	sysKill          = 62
	sysFcntl         = 72
	sysChdir         = 80
	sysUmask         = 95
	sysSetpgid       = 109
	sysGetpgid       = 121
	sysGetsid        = 124
	sysSetsid        = 112
	sysSetgroups     = 116
	sysSetresuid     = 117
	sysSetresgid     = 119
	sysCapset        = 126
	sysPrctl         = 157
	sysGettid        = 186
	sysExitGroup     = 231
	sysEpollPwait    = 281
	sysEpollCtl      = 233
	sysEpollCreate1  = 291
	sysWait4         = 61
	sysOpenat        = 257
	sysFaccessat     = 269
	sysEventfd2      = 290
	sysDup3          = 292
	sysPipe2         = 293
	sysPrlimit64     = 302
	sysSeccomp       = 317
	sysSetfsuid      = 122
	sysFchownat      = 260
	sysMkdirat       = 258
	sysUnlinkat      = 263

	openDirectory = 0x10000
	openNoFollow  = 0x20000

	saRestorer = 0x04000000
)

// EpollEvent is struct epoll_event of epoll_ctl(2), which is packed here.
type EpollEvent struct {
	Events uint32
	Data   [2]uint32
}
