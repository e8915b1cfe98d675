/*
 * Published - publishes in Redis the waits of this client that last for long
 *
 * Other clients follow these hashes when they look for deadlocks (chain.h). A wait is published
 * when it has lasted for `deadlock_ms`, if its owner holds other locks meanwhile. As long as such
 * waits last, the hash is sent again a few times a second, each time with a higher beat. It is
 * sent only after the answer to the one before. So a client without such waits sends nothing.
 * docs/wire.md has the format.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_PUBLISHED_H
#define RELOCK_PUBLISHED_H

#include "deadlock/wait_graph.h"
#include "lock/state/client.h"
#include "lock/state/resource.h"

#define RELOCK_PUBLISHED_BEAT_MS 250 /* between two times that a hash is sent */

/* The functions of this folder are called with the mutex of the client. */
#define STEP RELOCK_UNCHECKED static

/* A hold whose owner waits. */
struct relock_published_hold {
    struct relock_hold *hold; /* a reference */
    struct relock_waiter *waiter;
};

/* What Redis has of one client, in one hash. */
struct relock_published_hash {
    uint64_t beat;  /* the last beat that was answered */
    bool is_sent;   /* the next beat is in flight */
    bool is_dirty;  /* the waits have changed since it was composed */
    bool may_exist; /* Redis may have the hash */
};

#define RELOCK_PUBLISHED_HASHES 2 /* by client id; and the holds of plain locks by their tokens */

/* The state of this layer in one client. Guarded by the mutex of the client. */
struct relock_published {
    struct relock_client_hook hook;
    struct relock_client *client; /* constant */
    struct relock_waiter *asleep; /* see `struct relock_published_wait` */
    uint64_t serial;              /* of the last one */
    struct relock_timer timer;
    uint64_t scan_at_ms;     /* when to search the holds whose owners wait; RELOCK_NEVER: not */
    uint64_t beat_at_ms;     /* when to send the hashes; or RELOCK_NEVER */
    uint64_t look_at_ms;     /* when to follow the chains; or RELOCK_NEVER */
    uint64_t look_pause_ms;  /* after the last look that found nothing */
    uint64_t proof_pause_ms; /* after the last look that continued a proof */

    struct relock_published_hold *holds;
    size_t n_holds;
    struct relock_published_hash hashes[RELOCK_PUBLISHED_HASHES];
    bool is_refused; /* the user may not write hashes, and that was logged */

    struct relock_graph graph; /* of the last look */
    unsigned n_asked;          /* commands of that look without an answer */
};

/* Searches for deadlocks with other clients from now on, unless the options of the client forbid
 * it. Before another thread knows the client. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_published_attach(struct relock_client *client);

/* Sets the timer to the first of its times. */
void relock_published_arm(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Of a client to which it is attached. */
struct relock_published *relock_published_of(const struct relock_client *client);

#endif
