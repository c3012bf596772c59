#include "textflag.h"

// func Call(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, errno uintptr)
TEXT ·Call(SB),NOSPLIT,$0-72
	MOVD	trap+0(FP), R8
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	a3+24(FP), R2
	MOVD	a4+32(FP), R3
	MOVD	a5+40(FP), R4
	MOVD	a6+48(FP), R5
	SVC
	CMN	$4095, R0
	BCC	good
	MOVD	$-1, R4
	MOVD	R4, r1+56(FP)
	NEG	R0, R0
	MOVD	R0, errno+64(FP)
	RET
good:
	MOVD	R0, r1+56(FP)
	MOVD	ZR, errno+64(FP)
	RET

// func vfork(flags uintptr, pidfd *int32) (pid, errno uintptr)
//
// A leaf without a frame keeps its return address in the link register, out of
// the reach of the child that shares the stack.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-32
	MOVD	flags+0(FP), R0
	MOVD	$0, R1
	MOVD	pidfd+8(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	MOVD	$220, R8 // clone
	SVC
	CMN	$4095, R0
	BCC	good
	MOVD	$-1, R4
	MOVD	R4, pid+16(FP)
	NEG	R0, R0
	MOVD	R0, errno+24(FP)
	RET
good:
	MOVD	R0, pid+16(FP)
	MOVD	ZR, errno+24(FP)
	RET

// func vfork3(args *cloneArgs) (pid, errno uintptr)
//
// As vfork, by clone3(2).
TEXT ·vfork3(SB),NOSPLIT|NOFRAME,$0-24
	MOVD	args+0(FP), R0
	MOVD	$88, R1  // sizeof(struct clone_args)
	MOVD	$435, R8 // clone3
	SVC
	CMN	$4095, R0
	BCC	good
	MOVD	$-1, R4
	MOVD	R4, pid+8(FP)
	NEG	R0, R0
	MOVD	R0, errno+16(FP)
	RET
good:
	MOVD	R0, pid+8(FP)
	MOVD	ZR, errno+16(FP)
	RET

// handler is called by the kernel: R0 signal, R1 *siginfo, R2 *ucontext, R30
// the way back. rt_sigreturn(2) gives all registers back, so any may be used.
//
// A child that has not executed its program yet shares it, in our memory: there a
// signal does what it does by default.
TEXT ·handler(SB),NOSPLIT|NOFRAME,$0
	MOVWU	R0, R9
	MOVD	$172, R8   // getpid
	SVC
	MOVW	·self(SB), R13
	CMPW	R0, R13
	BNE	child
	MOVD	$·runtimeHandler(SB), R10
	MOVD	(R10)(R9<<3), R10
	CBZ	R10, record
	MOVW	8(R1), R11 // si_code
	CMPW	$23, R9    // SIGURG
	BEQ	urgent
	CMPW	$0, R11
	BLE	record     // sent by a process; above 0 the kernel tells of a fault of ours
	JMP	(R10)
urgent:
	CMNW	$6, R11    // SI_TKILL is -6: the runtime preempts its threads
	BNE	record
	MOVW	16(R1), R12 // si_pid
	MOVW	·self(SB), R13
	CMPW	R12, R13
	BNE	record
	JMP	(R10)
record:
	MOVD	R9, R12
	CMPW	$17, R9    // SIGCHLD goes to an eventfd: a small count, so that it never overflows
	BEQ	write
	MOVWU	16(R1), R13
	ORR	R13<<32, R12, R12
write:
	SUB	$16, RSP
	MOVD	R12, (RSP)
	MOVD	$·recordIn(SB), R10
	MOVW	(R10)(R9<<2), R0
	MOVD	RSP, R1
	MOVD	$8, R2
	MOVD	$64, R8    // write
	SVC
	ADD	$16, RSP
	RET
child:
	MOVW	R0, R12
	SUB	$32, RSP   // struct sigaction of SIG_DFL
	STP	(ZR, ZR), (RSP)
	STP	(ZR, ZR), 16(RSP)
	MOVD	R9, R0
	MOVD	RSP, R1
	MOVD	$0, R2
	MOVD	$8, R3
	MOVD	$134, R8   // rt_sigaction
	SVC
	ADD	$32, RSP
	MOVD	R12, R0
	MOVD	R9, R1
	MOVD	$129, R8   // kill: taken when rt_sigreturn(2) unblocks it
	SVC
	RET

// The kernel's own trampoline is used where no restorer is given.

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB),NOSPLIT,$0-8
	MOVD	$·handler(SB), R0
	MOVD	R0, ret+0(FP)
	RET

// func restorerAddress() uintptr
TEXT ·restorerAddress(SB),NOSPLIT,$0-8
	MOVD	ZR, ret+0(FP)
	RET

// func exchange(p *uint32, v uint32) uint32
TEXT ·exchange(SB),NOSPLIT,$0-20
	MOVD	p+0(FP), R0
	MOVW	v+8(FP), R1
again:
	LDAXRW	(R0), R2
	STLXRW	R1, (R0), R3
	CBNZ	R3, again
	MOVW	R2, ret+16(FP)
	RET

// func fetchAdd(p *uint32, delta uint32) uint32
TEXT ·fetchAdd(SB),NOSPLIT,$0-20
	MOVD	p+0(FP), R0
	MOVW	delta+8(FP), R1
again:
	LDAXRW	(R0), R2
	ADDW	R1, R2, R4
	STLXRW	R4, (R0), R3
	CBNZ	R3, again
	MOVW	R2, ret+16(FP)
	RET

// func loadAcquire(p *uint32) uint32
TEXT ·loadAcquire(SB),NOSPLIT,$0-12
	MOVD	p+0(FP), R0
	LDARW	(R0), R1
	MOVW	R1, ret+8(FP)
	RET
