/*
 * Client - one Redis deployment, one identity, and all that this process holds there
 *
 * One mutex guards the state of the locks: resources, holds, queues, timers. A thread holds it for
 * a few dozen instructions at a time, never during a command, a callback or a log line. Meanwhile
 * it locks no other mutex but that of the process.
 *
 * A public call enters the client, which locks the mutex, unlocks it while it waits, and exits.
 * The struct lives until relock_client_free was called and no handle refers to it.
 *
 * Threads: as each field says.
 */
#ifndef RELOCK_CLIENT_H
#define RELOCK_CLIENT_H

#include "base/ages.h"
#include "base/ident.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/table.h"
#include "base/thread.h"
#include "base/timer.h"
#include "lock/state/hold.h"
#include "lock/state/keys.h"
#include "lock/state/task.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <relock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_async_command;
struct relock_batch;
struct relock_loop;
struct relock_outbox_entry;
struct relock_resource;
struct relock_shortcut;
struct relock_step;
struct relock_switches;
struct relock_topology;
struct relock_waiter;

/* ---- meter ----------------------------------------------------------------------------------- */

/*
 * Meter - histograms of durations, counts of results, and the most contended names of a client
 *
 * The most contended names are found with a fixed number of counters ("space saving"): a name
 * without one takes over the lowest, and its count. So a count may be too high, never too low, and
 * the names that matter stay.
 *
 * Threads: guarded by the mutex of the client.
 */

#define RELOCK_METER_NAMES 32

struct relock_meter {
    struct relock_contended names[RELOCK_METER_NAMES]; /* of the first `n_names` */
    unsigned n_names;
    unsigned last; /* the one that was counted last */
};

/* Four buckets for each power of 2: see RELOCK_HISTOGRAM_FROM_US. */
static inline unsigned relock_meter_bucket(uint64_t us)
{
    unsigned exponent, i;

    if (us < 4)
        return (unsigned)us;
    exponent = 63 - (unsigned)__builtin_clzll(us);
    i = ((exponent - 1) << 2) | (unsigned)((us >> (exponent - 2)) & 3);
    return i < RELOCK_HISTOGRAM_BUCKETS ? i : RELOCK_HISTOGRAM_BUCKETS - 1;
}

static inline void relock_meter_add_many(struct relock_histogram *histogram, uint64_t us,
                                         uint64_t n)
{
    histogram->count += n;
    histogram->sum_us += us * n;
    histogram->buckets[relock_meter_bucket(us)] += n;
}

static inline void relock_meter_add(struct relock_histogram *histogram, uint64_t us)
{
    relock_meter_add_many(histogram, us, 1);
}

/* Counts a call that ended with this result. */
static inline void relock_meter_end(uint64_t results[RELOCK_RESULTS], int result)
{
    if (result <= 0 && result > -RELOCK_RESULTS)
        results[-result]++;
}

/* An acquire of the lock `name` met another owner. */
void relock_meter_contend(struct relock_meter *meter, const char *name);

/* The names with the highest counts, the highest first; unused places are all 0. */
void relock_meter_top(const struct relock_meter *meter,
                      struct relock_contended top[RELOCK_CONTENDED_NAMES]);

/* ---- client ---------------------------------------------------------------------------------- */

/*
 * The life of a client. It never goes back.
 *
 *     state      begins with              calls    new acquires    holds
 *     OPEN       relock_client_new        enter    begin           live on
 *     SHUT_DOWN  relock_client_shutdown   enter    see drain.c     live on
 *     FREED      relock_client_free       refused                  are released
 */
enum relock_client_state {
    RELOCK_CLIENT_OPEN,
    RELOCK_CLIENT_SHUT_DOWN,
    RELOCK_CLIENT_FREED,
};

/* inbox.c has the transitions. */
enum relock_inbox_state {
    RELOCK_INBOX_UNUSED,
    RELOCK_INBOX_WANTED,  /* the task to subscribe is posted */
    RELOCK_INBOX_PENDING, /* not acknowledged, or not since the connection was lost */
    RELOCK_INBOX_OPEN,    /* acknowledged: no message is missed */
    RELOCK_INBOX_REFUSED, /* the user may not subscribe to it */
};

/* So many lists share the waits that sleep, by owner. */
#define RELOCK_ASLEEP_PARTS 256

/* So many lists share the steps that follow a hold, by the number of the hold. */
#define RELOCK_FOLLOWER_PARTS 256

