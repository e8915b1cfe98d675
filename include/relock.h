#ifndef RELOCK_H
#define RELOCK_H

/*
 * relock - reentrant distributed locks on Redis and Valkey, compatible with Redisson
 *
 * A client connects to one Redis deployment under an identity of its own. A lock is a name on a
 * client. While an owner holds a lock, no other owner can acquire it, on any machine; only readers
 * share. The owner can acquire the lock again (nesting) and releases it level by level.
 *
 *     r = relock_lock(lock);
 *     if (r != RELOCK_OK)
 *         return r;
 *     ...
 *     relock_unlock(lock);
 *
 * Results. RELOCK_OK is 0 and means success; every other result is negative. So `r < 0` and
 * `r != RELOCK_OK` are the same test. BUSY, TIMEOUT, CANCELLED, LOST and NOT_OWNER describe the
 * state of the lock; RELOCK_E_* are errors.
 *
 * Owners. An owner is a number. Each thread has one, and 0 stands for the calling thread.
 * relock_owner_new() makes more owners, for event loops, coroutines and work that moves between
 * threads. Any thread may act for any owner by passing its number. When a thread ends, the library
 * releases what the thread's own number still holds and logs a warning; other owners keep theirs.
 *
 * Levels. Each RELOCK_OK from a call that acquires adds one level; no other result does. Each level
 * needs one release, even if the hold was lost meanwhile. A release removes its level even if Redis
 * is unreachable. After the last release, nothing renews the hold.
 *
 * Lost holds. A hold can end without a release: its lease expired, or the key was deleted or taken
 * by another owner. The owner learns of the loss from its on_lost callback, from relock_check(),
 * and from RELOCK_LOST, which its calls on this lock return until it has released every level. Only
 * then can it acquire the lock again. So no layer of a program can hide a loss from another.
 *
 * Clients. Two clients are independent, even in one process: a thread that holds a lock through one
 * deadlocks if it acquires the lock through the other. Make one client per process and deployment,
 * and share it.
 *
 * Asking Redis. A call that "asks Redis" blocks for a round trip. If Redis does not answer, the
 * call returns after `command_timeout_ms`, a wait after its `wait_ms`, and a release after
 * `release_timeout_ms`. But each command gets at least 50 ms after it was sent, so that a short
 * wait against a distant server is a real attempt. The library completes releases and cleans up
 * other unanswered commands in the background. Every such call can also return the common errors:
 *
 *     RELOCK_E_CONN         Redis is unreachable or did not answer in time
 *     RELOCK_E_SERVER       Redis returned an error, or the server is a replica; see the log
 *     RELOCK_E_AUTH         authentication failed, or the user lacks an ACL right
 *     RELOCK_E_UNSUPPORTED  the server has been replaced by a Sentinel or a cluster node
 *     RELOCK_E_NOMEM        out of memory
 *     RELOCK_E_CLOSED       the client was freed; for a call that acquires: freed or shut down
 *     RELOCK_E_FORKED       the client was made before fork(), and this is the child
 *     RELOCK_E_DEADLOCK     called from a callback of this library, where no call may block
 *     RELOCK_E_INVALID      a NULL handle, or an argument out of range
 *
 * No call sets errno or is a cancellation point, and signals do not interrupt any.
 *
 * Time. All times are in milliseconds on a monotonic clock, so changing the date has no effect.
 *
 * Structs that the caller fills. Zero them, or use an initialiser: zero selects the default, which
 * the field's comment gives in brackets. `reserved` must stay zero, else the call returns
 * RELOCK_E_INVALID. Later versions turn reserved fields into options, so a compiled program also
 * runs with a newer library.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RELOCK_API __attribute__((visibility("default")))
#define RELOCK_CHECKED __attribute__((warn_unused_result))

#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* relock_lock() and struct relock_lock, like stat(2) */
#endif

/* ---- results ------------------------------------------------------------------------------ */

