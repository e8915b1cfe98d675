/*
 * Client - one Redis deployment, one identity, and all that this process holds there
 *
 * One mutex guards the state of the locks: sites, holds, queues, timers. It is held for a few
 * dozen instructions at a time, never across a command, a callback or a log line, and nobody takes
 * another with it but that of the process.
 *
 * A public call enters, does its work with the mutex held or given up for a while, and leaves. The
 * struct outlives relock_client_free as long as a handle refers to it.
 *
 * Threads: as each field says.
 */
#ifndef RELOCK_CLIENT_H
#define RELOCK_CLIENT_H

#include "base/ident.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/timer.h"
#include "lock/hold.h"
#include "lock/site.h"
#include "lock/tokens.h"
#include "redis/server.h"

#include <relock.h>

#include <stdatomic.h>

struct relock_errand;
struct relock_inquiry;
struct relock_lanes;
struct relock_multi;
struct relock_loop;
struct relock_pipeline;
struct relock_pubsub;

struct relock_client {
    /* constant from new to free */
    char id[RELOCK_UUID_LEN + 1];
    struct relock_tokens tokens;
    struct relock_options options; /* with the defaults in; no strings */
    struct relock_log log;
    struct relock_server server;
    unsigned generation; /* of the process that made it */
    struct relock_lanes *lanes;
    struct relock_loop *loop;
    struct relock_pipeline *pipeline; /* used by the I/O thread */
    struct relock_pubsub *pubsub;     /* used by the I/O thread */

    struct relock_client *next, *prev; /* all of this process; guarded by the process mutex */
    uint64_t nth;                      /* of this process; constant */
    atomic_uint n_pins; /* threads that end look at it; grows under the process mutex, while it is
                           among the others, and shrinks under its own */

    struct relock_mutex mutex;
    struct relock_cond changed;     /* something that a thread waits for: calls, busy, telling */
    struct relock_cond has_to_tell; /* for the thread that calls on_lost */

    struct {
        unsigned refs;    /* whoever made it, and handles */
        unsigned n_calls; /* entered and not left */
        bool shut_down;   /* nothing new begins */
        bool freed;       /* no call enters */
        uint64_t serial;  /* of the next hold */

        struct relock_site *sites;        /* by name */
        struct relock_site *groups;       /* of multi and red locks, by members */
        struct relock_multi *multis;      /* calls that take multi locks */
        struct relock_errand *errands;    /* to be sent */
        struct relock_errand *unanswered; /* sent, the oldest first */
        struct relock_inquiry *inquiries; /* to be sent */
        struct relock_inquiry *inquired;  /* sent, the oldest first */
        struct relock_kin *lines;         /* of all that wait for fair locks */
        struct relock_hold *holds;        /* all, those included that are only asked for */
        struct relock_hold *losses;       /* to be taken up by the I/O thread */
        struct relock_hold *to_tell;      /* lost, with an on_lost to be called */
        unsigned n_settling;
        struct relock_site *to_sync; /* subscriptions to be changed */

        struct relock_timers timers;
        struct relock_waiter *waiting; /* all but for red locks */
        struct relock_timer silence;   /* while anybody waits */
        bool is_listening;             /* the timer is set */
        uint64_t turn_at_ms;           /* when the I/O thread looks next */
        bool in_turn;     /* it is looking now, and sees what there is before it sleeps */
        pthread_t teller; /* the thread that calls on_lost */
        bool has_teller;  /* it was started, and has not been told to end */

        struct relock_stats stats; /* without the reconnects */
    } guarded;                     /* by mutex */
};

/* What a call has to put back when it leaves. */
struct relock_visit {
    int cancel_state;
    int saved_errno; /* no call sets it */
};

/*
 * Begins a public call, and takes the mutex if it may go on.
 *
 * Returns RELOCK_OK; RELOCK_E_FORKED, RELOCK_E_CLOSED; RELOCK_E_DEADLOCK if it `blocks` and this
 * is a callback.
 */
int relock_client_enter(struct relock_client *client, bool blocks, struct relock_visit *visit);

/* Ends it, and gives the mutex up. */
void relock_client_leave(struct relock_client *client, const struct relock_visit *visit)
    RELOCK_RELEASES(client->mutex);

/* References to the struct; the last one frees it. With the mutex held, and given up. */
void relock_client_unref(struct relock_client *client) RELOCK_RELEASES(client->mutex);

/* Sets a timer of this client, and sees to it that the I/O thread looks in time. */
void relock_client_set_timer(struct relock_client *client, struct relock_timer *timer,
                             uint64_t due_ms) RELOCK_REQUIRES(client->mutex);
void relock_client_unset_timer(struct relock_client *client, struct relock_timer *timer)
    RELOCK_REQUIRES(client->mutex);

/* Has the I/O thread look at once. */
void relock_client_wake(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Ends the I/O thread and frees what a client has, as far as it was made; not the struct. */
void relock_client_dispose(struct relock_client *client);

/* No thread that ends looks at it any more, but for those that do already. */
void relock_client_unlist(struct relock_client *client);

/* The client after the `nth`, which cannot be freed until it is unpinned; NULL behind the last. */
struct relock_client *relock_client_pin_next(uint64_t nth);

/* In every client: lets go of what this owner holds, for its thread has ended. */
void relock_client_end_owner(uint64_t owner);

#endif
