#include "textflag.h"

// func Call(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, errno uintptr)
TEXT ·Call(SB),NOSPLIT,$0-72
	MOVQ	trap+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	MOVQ	a4+32(FP), R10
	MOVQ	a5+40(FP), R8
	MOVQ	a6+48(FP), R9
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JLS	good
	MOVQ	$-1, r1+56(FP)
	NEGQ	AX
	MOVQ	AX, errno+64(FP)
	RET
good:
	MOVQ	AX, r1+56(FP)
	MOVQ	$0, errno+64(FP)
	RET

// func vfork(flags uintptr, pidfd *int32) (pid, errno uintptr)
//
// Parent and child return through the same stack, one after the other. What
// the child calls after its return overwrites the return address that the
// parent still needs, so the address waits in a register.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	flags+0(FP), DI
	MOVQ	$0, SI
	MOVQ	pidfd+8(FP), DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	$56, AX // clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	good
	MOVQ	$-1, pid+16(FP)
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
	RET
good:
	MOVQ	AX, pid+16(FP)
	MOVQ	$0, errno+24(FP)
	RET

// func vfork3(args *cloneArgs) (pid, errno uintptr)
//
// As vfork, by clone3(2).
TEXT ·vfork3(SB),NOSPLIT|NOFRAME,$0-24
	MOVQ	args+0(FP), DI
	MOVQ	$88, SI  // sizeof(struct clone_args)
	MOVQ	$435, AX // clone3
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	good
	MOVQ	$-1, pid+8(FP)
	NEGQ	AX
	MOVQ	AX, errno+16(FP)
	RET
good:
	MOVQ	AX, pid+8(FP)
	MOVQ	$0, errno+16(FP)
	RET

// handler is called by the kernel: DI signal, SI *siginfo, DX *ucontext. All
// registers are given back by rt_sigreturn(2), so any may be used.
//
// A child that has not executed its program yet shares it, in our memory: there a
// signal does what it does by default.
TEXT ·handler(SB),NOSPLIT|NOFRAME,$0
	MOVL	DI, R9
	MOVL	$39, AX   // getpid
	SYSCALL
	CMPL	AX, ·self(SB)
	JNE	child
	LEAQ	·runtimeHandler(SB), R8
	MOVQ	(R8)(R9*8), R10
	TESTQ	R10, R10
	JEQ	record
	MOVL	8(SI), AX // si_code
	CMPL	R9, $23   // SIGURG
	JEQ	urgent
	CMPL	AX, $0
	JLE	record    // sent by a process; above 0 the kernel tells of a fault of ours
	JMP	R10
urgent:
	CMPL	AX, $-6   // SI_TKILL, by which the runtime preempts its threads
	JNE	record
	MOVL	16(SI), CX // si_pid
	CMPL	CX, ·self(SB)
	JNE	record
	JMP	R10
record:
	MOVQ	R9, AX
	CMPL	R9, $17   // SIGCHLD goes to an eventfd: a small count, so that it never overflows
	JEQ	write
	MOVL	16(SI), CX
	SHLQ	$32, CX
	ORQ	CX, AX
write:
	PUSHQ	AX
	LEAQ	·recordIn(SB), R8
	MOVLQSX	(R8)(R9*4), DI
	MOVQ	SP, SI
	MOVL	$8, DX
	MOVL	$1, AX    // write
	SYSCALL
	POPQ	AX
	RET
child:
	MOVQ	AX, R8
	PUSHQ	$0        // struct sigaction of SIG_DFL
	PUSHQ	$0
	PUSHQ	$0
	PUSHQ	$0
	MOVL	R9, DI
	MOVQ	SP, SI
	MOVL	$0, DX
	MOVL	$8, R10
	MOVL	$13, AX   // rt_sigaction
	SYSCALL
	POPQ	CX
	POPQ	CX
	POPQ	CX
	POPQ	CX
	MOVL	R8, DI
	MOVL	R9, SI
	MOVL	$62, AX   // kill: taken when rt_sigreturn(2) unblocks it
	SYSCALL
	RET

TEXT ·restorer(SB),NOSPLIT|NOFRAME,$0
	MOVQ	$15, AX   // rt_sigreturn
	SYSCALL
	INT	$3

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB),NOSPLIT,$0-8
	LEAQ	·handler(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

// func restorerAddress() uintptr
TEXT ·restorerAddress(SB),NOSPLIT,$0-8
	LEAQ	·restorer(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

// func exchange(p *uint32, v uint32) uint32
TEXT ·exchange(SB),NOSPLIT,$0-20
	MOVQ	p+0(FP), AX
	MOVL	v+8(FP), BX
	XCHGL	BX, (AX)
	MOVL	BX, ret+16(FP)
	RET

// func fetchAdd(p *uint32, delta uint32) uint32
TEXT ·fetchAdd(SB),NOSPLIT,$0-20
	MOVQ	p+0(FP), AX
	MOVL	delta+8(FP), BX
	LOCK
	XADDL	BX, (AX)
	MOVL	BX, ret+16(FP)
	RET

// func loadAcquire(p *uint32) uint32
TEXT ·loadAcquire(SB),NOSPLIT,$0-12
	MOVQ	p+0(FP), AX
	MOVL	(AX), BX
	MOVL	BX, ret+8(FP)
	RET
