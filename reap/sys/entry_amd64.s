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
	SUBQ	$64, SP     // room for a struct sigaction; argc and argv stay above
	XORL	R12, R12    // a bit for each signal that is ignored
	MOVL	$1, R13     // signal
next:
	MOVL	R13, DI
	XORL	SI, SI
	MOVQ	SP, DX
	MOVL	$8, R10
	MOVL	$13, AX     // rt_sigaction
	SYSCALL
	TESTQ	AX, AX
	JNE	more
	CMPQ	0(SP), $1   // SIG_IGN
	JNE	more
	LEAQ	-1(R13), CX
	MOVL	$1, AX
	SHLQ	CX, AX
	ORQ	AX, R12
more:
	INCL	R13
	CMPL	R13, $64
	JLE	next
	MOVQ	R12, ·startIgnored(SB)

	XORL	DI, DI
	XORL	SI, SI
	MOVQ	SP, DX
	MOVL	$8, R10
	MOVL	$14, AX     // rt_sigprocmask
	SYSCALL
	MOVQ	0(SP), AX
	MOVQ	AX, ·startMask(SB)

	XORL	R12, R12    // a bit for each descriptor that is closed
	MOVL	$2, R13     // descriptor
look:
	MOVL	R13, DI
	MOVL	$1, SI      // F_GETFD
	MOVL	$72, AX     // fcntl
	SYSCALL
	SHRQ	$63, AX     // 1 for an error, and EBADF is the only one
	MOVL	R13, CX
	SHLQ	CX, AX
	ORQ	AX, R12
	DECL	R13
	JGE	look
	MOVL	R12, ·Closed(SB)

	XORL	R13, R13    // descriptor
fill:
	BTL	R13, R12
	JCC	filled
	MOVQ	$-100, DI   // AT_FDCWD
	LEAQ	·nullPath(SB), SI
	MOVL	$2, DX      // O_RDWR
	XORL	R10, R10
	MOVL	$257, AX    // openat
	SYSCALL
	TESTQ	AX, AX
	JGE	filled
	MOVQ	$-100, DI
	LEAQ	·rootPath(SB), SI
	MOVL	$0x10000, DX // O_DIRECTORY
	XORL	R10, R10
	MOVL	$257, AX
	SYSCALL
filled:
	INCL	R13
	CMPL	R13, $2
	JLE	fill

	LEAQ	·least(SB), R12
	MOVL	$3, R13     // limits
limit:
	XORL	DI, DI
	MOVQ	0(R12), SI  // resource
	XORL	DX, DX
	MOVQ	SP, R10
	MOVL	$302, AX    // prlimit64
	SYSCALL
	TESTQ	AX, AX
	JNE	enough
	MOVQ	0(SP), AX   // rlim_cur
	CMPQ	AX, 8(R12)  // least
	JCC	enough
	MOVL	$2, DI
	MOVQ	16(R12), SI // text
	MOVQ	24(R12), DX
	MOVL	$1, AX      // write
	SYSCALL
	MOVL	$1, DI
	MOVL	$231, AX    // exit_group
	SYSCALL
enough:
	ADDQ	$32, R12
	DECL	R13
	JNE	limit

	MOVL	$39, AX     // getpid
	SYSCALL
	CMPQ	AX, $1
	JNE	begin
	MOVL	$30, DI     // PR_GET_TIMERSLACK
	MOVL	$157, AX    // prctl
	SYSCALL
	TESTQ	AX, AX
	JLE	begin
	MOVQ	AX, ·startSlack(SB)
	MOVL	$29, DI     // PR_SET_TIMERSLACK
	MOVL	$500000, SI // ns
	MOVL	$157, AX    // prctl
	SYSCALL
begin:
	MOVL	$1, AX
	MOVL	AX, ·startKnown(SB)
	ADDQ	$64, SP
	XORL	DX, DX
	JMP	_rt0_amd64_linux(SB)
