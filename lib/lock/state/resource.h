/*
 * Resource - the state in this process of one lock: its local holder, its waiters, when to ask
 * Redis
 *
 * Waiters queue in the order in which they came. The head of the queue asks Redis, and only if a
 * retry is pending. Two sorts of call also ask once as soon as they come: readers, which may hold
 * the lock together, and calls that do not wait. A pending retry belongs to the resource, so it is
 * not lost with a waiter that gives up. It stays pending while a local owner holds the lock, and
 * the first head that may ask uses it.
 *
 * A lock has one resource or several. One is its primary, found by name. Each of the others, its
 * secondaries, has a queue of its own: the read side of a read/write lock, and each waiter for a
 * fair lock, because its place is in Redis.
 *
 * A resource lives as long as something refers to it: handles, holds, its subscription, its
 * secondaries.
 *
 * Threads: guarded by the mutex of the client, unless a field says otherwise.
 */
#ifndef RELOCK_RESOURCE_H
#define RELOCK_RESOURCE_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/timer.h"
#include "lock/state/cancel.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"
#include "lock/state/kind.h"
#include "lock/state/shortcut.h"
#include "lock/state/task.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <relock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_deferral;
struct relock_listener;
struct relock_node;
struct relock_proof;
struct relock_resource;
struct relock_step;
struct relock_subscriber;
struct relock_waiter;

/* Pauses of a waiter that polls, unless the program sets others. */
#define RELOCK_POLL_MIN_MS 1
#define RELOCK_POLL_MAX_MS 128

/* How long other processes go first: enough for one of them to be woken and to ask. */
#define RELOCK_YIELD_MS 2

/* Frees the `data` of a resource. Mutex held. */
typedef void relock_resource_free_fn(struct relock_client *client, void *data);

enum relock_resource_role {
    RELOCK_RESOURCE_NAMED,       /* a primary, in the client's table of names */
    RELOCK_RESOURCE_UNLISTED,    /* a primary that a layer above has made and finds by its `data` */
    RELOCK_RESOURCE_READERS,     /* a secondary: the read side of a read/write lock */
    RELOCK_RESOURCE_FAIR_WAITER, /* a secondary: one waiter for a fair lock */
};

/* Why the head of the queue is to ask Redis. */
enum relock_retry {
    RELOCK_RETRY_NONE, /* it is not */
    RELOCK_RETRY_PENDING,
    RELOCK_RETRY_FOR_MESSAGE, /* pending, and a message is among the reasons */
};

/* How a wait was ended by another thread; resource.c has the transitions. */
enum relock_waiter_end {
    RELOCK_WAITER_WAITS,       /* it was not */
    RELOCK_WAITER_GRANTED,     /* a hold was handed off to it: `hold` */
    RELOCK_WAITER_STARTS_ANEW, /* its owner has acquired the lock, or a side of it, in another
                                  thread */
    RELOCK_WAITER_UNREACHED,   /* Redis was unreachable for longer than a wait tolerates */
    RELOCK_WAITER_REFUSED,     /* it is the victim of a deadlock between processes */
};

/* A wait in the search for deadlocks between clients; of lib/deadlock alone. */
struct relock_published_wait {
    struct relock_waiter *next, *prev; /* of the client: all waits that sleep, the oldest first */
    uint64_t serial;                   /* of the waits of this client; 0: it is not in the list */
    uint64_t at_us;    /* since when it is published, on the clock of the server; 0: it is not */
    uint64_t sent;     /* the last beat with which it was sent, before its time was known; or 0 */
    unsigned hashes;   /* in which it was sent, a bit for each */
    bool is_published; /* some hold of its owner is in `holds` */
    struct relock_proof *proof; /* that it closes a cycle: chain.c; NULL: it seems to close none */
};

/* A call that wants the lock for an owner without levels. On the stack of a blocking call, or part
 * of an asynchronous one. */
