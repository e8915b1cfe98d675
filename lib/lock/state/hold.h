/*
 * Hold - one owner's possession of one lock, from its first level to its last
 *
 * Each hold has a number of its own, which is its field in Redis. So a command meant for an older
 * hold, such as a late renewal or a repeated unlock, never affects a newer one. The count of levels
 * here is authoritative; each command brings Redis up to date.
 *
 * A hold is certain from the moment before its acquire was sent, for the lease less a drift: it
 * ends here before it can end in Redis.
 *
 * Threads: guarded by the mutex of the client, unless a field says otherwise.
 */
#ifndef RELOCK_HOLD_H
#define RELOCK_HOLD_H

#include "base/hash.h"
#include "base/heap.h"
#include "lock/state/task.h"

#include <relock.h>
#include <stdbool.h>
#include <stdint.h>

struct relock_conn_id;
struct relock_hold;
struct relock_node;
struct relock_observer;
struct relock_resource;
struct relock_step;

enum relock_hold_state {
    RELOCK_HOLD_ASKED,     /* being acquired: not held yet */
    RELOCK_HOLD_HELD,      /* certain until `valid_until_ms` */
    RELOCK_HOLD_SUSPECT,   /* the same, and the last renewal was not granted */
    RELOCK_HOLD_LOST,      /* over, but its owner has not released all its levels */
    RELOCK_HOLD_CACHED,    /* no owner has it: it stays for the next one of this process */
    RELOCK_HOLD_RELEASING, /* its last level is released, the command is in flight */
    RELOCK_HOLD_SETTLING,  /* no longer held here; the I/O thread releases it in Redis */
    RELOCK_HOLD_ENDED,     /* waits for its last reference to be dropped */
};

/* How the lease of a hold is kept. */
enum relock_hold_keeping {
    RELOCK_HOLD_FIXED,   /* it runs out unless the owner extends it */
    RELOCK_HOLD_KEPT,    /* the watchdog renews it while a call collects several locks */
    RELOCK_HOLD_RENEWED, /* the watchdog renews it, since some level asked for that */
};

/* The I/O thread's command in flight: a renewal, a check, or the release of a settling hold. */
enum relock_hold_command {
    RELOCK_HOLD_NOTHING_SENT,
    RELOCK_HOLD_SENT,
    RELOCK_HOLD_SENT_BEFORE, /* the hold was handed off since: the reply does not verify it */
};

/* Where a loss is on its way to the owner. */
enum relock_hold_notice {
    RELOCK_HOLD_NO_NOTICE,  /* nowhere: not lost, or reported */
    RELOCK_HOLD_TO_TAKE_UP, /* its task `loss` is posted, for the I/O thread */
    RELOCK_HOLD_TO_TELL,    /* in `to_tell` of the client, for whoever calls on_lost */
    RELOCK_HOLD_TELLING,    /* on_lost is running */
};

/* Why a call failed that waited for another command about its hold. */
#define RELOCK_WHY_BUSY "another command about this hold got no answer in time"

/* Who is told of a loss. Constant. Made by a call that names somebody, and then part of the hold
 * that is granted to it. Calls that leave it to the options share that of the client. */
struct relock_told {
    relock_lost_fn *on_lost;
    void *arg;
    struct relock_cancel *cancel;
    struct relock_events *events; /* for on_lost: of a hold, a reference; NULL: it has a thread */
};

/* Whether Redis reports the next change of the lock. Changed by tracked.c alone. */
struct relock_tracked {
    const struct relock_node *node; /* that reports it, if `is_tracked`. Only to be compared */
    uint64_t due_ms;                /* when a check is to have it tracked; RELOCK_NEVER: not */
};

/* watchdog.c has the transitions. */
enum relock_confirm_state {
    RELOCK_CONFIRM_NONE,
    RELOCK_CONFIRM_WANTED,
    RELOCK_CONFIRM_SENT,    /* the renewal over the confirmer is in flight */
    RELOCK_CONFIRM_GRANTED, /* its WAIT is to be sent */
    RELOCK_CONFIRM_COUNTED, /* its WAIT is in flight */
};

