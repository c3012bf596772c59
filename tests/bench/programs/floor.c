/* The least that starting many services can cost: two threads start a half each by
   posix_spawn, and nothing else. floor PROGRAM ARGUMENT... */
#include <pthread.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct half {
	char *program;
	char **arguments;
	int count;
};

static void *run(void *given)
{
	struct half *half = given;
	for (int i = 0; i < half->count; i++) {
		char *argv[] = {half->program, half->arguments[i], NULL};
		pid_t pid;
		int failed = posix_spawn(&pid, half->program, NULL, NULL, argv, environ);
		if (failed)
			fprintf(stderr, "floor: cannot start %s: %s\n", half->program, strerror(failed));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc - 2, first = count / 2;
	struct half one = {argv[1], argv + 2, first}, two = {argv[1], argv + 2 + first, count - first};
	pthread_t other;
	if (argc < 2 || pthread_create(&other, NULL, run, &two))
		return 1;
	run(&one);
	pthread_join(other, NULL);
	for (;;)
		pause();
}