struct relock_waiter {
    struct relock_waiter *next, *prev; /* in the queue */
    struct relock_gate gate;           /* opened when there is something to look at */
    struct relock_step *step;          /* constant: is due then, as no thread waits; or NULL */
    struct relock_cancel_wait cancel_wait;
    struct relock_resource
        *queues_on; /* the lock's resource, or a fair waiter of its own; NULL: not in a queue */
    uint64_t owner; /* constant */
    bool explicit_owner;   /* constant: the caller named the owner, and other threads may as well */
    bool renewed;          /* constant: it may be given a hold that the watchdog renews */
    bool of_composite;     /* constant: for a multi lock */
    bool waits_for_server; /* constant: its wait ends when the server of its client is silent */
    bool tries;            /* constant: asks once and does not wait */
    bool has_asked;        /* at least once */
    bool is_asking;        /* its command is in flight: no hold is handed off to it */
    uint64_t joined_ms;    /* constant */
    uint64_t joined_at;    /* the same, counted as `moment` of the client */
    struct relock_told *told;     /* of a loss, until the hold takes it over; NULL: nobody */
    struct relock_events *events; /* constant: of an asynchronous call, also for on_lost; or NULL */
    struct relock_waiter *all_next, *all_prev; /* of the client: those that wait for its server */
    struct relock_waiter *asleep_next, *asleep_prev; /* of the client, see deadlock.c */
    bool is_asleep;                                  /* is in that list */
    struct relock_published_wait wait;
    enum relock_waiter_end end;
    struct relock_hold *hold; /* when granted: a reference */
};

enum relock_subscription_state {
    RELOCK_SUBSCRIPTION_OFF,
    RELOCK_SUBSCRIPTION_TO_BEGIN, /* wanted, and the I/O thread is to subscribe */
    RELOCK_SUBSCRIPTION_PENDING,  /* not acknowledged, or not since the connection was lost */
    RELOCK_SUBSCRIPTION_ACTIVE,   /* acknowledged: no message is missed */
    RELOCK_SUBSCRIPTION_TO_END,   /* unwanted, and the I/O thread is to unsubscribe */
    RELOCK_SUBSCRIPTION_TO_RENEW, /* wanted again before that: to unsubscribe and subscribe */
};

/* A subscription to a channel of a resource. Changed by subscription.c alone. */
struct relock_subscription {
    const struct relock_subscription_ops *ops; /* constant from its first use, like `resource` */
    struct relock_resource *resource;
    enum relock_subscription_state state;
    bool is_refused; /* PENDING: the user may not subscribe to it */
    struct relock_timer
        timer;               /* ends it after a while without use; retries after a lack of memory */
    struct relock_task task; /* posted while the I/O thread is to change it */
    struct relock_subscriber *subscriber; /* the I/O thread's */
};

/* The standing of this client among those that wait for the lock; line.c has the transitions. */
enum relock_line_state {
    RELOCK_LINE_OUTSIDE,   /* no line is used: waiters listen to the channel of the lock */
    RELOCK_LINE_LEFT,      /* not in the line */
    RELOCK_LINE_BEHIND,    /* others are before it */
    RELOCK_LINE_FIRST,     /* it will soon listen to the channel of the lock */
    RELOCK_LINE_LISTENING, /* first, and it listens */
};

/* Changed by line.c alone. */
struct relock_line {
    enum relock_line_state state;
    uint64_t place;            /* 1 for the first; 0: not in the line */
    uint64_t n_heard;          /* messages in the inbox that it is first */
    uint64_t n_seconds;        /* messages in the inbox that it is second */
    struct relock_timer timer; /* FIRST: begins to listen. BEHIND: asks once */
};

/* The place as it was known when a command was sent whose reply tells the place in the line. */
struct relock_line_view {
    uint64_t n_heard, n_seconds;
    bool is_listening; /* to the channel of the lock, and no message was missed since then */
};

/* Where the last search for a deadlock met it; of deadlock.c alone. */
struct relock_search {
    uint64_t number;
    uint64_t owner;                      /* waits for this resource */
    struct relock_resource *held_before; /* held by that owner; NULL: the first one */
    struct relock_resource *next;        /* to be visited */
};

