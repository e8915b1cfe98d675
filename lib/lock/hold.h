/*
 * Hold - what one owner has of one lock, from its first level to its last
 *
 * A hold has a number of its own, and that is its field in Redis. So nothing that was meant for an
 * older hold, a late renewal or a repeated unlock, ever meets a newer one. The count here is the
 * truth; Redis is told it with each command.
 *
 * How long a hold is certain is reckoned from before the command that got it was sent, less a
 * drift: it ends here before it can end in Redis.
 *
 * Threads: guarded by the mutex of the client, but for what is said otherwise.
 */
#ifndef RELOCK_HOLD_H
#define RELOCK_HOLD_H

#include "base/timer.h"

#include <relock.h>

struct relock_site;
struct relock_origin;
struct relock_part;
struct relock_ballot;
struct relock_vote;

enum relock_hold_state {
    RELOCK_HOLD_ASKED,    /* Redis is being asked for it: nobody's yet */
    RELOCK_HOLD_HELD,     /* certain until `valid_until_ms` */
    RELOCK_HOLD_SUSPECT,  /* the same, and the last renewal was not granted */
    RELOCK_HOLD_LOST,     /* over; its owner has still to give its levels up */
    RELOCK_HOLD_LEAVING,  /* its last level is given up, and Redis is being told */
    RELOCK_HOLD_SETTLING, /* nobody's; the I/O thread sees to it that Redis knows */
    RELOCK_HOLD_ENDED,    /* kept only for who still refers to it */
};

struct relock_hold {
    struct relock_site *site; /* a reference; constant */
    uint64_t number;          /* constant */
    unsigned refs;

    /* One memory location: nothing here may have another owner than the mutex. */
    enum relock_hold_state state : 8;
    int lost_reason : 8; /* RELOCK_LOST_*, when lost */
    bool busy : 1;       /* a command of its owner is under way: the next one waits */
    bool untold : 1;     /* its last command was not granted: Redis may have another count */
    bool renewed : 1;    /* some level asked for it */
    bool kept : 1;       /* renewed with a lease of its own while a multi lock collects the rest */
    bool of_whole : 1;   /* began as a member's of a multi lock: that tells of its loss */
    bool in_flight : 1;  /* a command of the I/O thread is under way */
    bool loaded : 1;     /* the last of these found no script: the next must */
    bool unverified : 1; /* handed off, and no renewal has been sent since */
    bool to_be_taken_up : 1; /* lost, and in the list of the I/O thread */
    bool to_be_told : 1;     /* lost, and in the list of the thread that calls on_lost */
    bool telling : 1;        /* its on_lost is running */

    uint64_t owner;
    uint64_t fencing_token;  /* of a fenced lock */
    unsigned count;          /* levels */
    unsigned lost_member;    /* of a multi or red lock that is lost: the first that was */
    unsigned acked_replicas; /* of the acquire */
    unsigned n_errands;      /* of a vote: that are under way; else commands left unanswered */
    uint64_t lease_ms;       /* the longest that Redis was asked for */
    uint64_t renewal_ms;     /* the lease that the watchdog asks for */
    uint64_t valid_until_ms; /* settling: when a refusal is the last word */
    uint64_t cap_ms;         /* renewed until then */

    struct relock_timer timer;
    uint64_t renew_at_ms;
    uint64_t sent_ms; /* the command of the I/O thread */

    relock_lost_fn *on_lost;
    void *arg;

    struct relock_part *parts;    /* of the multi locks that this is a member's hold of */
    struct relock_ballot *ballot; /* of a red lock: a reference; constant once held */
    struct relock_vote *vote;     /* of one server's vote for such a lock; constant */

    /* Of whoever made it busy, is leaving with it or settles it: one thread at a time. */
    struct relock_origin *debt;

    struct relock_hold *next, *prev;               /* of this site, with levels */
    struct relock_hold *client_next, *client_prev; /* of this client */
    struct relock_hold *loss_next, *loss_prev;     /* of the list in which a lost hold stands */
};

/* Until when a lease that was asked for at `sent_ms` is certain. */
uint64_t relock_hold_valid_until(uint64_t sent_ms, uint64_t lease_ms);

/* How often a lease is renewed. */
uint64_t relock_hold_renewal_ms(uint64_t lease_ms);

/* How soon a renewal that was not granted is tried again. */
uint64_t relock_hold_retry_ms(uint64_t lease_ms);

/*
 * The hold was handed off. Nobody asked Redis, so it may have been broken before: the watchdog
 * renews it within a few milliseconds, and the answer tells.
 */
void relock_hold_verify_soon(struct relock_hold *hold, uint64_t now_ms);

/* Whether the watchdog renews it at that time. */
bool relock_hold_is_renewed(const struct relock_hold *hold, uint64_t now_ms);

/* Held, as far as is known: neither lost nor given up. */
bool relock_hold_is_held(const struct relock_hold *hold);

/* Held, and that is certain. */
bool relock_hold_is_certain(const struct relock_hold *hold, uint64_t now_ms);

/* When the watchdog has to look at a hold that is held. */
uint64_t relock_hold_due_ms(const struct relock_hold *hold, uint64_t now_ms);

/* Why it is lost when its time has run out. */
int relock_hold_expiry_reason(const struct relock_hold *hold);

/* What a caller is told of it. */
void relock_hold_report(const struct relock_hold *hold, uint64_t now_ms,
                        struct relock_grant *grant);

#endif