/* Every result: name, value, text. Values never change. */
#define RELOCK_STATUS_MAP(XX)                                                             \
    XX(OK, 0, "success")                                                                  \
    XX(BUSY, -1, "another owner holds the lock")                                          \
    XX(TIMEOUT, -2, "timed out: another owner holds the lock")                            \
    XX(CANCELLED, -3, "the wait was cancelled")                                           \
    XX(LOST, -4, "the hold was lost: its lease expired, or its key was deleted or taken") \
    XX(NOT_OWNER, -5, "this owner does not hold the lock")                                \
    XX(E_NOMEM, -11, "out of memory")                                                     \
    XX(E_INVALID, -12, "invalid argument")                                                \
    XX(E_CONN, -13, "Redis is unreachable or did not answer in time")                     \
    XX(E_SERVER, -14, "Redis returned an error or is a replica")                          \
    XX(E_AUTH, -15, "authentication failed or an ACL right is missing")                   \
    XX(E_REPLICAS, -16, "too few replicas acknowledged the lock")                         \
    XX(E_CLOSED, -17, "the client was shut down or freed")                                \
    XX(E_FORKED, -18, "the client was made before fork() and this is the child")          \
    XX(E_DEADLOCK, -19, "this call would deadlock")                                       \
    XX(E_UNSUPPORTED, -20, "not supported by this kind of lock, server or build")

enum relock_status {
#define RELOCK_STATUS_ENUM_(name, value, text) RELOCK_##name = (value),
    RELOCK_STATUS_MAP(RELOCK_STATUS_ENUM_)
#undef RELOCK_STATUS_ENUM_
};

/**
 * Describes a result.
 *
 * Threads: any; also from on_lost.
 *
 * Returns: a constant string, never NULL.
 */
RELOCK_API const char *relock_strerror(int result);

/* ---- callbacks ---------------------------------------------------------------------------- */

/* Why a hold was lost, for logs and counters. The holder must stop in every case. Later versions
 * may add reasons. */
#define RELOCK_LOST_EXPIRED 1 /* the lease expired: Redis unreachable or this process paused */
#define RELOCK_LOST_GONE 2    /* the key is gone: forced, deleted, or the server lost its data */
#define RELOCK_LOST_TAKEN 3   /* another owner holds the lock */
#define RELOCK_LOST_CAPPED 4  /* `max_hold_ms` stopped the renewals, and the lease expired */

/**
 * A hold that ended without a release. The library makes it; it is valid during the callback only.
 * Later versions append fields.
 */
struct relock_lost {
    const char *name;    /* name of the lock; of a multi lock, of the member lost first */
    uint64_t owner;      /* the owner, as reported in relock_grant */
    int reason;          /* RELOCK_LOST_* */
    unsigned hold_count; /* levels that the owner still has to release */
};

/**
 * Called once for each lost hold, on a thread of the client that does nothing else; the library
 * holds no mutex then. If the last release itself discovers the loss, the library does not call it:
 * that release returns RELOCK_LOST.
 *
 * The callback may block: renewals and waits go on, and only the client's next on_lost is delayed.
 * It may call the functions marked "also from on_lost". Any call that would block returns
 * RELOCK_E_DEADLOCK.
 *
 * The last release of a hold waits for the hold's callback. When it returns, the callback has
 * returned or will not be called, so `arg` may be freed; a release inside the callback does not
 * wait. Therefore do not release while you hold a mutex that the callback takes. In the callback,
 * do not wait for a thread that releases the hold, nor for a thread that ends.
 *
 * All signals are blocked on this thread and on the thread of on_log. A process started by the
 * callback inherits that signal mask.
 */
typedef void relock_lost_fn(const struct relock_lost *what, void *arg);

/* Log levels, as in syslog(3). */
#define RELOCK_LOG_ERROR 3
#define RELOCK_LOG_WARNING 4
#define RELOCK_LOG_INFO 6
#define RELOCK_LOG_DEBUG 7

/**
 * Takes one log line without a newline; `text` is valid during the call. The client makes one call
 * at a time, on a thread that does nothing else. The callback must not call this library. No line
 * contains a password; lock names are escaped.
 *
 * The callback may block: no call and no renewal waits for it, nor for a blocked stderr. Up to 256
 * lines are queued meanwhile. The library drops further lines, counts them in `log_dropped`, and
 * logs their number in one line.
 *
 * If a cause repeats, for any lock, the library logs its first five lines and then one line every
 * ten seconds with the number of lines left out. RELOCK_LOG_DEBUG lines are never left out.
 *
 * If the process ends without relock_client_free(), the last lines may be missing.
 */
typedef void relock_log_fn(int level, const char *text, void *arg);

/* ---- client ------------------------------------------------------------------------------- */

