/*
 * Spare - a connection that passes from the lanes of a node to its pipeline, or back
 *
 * The server, or the system, may accept no further connection: maxclients is reached, no descriptor
 * is left, a firewall drops it. Then calls and renewals have to share the connections that exist.
 * The pipeline takes one that no call uses. If the lanes have none left, and a call wants one, the
 * pipeline puts its own here, and the next call that has to connect takes it. Nothing is in flight
 * on it.
 *
 * Threads: any.
 */
#ifndef RELOCK_SPARE_H
#define RELOCK_SPARE_H

#include "base/thread.h"
#include "redis/connect/tls.h"
#include "redis/server/server.h"

struct relock_conn_id;
struct relock_loop;

/* A connection that has logged in, between two users. */
struct relock_loan {
    struct relock_socket socket;
    struct relock_conn_id *conn_id; /* or NULL */
    unsigned n_switches;            /* failovers known when its user gave it away */
};

struct relock_spare {
    struct relock_mutex mutex;
    struct {
        bool is_there;
        struct relock_loan loan;
    } guarded; /* by mutex */

    atomic_bool is_wanted;              /* set by calls, reset by the I/O thread */
    _Atomic(struct relock_loop *) loop; /* of the thread that may give one; NULL: nobody does */
};

void relock_spare_init(struct relock_spare *spare);
void relock_spare_deinit(struct relock_spare *spare);

/* In a forked child: closes the descriptor and does nothing else. */
void relock_spare_abandon(const struct relock_spare *spare);

/* Puts a connection here. Ends the one that was here. */
void relock_spare_put(struct relock_spare *spare, const struct relock_loan *loan);

/* Returns false if there is none. */
bool relock_spare_take(struct relock_spare *spare, struct relock_loan *loan);

/* A call has no connection, or waits for one for long: has the I/O thread look at `is_wanted`. */
void relock_spare_want(struct relock_spare *spare);

/* Ends the connection that is here. */
void relock_spare_drop(struct relock_spare *spare);

#endif
