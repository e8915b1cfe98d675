/*
 * Kind - how one kind of lock differs from the others
 *
 * All kinds share the calls, the holds, the watchdog and the waiting. A kind is mostly data: its
 * scripts, its format in Redis, and the rules of its queue.
 *
 * Threads: any; a kind is constant.
 */
#ifndef RELOCK_KIND_H
#define RELOCK_KIND_H

#include "redis/server/script.h"
#include "redis/server/server.h"

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_acquire;
struct relock_claim;
struct relock_hold;
struct relock_inspection;

/* ---- verdict --------------------------------------------------------------------------------- */

/*
 * Verdict - the meaning of a script's reply for a hold
 *
 * The replies of all scripts are named here and nowhere else.
 *
 * Threads: any; these are pure functions but for the clock.
 */

/* Why a reply has no verdict. */
#define RELOCK_VERDICT_UNREADABLE "the reply is not one that the script returns"

enum relock_verdict {
    RELOCK_VERDICT_DONE,   /* granted, extended or released */
    RELOCK_VERDICT_BUSY,   /* other owners hold the lock */
    RELOCK_VERDICT_GONE,   /* the servers do not have the hold */
    RELOCK_VERDICT_TAKEN,  /* another owner has the lock */
    RELOCK_VERDICT_FAILED, /* not answered, refused, or the reply is not one of the script's */
};

/* Why a first level was refused; or, with `is_awaited`, that clients wait though it was granted. */
struct relock_busy {
    uint64_t free_at_ms;  /* when the lease in the way ends; RELOCK_NEVER: unknown */
    uint64_t place;       /* of the client in the line of the lock, 1 for the first; 0: not in it */
    bool is_moving;       /* no client can be in the line: the slot of the lock is half moved */
    bool is_reserved;     /* the lock is free, and another client was told to acquire it */
    bool is_foreign;      /* the holder does not know the line; said to the first only */
    bool is_awaited;      /* granted, and clients are in the line; said if the hold may be cached */
    uint64_t n_intervals; /* a waiter for a fair lock asks after so many intervals; 0: not said */
};

/* The reason of the loss that this verdict means: RELOCK_LOST_GONE, RELOCK_LOST_TAKEN; 0: none. */
int relock_verdict_loss(enum relock_verdict verdict);

/* Of `lock`, for a first level: DONE, perhaps with a fencing token; BUSY with the reason; FAILED.
 */
enum relock_verdict relock_verdict_lock(const struct redisReply *reply, uint64_t *fencing_token,
                                        struct relock_busy *busy);

/* A reply of `lock` that names a failure: the result of the call, and the cause. */
struct relock_named_failure {
    const char *reply;
    int result;
    const char *why;
};

/* The failure that a reply of `lock` names, by the table of the kind, which ends with an entry
 * without a reply; it may be NULL. RELOCK_OK: none. `*why` says more, a constant string. */
int relock_verdict_failure(const struct relock_named_failure *table, const struct redisReply *reply,
                           const char **why);

/* Of a message to a waiter for a fair lock: whether it says when the lease in the way ends. */
bool relock_verdict_message(const char *text, size_t len, uint64_t *free_at_ms);

/* Of `lock`, for another level: DONE, GONE, TAKEN, FAILED. */
enum relock_verdict relock_verdict_nest(const struct redisReply *reply);

/* Of `renew` and `extend`: DONE, GONE, TAKEN, FAILED. */
enum relock_verdict relock_verdict_renewal(const struct redisReply *reply);

/*
 * Of `unlock`: DONE, GONE, TAKEN, FAILED. With DONE, `*n_receivers` is the number of subscribers
 * that the message reached, or -1 if the server refused to publish it; `*place` is that of the
 * client in the line of the lock, 1 if it is to ask at once, 0 if it is not in the line.
 */
enum relock_verdict relock_verdict_release(const struct redisReply *reply, int64_t *n_receivers,
                                           uint64_t *place);