/**
 * Access to one Redis deployment: an identity (a UUID), several connections, and three threads, for
 * I/O, on_lost and the log. A process usually needs one. All threads may use it concurrently.
 *
 * The caller owns it. Locks may outlive it: after relock_client_free() their calls return
 * RELOCK_E_CLOSED until each lock is freed too. If a process ends without freeing its client, its
 * holds stay in Redis until their leases expire.
 *
 * In a forked child every call on it returns RELOCK_E_FORKED, and the queries answered from memory
 * say "not held". Freeing it there does not affect the parent. Make a new client in the child.
 */
struct relock_client;

#define RELOCK_LAZY 1u           /* make the client even if Redis is unreachable; keep trying */
#define RELOCK_ANNOUNCE_PLAIN 2u /* plain locks: publish releases, and subscribe while waiting */

/** Options of a client. The library copies the strings. */
struct relock_options {
    /* [redis://127.0.0.1:6379] redis://[[user]:password@]host[:port][/db] or
     * unix:///path[?db=n]; not supported yet: rediss:// redis+sentinel:// redis+cluster:// */
    const char *url;
    const char *user, *password; /* [from the url] used literally, without percent-encoding */
    /* [relock:<host>:<pid>] CLIENT LIST shows `client_name:<client id>`; no blanks */
    const char *client_name;

    uint64_t watchdog_timeout_ms; /* [30000] lease without a lease_ms; renewed at 3/10 of it */
    uint64_t connect_timeout_ms;  /* [1000] how long connecting to the server may take */
    uint64_t command_timeout_ms;  /* [3000] Redis silence after which commands and waits fail */
    uint64_t recheck_ms;          /* [5000] longest time between two attempts of a waiter */
    uint64_t handoff_ms;          /* [10] time limit for handing a lock off within the process */
    uint64_t replica_timeout_ms;  /* [1000] how long an acquire waits for `min_replicas` */
    uint64_t max_hold_ms;         /* [no limit] age at which the watchdog stops renewing a hold */

    unsigned connections;  /* [4] command connections per Redis server */
    unsigned min_replicas; /* [0] replicas that must acknowledge an acquire (WAIT) */
    unsigned flags;        /* [0] RELOCK_LAZY, RELOCK_ANNOUNCE_PLAIN */
    int log_level;         /* [RELOCK_LOG_INFO] least severe level to log */

    relock_lost_fn *on_lost; /* [none] for holds acquired without an on_lost of their own */
    relock_log_fn *on_log;   /* [warnings and errors go to stderr] */
    void *arg;               /* passed to on_lost and on_log */

    /* [NULL] TLS is not supported yet: a value gives RELOCK_E_UNSUPPORTED */
    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;

    /* [command_timeout_ms] how long a release may block before it continues in the background */
    uint64_t release_timeout_ms;

    uint64_t reserved[7];
};

/**
 * Makes a client and connects it. NULL `options` selects all defaults. The log has the reason of a
 * failure, and what to do, when the call returns (not for RELOCK_E_NOMEM).
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK             free *client with relock_client_free
 *          RELOCK_E_INVALID      the url or another option is invalid
 *          RELOCK_E_UNSUPPORTED  a TLS option; a url scheme that this version does not support; the
 *                                server is a Sentinel or a cluster node, even one with all slots
 *          RELOCK_E_CONN         Redis was unreachable for `connect_timeout_ms` (not an error with
 *                                RELOCK_LAZY), or the process has no file descriptor left
 *          RELOCK_E_SERVER       Redis returned an error, or the server is a replica (not an error
 *                                with RELOCK_LAZY, since it may be promoted)
 *          RELOCK_E_AUTH         authentication failed, or the user lacks an ACL right
 *          RELOCK_E_NOMEM, RELOCK_E_DEADLOCK
 *          *client is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_client_new(const struct relock_options *options,
                                                struct relock_client **client);

/**
 * Rejects new work, so that a server can drain. All waits, and all calls that start to acquire a
 * lock, return RELOCK_E_CLOSED. An owner can still nest in what it holds, extend it and release it,
 * and the watchdog continues. Cannot be undone; further calls have no effect.
 *
 * Threads: any; also from on_lost; not from a signal handler. Does not block.
 */
RELOCK_API void relock_client_shutdown(struct relock_client *client);

