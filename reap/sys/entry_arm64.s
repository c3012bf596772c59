#include "textflag.h"

// entry is where the kernel begins in a binary that was linked with
//
//	-ldflags '-E rlminit/reap/sys.entry'
//
// It notes which signals are ignored or blocked and which of the descriptors 0
// to 2 are closed, before Go's runtime sets its own handlers and mask and opens
// /dev/null. Where there is no /dev/null, it opens the root directory to read in the place of
// what is closed, which nothing can be read from or written to either; the runtime would end.
// It ends with a line where a limit is one with which the runtime cannot start (entry.go).
// PID 1 gets a timer slack of 500 us, and notes the one it had: the
// runtime's monitor, which looks at its threads each 20 us for as long as any is at
// work, inherits it. Then it goes on where the kernel would have begun. In a binary
// that was linked without, nothing refers to it and it is left out.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	SUB	$64, RSP    // room for a struct sigaction; argc and argv stay above
	MOVD	$0, R19     // a bit for each signal that is ignored
	MOVD	$1, R20     // signal
next:
	MOVD	R20, R0
	MOVD	$0, R1
	MOVD	RSP, R2
	MOVD	$8, R3
	MOVD	$134, R8    // rt_sigaction
	SVC
	CBNZ	R0, more
	MOVD	(RSP), R4
	CMP	$1, R4      // SIG_IGN
	BNE	more
	SUB	$1, R20, R5
	MOVD	$1, R6
	LSL	R5, R6, R6
	ORR	R6, R19, R19
more:
	ADD	$1, R20
	CMP	$64, R20
	BLE	next
	MOVD	R19, ·startIgnored(SB)

	MOVD	$0, R0
	MOVD	$0, R1
	MOVD	RSP, R2
	MOVD	$8, R3
	MOVD	$135, R8    // rt_sigprocmask
	SVC
	MOVD	(RSP), R4
	MOVD	R4, ·startMask(SB)

	MOVD	$0, R19     // a bit for each descriptor that is closed
	MOVD	$2, R20     // descriptor
look:
	MOVD	R20, R0
	MOVD	$1, R1      // F_GETFD
	MOVD	$25, R8     // fcntl
	SVC
	LSR	$63, R0, R0 // 1 for an error, and EBADF is the only one
	LSL	R20, R0, R0
	ORR	R0, R19, R19
	SUB	$1, R20
	TBZ	$63, R20, look
	MOVW	R19, ·Closed(SB)

	MOVD	$0, R20     // descriptor
fill:
	LSR	R20, R19, R0
	TBZ	$0, R0, filled
	MOVD	$-100, R0   // AT_FDCWD
	MOVD	$·nullPath(SB), R1
	MOVD	$2, R2      // O_RDWR
	MOVD	$0, R3
	MOVD	$56, R8     // openat
	SVC
	TBZ	$63, R0, filled
	MOVD	$-100, R0
	MOVD	$·rootPath(SB), R1
	MOVD	$0x4000, R2 // O_DIRECTORY
	MOVD	$0, R3
	MOVD	$56, R8
	SVC
filled:
	ADD	$1, R20
	CMP	$2, R20
	BLE	fill

	MOVD	$·least(SB), R19
	MOVD	$3, R20     // limits
limit:
	MOVD	$0, R0
	MOVD	0(R19), R1  // resource
	MOVD	$0, R2
	MOVD	RSP, R3
	MOVD	$261, R8    // prlimit64
	SVC
	CBNZ	R0, enough
	MOVD	(RSP), R4   // rlim_cur
	MOVD	8(R19), R5  // least
	CMP	R5, R4
	BHS	enough
	MOVD	$2, R0
	MOVD	16(R19), R1 // text
	MOVD	24(R19), R2
	MOVD	$64, R8     // write
	SVC
	MOVD	$1, R0
	MOVD	$94, R8     // exit_group
	SVC
enough:
	ADD	$32, R19
	SUB	$1, R20
	CBNZ	R20, limit

	MOVD	$172, R8    // getpid
	SVC
	CMP	$1, R0
	BNE	begin
	MOVD	$30, R0     // PR_GET_TIMERSLACK
	MOVD	$167, R8    // prctl
	SVC
	CMP	$0, R0
	BLE	begin
	MOVD	R0, ·startSlack(SB)
	MOVD	$29, R0     // PR_SET_TIMERSLACK
	MOVD	$500000, R1 // ns
	MOVD	$167, R8    // prctl
	SVC
begin:
	MOVW	$1, R4
	MOVW	R4, ·startKnown(SB)
	ADD	$64, RSP
	JMP	_rt0_arm64_linux(SB)
