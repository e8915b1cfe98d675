/*
 * Hold - the lock of `relock run`
 *
 * No signal interrupts a call of the library. So the wait for the lock runs on a thread, and the
 * main thread goes on to hear signals. The owner is a number of its own: the library releases what
 * a thread owns when the thread ends.
 */
#ifndef RELOCK_TOOL_HOLD_H
#define RELOCK_TOOL_HOLD_H

#include <relock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct hold {
    struct relock_lock *lock;
    struct relock_how how;     /* its wait, lease and owner */
    struct relock_grant grant; /* once acquired */
    int result;                /* of the wait, once `over_fd` is readable */
    int over_fd;               /* an eventfd: the wait is over */
    int lost_fd;               /* an eventfd: the hold was lost */
    atomic_int lost_reason;    /* RELOCK_LOST_*, once `lost_fd` is readable */
    bool is_renewed;           /* a second level, for a fixed lease that the watchdog renews */
    pthread_t thread;
};

/* Begins to wait. `is_renewed`: the lease of `how` is a minimum, and the watchdog renews it as long
 * as the hold lasts. False if the system lacks a descriptor or a thread. */
bool hold_begin(struct hold *hold, struct relock_lock *lock, const struct relock_how *how,
                bool is_renewed);

/* Waits for the end of the thread. Cancels the wait if it still lasts. Returns its result. */
int hold_join(struct hold *hold);

/* Releases all levels. Returns RELOCK_LOST if the hold was lost before. */
int hold_release(struct hold *hold);

/* The reason of a loss, for a message. */
const char *hold_lost_text(const struct hold *hold);

#endif