/**
 * Shuts the client down and waits until every call in progress has returned. Then it releases what
 * is still held (without on_lost), waits for a running on_lost, closes the connections, and writes
 * the remaining log lines. Accepts NULL.
 *
 * If on_log or stderr has not taken the remaining lines within three seconds, they are dropped.
 * on_log is not called again then, but a call that is still blocked keeps using its `arg`.
 *
 * Threads: any, once; not from a callback. Blocks for up to `command_timeout_ms` for the releases,
 * then for on_lost, then up to 3 s for the log.
 *
 * Returns: NULL.
 */
RELOCK_API struct relock_client *relock_client_free(struct relock_client *client);

/**
 * The client's identity, a UUID: in Redis, holders appear as `<client id>:<number>` (in plain locks
 * as a token).
 *
 * Threads: any; also from on_lost.
 *
 * Returns: a string that lives as long as the client.
 */
RELOCK_API const char *relock_client_id(const struct relock_client *client);

/** Counters since the client was made, and two current values. Later versions append fields. */
struct relock_stats {
    uint64_t acquired;         /* first levels granted by Redis */
    uint64_t passed_on;        /* first levels handed off by another thread, without Redis */
    uint64_t contended;        /* acquires that did not get the lock at once */
    uint64_t waits;            /* sleeps of the first waiter for a lock; fair: of every waiter */
    uint64_t wakes;            /* sleeps (see waits) that a message ended */
    uint64_t rechecks;         /* sleeps (see waits) that `recheck_ms` ended */
    uint64_t renewed;          /* successful renewals, including those after a hand-off */
    uint64_t renewal_failures; /* renewal attempts without a usable answer */
    uint64_t lost;             /* lost holds */
    uint64_t reconnects;       /* connections re-established */
    uint64_t holds;            /* now: holds */
    uint64_t waiters;          /* now: waiting calls */
    uint64_t log_dropped;      /* log lines dropped because on_log or stderr was too slow */
};

/**
 * Reads the counters. Pass `sizeof *stats` as `size`: the library zeroes fields that it does not
 * know and leaves out fields that the caller does not know.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 *
 * Returns: RELOCK_OK, RELOCK_E_INVALID.
 */
RELOCK_API int relock_client_stats(struct relock_client *client, struct relock_stats *stats,
                                   size_t size);

/* ---- lock --------------------------------------------------------------------------------- */

/**
 * A handle: one name on one client. Handles are cheap, any number may have the same name, and all
 * threads may use one concurrently. Holds belong to owners, not to handles: a hold acquired through
 * one handle can be nested, extended and released through any other handle of that name and client.
 *
 * The caller owns it and may free it before or after its client. In a forked child it behaves like
 * its client.
 */
struct relock_lock;

/**
 * Makes a handle for the reentrant lock `name`: 1 to 4096 bytes, which the library copies. The name
 * is the key in Redis; in a cluster it determines the slot.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: RELOCK_OK         free *lock with relock_lock_free
 *          RELOCK_E_INVALID  the name is invalid, or this client has a handle of another kind for
 *                            it; the log then says so
 *          RELOCK_E_NOMEM, RELOCK_E_FORKED
 *          *lock is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_lock_new(struct relock_client *client, const char *name,
                                              struct relock_lock **lock);

/**
 * Frees a handle. It releases nothing: the owner keeps its hold and releases it through another
 * handle of the name. If this was the last handle of a held lock, the log has a warning. As with
 * pthread_mutex_destroy, no thread may be inside a call on the handle. Accepts NULL.
 *
 * Threads: any. Does not block.
 *
 * Returns: NULL.
 */
RELOCK_API struct relock_lock *relock_lock_free(struct relock_lock *lock);

/**
 * The handle's name; of a multi or red lock, the name of its first member.
 *
 * Threads: any; also from on_lost.
 *
 * Returns: a string that lives as long as the handle.
 */
RELOCK_API const char *relock_lock_name(const struct relock_lock *lock);

/* ---- acquiring ---------------------------------------------------------------------------- */

/**
 * Cancels waits from outside. Once fired it stays fired: waits that use it end, and later ones end
 * at once. So one cancel can serve all waits of a connection or a job.
 *
 * The caller owns it; it must outlive the calls that use it. It belongs to no client, and a forked
 * child has its own copy.
 */
struct relock_cancel;

