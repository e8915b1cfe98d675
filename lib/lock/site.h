/*
 * Site - what this process knows of one lock name
 *
 * Who of its owners holds the lock, who of them waits, in the order in which they came, and
 * whether there is reason to ask Redis. Only the head of the queue asks, and only on news: the
 * others just queue; but for readers, which may hold it together, so each asks once at once. News
 * belongs to the site, not to a waiter, so that none is lost with a waiter that gives up: it is
 * kept while a local owner holds, and taken by whoever is head when it can be used.
 *
 * A site lives as long as somebody refers to it: handles, holds, its subscription.
 *
 * Threads: guarded by the mutex of the client, but for what is said otherwise.
 */
#ifndef RELOCK_SITE_H
#define RELOCK_SITE_H

#include "base/gate.h"
#include "base/hash.h"
#include "lock/cancel.h"
#include "lock/hold.h"
#include "lock/kind.h"

struct relock_client;
struct relock_ear;
struct relock_group;
struct relock_listener;

/*
 * Some sites are one of several with their name, and this stands before them: the two sides of a
 * read/write lock, of which the write side is the home; and the line in which one waiter of a fair
 * lock stands for itself, for its place is in Redis' queue.
 */
struct relock_kin {
    struct relock_site *home;    /* a reference, constant; NULL in the home itself */
    struct relock_site *readers; /* of a home; NULL while there are none */
    uint64_t number; /* of a line: its waiter's, in Redis; constant before a channel is wanted */
    struct relock_kin *next, *prev; /* of a line: all of the client */
};

/* How a wait ends from outside. */
enum relock_waiter_end {
    RELOCK_WAITER_WAITS,
    RELOCK_WAITER_GRANTED,     /* a hold was passed on: `hold` */
    RELOCK_WAITER_STARTS_ANEW, /* its owner has got the lock, or a side of it, by another thread */
    RELOCK_WAITER_UNREACHED,   /* Redis was away for as long as a wait may miss it */
};

/* A call that wants the lock for an owner without levels. On the stack of that call. */
struct relock_waiter {
    struct relock_waiter *next, *prev; /* in the queue */
    struct relock_gate gate;           /* opened when there is something to look at */
    struct relock_cancel_wait cancel_wait;
    struct relock_site *line; /* where it queues, constant: the lock's site, or one of its own */
    uint64_t owner;           /* constant */
    bool named;               /* constant: the owner was named, so others may act for it too */
    bool renewed;             /* constant: it may be given a hold that the watchdog renews */
    bool of_whole;            /* constant: for a multi lock */
    bool tries;               /* constant: asks once and does not wait */
    bool has_asked;           /* at least once */
    bool is_asking;           /* Redis is: no hold is handed off to it before the answer */
    uint64_t joined_ms;       /* constant */
    relock_lost_fn *on_lost;  /* constant, like arg */
    void *arg;
    struct relock_waiter *all_next, *all_prev; /* of the client: all that wait for its server */
    enum relock_waiter_end end;
    struct relock_hold *hold; /* when granted: a reference */
};

struct relock_site {
    UT_hash_handle hh;              /* of the client's sites, by name; or groups, by members */
    struct relock_client *client;   /* constant */
    const struct relock_kind *kind; /* constant */
    struct relock_group *group;     /* of a multi or red lock: a reference, constant; else NULL */
    bool has_kin;                   /* a struct relock_kin stands before it; constant */
    unsigned refs;
    unsigned n_handles;

    struct relock_hold *holder; /* holds, or is about to have left; NULL when no local owner does */
    struct relock_hold *holds;  /* all with levels: the holder's and lost ones */
    uint64_t taken_ms;          /* when this process took the lock from Redis */

    struct relock_ear *ears; /* of the red locks that this is a member of */
    struct relock_waiter *queue;
    unsigned n_named; /* of a home: with an owner that was named, on all sides and in all lines */

    /* One memory location: nothing here may have another owner than the mutex. */
    bool news : 1; /* the head has reason to ask */
    bool news_is_message : 1;
    bool wants_channel : 1; /* to be subscribed */
    bool subscribed : 1;    /* acknowledged: no message is missed */
    bool drops_channel : 1; /* has been unwanted since it was last synced */
    bool to_be_synced : 1;  /* stands in the list of those whose subscription is to be changed */

    uint64_t held_ms;         /* when it was last known to be held; RELOCK_NEVER: it is */
    uint64_t asked_ms;        /* when Redis was last asked, or the last local owner left */
    uint64_t lease_end_ms;    /* when the hold that was in the way ends, as Redis said */
    uint64_t yields_until_ms; /* other processes go first until then */

    struct relock_site *sync_next, *sync_prev;
    struct relock_timer linger;       /* ends the subscription when nobody has waited for a while */
    struct relock_listener *listener; /* of its channel; the I/O thread's */

    size_t name_len;
    char name[]; /* constant */
};

struct relock_kin *relock_site_kin(const struct relock_site *site);

/* The site of the name, the readers' site if there is one, and the one that has the channel. */
struct relock_site *relock_site_home(struct relock_site *site);
struct relock_site *relock_site_readers(struct relock_site *site);
struct relock_site *relock_site_listener(struct relock_site *site);

/* The hold of an owner that has levels, NULL when it has none. */
struct relock_hold *relock_site_find(const struct relock_site *site, uint64_t owner);

/* Gives the head a reason to ask, if no local owner is in the way: else it is kept. */
void relock_site_add_news(struct relock_site *site, bool is_message);

/* The same, for each side of the lock and each line: something has changed for all of them. */
void relock_site_add_news_to_all(struct relock_site *site, bool is_message);

void relock_site_join(struct relock_site *site, struct relock_waiter *waiter);

/* Out of the queue, wherever it stands; who moves up looks around, if no local owner is in the way.
 */
void relock_site_leave(struct relock_site *site, struct relock_waiter *waiter);

/* Whether Redis may be asked for this waiter, and there is reason to: news, or a first try of one
 * that may hold it together with others or does not wait for those before it. */
bool relock_site_may_ask(const struct relock_site *site, const struct relock_waiter *waiter);

/* Redis is being asked, so whether it is held is open again; it said that it is. */
void relock_site_doubt(struct relock_site *site, uint64_t now_ms);
void relock_site_learn(struct relock_site *site);

/* When the head asks without news: the lease that was in the way ends, or `recheck_ms` is over; but
 * not while other processes go first. */
uint64_t relock_site_recheck_at(const struct relock_site *site, uint64_t recheck_ms);

/* The waiter's owner holds: out of the queue; all who wait for the same owner start anew. */
void relock_site_enter(struct relock_site *site, struct relock_waiter *waiter,
                       struct relock_hold *hold);

/*
 * The local owner is about to be gone, and another process has heard of it. If this one has had the
 * lock for its turn, `turn_ms`, and wants it again, the other goes first: of two that ask at the
 * same moment the same may be quicker each time.
 */
void relock_site_yield(struct relock_site *site, uint64_t turn_ms, uint64_t now_ms);

/*
 * The local owner is gone. `is_announced`: we are subscribed and the message is certain to come,
 * so the head waits for it like everybody else.
 */
void relock_site_vacate(struct relock_site *site, bool is_announced, uint64_t now_ms);

/* Ends the waits of all who have seen Redis away since `since_ms`. */
void relock_site_end_unreached(struct relock_site *site, uint64_t since_ms);

/* Lets everybody in the queue look around: something has changed for all. */
void relock_site_rouse(struct relock_site *site);

#endif