/* vigil.c has the transitions. */
enum relock_vigil_state {
    RELOCK_VIGIL_OFF,
    RELOCK_VIGIL_WANTED,   /* the I/O thread is to begin it */
    RELOCK_VIGIL_SENT,     /* its command is in flight */
    RELOCK_VIGIL_OUTDATED, /* the same, and its answer does not count */
    RELOCK_VIGIL_ON, /* Redis reports when the lock is not held any more; in a room, when it is
                        not free any more */
};

/* Whether Redis reports the next change of the lock to waiters. Changed by vigil.c alone. */
struct relock_vigil {
    enum relock_vigil_state state;
    const struct relock_node *node; /* unless OFF or WANTED: that reports it. Only to be compared */
    const struct relock_node *tracker; /* see call.h; only the I/O thread, without the mutex */
    uint64_t holder;                   /* a hash of who held the lock when it was last on */
    uint64_t sent_ms;                  /* when its last command was sent */
    uint64_t not_before_ms;            /* when it may begin again */
    uint32_t pause_ms;                 /* see wake.h */
    struct relock_task task;           /* posted while WANTED */
};

/* Whether another library shares a plain lock, and until when this client leaves it alone. Changed
 * by room.c alone. */
struct relock_room {
    uint64_t neighbours_until_ms; /* so long after a token of another library was read */
    uint64_t theirs_ms;           /* when it was read, and none of this library since; or 0 */
    uint64_t theirs_since_ms;     /* the first reading in a row of such */
    uint64_t theirs_for_ms;       /* from there to the last; 0 after a window */
    uint64_t ends_ms;             /* no waiter asks before, unless its time is over sooner */
    uint64_t ahead_ms; /* the clock of the server less that of this process; may have wrapped */
    uint64_t error_ms; /* `ahead_ms` is wrong by no more than half of this */
    uint64_t fresh_until_ms; /* then a worse reading of that clock replaces this one */
};

/*
 * The part of a resource for calls that wait, or may, here or in other processes. Made when the
 * first call is refused or is about to sleep, when another client has recalled a hold, or when a
 * layer above listens; freed with the resource. It is kept meanwhile, so a lock that is contended
 * again and again does not allocate each time.
 */
struct relock_contention {
    struct relock_resource *resource; /* constant */

    uint64_t asked_ms;        /* when Redis was last asked, or the last local owner released */
    uint64_t lease_end_ms;    /* when the lease of another process ends, as Redis said */
    uint64_t n_intervals;     /* of a fair waiter: intervals until it rechecks; 0: one */
    uint64_t yields_until_ms; /* other processes go first until then */
    uint64_t rests_until_ms;  /* holds acquired before then are not cached */

    struct relock_line line;
    struct relock_subscription subscription; /* to the channel of the lock */
    struct relock_subscription inbox;  /* of a primary, in a cluster: for messages of the line */
    struct relock_vigil vigil;         /* of a primary */
    struct relock_room room;           /* the same */
    struct relock_listener *listeners; /* of layers above, see listener.h */
    struct relock_search search;
};

/* To be read for a resource that has none. */
extern const struct relock_contention relock_no_contention;

/* A handle: see lock.h. Constant. */
struct relock_lock {
    struct relock_client *client;     /* a reference */
    struct relock_resource *resource; /* a reference */
};

/* A handle of an unlisted resource, which may have handles of several names. Constant. */
struct relock_named_lock {
    struct relock_lock lock;             /* first */
    const struct relock_resource *named; /* has the name of this handle, and lives as long */
};

struct relock_resource {
    union {
        struct relock_client *client; /* constant */
        struct relock_lock first;     /* see `has_first`; it begins with the client */
    };
    const struct relock_kind *kind; /* constant */

    struct relock_resource *primary; /* constant; a reference in a secondary, else itself */
    union {                          /* by `role` */
        struct {
            struct relock_table_link link; /* in the client's table of names */
            struct relock_resource *secondaries;
        } named;

        struct {
            struct relock_resource *next, *prev; /* among those of the primary */
            uint64_t number; /* of a fair waiter, in Redis' queue; constant before its channel is
                                wanted */
        } secondary;

