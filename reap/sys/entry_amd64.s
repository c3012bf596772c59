#include "textflag.h"

// entry is where the kernel begins in a binary that was linked with
//
//	-ldflags '-E rlminit/reap/sys.entry'
//
// It notes which signals are ignored or blocked, before Go's runtime sets its
// own handlers and mask, and goes on where the kernel would have begun. In a
// binary that was linked without, nothing refers to it and it is left out.
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
	MOVL	$1, AX
	MOVL	AX, ·startKnown(SB)
	ADDQ	$64, SP
	XORL	DX, DX
	JMP	_rt0_amd64_linux(SB)