/* Renewals and checks of many locks by one script: hold/batch.h. */
struct relock_batches {
    struct relock_batch *open; /* to be sent in this iteration of the I/O thread, oldest first */
    struct relock_batch *sent; /* not answered yet */
    unsigned n_open;
    uint64_t singly_until_ms; /* until then each lock has a script of its own */
    unsigned phase;    /* shifts the times of renewals against those of other clients; constant */
    uint64_t ahead_ms; /* renewals may be sent sooner by this, in turns; 0: not; constant */
    uint64_t turn_until_ms; /* the next turn waits for the answers to the last one until then */
};

/* Commands for the I/O thread to send; outbox.c changes it. */
struct relock_outbox {
    struct relock_task task;                /* posted while there are entries to be sent */
    struct relock_outbox_entry *posted;     /* to be sent */
    struct relock_outbox_entry *unanswered; /* sent, the oldest first */
};

/*
 * The work of a layer above at the points of a client's life; NULL for none. Each is called with
 * the mutex of the client locked, unless it says otherwise.
 */
struct relock_client_hook_ops {
    /* Messages are for the I/O thread, as long as this layer is attached. */
    bool needs_messages;

    /* Ends the waits of this layer that the client no longer admits: drain.c. */
    void (*end_waits)(struct relock_client *client);

    /* A waiter is about to sleep for the first time. */
    void (*wait_begins)(struct relock_client *client, struct relock_waiter *waiter);

    /* A wait that began is over. */
    void (*wait_ends)(struct relock_client *client, struct relock_waiter *waiter);

    /* An owner has got a hold, from Redis or from another owner; or a hold that `is_recorded` has
     * ended. */
    void (*holds_change)(struct relock_client *client);

    /* A message has come to the inbox. Returns whether it is for this layer. */
    bool (*hear)(struct relock_client *client, struct relock_text message);

    /* The client is being freed, and no call is inside it: releases all that this layer holds.
     * Unlocks the mutex meanwhile. */
    void (*let_go)(struct relock_client *client);

    /* Whether Redis has answered all that this layer sent. */
    bool (*is_drained)(const struct relock_client *client);

    /* The I/O thread has ended: drops commands not sent or not answered. Unlocks the mutex
     * meanwhile. */
    void (*close)(struct relock_client *client);

    /* Frees objects that could not be freed under a mutex. Under no mutex. */
    void (*reap)(void);
};

/* The first field of the state that a layer above has of a client. */
struct relock_client_hook {
    const struct relock_client_hook_ops *ops; /* constant, like `next` */
    struct relock_client_hook *next;
};

/* The hooks that have the operation `op`. */
#define RELOCK_HOOKS_FOREACH(client, hook, op)                                  \
    for ((hook) = atomic_load(&(client)->hooks); (hook); (hook) = (hook)->next) \
        if ((hook)->ops->op)

struct relock_client {
    /* constant from relock_client_new to relock_client_free */
    char id[RELOCK_UUID_LEN + 1];
    struct relock_tokens tokens;
    struct relock_options options; /* with the defaults in; no strings but the prefix */
    size_t prefix_len;             /* of `options.name_prefix`, a copy; 0: there is none */
    struct relock_log log;
    struct relock_server server;
    unsigned generation; /* which copy of the process made it, see base/fork.h */
    struct relock_topology *topology;
    struct relock_loop *loop;
    struct relock_switches *switches; /* used by the I/O thread */

    /* See call.h: of the last answer to a tracked command about one hold. The I/O thread alone. */
    const struct relock_node *tracker;

    /* Called when a shortcut is closed: this owner has had the kept lock since `since_us`. */
    void (*take_kept)(struct relock_resource *resource, uint64_t owner, uint64_t since_us);

    /* guarded by the process mutex: lib/thread_exit.c */
    struct relock_client *next, *prev;
    uint64_t nth; /* in the order of their making; constant */
    atomic_uint n_pins;

    struct relock_step *fired; /* steps, by cancels; guarded by the process mutex */
    atomic_bool has_fired;     /* `fired` may have some */

    /* Of the layers above. They are attached under the mutex, and stay. */
    _Atomic(struct relock_client_hook *) hooks;

    struct relock_told default_told; /* of a loss: on_lost of the options; constant */

    struct relock_mutex mutex;
    /* Broadcast after changes that threads wait for: calls, callbacks, work on a hold and settling
     * end. */
    struct relock_cond changed;
    struct relock_cond has_to_tell; /* the thread that calls on_lost waits for work */

