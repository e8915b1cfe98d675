/*
 * Teller - says who holds the lock that `relock run` waits for
 *
 * It also ends a wait that cannot end by itself: for a lock that a process holds which started this
 * one. It asks Redis on a thread of its own, so neither the wait nor a signal waits for an answer.
 */
#ifndef RELOCK_TOOL_TELLER_H
#define RELOCK_TOOL_TELLER_H

#include "run_options.h"

#include <relock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct teller {
    const struct run_options *options;
    struct relock_client *client;
    struct relock_lock *const *locks; /* one for each name */
    uint64_t owner;                   /* that waits */
    struct relock_cancel *cancel;     /* of the wait */
    int stop_fd;                      /* readable: the wait is over */
    const char *ancestors;            /* as ancestors_list() */
    _Atomic(const char *) refused;    /* the name of a lock that an ancestor holds, or NULL */
    bool is_told;                     /* of its thread */
    bool runs;
    pthread_t thread;
};

/* Begins, if there may be something to say. All but the last four fields are set. */
void teller_begin(struct teller *teller);

/* Waits for the end of its thread. `stop_fd` is readable. */
void teller_join(struct teller *teller);

#endif