        /* Of a layer above; constant. The free function is called with the last reference, under
         * the mutex. */
        struct {
            void *data;
            relock_resource_free_fn *free_data;
            uint64_t lease_ms; /* see relock_resource_lease_ms() */
        } unlisted;
    } as;

    struct relock_hold *holder; /* of the local owner, which holds the lock or is releasing it */
    struct relock_hold *holds;  /* live ones, and lost ones until their owners have released them */
    struct relock_deferral *deferrals; /* of a primary: releases that call/defer.c sent, until they
                                          have ended */
    uint64_t taken_ms;                 /* when this process acquired the lock from Redis */

    struct relock_waiter *queue;
    struct relock_contention *contention;       /* NULL until it is needed, then constant */
    _Atomic(struct relock_shortcut *) shortcut; /* the same; any thread reads it */

    uint64_t held_at;   /* until this `moment` of the client it was known to be held, or reserved
                           for another; RELOCK_NEVER: it is */
    uint64_t silent_ms; /* since when Redis has answered no attempt; 0: it owes no answer */

    unsigned refs;
    unsigned n_handles : 31;
    unsigned has_first : 1;     /* `first` is one of them */
    unsigned n_explicit_owners; /* of a primary: waiters with one, on secondaries as well */
    union {                     /* by `kind` */
        struct {
            unsigned min_ms, max_ms;
        } pause;                 /* of a lock that is polled: between two attempts of a waiter */
        atomic_uint patience_ms; /* of a fair lock: how long a silent waiter stays; any thread */
    } set;                       /* by the program, or 0 */

    uint8_t role;  /* enum relock_resource_role; constant */
    uint8_t retry; /* enum relock_retry */

    /* Constant, like what follows. */
    uint16_t prefix_len; /* what `name` has before the name in the program */
    uint16_t name_len;
    char name[]; /* the key in Redis */
};

/* Those of a primary. */
static inline struct relock_resource *
relock_resource_secondaries(const struct relock_resource *primary)
{
    return primary->role == RELOCK_RESOURCE_NAMED ? primary->as.named.secondaries : NULL;
}

/* The read side of the same read/write lock; NULL while there is none. */
static inline struct relock_resource *
relock_resource_readers(const struct relock_resource *resource)
{
    return resource->kind->side ? relock_resource_secondaries(resource->primary) : NULL;
}

/* The one that subscribes to the channel: the two sides of a read/write lock have one. */
static inline struct relock_resource *relock_resource_with_channel(struct relock_resource *resource)
{
    return resource->role == RELOCK_RESOURCE_READERS ? resource->primary : resource;
}

/* To be read, of any lock. */
static inline const struct relock_contention *
relock_resource_contention(const struct relock_resource *resource)
{
    return resource->contention ? resource->contention : &relock_no_contention;
}

/* Until when no waiter asks, because other processes go first. */
static inline uint64_t relock_resource_yields_until(const struct relock_resource *resource)
{
    const struct relock_contention *contention = relock_resource_contention(resource);

    return relock_clock_later(contention->yields_until_ms, contention->room.ends_ms);
}

/* To be changed: makes it for this resource and for its primary if they have none. Returns NULL
 * when out of memory. */
struct relock_contention *relock_resource_contend(struct relock_resource *resource);

/* The lock, or the side of it, that the waiter is to get. */
static inline struct relock_resource *relock_resource_wanted(const struct relock_waiter *waiter)
{
    struct relock_resource *queue = waiter->queues_on;

    return queue->role == RELOCK_RESOURCE_FAIR_WAITER ? queue->primary : queue;
}

/* A resource with the name of this handle. */
static inline const struct relock_resource *relock_lock_named(const struct relock_lock *lock)
{
    return lock->resource->role == RELOCK_RESOURCE_UNLISTED
               ? ((const struct relock_named_lock *)lock)->named
               : lock->resource;
}

/* The name in the program. */
static inline const char *relock_resource_given(const struct relock_resource *resource)
{
    return resource->name + resource->prefix_len;
}

