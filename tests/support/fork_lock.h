/*
 * Fork lock - a lock of the program, for which its own fork handler waits
 *
 * The handler must be registered before the program uses the library: the last one registered runs
 * first.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_FORK_LOCK_H
#define RELOCK_TEST_FORK_LOCK_H

#include <stdbool.h>

typedef void fork_lock_fn(void *arg);

void fork_lock_register(void);

/* A thread has the lock, and makes this call when fork() has begun. Returns whether fork() got the
 * lock within SOON_MS. */
bool fork_lock_outlasts(fork_lock_fn *call, void *arg);

#endif