    struct {
        unsigned refs;    /* of the program, of handles and of the layers above */
        unsigned n_calls; /* entered and not exited */
        enum relock_client_state state;
        uint64_t serial; /* of the next hold */
        uint64_t moment; /* counts events of locks: a millisecond is too long to order them */

        struct relock_table resources;     /* by name: see resource.h */
        struct relock_pool holds;          /* all, including those not yet granted */
        struct relock_hold *to_visit;      /* of these: where look/since.c goes on, or NULL */
        struct relock_hold *confirming;    /* whose renewals replicas are to acknowledge */
        struct relock_shortcut *shortcuts; /* that are open */
        struct relock_batches batches;     /* changed by batch.c alone */
        struct relock_task *to_tell;       /* losses, for the thread that calls on_lost */
        unsigned n_settling;
        unsigned n_deferred;             /* releases without an answer: call/defer.c */
        struct relock_timer unread;      /* the answers of these are to be read */
        enum relock_inbox_state inbox;   /* changed by inbox.c alone */
        struct relock_task inbox_task;   /* posted while WANTED */
        struct relock_timer inbox_retry; /* subscribes again after a lack of memory */
        bool has_alarm;                  /* alarm.c: it is subscribed, or soon will be */
        struct relock_task alarm_task;   /* posted while it is to be subscribed */
        bool has_no_line;                /* the user may not use lines, and that was logged */
        struct relock_outbox leaving;    /* takes the client out of lines; also echo.c */
        struct relock_outbox_entry *leaving_later; /* put off until there is a connection */
        struct relock_timer leave_retry;           /* or until this is due */
        struct relock_outbox commands;             /* of asynchronous calls, and of layers above */
        struct relock_async_command *paused;       /* put off, sorted by their holds */

        /*
         * All that the I/O thread is to do in its next iteration, besides timers, in the order of
         * posting:
         *
         *     part of        posted by       when
         *     a hold         holds.c         it is lost: the loss is to be taken up
         *     a resource     subscription.c  its channel is to be subscribed or unsubscribed
         *     a resource     vigil.c         its vigil is to begin
         *     a listener     listener.c      it has heard something
         *     an outbox      outbox.c        it has commands to be sent
         *     the client     inbox.c         the inbox is to be subscribed
         *     the client     alarm.c         the alarm is to be subscribed
         *     a call         step.h          its next step is due
         */
        struct relock_task *tasks;
        struct relock_timers timers;
        struct relock_heap due;        /* holds, by their timers */
        struct relock_heap ahead;      /* other holds, whose timers are renewals that may be sent
                                          sooner */
        struct relock_waiter *waiting; /* acquires that wait for this server */
        unsigned n_tracked;            /* holds whose changes Redis reports: tracked.c */
        unsigned n_threadless;         /* acquires that wait without a thread */
        struct relock_waiter *asleep[RELOCK_ASLEEP_PARTS];    /* see deadlock.c */
        uint64_t n_searches;                                  /* for deadlocks */
        struct relock_step *followers[RELOCK_FOLLOWER_PARTS]; /* see step.h */
        struct relock_timer silence; /* pings, and ends waits when Redis is silent */
        uint64_t silence_fired_ms;   /* when it last fired; the sockets have been read since */
        struct relock_timer alarm;   /* due when the timer was that last woke the I/O thread */
        uint64_t iteration_at_ms; /* when the next one of the I/O thread begins; 0: one runs, or is
                                     about to, and will see changes made now */
        pthread_t teller;         /* the thread that calls on_lost */
        bool has_teller;          /* the thread runs and is not to end yet */

        struct relock_stats stats; /* relock_client_stats adds what other modules count */
        struct relock_meter meter;
        struct relock_ages ages; /* of the holds that `stats.holds` counts */
    } guarded;                   /* by mutex */
};

/* A public call inside a client: the state that it restores when it exits. */
struct relock_guard {
    int result; /* of relock_client_enter: why the call may not begin, or RELOCK_OK */
    struct relock_thread_state thread;
};

/*
 * Begins a public call: returns true, with the mutex locked, or false if the call may not begin.
 * `guard->result` then says why: RELOCK_E_FORKED, RELOCK_E_CLOSED, or RELOCK_E_DEADLOCK when a
 * call that `blocks` is made from a callback.
 */
bool relock_client_enter(struct relock_client *client, bool blocks, struct relock_guard *guard)
    RELOCK_TRY_ACQUIRES(client->mutex);

/* Ends the call and unlocks the mutex. */
void relock_client_exit(struct relock_client *client, const struct relock_guard *guard)
    RELOCK_RELEASES(client->mutex);