/**
 * Makes a cancel that has not fired.
 *
 * Threads: any; also from on_lost.
 *
 * Returns: RELOCK_OK, RELOCK_E_NOMEM.
 */
RELOCK_API RELOCK_CHECKED int relock_cancel_new(struct relock_cancel **cancel);

/**
 * Fires it. Further calls have no effect.
 *
 * Threads: any; also from on_lost; not from a signal handler. Does not block.
 */
RELOCK_API void relock_cancel_fire(struct relock_cancel *cancel);

/**
 * Frees it. No call may be using it, and no thread may fire it any more. Accepts NULL.
 *
 * Threads: any; also from on_lost.
 *
 * Returns: NULL.
 */
RELOCK_API struct relock_cancel *relock_cancel_free(struct relock_cancel *cancel);

/**
 * Makes an owner: a number that no thread and no other owner in this process has.
 *
 * Threads: any; also from on_lost.
 *
 * Returns: the number, never 0. Nothing needs to be freed.
 */
RELOCK_API uint64_t relock_owner_new(void);

#define RELOCK_FOREVER INT64_MAX

#define RELOCK_NON_REENTRANT 1u /* RELOCK_E_DEADLOCK if the owner already holds the lock */

/** How to acquire a lock. */
struct relock_how {
    /* [one attempt] how long to wait for other owners; negative is 0, so `deadline - now` works */
    int64_t wait_ms;
    /* [renewed until released] fixed lease; never pass a computed remainder: 0 means "renew" */
    uint64_t lease_ms;
    uint64_t owner;               /* [the calling thread] or a number from relock_owner_new() */
    struct relock_cancel *cancel; /* [none] ends the wait */
    relock_lost_fn *on_lost;      /* [the client's] called if this hold is lost */
    void *arg;                    /* passed to this on_lost */
    uint64_t flags;               /* [0] RELOCK_NON_REENTRANT */
    uint64_t reserved[5];
};

/** A hold, as of the return of the call that reports it. */
struct relock_grant {
    uint64_t owner;          /* the holder; pass it to relock_release, _extend, _check */
    uint64_t fencing_token;  /* of a fenced lock, the same at every level of a hold; else 0 */
    uint64_t valid_ms;       /* how much longer the hold is certain */
    unsigned hold_count;     /* levels of the hold */
    unsigned acked_replicas; /* replicas that acknowledged, if `min_replicas` is set */
    /* Multi lock, not acquired: the member that blocked it, or the first member if no single one
     * did. Otherwise NULL. Lives as long as the handle */
    const char *failed_member;
    uint64_t reserved[3];
};

/**
 * Acquires the lock, waiting without limit. The watchdog renews it until it is released.
 *
 * The calling thread becomes the owner. If it already holds the lock, this only adds a level.
 *
 * A wait survives reconnects. It fails when Redis has been silent for `command_timeout_ms`, even if
 * the holder is another thread of this process; the library notices at most half that time later. A
 * red lock polls its servers every `recheck_ms` instead: its wait fails if too few of them answer
 * within `command_timeout_ms` of a poll.
 *
 * Threads: any; asks Redis; waits.
 *
 * Returns: RELOCK_OK          held, with one more level
 *          RELOCK_LOST        this owner still has levels of a lost hold: release them all first
 *          RELOCK_E_REPLICAS  not held: fewer than `min_replicas` acknowledged
 *          RELOCK_E_DEADLOCK  also: the owner holds the read side and wants the write side, or
 *                             holds the lock and passed RELOCK_NON_REENTRANT
 *          the common errors: not held. If Redis granted the lock but the reply was lost or late,
 *          the library releases it as soon as Redis answers, and does not renew it
 */
RELOCK_API RELOCK_CHECKED int relock_lock(struct relock_lock *lock);

/**
 * Acquires the lock if it is free. Does not ask Redis if another owner in this process holds it on
 * this side, or if other threads here wait for it because Redis refused them.
 *
 * Threads: any; asks Redis.
 *
 * Returns: as relock_lock, and
 *          RELOCK_BUSY        another owner holds it
 */
RELOCK_API RELOCK_CHECKED int relock_trylock(struct relock_lock *lock);