/* ---- kind ------------------------------------------------------------------------------------ */

/* The outcome of an operation. */
struct relock_answer {
    /* from the core */
    uint64_t sent_ms; /* the present time; an operation that repeats its command sets it anew */
    char *why;        /* RELOCK_WHY_MAX bytes, "": filled with a failure */

    /* from the operation, which sets only the fields that apply; all begin as 0 */
    enum relock_verdict verdict;
    int result;      /* RELOCK_OK, or a failure; a failure with DONE: the grant is useless */
    bool unanswered; /* a command may have run, or may yet run, without an answer */
    uint64_t valid_until_ms; /* granted or extended: certain until then */
    unsigned acked_replicas; /* granted */
    struct relock_busy busy; /* BUSY: the reason */
    uint64_t pause_ms;       /* BUSY: before a poller asks again; 0: the core decides */
    uint64_t place;          /* released: in the line, where the client waits again; see verdict */
    int64_t n_receivers;     /* released: of the message to waiters; -1: the server refused it */
    bool is_announced;       /* released: each waiter gets that message */
    bool is_reported;        /* a failure or a loss was logged and counted by calls inside */
};

/*
 * The commands of a kind, as functions that the core calls. An operation talks to the server that
 * has the lock, or to several, and reports the outcome in an answer. The core does all that
 * follows, in one way for every kind: counting levels, keeping and renewing leases, losing, handing
 * off and settling holds.
 *
 * Threads: the calling thread, unless an operation says otherwise, with the mutex of the client
 * held; the operation unlocks it while it waits for an answer.
 */
struct relock_operations {
    /* One attempt at the first level, under the number of the hold. */
    void (*ask)(struct relock_acquire *acquire, struct relock_hold *hold,
                struct relock_answer *answer);

    /* The hold has begun. May unlock the mutex. NULL: nothing follows. */
    void (*begin)(struct relock_client *client, struct relock_hold *hold);

    /* One level more than the hold has. */
    void (*nest)(struct relock_acquire *acquire, struct relock_hold *hold,
                 struct relock_answer *answer);

    /* A level is released. Tells the servers how many are left; with the last one the lock is free.
     */
    void (*release)(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer);

    /* A level ended without `release`: the hold is lost, or another command of the owner got no
     * answer in time. Asks no server if `deadline_ms` is 0. NULL: the servers need not know. */
    void (*drop_level)(struct relock_client *client, struct relock_hold *hold,
                       uint64_t deadline_ms);

    /* A lease of `lease_ms` from now on. */
    void (*extend)(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer);

    /*
     * The holder of the lock, as the servers report it, and the levels of the owner of `claim`.
     * Under no mutex. Returns RELOCK_OK, or a failure and `why`, RELOCK_WHY_MAX bytes.
     */
    int (*inspect)(struct relock_lock *lock, const struct relock_claim *claim,
                   struct relock_inspection *inspection, char *why);

    /*
     * For a kind whose holds do not know it themselves: returns until when the hold is certain, and
     * loses the hold if it no longer stands. Asks no server; may unlock the mutex. NULL: holds
     * know.
     */
    uint64_t (*check)(struct relock_client *client, struct relock_hold *hold);

    /* A renewal is due. The I/O thread; does not wait for the answer. */
    void (*renew)(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms);

    /* No owner needs the hold any more: releases all that the servers may have of it in the
     * background. Sets the count to 0. The hold ends with the release, or at once. */
    void (*let_go)(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms);

    /* The hold was lost, or let go while a command of its owner was in flight: releases it in the
     * background on servers that may still have it. NULL: there are none. */
    void (*lost)(struct relock_client *client, struct relock_hold *hold);

    /* From now on the watchdog renews the hold, or no longer does. Called at the end of a command
     * of the owner, while the hold is still busy. NULL: the hold alone has this state. */
    void (*keep)(struct relock_client *client, struct relock_hold *hold, bool renewed);
};