/* Between two attempts of a waiter that polls. */
static inline void relock_resource_pauses(const struct relock_resource *resource, uint64_t *min_ms,
                                          uint64_t *max_ms)
{
    bool is_set = resource->kind->is_polled && resource->set.pause.min_ms > 0;

    *min_ms = is_set ? resource->set.pause.min_ms : RELOCK_POLL_MIN_MS;
    *max_ms = is_set ? resource->set.pause.max_ms : RELOCK_POLL_MAX_MS;
}

/* The lease that the watchdog requests. */
static inline uint64_t relock_resource_lease_ms(const struct relock_resource *resource)
{
    return resource->role == RELOCK_RESOURCE_UNLISTED
               ? resource->as.unlisted.lease_ms
               : resource->client->options.watchdog_timeout_ms;
}

/* The key in Redis. */
static inline struct relock_text relock_resource_key(const struct relock_resource *resource)
{
    return (struct relock_text){resource->name, resource->name_len};
}

/* The cached hold, as the structs say while a shortcut is open; NULL: there is none. */
static inline struct relock_hold *relock_resource_kept(const struct relock_resource *resource)
{
    struct relock_hold *hold = resource->holds;

    while (hold && hold->state != RELOCK_HOLD_CACHED)
        hold = hold->next;
    return hold;
}

/* The hold that stays for the next local owner, while no call waits; NULL: none does. */
static inline struct relock_hold *relock_resource_cached(struct relock_resource *resource)
{
    relock_shortcut_close(resource);
    return relock_resource_kept(resource);
}

/* Whether some owner has a hold of it, perhaps a lost one. */
static inline bool relock_resource_is_owned(const struct relock_resource *resource)
{
    const struct relock_hold *hold = resource->holds;

    while (hold && !hold->has_owner)
        hold = hold->next;
    return hold != NULL;
}

/* Whether calls of this owner are about the hold. They are not about permits that a multi lock has:
 * that finds them by the number of their hold. */
static inline bool relock_hold_is_of(const struct relock_hold *hold, uint64_t owner)
{
    return hold->has_owner && hold->owner == owner &&
           (hold->is_own || !hold->resource->kind->has_permits);
}

/* The hold of an owner that has levels, NULL when it has none. Of a semaphore an owner may have
 * several: one of them. */
static inline struct relock_hold *relock_resource_find(struct relock_resource *resource,
                                                       uint64_t owner)
{
    struct relock_hold *hold;

    relock_shortcut_close(resource);
    LL_FOREACH(resource->holds, hold)
    if (relock_hold_is_of(hold, owner))
        return hold;
    return NULL;
}

/* A hold of the owner, perhaps one that a multi lock has; NULL: there is none. */
static inline struct relock_hold *relock_resource_find_any(struct relock_resource *resource,
                                                           uint64_t owner)
{
    struct relock_hold *hold;

    relock_shortcut_close(resource);
    LL_FOREACH(resource->holds, hold)
    if (hold->has_owner && hold->owner == owner)
        return hold;
    return NULL;
}

/* The hold in which an owner is to acquire another level; NULL: the call acquires a hold. */
static inline struct relock_hold *relock_resource_find_levels(struct relock_resource *resource,
                                                              uint64_t owner)
{
    return resource->kind->has_permits ? NULL : relock_resource_find(resource, owner);
}

/*
 * These find a hold of the owner; NULL: it has none. With a `number`, only the hold with that
 * number counts, also if a multi lock has it. With 0:
 *
 *   find_number    any of them
 *   find_released  that which a release is for
 *   find_weakest   that which ends the owner's certainty first
 *   find_younger   the first whose relock_hold_order() is above `order`
 */
struct relock_hold *relock_resource_find_number(struct relock_resource *resource, uint64_t owner,
                                                uint64_t number);
struct relock_hold *relock_resource_find_released(struct relock_resource *resource, uint64_t owner,
                                                  uint64_t number);
struct relock_hold *relock_resource_find_weakest(struct relock_resource *resource, uint64_t owner,
                                                 uint64_t number);
