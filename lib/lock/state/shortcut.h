/*
 * Shortcut - how a thread acquires and releases a kept lock without the mutex of the client
 *
 * While a lock is kept, its shortcut may be open. One atomic word then says whether a thread has
 * taken the lock, and which one, and the structs say what they said when it was opened: kept.
 * Whoever looks at the lock, or changes it, locks the mutex and closes the shortcut first. Then the
 * structs say what the word has said, and calls go through the mutex, until a release leaves the
 * lock kept again.
 *
 *     word     becomes   by
 *     CLOSED   free      relock_shortcut_open
 *     free     taken     relock_shortcut_take: the call of a thread that acquires
 *     taken    free      relock_shortcut_give: the call of that thread that releases
 *     both     CLOSED    relock_shortcut_close
 *
 * Threads: as each function says.
 */
#ifndef RELOCK_SHORTCUT_H
#define RELOCK_SHORTCUT_H

#include <relock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct relock_client;
struct relock_resource;

/* Holds that last for so many microseconds or more are released under the mutex: a histogram has a
 * bucket for each microsecond below. */
#define RELOCK_SHORTCUT_HELD_US 8

/* Made at the first release after the lock was acquired from memory; freed with the resource. */
struct relock_shortcut {
    /* Any thread. Those that work on other locks do not write to this line of the cache. */
    _Alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t since_us; /* while it is taken: since when; 0: that is not written yet */
    /* Times that ended, by length. Changed by who has taken it. The last is for none. */
    _Atomic uint32_t held[RELOCK_SHORTCUT_HELD_US + 1];
    _Atomic uint32_t held_us; /* of the last time that ended, to be counted by the next taker */

    /* Changed while it is closed, under the mutex; read by any thread. */
    _Alignas(64) _Atomic uint64_t until_us; /* from then on, calls go through the mutex */
    _Atomic uint64_t valid_until_ms;        /* the hold is certain for at least so long */
    _Atomic unsigned acked_replicas;        /* of the hold */
    unsigned generation;                    /* of the process; constant, like what follows */
    struct relock_resource *resource;       /* that it belongs to */

    /* guarded by the mutex */
    struct relock_shortcut *next, *prev;       /* of the client: those that are open */
    uint32_t counted[RELOCK_SHORTCUT_HELD_US]; /* of `held`, in the statistics */
    bool is_behind; /* it was closed while a thread was about to count: that is added up later */
};

/* What the structs say of a hold that threads may take, when its shortcut is opened. */
struct relock_shortcut_terms {
    uint64_t until_ms; /* it may be taken, and given back to be kept */
    uint64_t valid_until_ms;
    unsigned acked_replicas;
};

/* ---- with the mutex of the client held ------------------------------------------------------- */

/* The lock has a shortcut from now on, unless there is no memory for it. */
void relock_shortcut_prepare(struct relock_resource *resource);
void relock_shortcut_free(struct relock_shortcut *shortcut);

/* The lock is kept, and threads may take it. Does nothing if it has no shortcut. */
void relock_shortcut_open(struct relock_resource *resource,
                          const struct relock_shortcut_terms *terms);

/* To be called before the state of the lock is used. Does nothing if the shortcut is not open. */
void relock_shortcut_close(struct relock_resource *resource);
void relock_shortcut_close_all(struct relock_client *client);

bool relock_shortcut_is_open(const struct relock_resource *resource);

/* ---- any thread, without the mutex ----------------------------------------------------------- */

/* Acquires the lock for the calling thread, and describes the hold in `grant` unless that is NULL.
 * Returns false, and has changed nothing, if the call has to go through the mutex. */
bool relock_shortcut_take(struct relock_resource *resource, struct relock_grant *grant);

/* Releases the lock if the calling thread has taken it. Returns as relock_shortcut_take. */
bool relock_shortcut_give(struct relock_resource *resource);

#endif