/**
 * Acquires the lock within `wait_ms`; 0 or less makes one attempt. `wait_ms` also bounds the call
 * if Redis hangs, for every kind of lock.
 *
 * Threads: any; asks Redis; waits.
 *
 * Returns: as relock_lock, and
 *          RELOCK_TIMEOUT     another owner was known to hold it, and the time is up
 *          RELOCK_E_CONN      also: the time is up, and Redis has not said whether it is held
 */
RELOCK_API RELOCK_CHECKED int relock_timedlock(struct relock_lock *lock, int64_t wait_ms);

/**
 * Acquires the lock with options. NULL `how` makes one attempt with defaults. `grant` may be NULL.
 *
 * A nested level may lengthen the running lease but never shortens it. Once one level of a hold
 * has no `lease_ms`, the watchdog renews the hold until its last release. `on_lost` and `arg` of
 * nested levels are ignored. `cancel` ends the wait, not a command in flight: if that command
 * acquires the lock, the result is RELOCK_OK.
 *
 * Threads: any; asks Redis; waits if `wait_ms` is above 0.
 *
 * Returns: as relock_lock, and
 *          RELOCK_BUSY        another owner holds it, and `wait_ms` was 0 or less
 *          RELOCK_TIMEOUT     as relock_timedlock
 *          RELOCK_CANCELLED   not held: `cancel` fired, before or during the call
 *          RELOCK_E_INVALID   also: `reserved` is not 0, a flag is unknown, or `lease_ms` is above
 *                             ten years
 *          *grant is written at every return; unless RELOCK_OK it is all 0, except `failed_member`
 */
RELOCK_API RELOCK_CHECKED int relock_acquire(struct relock_lock *lock, const struct relock_how *how,
                                             struct relock_grant *grant);

/* ---- extending and releasing -------------------------------------------------------------- */

/**
 * Releases one level of the calling thread. The last release frees the lock and wakes waiters.
 *
 * It hands the lock off instead, without asking Redis, if another thread of this process is
 * waiting and Redis granted the lock to this process less than `handoff_ms` ago. Fair, fenced,
 * read/write and red locks are never handed off. A release that hands off does not notice if
 * relock_force_unlock or another program has broken the hold since that grant: it returns
 * RELOCK_OK. The library renews the hold 5 ms later, or after the renewal in flight; if Redis no
 * longer has it, the new owner loses it like any lost hold.
 *
 * Threads: the owner; asks Redis, except to hand off.
 *
 * Returns: RELOCK_OK         released; this owner held the lock without interruption until now (if
 *                            it was handed off: as far as the library knew)
 *          RELOCK_LOST       released; the hold had been lost before
 *          RELOCK_NOT_OWNER  there was no level to release
 *          the common errors: the level is released; the library tells Redis as soon as it can, or
 *          the lease expires
 */
RELOCK_API int relock_unlock(struct relock_lock *lock);

/**
 * Releases one level of `owner`; 0 is the calling thread. Otherwise as relock_unlock.
 *
 * Threads: any; asks Redis. Also from on_lost, for the lost hold.
 *
 * Returns: as relock_unlock.
 */
RELOCK_API int relock_release(struct relock_lock *lock, uint64_t owner);

/**
 * Makes the hold of `owner` last at least `lease_ms` from now; 0 is the calling thread. Never
 * shortens the lease, and neither does the next renewal. The watchdog continues to renew a hold
 * that it renewed before.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK         extended; relock_check() says how long the hold is certain
 *          RELOCK_LOST       the hold had been lost before
 *          RELOCK_NOT_OWNER  `owner` does not hold this lock
 *          RELOCK_E_INVALID  also: `lease_ms` is 0 or above ten years
 *          the common errors: the lease is as before, or longer
 */
RELOCK_API RELOCK_CHECKED int relock_extend(struct relock_lock *lock, uint64_t owner,
                                            uint64_t lease_ms);

/**
 * Frees the lock, no matter which owner holds it, and wakes all waiters. For operators: the holder
 * learns of it only at its next renewal or call, and not from a release that hands the lock off
 * (see relock_unlock). Has no effect on a free lock.
 *
 * On a read/write lock it frees only the side of the handle. The read side: all readers; a writer
 * keeps the write side. The write side: the writer, including the read side that this writer may
 * hold. If that side is free, nothing happens, even if the other side is held.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK             the lock, or that side of it, is free
 *          RELOCK_E_UNSUPPORTED  also: a multi or red lock; free its members one by one
 *          the common errors
 */