struct relock_hold *relock_resource_find_younger(struct relock_resource *resource, uint64_t owner,
                                                 uint64_t number, uint64_t order);

/* The lock of a collection that was lost, and the collection with it; NULL: none, or it is none. */
static inline const struct relock_resource *relock_hold_lost_on(const struct relock_hold *hold)
{
    return hold->resource->kind->is_collection ? hold->lost_on : NULL;
}

/* Ends the wait of another thread, and wakes that thread. The mutex is that of the client. */
void relock_resource_end_wait(struct relock_waiter *waiter, enum relock_waiter_end end,
                              struct relock_mutex *mutex);

/* The waiter's own thread: it goes on waiting, whatever ended the wait. */
void relock_resource_wait_on(struct relock_waiter *waiter);

/* Makes a retry pending. Wakes the head of the queue unless a local owner holds the lock. */
void relock_resource_signal(struct relock_resource *resource, bool is_message);

void relock_resource_enqueue(struct relock_resource *resource, struct relock_waiter *waiter);

/* Removes the waiter, wherever it stands. Wakes the new head unless a local owner holds the lock.
 */
void relock_resource_dequeue(struct relock_resource *resource, struct relock_waiter *waiter);

/* Whether this waiter is to ask Redis now: a retry is pending and it is the head, or this is its
 * first try, and it may share the lock or does not wait. Not while a local owner holds the lock. */
bool relock_resource_may_ask(const struct relock_resource *resource,
                             const struct relock_waiter *waiter);

/* Redis is being asked: whether the lock is held is unknown again. */
static inline void relock_resource_doubt(struct relock_resource *resource)
{
    if (resource->held_at == RELOCK_NEVER)
        resource->held_at = ++resource->client->guarded.moment;
}

/* The lock is held, here or as Redis said. */
static inline void relock_resource_learn(struct relock_resource *resource)
{
    resource->held_at = RELOCK_NEVER;
}

/* To be called before a command is sent whose reply tells the place in the line. */
static inline struct relock_line_view
relock_resource_view_line(const struct relock_resource *resource)
{
    const struct relock_line *line = &relock_resource_contention(resource)->line;

    return (struct relock_line_view){
        .n_heard = line->n_heard,
        .n_seconds = line->n_seconds,
        .is_listening = line->state == RELOCK_LINE_LISTENING &&
                        relock_resource_contention(resource->primary)->subscription.state ==
                            RELOCK_SUBSCRIPTION_ACTIVE,
    };
}

/* When a client at this place in the line (0: in none) asks because the lease of the holder ended:
 * each one later than the client before it. */
uint64_t relock_resource_after_lease(uint64_t lease_end_ms, uint64_t place);

/* When the head asks without a signal: when the lease of the other process ends, or `recheck_ms`
 * has passed. It asks later if others are before this client in the line, and not while other
 * processes go first. */
uint64_t relock_resource_recheck_at(const struct relock_resource *resource, uint64_t recheck_ms);

/* Redis said that the lease of another process ends then: the head sleeps until then, or, if it is
 * asking at this moment, asks once more. */
void relock_resource_hear_lease(struct relock_resource *resource, uint64_t lease_end_ms);

/* The waiter's owner holds the lock: the waiter leaves the queue, if it had joined it, and all
 * others that wait for the same owner start anew. */
void relock_resource_acquired(struct relock_resource *resource, struct relock_waiter *waiter,
                              struct relock_hold *hold);

/* Other processes go first until then. */
void relock_resource_yield_until(struct relock_resource *resource, uint64_t until_ms);

/*
 * The local owner releases the lock, and another process was told. If this process has had the lock
 * for its turn, `turn_ms`, and wants it again, the other goes first. Without this rule, of two
 * processes that ask at the same moment, the same one might be quicker each time.
 */
void relock_resource_yield(struct relock_resource *resource, uint64_t turn_ms, uint64_t now_ms);

/*
 * The local owner has released the lock. `is_announced`: the subscription is active and the message
 * is certain to come, so the head waits for it like other processes.
 */
