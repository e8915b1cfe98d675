/*
 * Hold - the lock of `relock run`
 *
 * No signal interrupts a call of the library. So a thread connects and waits for the lock, and the
 * main thread goes on to hear signals. The owner is a number of its own: the library releases what
 * a thread owns when the thread ends.
 *
 * Threads: the main one, and until hold_join() the one that waits.
 */
#ifndef RELOCK_TOOL_HOLD_H
#define RELOCK_TOOL_HOLD_H

#include "patience.h"
#include "run_options.h"
#include "session.h"
#include "teller.h"

#include <relock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define HOLD_PERMIT_ID 16 /* bytes */

struct hold {
    const struct run_options *options;
    struct relock_options settings;
    int over_fd; /* an eventfd: the wait is over */
    int lost_fd; /* an eventfd: the hold was lost */
    int stop_fd; /* an eventfd: nobody is to wait any more */
    pthread_t thread;

    /* The waiting thread's; after hold_join() the main thread's. */
    struct relock_client *client; /* NULL: it has not connected */
    struct relock_lock **members; /* one for each name */
    struct relock_lock *lock;     /* of all members */
    struct relock_how how;        /* its lease and owner */
    struct relock_grant grant;
    unsigned char permit_id[HOLD_PERMIT_ID]; /* of a semaphore */
    bool has_other_number;                   /* of permits, and not the wanted one */
    int64_t other_number;                    /* that one */
    bool has_changed_number;                 /* --set-permits does so once */
    struct patience patience;
    struct teller teller;
    int result;        /* of the wait */
    bool tells_outage; /* it has said that it tries again */

    atomic_int lost_reason; /* RELOCK_LOST_*, once `lost_fd` is readable */

    atomic_bool is_connected;
    atomic_bool tells_failure;  /* a line of the log has said that an outage ended an attempt */
    pthread_mutex_t mutex;      /* guards `why` */
    char why[SESSION_LINE_MAX]; /* the last error before it is connected, from the log */
};

/* Begins to connect and to wait. False if the system lacks a descriptor or a thread. */
bool hold_begin(struct hold *hold, const struct run_options *options);

/* Ends the wait, and has no effect after its end. False if the thread is still connecting: it
 * cannot get the lock any more, so nobody has to wait for it. */
bool hold_stop(struct hold *hold);

/* Waits for the end of the thread. Returns the result of the wait. */
int hold_join(struct hold *hold);

/* The names for messages: of the lock that was in the way, else all. */
const char *hold_title(const struct hold *hold);

/* Why the lock of that title cannot be had, if its key tells; else NULL. */
const char *hold_obstacle(const struct hold *hold);

/* Releases all levels. Returns RELOCK_LOST if the hold was lost before. */
int hold_release(struct hold *hold);

/* Frees the client, and what was made for it. */
void hold_end(struct hold *hold);

/* The reason of a loss, for a message. */
const char *hold_lost_text(const struct hold *hold);

#endif
