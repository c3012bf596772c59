/* A service that does nothing: it opens the FIFO of its argument, by which it tells
   that it runs, and waits. It has no libc, which would cost more than all of it. */
static long call(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

static __attribute__((used)) void begin(long *stack)
{
	char **argv = (char **)(stack + 1);
	if (stack[0] == 2)
		call(2, (long)argv[1], 0, 0); /* open, read-only */
	for (;;)
		call(34, 0, 0, 0); /* pause */
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
