/*
 * Orphan - a command in flight whose caller returned at its deadline
 *
 * Redis replies in the order of the commands. So an orphan takes the place of its exchange on the
 * connection, and its reply is dropped. It ends when that reply has come, or with the connection.
 * The caller either drops it, or adopts it and learns which of the two happened.
 *
 * Threads: adopt and drop by that caller, once; end by the driver of the lane. The second of the
 * two frees it.
 */
#ifndef RELOCK_ORPHAN_H
#define RELOCK_ORPHAN_H

#include "redis/lane/exchange.h"

/* Called under no mutex, on the thread that drives the lane. `answered`: the command has run; if
 * not, it may still run for as long as the server keeps its end of the connection. */
typedef void relock_orphan_fn(void *arg, const struct relock_conn_id *conn_id, bool answered);

struct relock_orphan {
    struct relock_exchange exchange; /* in flight on the lane; `conn_id` is a reference */
    atomic_int state;
    bool answered; /* valid once it has ended */
    relock_orphan_fn *fn;
    void *arg;
};

/* For an exchange that was sent over `conn_id`. Returns NULL when out of memory. */
struct relock_orphan *relock_orphan_new(const struct relock_exchange *exchange,
                                        struct relock_conn_id *conn_id);

/* The orphan that this exchange is part of. */
struct relock_orphan *relock_orphan_of(struct relock_exchange *exchange);

/* Has `fn` called when the orphan ends. Returns false, and `*answered`, when it has ended already.
 */
bool relock_orphan_adopt(struct relock_orphan *orphan, relock_orphan_fn *fn, void *arg,
                         bool *answered);

/* Its end is of no interest. Takes NULL. */
void relock_orphan_drop(struct relock_orphan *orphan);

/* Ends an orphan that is no longer in flight. */
void relock_orphan_end(struct relock_orphan *orphan, bool answered);

#endif
