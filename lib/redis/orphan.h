/*
 * Orphan - a command whose caller has left before the reply
 *
 * On a shared connection replies come in the order of the commands. So an orphan stays on the lane
 * in the place of the question that it was, and its reply is dropped. It ends when that has come,
 * or with the connection. The caller that left adopts it to be told which, or drops it.
 *
 * Threads: adopt and drop by the caller that left, once; end by the driver of the lane. The second
 * of the two frees it.
 */
#ifndef RELOCK_ORPHAN_H
#define RELOCK_ORPHAN_H

#include "redis/lane.h"

/* Called under no mutex, on the thread that drives the lane. `answered`: the command has run;
 * otherwise it may run as long as the server has an end of its connection. */
typedef void relock_orphan_fn(void *arg, const struct relock_origin *origin, bool answered);

struct relock_orphan {
    struct relock_question question; /* stands on the lane; its own origin, a reference */
    atomic_int state;
    bool answered; /* once ended */
    relock_orphan_fn *fn;
    void *arg;
};

/* Takes the place of a question that was sent on `origin`. NULL when out of memory. */
struct relock_orphan *relock_orphan_new(const struct relock_question *question,
                                        struct relock_origin *origin);

/* Has `fn` called when it ends. Returns false when it has ended already, with `*answered`. */
bool relock_orphan_adopt(struct relock_orphan *orphan, relock_orphan_fn *fn, void *arg,
                         bool *answered);

/* Nobody wants to be told. Takes NULL. */
void relock_orphan_drop(struct relock_orphan *orphan);

/* It has left the lane. */
void relock_orphan_end(struct relock_orphan *orphan, bool answered);

#endif