/* How a release is announced to the waiters of another library: see scripts/like_tell.lua, which
 * replaces the words that begin with a % in both texts. */
struct relock_announcement {
    const char *command; /* publish or lpush */
    const char *place;   /* the channel or the list */
    const char *message;
};

struct relock_kind {
    const struct relock_script *lock;
    const struct relock_script *unlock;
    const struct relock_script *renew;
    const struct relock_script *renew_many; /* the same for holds of many locks */
    const struct relock_script *extend;
    const struct relock_script *inspect;
    const struct relock_script *force_unlock;

    /* A command that tells whether a hold is there: its reply is 1, or the token of the hold. NULL:
     * only the script `renew` tells. */
    const struct relock_script *look;

    const char *channel;      /* the prefix of its name; NULL: releases are not published */
    const char *message;      /* that announces a release */
    const char *field_suffix; /* follows the number of a hold */
    const struct relock_announcement *announcement; /* of a lock shared with another library, which
                                                       has it in place of a channel; else NULL */
    const struct relock_named_failure *failures;    /* replies of `lock`; NULL: it names none */
    const char *side; /* of a read/write lock, for scripts that serve both sides; else NULL */

    bool has_token_only; /* in Redis a hold is a token without client, number and count */
    bool is_polled;      /* not all releases are published, so waiters poll */
    bool is_watched;     /* while Redis reports changes, waiters sleep instead: see vigil.c */
    bool is_handed_off;  /* between threads of the process, without Redis */
    bool is_cached;      /* with `keep_ms`: its script recalls a hold that is cached elsewhere */
    bool is_shared;      /* several owners may hold it at the same time */
    bool has_permits;    /* is_shared; each acquire has permits, and a hold of its own: no levels */
    bool is_composite;   /* a hold stands for holds of other locks */
    bool is_collection;  /* a composite whose owner holds each of the other locks itself */
    bool is_queued;      /* each waiter has its own place in a queue in Redis */
    bool is_number;      /* no lock, but a number in Redis without holds: see lib/count */

    const struct relock_kind
        *primary; /* of a secondary side: the side that has the name; else NULL */

    /*
     * Looks at the owner's hold on the other side of a read/write lock, with the mutex of the
     * client held. Returns RELOCK_OK, or the result that the call ends with. NULL: there is no
     * other side.
     */
    int (*check_other_side)(struct relock_acquire *acquire);

    const struct relock_operations *operations;
};

/* Whether its waiting clients stand in a line. They do if each release is published, and the
 * waiters have no queue of their own in Redis. A number may let any number of clients through. */
static inline bool relock_kind_has_line(const struct relock_kind *kind)
{
    return kind->channel && !kind->is_queued && !kind->is_number;
}

/* ---- inspection ------------------------------------------------------------------------------ */

/*
 * Inspection - the holder of a lock, as Redis reports it
 *
 * Threads: any; these are pure functions.
 */

/* The scripts cut longer ids of holders. None of these is an owner's: another program has written
 * its data to the key of the lock. */
#define RELOCK_INSPECTION_ID_MAX 1024

/* The levels that an owner has of a lock, as this process knows, for a query. */
struct relock_claim {
    uint64_t owner;
    uint64_t number;      /* of its hold; 0: none */
    unsigned count;       /* its levels */
    uint64_t deadline_ms; /* of the query */
};

struct relock_inspection {
    struct relock_holder holder;
    bool is_locked;     /* an owner holds it; of a read/write lock, this side of it */
    unsigned own_count; /* levels of the caller */
};

/* Reads the reply of an inspect script. Returns false if the reply is something else. */
bool relock_inspection_read(const struct redisReply *reply, struct relock_inspection *inspection);

/* For kinds with only a token Redis knows no levels: the caller's own are filled in. */
void relock_inspection_count(struct relock_inspection *inspection, const struct relock_kind *kind,
                             unsigned count);

#endif