/* A call in progress has ended, which relock_client_free may wait for. */
void relock_client_end_call(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* A client with nothing in it and one reference; NULL when out of memory. */
struct relock_client *relock_client_alloc(void);

/* Drops a reference to the struct; the last one frees it. Does nothing in a forked child, whose
 * copy of the mutex may be locked for ever. Under no mutex. */
void relock_client_unref(struct relock_client *client);

/* All holds, in some order: the first one for NULL. Returns NULL at the end. Meanwhile others may
 * begin, which may be missed, and end. */
static inline struct relock_hold *relock_client_next_hold(const struct relock_client *client,
                                                          const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    return relock_pool_next(&client->guarded.holds, hold, hold ? hold->nth : 0);
}

#define RELOCK_HOLDS_FOREACH(client, hold)                         \
    for ((hold) = relock_client_next_hold((client), NULL); (hold); \
         (hold) = relock_client_next_hold((client), (hold)))

/* Whether every owner may acquire. After a shutdown, some still may: drain.c. */
static inline bool relock_client_is_open(const struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.state == RELOCK_CLIENT_OPEN;
}

/* Has the I/O thread run the task in its next iteration. Does nothing if the task is posted. */
void relock_client_post(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex);

/* Undoes the post; does nothing if the task is not posted. */
void relock_client_take_back(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex);

/* The I/O thread: runs the tasks that are posted, or some of them. Unlocks the mutex meanwhile. */
void relock_client_run_tasks(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Makes the I/O thread begin its next iteration now. */
void relock_client_wake(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Makes the I/O thread begin its next iteration now, and another when a timer is due at `due_ms`,
 * even if the timer is unset before. So the next hold of a thread that acquires and releases a lock
 * all the time, whose timer is due later, does not wake the I/O thread again. */
void relock_client_wake_for(struct relock_client *client, uint64_t due_ms)
    RELOCK_REQUIRES(client->mutex);

/* Set a timer, or that of a hold; wake the I/O thread if it would sleep for too long. */
static inline void relock_client_set_timer(struct relock_client *client, struct relock_timer *timer,
                                           uint64_t due_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_timer_set(&client->guarded.timers, timer, due_ms);
    if (due_ms < client->guarded.iteration_at_ms)
        relock_client_wake_for(client, due_ms);
}

static inline struct relock_heap *relock_client_heap_of(struct relock_client *client,
                                                        const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    return hold->is_ahead ? &client->guarded.ahead : &client->guarded.due;
}

static inline bool relock_client_has_hold_timer(struct relock_client *client,
                                                const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    return relock_heap_has(relock_client_heap_of(client, hold), &hold->timer);
}

static inline void relock_client_unset_hold_timer(struct relock_client *client,
                                                  struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    relock_heap_unset(relock_client_heap_of(client, hold), &hold->timer);
}

/* `is_ahead`: the I/O thread may act sooner, by `ahead_ms` of the batches. */
static inline void relock_client_set_hold_timer(struct relock_client *client,
                                                struct relock_hold *hold, uint64_t due_ms,
                                                bool is_ahead) RELOCK_REQUIRES(client->mutex)
{
    uint64_t from_ms = is_ahead ? due_ms - client->guarded.batches.ahead_ms : due_ms;

    relock_client_unset_hold_timer(client, hold);
    hold->is_ahead = is_ahead;
    relock_heap_set(relock_client_heap_of(client, hold), &hold->timer, due_ms);
    if (from_ms < client->guarded.iteration_at_ms)
        relock_client_wake_for(client, from_ms);
}

static inline void relock_client_unset_timer(struct relock_client *client,
                                             struct relock_timer *timer)
    RELOCK_REQUIRES(client->mutex)
{
    relock_timer_unset(&client->guarded.timers, timer);
}

/* A layer takes part in the life of the client from now on. Returns its state of this size, with 0
 * in it, which is freed with the struct of the client; NULL when out of memory. */
struct relock_client_hook *relock_client_attach(struct relock_client *client,
                                                const struct relock_client_hook_ops *ops,
                                                size_t size) RELOCK_REQUIRES(client->mutex);

/* The hook with these operations, or NULL. Any thread. */
struct relock_client_hook *relock_client_hook_of(const struct relock_client *client,
                                                 const struct relock_client_hook_ops *ops);

/* Lets the layers above free objects that they could not free under a mutex. Under no mutex. */
void relock_client_reap(struct relock_client *client);

#endif
