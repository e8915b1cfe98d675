/*
 * Recorded - the state of waits that last for long
 *
 * One struct is a part of each waiter, the other of the client. waits.c and the modules that it
 * calls change them.
 *
 * Threads: guarded by the mutex of the client.
 */
#ifndef RELOCK_RECORDED_H
#define RELOCK_RECORDED_H

#include "base/ident.h"
#include "base/timer.h"

struct relock_chain;
struct relock_hold;
struct relock_outbox_entry;
struct relock_proof;
struct relock_waiter;

/* Of a waiter. */
struct relock_wait {
    struct relock_waiter *next, *prev; /* of the client: all waits that sleep, the oldest first */
    uint64_t serial;                   /* of the waits of this client; 0: it is not in the list */
    uint64_t at_us;   /* when it was first recorded, on the clock of the server; 0: it was not */
    uint64_t sent;    /* the beat with which it was sent for the first time */
    bool is_recorded; /* some hold of its owner is in `entries` */
    struct relock_proof *proof; /* that it closes a cycle: chain.c; NULL: it seems to close none */
};

/* A hold whose owner waits. */
struct relock_recorded_hold {
    struct relock_hold *hold; /* a reference */
    struct relock_waiter *waiter;
};

/* What Redis has of one client, in one hash: waits.c. */
struct relock_waits_record {
    uint64_t beat;  /* the last beat that was answered */
    bool is_sent;   /* the next beat is in flight */
    bool is_dirty;  /* the waits have changed since it was composed */
    bool may_exist; /* Redis may have the hash */
};

#define RELOCK_WAITS_RECORDS 2 /* by client id; and the holds of plain locks by their tokens */

/* Of the client. */
struct relock_waits {
    struct relock_waiter *asleep; /* see `struct relock_wait` */
    uint64_t serial;              /* of the last one */
    struct relock_timer timer;
    uint64_t scan_at_ms;     /* when to search the holds whose owners wait; RELOCK_NEVER: not */
    uint64_t beat_at_ms;     /* when to send the records; or RELOCK_NEVER */
    uint64_t look_at_ms;     /* when to follow the chains; or RELOCK_NEVER */
    uint64_t look_pause_ms;  /* after the last look that found nothing */
    uint64_t proof_pause_ms; /* after the last look that continued a proof */

    struct relock_recorded_hold *holds;
    size_t n_holds, n_room;
    struct relock_waits_record records[RELOCK_WAITS_RECORDS];
    bool is_refused; /* the user may not write records, and that was logged */

    struct relock_chain *chain; /* the last look; NULL before the first */
};

#endif