RELOCK_API int relock_force_unlock(struct relock_lock *lock);

/**
 * Releases one level of the calling thread when control leaves the enclosing block, by any path.
 * Place it after the call that acquires; it acquires nothing itself, and ignores a NULL lock. It
 * drops the result of the release: where a loss matters, before a commit for instance, call
 * relock_check() first.
 *
 *     r = relock_lock(lock);
 *     if (r != RELOCK_OK)
 *         return r;
 *     RELOCK_SCOPE(lock);
 *
 * The handle must outlive the block. For GCC and Clang, in C and C++.
 */
#define RELOCK_SCOPE(lock) RELOCK_SCOPE_LINE_(lock, __LINE__)
#define RELOCK_SCOPE_LINE_(lock, line) RELOCK_SCOPE_NAME_(lock, line)
#define RELOCK_SCOPE_NAME_(lock, line)         \
    struct relock_lock *relock_scope_##line##_ \
        __attribute__((cleanup(relock_scope_end_), unused)) = (lock)

static inline void relock_scope_end_(struct relock_lock **lock)
{
    if (*lock)
        (void)relock_unlock(*lock);
}

/* ---- queries answered from memory, in nanoseconds ------------------------------------------- */

/**
 * Reports the hold of `owner` on this lock; 0 is the calling thread. `grant` may be NULL.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 *
 * Returns: RELOCK_OK         held, and certain for another grant->valid_ms
 *          RELOCK_LOST       the hold was lost; the owner still has to release grant->hold_count
 *                            levels
 *          RELOCK_NOT_OWNER  not held
 *          RELOCK_E_CLOSED, RELOCK_E_FORKED, RELOCK_E_INVALID
 *          *grant is written at every return; fields without a value are 0
 */
RELOCK_API int relock_check(struct relock_lock *lock, uint64_t owner, struct relock_grant *grant);

/**
 * How much longer the calling thread's hold is certain. Check it before each step that needs the
 * lock, and leave enough time for the step. For a renewed hold, a value below two thirds of the
 * lease means that renewals are failing.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 *
 * Returns: milliseconds; 0 if lost or not held.
 */
RELOCK_API uint64_t relock_valid_ms(struct relock_lock *lock);

/**
 * For assertions: whether relock_check() returns RELOCK_OK for the calling thread.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 */
RELOCK_API bool relock_is_mine(struct relock_lock *lock);

/* ---- queries that ask Redis; the answer can be outdated when the call returns --------------- */

/*
 * The library asks all servers of a multi or red lock concurrently. Every member of a multi lock
 * must answer. Of a red lock a quorum of the servers must answer: a minority that is down or hangs
 * does not fail the call. A red lock is free if a quorum reports it free, because only then can it
 * be acquired.
 */

/** The holder of a lock. */
struct relock_holder {
    char id[64];         /* `<client id>:<number>` or a token; "" if free; one of several readers */
    int64_t ttl_ms;      /* remaining lease, as relock_ttl_ms() reports it */
    unsigned hold_count; /* levels of that holder */
    unsigned n_holders;  /* number of holders; above 1 for readers only */
    /* Multi lock: the name of the member that `id` holds; else NULL. Lives as long as the handle */
    const char *member;
    bool other_side; /* read/write lock: this side is free, and `id` holds the other side */
    uint64_t reserved[2];
};

/**
 * Reports the holder, its levels and its remaining lease, all at one moment.
 *
 * Read/write lock: a holder of the handle's side; if that side is free, a holder of the other side,
 * with `other_side` set. Multi lock: the holder of the first held member, in acquisition order. Red
 * lock: the holder that most servers name; owners in relock and Redisson have a different id on
 * each server, so for another owner's red lock this is one of its votes.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *holder is written
 *          the common errors
 */
RELOCK_API int relock_who_holds(struct relock_lock *lock, struct relock_holder *holder);

/**
 * Whether any owner, the calling thread included, holds the lock.
 *
 * Read/write lock: whether any owner holds the handle's side, like Redisson's isLocked(). The other
 * side may still block a free one; relock_who_holds() shows that. Multi lock: whether any member is
 * held. Red lock: whether fewer than a quorum of the servers are free, even if several owners share
 * the votes.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *locked is written
 *          the common errors
 */
RELOCK_API int relock_is_locked(struct relock_lock *lock, bool *locked);

