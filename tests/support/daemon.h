/*
 * Daemon - a program of the system that a test starts, a proxy say
 *
 * It dies with the test program, however that ends.
 *
 * Threads: the one that started it, which must live as long: it dies with its thread.
 */
#ifndef RELOCK_TEST_DAEMON_H
#define RELOCK_TEST_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

/* Starts argv[0], a path, and writes what it prints to the file `log`. */
pid_t daemon_start(const char *const *argv, const char *log);

/* Whether it has ended by itself. Prints its log then. */
bool daemon_has_ended(pid_t pid, const char *log);

/* SIGKILL. */
void daemon_stop(pid_t pid);

#endif
