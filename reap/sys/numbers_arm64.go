package sys

// Numbers of system calls, asm-generic/unistd.h.
const (
	sysRead          = 63
	sysWrite         = 64
	sysClose         = 57
	sysWritev        = 66
	sysRtSigaction   = 134
	sysRtSigprocmask = 135
	sysIoctl         = 29
	sysNanosleep     = 101
	sysClockGettime  = 113
	sysGetpid        = 172
	sysExecve        = 221
	sysKill          = 129
	sysFcntl         = 25
	sysChdir         = 49
	sysUmask         = 166
	sysSetpgid       = 154
	sysGetpgid       = 155
	sysGetsid        = 156
	sysSetsid        = 157
	sysSetgroups     = 159
	sysSetresuid     = 147
	sysSetresgid     = 149
	sysCapset        = 91
	sysPrctl         = 167
	sysGettid        = 178
	sysExitGroup     = 94
	sysEpollPwait    = 22
	sysEpollCtl      = 21
	sysEpollCreate1  = 20
	sysWait4         = 260
	sysOpenat        = 56
	sysFaccessat     = 48
	sysEventfd2      = 19
	sysDup3          = 24
	sysPipe2         = 59
	sysPrlimit64     = 261
	sysSeccomp       = 277
	sysSetfsuid      = 151
	sysFchownat      = 54
	sysMkdirat       = 34
	sysUnlinkat      = 35

	openDirectory = 0x4000
	openNoFollow  = 0x8000

	saRestorer = 0 // the kernel brings its own
)

// EpollEvent is struct epoll_event of epoll_ctl(2).
type EpollEvent struct {
	Events uint32
	_      uint32
	Data   [2]uint32
}