/* Whether replicas are to acknowledge a renewal. Changed by watchdog.c; holds.c ends it. */
struct relock_confirm {
    enum relock_confirm_state state;
    uint64_t granted_until_ms; /* by the last renewal that Redis granted, acknowledged or not */
    uint64_t sent_ms;          /* when the renewal over the confirmer was sent */
    struct relock_node *node;  /* GRANTED and COUNTED: that granted it */
    struct relock_hold *next, *prev; /* of the client, unless NONE */
};

struct relock_hold {
    struct relock_resource *resource; /* a reference; constant */
    uint64_t number;                  /* constant */
    unsigned refs;
    unsigned count; /* levels */

    /* Bit-fields share a memory location, so the mutex guards all of them. */
    enum relock_hold_state state : 8;
    enum relock_hold_keeping keeping : 4;
    enum relock_hold_command command : 4;
    enum relock_hold_notice notice : 4;
    unsigned lost_reason : 4; /* RELOCK_LOST_*, when lost */
    bool detached : 1;        /* see relock_holds_new; constant */
    bool observer_tells : 1;  /* on_lost is called only if no observer reports the loss */
    bool is_own : 1;          /* acquired by its owner, not only by a call that collects several */
    bool busy : 1;            /* its owner's command is in flight: the next one waits */
    bool count_dirty : 1;     /* Redis may have another count: the last command was not granted */
    bool unannounced : 1;     /* its loss waits: the program has not heard of the grant */
    bool keeping_dirty : 1; /* `keeping` has changed, and the operation `keep` was not called yet */
    bool is_reused : 1;     /* an owner has acquired it from memory, by keeping */
    bool recalled : 1;      /* another client waits for it, or may, so it is not cached */
    bool is_left : 1;       /* lost, but Redis has it: the I/O thread releases it there */
    bool is_missed : 1;     /* a script of many did not find it, and Redis is asked again */
    bool is_deferred : 1;   /* call/defer.c has sent its release, which has not ended */
    bool confirms : 1;      /* it has `confirm`; constant */
    bool has_owner : 1;     /* from its grant to the release of its last level */
    bool is_tracked : 1;    /* Redis reports the next change */
    bool is_unlooked : 1;   /* no command of it was tracked yet: see kind->look */
    bool is_recorded : 1;   /* by look/since.c */
    bool may_stand : 1;     /* a command of it that joins the line was not answered */
    bool is_ahead : 1;      /* its timer is in `ahead` of the client, or was when last set */
    unsigned nth : 5;       /* its place in the pool; constant */

    uint16_t n_unanswered; /* commands without a reply yet, besides `command` */

    /* Of checks; changed by tracked.c alone. */
    uint32_t check_pause_ms; /* since the last command, before the next one */
    uint16_t check_retry_ms; /* after the last command that was not tracked; or 0 */

    uint16_t acked_replicas; /* of the acquire */

    uint64_t owner;
    union {                     /* by the kind */
        uint64_t fencing_token; /* of a fenced lock; else 0 */
        uint64_t n_permits;     /* of a semaphore; constant */
    };
    uint64_t lease_ms;       /* the longest lease requested so far */
    uint64_t renewal_ms;     /* the lease that the watchdog requests */
    uint64_t valid_until_ms; /* certain until then; settling: from then on a refusal ends it */

    uint64_t since_us; /* when its owner acquired it */

    struct relock_heap_link timer; /* set to when the I/O thread has to act on it */
    uint64_t renew_at_ms;          /* when the I/O thread sends its next command */
    union {
        uint64_t sent_ms;                      /* when it sent the last one */
        const struct relock_resource *lost_on; /* of a collection, for which it sends nothing: see
                                                  relock_hold_lost_on */
    };
    union {
        struct { /* until it is lost */
            struct relock_tracked tracked;
            uint64_t cap_ms;         /* from then on it is not renewed */
            uint64_t cache_until_ms; /* it may be cached until then; 0: never */
        };
        struct relock_task loss; /* see `notice`; changed by holds.c and losses.c */
    };
    struct relock_told *told; /* of a loss; NULL: nobody */