/**
 * The calling thread's levels as stored in Redis; 0 if it holds none.
 *
 * Read/write lock: the levels of the handle's side, like Redisson's getHoldCount(). Multi lock: its
 * own levels; fewer if Redis has fewer for one member, and 0 if a member is not held. Red lock: its
 * levels, which only this process counts, as long as a quorum of the servers has the thread's vote.
 * The vote of a server that does not answer counts while it is certain.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *count is written
 *          the common errors
 */
RELOCK_API int relock_hold_count(struct relock_lock *lock, unsigned *count);

/**
 * The remaining lease, no matter which owner holds the lock: the time until the lock is free if its
 * holders neither renew nor release. -2 means free, -1 held without a lease.
 *
 * Read/write lock: the longest lease of either side, like Redisson's remainTimeToLive(). Multi
 * lock: the longest lease of its members. Red lock: the time until a quorum of its servers is free.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *ttl_ms is written
 *          the common errors
 */
RELOCK_API int relock_ttl_ms(struct relock_lock *lock, int64_t *ttl_ms);

/* ---- other kinds, used with the same calls -------------------------------------------------- */

/**
 * A fair lock: waiters acquire it in order of arrival, across processes and languages. Redisson's
 * naming gives the fair locks `x` and `{x}` the same queue in Redis, so one client cannot have
 * handles for both.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: the client has a fair lock whose name differs only in braces
 */
RELOCK_API RELOCK_CHECKED int relock_fairlock_new(struct relock_client *client, const char *name,
                                                  struct relock_lock **lock);

/**
 * The two sides of a read/write lock: readers share it, a writer holds it alone. Each side counts
 * its own levels. A writer may also acquire the read side, and keeps it after releasing the write
 * side. Use one name for both sides. Results as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_rdlock_new(struct relock_client *client, const char *name,
                                                struct relock_lock **lock);
RELOCK_API RELOCK_CHECKED int relock_wrlock_new(struct relock_client *client, const char *name,
                                                struct relock_lock **lock);

/**
 * A fenced lock: each hold gets a `fencing_token` greater than that of every earlier hold. Results
 * as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_fencedlock_new(struct relock_client *client, const char *name,
                                                    struct relock_lock **lock);

/**
 * A spin lock: waiters poll, every 1 to 128 ms, and releases publish nothing. For servers where
 * publishing is expensive. Results as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_spinlock_new(struct relock_client *client, const char *name,
                                                  struct relock_lock **lock);

/**
 * A plain lock: `SET name token NX PX`, as redis-py, redsync and node-redlock use it. Results as
 * relock_lock_new.
 *
 * Those libraries publish nothing, so waiters poll as for a spin lock. Clients with
 * RELOCK_ANNOUNCE_PLAIN also wake each other. Redis stores no levels: relock_hold_count and
 * relock_who_holds report the levels of the caller's own hold while Redis has it, and 1 for any
 * other holder.
 */
RELOCK_API RELOCK_CHECKED int relock_plainlock_new(struct relock_client *client, const char *name,
                                                   struct relock_lock **lock);

/**
 * A multi lock: several locks, of any kind and on any client, acquired as one, all or none. The
 * library acquires the members in one fixed order, so the order of `locks` does not matter. Each
 * level of the multi lock is one level of each member. If a member is lost, the multi lock is lost,
 * and the client of locks[0] calls on_lost. A multi lock in `locks` stands for its members. The
 * handles in `locks` may be freed at once.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: `n` is 0, or two members are the same lock
 */
RELOCK_API RELOCK_CHECKED int relock_multilock_new(struct relock_lock *const *locks, size_t n,
                                                   struct relock_lock **lock);

/**
 * A red lock: one lock on `n` independent servers, 3 to 9 and odd. It is held while more than half
 * of them agree. Each member needs a client of its own, made with RELOCK_LAZY so that a server that
 * is down costs only its vote. The handles in `locks` may be freed at once. Without a `lease_ms`,
 * the lease is the shortest `watchdog_timeout_ms` of the clients. Their `min_replicas` is ignored.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: `n` is not allowed, a member is a multi or red lock, or two
 *                            members share a client
 */
RELOCK_API RELOCK_CHECKED int relock_redlock_new(struct relock_lock *const *locks, size_t n,
                                                 struct relock_lock **lock);

#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif
#endif
