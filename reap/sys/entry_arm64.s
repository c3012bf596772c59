#include "textflag.h"

// entry is where the kernel begins in a binary that was linked with
//
//	-ldflags '-E rlminit/reap/sys.entry'
//
// It notes which signals are ignored or blocked and which of the descriptors 0
// to 2 are closed, before Go's runtime sets its own handlers and mask and opens
// /dev/null. PID 1 gets a timer slack of 500 us, and notes the one it had: the
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