    struct relock_observer *observers;

    union {
        /* The connection to kill before the next command. Used by the thread that made the hold
         * busy, releases it or settles it: one at a time. */
        struct relock_conn_id *fence;

        void *data; /* of a composite: of the operations of its kind; constant once held */
    };

    struct relock_hold *next; /* of the resource, see there */

    struct relock_confirm confirm[]; /* one, or none: no replica is to acknowledge */
};

/* Until when a lease requested at `sent_ms` is certain. */
uint64_t relock_hold_valid_until(uint64_t sent_ms, uint64_t lease_ms);

/* How often a lease is renewed. */
uint64_t relock_hold_renewal_ms(uint64_t lease_ms);

/*
 * When a renewal that is due at `due_ms` is sent: at most a tenth of the interval between renewals
 * earlier, at the start of a cell of time, in which a client with `n_holds` renews many holds.
 * Never later. `phase` shifts the cells.
 */
uint64_t relock_hold_meeting_ms(uint64_t due_ms, uint64_t interval_ms, uint64_t n_holds,
                                unsigned phase);

/* By how much a renewal may come forward further, to be sent in a turn: see lock/hold/batch.c. 0:
 * not at all. */
uint64_t relock_hold_ahead_ms(uint64_t interval_ms);

/* By how much the next renewal comes forward if many holds were renewed at the same time: by less
 * than the interval between renewals, and for each `serial` by another part of it. */
uint64_t relock_hold_spread_ms(uint64_t serial, uint64_t interval_ms);

/* A number that is higher for the later of two holds that the same owner has acquired. */
uint64_t relock_hold_order(const struct relock_hold *hold);

/* How soon a failed renewal is repeated. */
uint64_t relock_hold_retry_ms(uint64_t lease_ms);

/* Whether the watchdog renews it at that time. */
bool relock_hold_is_renewed(const struct relock_hold *hold, uint64_t now_ms);

static inline struct relock_hold *relock_hold_of_loss(struct relock_task *loss)
{
    return RELOCK_CONTAINER(struct relock_hold, loss, loss);
}

/* The queue in which its loss is told; NULL: none, or the thread that calls on_lost tells it. */
static inline struct relock_events *relock_hold_events(const struct relock_hold *hold)
{
    return hold->told ? hold->told->events : NULL;
}

/* Held as far as is known: neither lost nor released. */
static inline bool relock_hold_is_held(const struct relock_hold *hold)
{
    return hold->state == RELOCK_HOLD_HELD || hold->state == RELOCK_HOLD_SUSPECT;
}

/* An owner holds it, or it is cached for the next one. */
static inline bool relock_hold_is_live(const struct relock_hold *hold)
{
    return relock_hold_is_held(hold) || hold->state == RELOCK_HOLD_CACHED;
}

/* Its permits, if it is of a semaphore; else 0. */
uint64_t relock_hold_n_permits(const struct relock_hold *hold);

/* Held, and that is certain. */
bool relock_hold_is_certain(const struct relock_hold *hold, uint64_t now_ms);

/* When the I/O thread has to act on it; RELOCK_NEVER if a command in flight comes first. */
uint64_t relock_hold_due_ms(const struct relock_hold *hold, uint64_t now_ms);

/* Whether a command under its number is in flight, or may still run in Redis. */
bool relock_hold_is_in_use(const struct relock_hold *hold);

/* The reason for a loss when its time has run out. */
int relock_hold_expiry_reason(const struct relock_hold *hold);

/* Describes it for the caller. */
void relock_hold_report(const struct relock_hold *hold, uint64_t now_ms,
                        struct relock_grant *grant);

#endif
