/*
 * Child - another process, for tests about several
 *
 * A forked child runs one function and exits with its result; parent and child can send each
 * other numbers over a socket pair. The child must make a client of its own, and must not use
 * cmocka's assertions, which jump into the parent's frames: child_must() instead.
 *
 * Children die with the program, and child_end_all() ends those that a failed test left behind.
 * Start them before threads where that is possible: a forked child of many threads may do very
 * little.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CHILD_H
#define RELOCK_TEST_CHILD_H

#include <stdbool.h>
#include <stdint.h>

struct child;

typedef int child_fn(struct child *parent, void *arg);

struct child *child_start(child_fn *run, void *arg);

/* In both processes: sends a number to, or awaits one from the other. False when the other is gone
 * or, while awaiting, nothing comes within SOON_MS. */
bool child_send(struct child *other, int64_t number);
bool child_receive(struct child *other, int64_t *number);
bool child_receive_within(struct child *other, int64_t *number, uint64_t within_ms);

/* child_receive() when the number does not matter. */
bool child_await(struct child *other);

/* Waits for the exit of the child and frees it. The result is its status, 128 + n if signal n ended
 * it, or -1 if it had to be killed because it did not end within slow_ms(within_ms). */
int child_wait(struct child *child, uint64_t within_ms);

/* SIGKILL, SIGSTOP... */
void child_signal(struct child *child, int signal);

/* Whether a child of a process with threads can start its own: not under ThreadSanitizer, nor in
 * qemu, which ends by an assertion of its own then and has RELOCK_TEST_EMULATED in the environment.
 */
bool child_can_have_threads(void);

/* Whether a child can allocate if other threads allocated during fork(). Not under
 * AddressSanitizer: fork() may copy a lock of its runtime that one of those threads held. */
bool child_can_leave_busy_threads(void);

/* Kills and frees all that were not waited for. */
void child_end_all(void);

/* Ends the process with CHILD_FAILED and a line on stderr, unless `condition` holds. */
#define CHILD_FAILED 70
#define child_must(condition) child_check((condition), #condition, __FILE__, __LINE__)

void child_check(bool condition, const char *text, const char *file, int line);

#endif