void relock_resource_released(struct relock_resource *resource, bool is_announced, uint64_t now_ms);

/* Other clients wanted the lock, which is released now: the next holds are not cached. */
void relock_resource_rest(struct relock_resource *resource, uint64_t now_ms);

/* Ends the waits that began before `since_ms`, since when Redis has been unreachable. */
void relock_resource_end_unreached(struct relock_resource *resource, uint64_t since_ms);

/* Wakes all waiters of the lock: something has changed for each of them. */
void relock_resource_wake_all(struct relock_resource *resource);

/* ---- the resources of a client -------------------------------------------------------------- */

/*
 * Finds or makes the resource of a key, with a reference. The name in the program follows
 * `prefix_len` bytes of the key. Returns NULL when out of memory, or if it would conflict with
 * another lock of the client: then `*why` says how.
 */
struct relock_resource *relock_resources_get(struct relock_client *client,
                                             const struct relock_kind *kind, const char *name,
                                             size_t len, size_t prefix_len, const char **why)
    RELOCK_REQUIRES(client->mutex);

/*
 * Makes a resource that is not found by name, with a reference: its maker finds it by its `data`.
 * It has the same name as `named`, and this lease. When the resource ends, it calls `free_data`
 * with `data`. Returns NULL when out of memory, and `data` stays the caller's.
 */
struct relock_resource *
relock_resources_new_unlisted(struct relock_client *client, const struct relock_kind *kind,
                              const struct relock_resource *named, uint64_t lease_ms, void *data,
                              relock_resource_free_fn *free_data) RELOCK_REQUIRES(client->mutex);

/* Makes a resource for one waiter for a fair lock, with a reference. Returns NULL when out of
 * memory. */
struct relock_resource *relock_resources_new_fair_waiter(struct relock_client *client,
                                                         struct relock_resource *primary)
    RELOCK_REQUIRES(client->mutex);

/* The side of a read/write lock, or the lock itself if `side` is NULL. Returns NULL, or a resource
 * without a new reference. */
struct relock_resource *relock_resources_find(struct relock_client *client, const char *name,
                                              size_t len, const char *side)
    RELOCK_REQUIRES(client->mutex);

/* The primary of the lock that is this key in Redis. Returns NULL, or a resource without a new
 * reference. */
struct relock_resource *relock_resources_find_key(struct relock_client *client, const char *key,
                                                  size_t len) RELOCK_REQUIRES(client->mutex);

/* Goes through the primaries with a name: the first one for NULL. Returns NULL at the end.
 * Meanwhile none may be made. */
struct relock_resource *relock_resources_next(const struct relock_client *client,
                                              const struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* Drops a reference; the last one frees the resource. */
void relock_resources_unref(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* At the end of a client: drops all references to a primary and its secondaries but those of
 * handles. */
void relock_resources_drop(struct relock_client *client, struct relock_resource *primary)
    RELOCK_REQUIRES(client->mutex);

/* ---- deadlock -------------------------------------------------------------------------------- */

/*
 * Deadlock - finds a wait that would never end, because its owner would wait for itself
 *
 * An owner waits for a lock, and owners of this client hold that lock. They may wait for other
 * locks. If this leads back to the first owner, then each of them waits for the next one. A wait
 * looks for such a cycle once, when it is about to sleep for the first time. That is enough: an
 * owner that waits does nothing else, so the last wait of a cycle closes it, and finds it.
 *
 * The search ends at a lock that another process holds: this client does not know for what that
 * process waits. lib/deadlock follows such waits.
 *
 * Threads: any, with the mutex of the client held.
 */

/*
 * The waiter is about to sleep. Returns false if it would close a cycle: it must not wait, and
 * `why` has the cycle in words. Else other waits find it from now on, until its end.
 */
bool relock_deadlock_wait_begins(struct relock_client *client, struct relock_waiter *waiter,
                                 char why[RELOCK_WHY_MAX]) RELOCK_REQUIRES(client->mutex);

/* The wait is over. Does nothing if the other waits do not find it. */
void relock_deadlock_wait_ends(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

#endif
