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
#include "base/timer.h"
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
    RELOCK_HOLD_TO_TAKE_UP, /* its task `tracked.loss` is posted, for the I/O thread */
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

/* Whether Redis reports the next change of the lock. Changed by tracked.c alone. A hold is tracked
 * only until it is lost, so the report of its loss has the same memory: see relock_tracked_end. */
struct relock_tracked {
    const struct relock_node *node;    /* that reports it; NULL: none does. Only to be compared */
    const struct relock_node *tracker; /* see call.h; only the I/O thread, without the mutex */
    union {
        struct {                             /* until it is lost */
            struct relock_hold *next, *prev; /* of the primary resource, if `node` */
            uint64_t due_ms;                 /* when a check is to have it tracked; RELOCK_NEVER:
                                                not */
        };
        struct relock_task loss; /* see `notice` of the hold; changed by holds.c and losses.c */
    };
    uint32_t pause_ms; /* since the last command, before the next check */
    uint16_t retry_ms; /* after the last command that was not tracked; or 0 */
    bool is_first;     /* no command of it was tracked yet: see kind->look */
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
    uint64_t serial;                  /* grows from hold to hold of the client; constant */
    unsigned refs;

    /* Bit-fields share a memory location, so the mutex guards all of them. */
    enum relock_hold_state state : 8;
    enum relock_hold_keeping keeping : 8;
    enum relock_hold_command command : 8;
    enum relock_hold_notice notice : 8;
    int lost_reason : 8;     /* RELOCK_LOST_*, when lost */
    bool detached : 1;       /* see relock_holds_new; constant */
    bool observer_tells : 1; /* on_lost is called only if no observer reports the loss */
    bool is_own : 1;         /* acquired by its owner, not only by a call that collects several */
    bool busy : 1;           /* its owner's command is in flight: the next one waits */
    bool count_dirty : 1;    /* Redis may have another count: the last command was not granted */
    bool unannounced : 1;    /* its loss waits: the program has not heard of the grant */
    bool keeping_dirty : 1; /* `keeping` has changed, and the operation `keep` was not called yet */
    bool is_reused : 1;     /* an owner has acquired it from memory, by keeping */
    bool recalled : 1;      /* another client waits for it, or may, so it is not cached */
    bool is_left : 1;       /* lost, but Redis has it: the I/O thread releases it there */
    bool is_missed : 1;     /* a script of many did not find it, and Redis is asked again */
    bool is_deferred : 1;   /* call/defer.c has sent its release, which has not ended */
    bool confirms : 1;      /* it has `confirm`; constant */
    bool is_recorded : 1;   /* by look/since.c */
    unsigned n_unanswered;  /* commands without a reply yet, besides `command` */

    uint64_t owner;
    uint64_t fencing_token;  /* of a fenced lock */
    unsigned count;          /* levels */
    unsigned acked_replicas; /* of the acquire */
    uint64_t lease_ms;       /* the longest lease requested so far */
    uint64_t renewal_ms;     /* the lease that the watchdog requests */
    uint64_t valid_until_ms; /* certain until then; settling: from then on a refusal ends it */
    uint64_t cap_ms;         /* from then on it is not renewed */
    uint64_t cache_until_ms; /* it may be cached until then; 0: never */

    uint64_t since_us; /* when its owner acquired it */

    struct relock_timer timer;
    uint64_t renew_at_ms; /* when the I/O thread sends its next command */
    union {
        uint64_t sent_ms;                      /* when it sent the last one */
        const struct relock_resource *lost_on; /* of a collection, for which it sends nothing: see
                                                  relock_hold_lost_on */
    };
    struct relock_tracked tracked;
    struct relock_told *told; /* of a loss; NULL: nobody */

    struct relock_observer *observers;
    void *data; /* of the operations of its kind; constant once held */

    /* The connection to kill before the next command. Used by the thread that made the hold busy,
     * releases it or settles it: one at a time. */
    struct relock_conn_id *fence;

    struct relock_step *followers; /* calls that go on when the hold is free for them: step.h */

    struct relock_hold *next;                      /* holds with levels, of the resource */
    struct relock_hold *client_next, *client_prev; /* all holds of the client */

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

/* By how much the next renewal comes forward if many holds were renewed at the same time: by less
 * than the interval between renewals, and for each `serial` by another part of it. */
uint64_t relock_hold_spread_ms(uint64_t serial, uint64_t interval_ms);

/* How soon a failed renewal is repeated. */
uint64_t relock_hold_retry_ms(uint64_t lease_ms);

/* Whether the watchdog renews it at that time. */
bool relock_hold_is_renewed(const struct relock_hold *hold, uint64_t now_ms);

static inline struct relock_hold *relock_hold_of_loss(struct relock_task *loss)
{
    return RELOCK_CONTAINER(struct relock_hold, tracked.loss, loss);
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
