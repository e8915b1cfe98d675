#ifndef RELOCK_H
#define RELOCK_H

/*
 * relock - reentrant distributed locks on Redis and Valkey, shared with Redisson
 *
 * A client is one Redis deployment and one identity. A lock is a name on a client. An owner takes
 * it, nests it, and gives it up level by level; nobody else holds it meanwhile, on any machine.
 *
 *     r = relock_lock(lock);
 *     if (r != RELOCK_OK)
 *         return r;
 *     ...
 *     relock_unlock(lock);
 *
 * Results. RELOCK_OK is 0 and alone means success; every other result is below 0. So `r < 0` and
 * `r != RELOCK_OK` say the same, and neither lets a caller run on without the lock. BUSY, TIMEOUT,
 * CANCELLED, LOST and NOT_OWNER are answers about the lock; RELOCK_E_* say what is in the way.
 *
 * Owners. An owner is a number. Each thread has one of its own, which 0 stands for;
 * relock_owner_new() makes more, for event loops, coroutines and work that moves between threads.
 * Whoever names an owner acts for it. When a thread ends, what its own number still holds is
 * released and the log says so; what other owners hold stays.
 *
 * Levels. Every RELOCK_OK from a call that takes the lock is one level and is answered by one
 * release, whatever happened meanwhile; no other result adds a level. A release gives its level up
 * even when Redis could not be told. When the last level is gone, nothing renews the hold.
 *
 * Lost holds. A hold can end without a release: its lease ran out, or the key was deleted or
 * taken. The owner is told by its callback, by relock_check(), and by RELOCK_LOST from all that it
 * does with that lock until each of its levels is released; only then can it take the lock anew. So
 * no layer can paper over a loss that a layer above or below it must know of.
 *
 * Clients. Two clients are two strangers, in one process too: a thread that holds a lock through
 * one waits for itself through the other. Make one per process and deployment, and hand it around.
 *
 * Asking Redis. A call that "asks Redis" blocks for a round trip. If Redis does not answer, it
 * returns after `command_timeout_ms`, a wait after its `wait_ms`, and a release after
 * `release_timeout_ms`; a command that has just been sent gets 50 ms in any case. The library
 * settles unanswered commands in the background. Besides its own results such a call gives
 *
 *     RELOCK_E_CONN      Redis could not be asked in time
 *     RELOCK_E_SERVER    Redis refused, or is a replica; the log says why
 *     RELOCK_E_AUTH      Redis refused the user or the password, or that user lacks a right
 *     RELOCK_E_UNSUPPORTED  in place of the server there is a Sentinel or a node of a cluster now
 *     RELOCK_E_NOMEM     out of memory
 *     RELOCK_E_CLOSED    the client is freed; for what takes a lock: shut down
 *     RELOCK_E_FORKED    the client was made before fork() and this is the child
 *     RELOCK_E_DEADLOCK  called from a callback of this library, which must not block
 *     RELOCK_E_INVALID   a NULL handle, or an argument out of range
 *
 * listed below as "the failures of asking". No call sets errno, none is a cancellation point, and
 * no signal interrupts one.
 *
 * Time. All of it is in milliseconds, on a clock that no change of the date moves.
 *
 * Structs that the caller fills: zero them, or use an initialiser; zero means the default that
 * stands in brackets. `reserved` stays zero, else RELOCK_E_INVALID: later versions take their
 * fields from it, so that a program runs with a newer library without being compiled again.
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
#pragma GCC diagnostic ignored "-Wshadow" /* relock_lock() beside struct relock_lock: stat(2) */
#endif

/* ---- results ------------------------------------------------------------------------------ */

/* Every result: name, value, text. Values never change. */
#define RELOCK_STATUS_MAP(XX)                                            \
    XX(OK, 0, "success")                                                 \
    XX(BUSY, -1, "held by another owner")                                \
    XX(TIMEOUT, -2, "held by another owner for all of the wait")         \
    XX(CANCELLED, -3, "the wait was cancelled")                          \
    XX(LOST, -4, "this owner held the lock and no longer does")          \
    XX(NOT_OWNER, -5, "this owner does not hold the lock")               \
    XX(E_NOMEM, -11, "out of memory")                                    \
    XX(E_INVALID, -12, "invalid argument")                               \
    XX(E_CONN, -13, "Redis could not be reached")                        \
    XX(E_SERVER, -14, "Redis refused")                                   \
    XX(E_AUTH, -15, "Redis refused the user, the password or the right") \
    XX(E_REPLICAS, -16, "too few replicas acknowledged")                 \
    XX(E_CLOSED, -17, "the client is shut down")                         \
    XX(E_FORKED, -18, "the client was made before fork()")               \
    XX(E_DEADLOCK, -19, "the caller would wait for itself")              \
    XX(E_UNSUPPORTED, -20, "this kind, server or build cannot do that")

enum relock_status {
#define RELOCK_STATUS_ENUM_(name, value, text) RELOCK_##name = (value),
    RELOCK_STATUS_MAP(RELOCK_STATUS_ENUM_)
#undef RELOCK_STATUS_ENUM_
};

/**
 * Describes a result.
 *
 * Threads: any; from on_lost too.
 *
 * Returns: a constant string, never NULL.
 */
RELOCK_API const char *relock_strerror(int result);

/* ---- callbacks ---------------------------------------------------------------------------- */

/* Why a hold was lost. For logs and counters: the answer is always to stop. More may follow. */
#define RELOCK_LOST_EXPIRED 1 /* the lease ended: Redis away too long, or this process paused */
#define RELOCK_LOST_GONE 2    /* no key any more: relock_force_unlock, deleted, or data lost */
#define RELOCK_LOST_TAKEN 3   /* another owner holds it already */
#define RELOCK_LOST_CAPPED 4  /* `max_hold_ms` was reached, and then the lease ran out */

/**
 * A hold that ended without a release. Made by the library and valid during the callback only;
 * later versions append fields.
 */
struct relock_lost {
    const char *name;    /* of the lock; of a multi lock, the member that went first */
    uint64_t owner;      /* as in relock_grant */
    int reason;          /* RELOCK_LOST_* */
    unsigned hold_count; /* levels that the owner still has to release */
};

/**
 * Tells that a hold was lost: once per hold, under no mutex, on a thread of the client that does
 * nothing else. A loss that the last release itself finds out is told by its RELOCK_LOST alone.
 *
 * It may block: renewals and waits go on, and only the next on_lost of the client waits for it. It
 * may ask the questions that are answered from memory, shut the client down, and relock_release()
 * the lost hold. Every call of this library that would block gives RELOCK_E_DEADLOCK.
 *
 * Once the release of the last level has returned, the callback of that hold has returned or will
 * not be called, and `arg` may go (a release from inside the callback aside). So a release waits
 * for the callback of its hold. Do not release under a mutex that the callback takes, and do not
 * wait in the callback for a thread that releases the hold or that ends.
 *
 * All signals are blocked on this thread and on that of on_log. A process that the callback starts
 * inherits the mask.
 */
typedef void relock_lost_fn(const struct relock_lost *what, void *arg);

/* Levels of the log, as in syslog(3). */
#define RELOCK_LOG_ERROR 3
#define RELOCK_LOG_WARNING 4
#define RELOCK_LOG_INFO 6
#define RELOCK_LOG_DEBUG 7

/**
 * Takes one line of log, without newline, valid during the call. The client calls it for one line
 * after the other, on a thread that does nothing else. It must not call this library. No line
 * holds a password; lock names in it are escaped.
 *
 * It may block: no call and no renewal waits for it, nor for a blocked stderr. Up to 256 lines are
 * queued meanwhile. Later ones are dropped, counted in `log_dropped`, and one line says how many.
 *
 * If a cause repeats, whatever lock it is about, its first five lines are logged, and then every
 * ten seconds one line with the number of the others. Lines of RELOCK_LOG_DEBUG all are.
 *
 * A process that ends without relock_client_free() may miss its last lines.
 */
typedef void relock_log_fn(int level, const char *text, void *arg);

/* ---- client ------------------------------------------------------------------------------- */

/**
 * One Redis deployment, one identity (a uuid), some connections, and three threads: for I/O, for
 * on_lost and for the log. Usually one per process; usable from all threads at once.
 *
 * Belongs to whoever made it. Locks may outlive it: after relock_client_free() a handle gives
 * RELOCK_E_CLOSED until it is freed itself. A process that ends without freeing its client leaves
 * its holds to their leases. In a forked child every call gives RELOCK_E_FORKED, the questions
 * answered from memory say "not held", and freeing touches nothing of the parent's; make a new
 * client there.
 */
struct relock_client;

#define RELOCK_LAZY 1u           /* do not fail because Redis cannot be reached yet: keep trying */
#define RELOCK_ANNOUNCE_PLAIN 2u /* plain locks: publish releases, and listen while waiting */

/** How a client is made. Strings are copied. */
struct relock_options {
    /* [redis://127.0.0.1:6379] redis://[[user]:password@]host[:port][/db], or
     * unix:///path[?db=n]; not yet: rediss:// redis+sentinel:// redis+cluster:// */
    const char *url;
    const char *user, *password; /* [those of the url] as they are, nothing escaped */
    /* [relock:<host>:<pid>] CLIENT LIST shows connections as `client_name:id`; no blanks */
    const char *client_name;

    uint64_t watchdog_timeout_ms; /* [30000] lease of a lock taken without one; a third: renewal */
    uint64_t connect_timeout_ms;  /* [1000] */
    uint64_t command_timeout_ms;  /* [3000] Redis silent for so long fails commands and waits */
    uint64_t recheck_ms;          /* [5000] a waiter asks again at least this often */
    uint64_t handoff_ms;          /* [10] longest that a hold is passed on in the process */
    uint64_t replica_timeout_ms;  /* [1000] */
    uint64_t max_hold_ms;         /* [no cap] the watchdog stops renewing a hold after this */

    unsigned connections;  /* [4] command connections per Redis server */
    unsigned min_replicas; /* [0] replicas that must acknowledge an acquire (WAIT) */
    unsigned flags;        /* [0] RELOCK_LAZY, RELOCK_ANNOUNCE_PLAIN */
    int log_level;         /* [RELOCK_LOG_INFO] the least grave that is logged */

    relock_lost_fn *on_lost; /* [none] for holds that were taken without an on_lost of their own */
    relock_log_fn *on_log;   /* [warnings and errors go to stderr] */
    void *arg;               /* of both */

    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;

    /* [command_timeout_ms] a release returns by then, and goes on in the background */
    uint64_t release_timeout_ms;

    uint64_t reserved[7];
};

/**
 * Makes a client and connects it. NULL options are all defaults. If it fails for another reason
 * than memory, the log has said why when it returns.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK             *client is to be freed with relock_client_free
 *          RELOCK_E_INVALID      the url or another option cannot be; the log says which
 *          RELOCK_E_UNSUPPORTED  TLS in a build without it; a scheme of the url that this version
 *                                does not have; at the address there is a Sentinel, or a node of a
 *                                cluster, also one that has all slots
 *          RELOCK_E_CONN         Redis could not be reached in `connect_timeout_ms`; not with
 *                                RELOCK_LAZY. Also: the process has no file descriptor left
 *          RELOCK_E_SERVER       Redis refused; at the address there is a replica, which is no
 *                                failure with RELOCK_LAZY, for it may be promoted
 *          RELOCK_E_AUTH         Redis refused the user or the password, or that user lacks a right
 *          RELOCK_E_NOMEM, RELOCK_E_DEADLOCK
 *          The log says which, and what to do.
 *          *client is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_client_new(const struct relock_options *options,
                                                struct relock_client **client);

/**
 * Lets nothing new begin, so that a server can drain. Who waits returns RELOCK_E_CLOSED, and so
 * does who comes to take a lock, free or not. But an owner may nest in what it holds, extend it and
 * release it, and the watchdog goes on. Cannot be undone; further calls do nothing.
 *
 * Threads: any; from on_lost too; not from a signal handler. Does not block.
 */
RELOCK_API void relock_client_shutdown(struct relock_client *client);

/**
 * Shuts the client down, waits until every call in progress has returned, releases what is still
 * held (without on_lost), waits for an on_lost that is running, closes the connections and writes
 * the rest of the log. Takes NULL.
 *
 * If on_log or stderr has not taken the rest within three seconds, it is dropped. Then
 * on_log is not called again, but the call that blocks is still inside it and uses its `arg`.
 *
 * Threads: any, once; never from a callback. Blocks up to `command_timeout_ms` for the release,
 * then for on_lost, then up to 3 s for the log.
 *
 * Returns: NULL.
 */
RELOCK_API struct relock_client *relock_client_free(struct relock_client *client);

/**
 * The identity of this client: what stands before the colon in the holders that Redis shows.
 *
 * Threads: any; from on_lost too.
 *
 * Returns: a string that lives as long as the client.
 */
RELOCK_API const char *relock_client_id(const struct relock_client *client);

/** What a client did so far, and has now. Later versions append fields. */
struct relock_stats {
    uint64_t acquired;         /* first levels taken from Redis */
    uint64_t passed_on;        /* first levels taken inside the process, without Redis */
    uint64_t contended;        /* acquires that did not get the lock at once */
    uint64_t waits;            /* sleeps of the head of a queue, or in a fair one */
    uint64_t wakes;            /* of these, ended by a message */
    uint64_t rechecks;         /* of these, ended by `recheck_ms` */
    uint64_t renewed;          /* renewals granted, those after a hand-off included */
    uint64_t renewal_failures; /* renewals that got no answer, each try */
    uint64_t lost;             /* holds lost */
    uint64_t reconnects;       /* connections made again */
    uint64_t holds;            /* holds now */
    uint64_t waiters;          /* waiting calls now */
    uint64_t log_dropped;      /* log lines that did not fit into the queue to on_log or stderr */
};

/**
 * Reads the counters. `size` is sizeof *stats as the caller knows it: fields that the library does
 * not know are set to 0, fields that the caller does not know are left out.
 *
 * Threads: any; from on_lost too. Does not ask Redis.
 *
 * Returns: RELOCK_OK, RELOCK_E_INVALID.
 */
RELOCK_API int relock_client_stats(struct relock_client *client, struct relock_stats *stats,
                                   size_t size);

/* ---- lock --------------------------------------------------------------------------------- */

/**
 * A name on a client: cheap to make, usable from all threads at once, any number of them on one
 * name. Holds belong to owners, not to handles: what was taken through one handle of a name nests
 * in, is extended and is released through every other on the same client.
 *
 * Belongs to whoever made it; freed before or after its client. In a forked child: as the client.
 */
struct relock_lock;

/**
 * Makes a handle for the reentrant lock `name`: 1 to 4096 bytes, copied. The name is the key in
 * Redis; in a cluster it decides the slot.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: RELOCK_OK         *lock is to be freed with relock_lock_free
 *          RELOCK_E_INVALID  the name cannot be, or a handle of another kind has it on this
 *                            client, which the log then says
 *          RELOCK_E_NOMEM, RELOCK_E_FORKED
 *          *lock is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_lock_new(struct relock_client *client, const char *name,
                                              struct relock_lock **lock);

/**
 * Frees a handle. Releases nothing: a hold stays with its owner, to be released through another
 * handle of the name. When the last one goes while the name is held here, the log warns. No thread
 * may be inside a call on this handle, as with pthread_mutex_destroy. Takes NULL.
 *
 * Threads: any. Does not block.
 *
 * Returns: NULL.
 */
RELOCK_API struct relock_lock *relock_lock_free(struct relock_lock *lock);

/**
 * The name that the handle was made with; of a multi or red lock, that of its first member.
 *
 * Threads: any; from on_lost too.
 *
 * Returns: a string that lives as long as the handle.
 */
RELOCK_API const char *relock_lock_name(const struct relock_lock *lock);

/* ---- taking ------------------------------------------------------------------------------- */

/**
 * Ends waits from outside. Sticky: once fired, every wait that names it ends, and every new one
 * ends at once. So one per connection or job serves all its waits, together or in turn.
 *
 * Belongs to whoever made it and must outlive the calls that name it. Tied to no client; a forked
 * child has a copy of its own.
 */
struct relock_cancel;

/**
 * Makes one, not fired.
 *
 * Threads: any; from on_lost too.
 *
 * Returns: RELOCK_OK, RELOCK_E_NOMEM.
 */
RELOCK_API RELOCK_CHECKED int relock_cancel_new(struct relock_cancel **cancel);

/**
 * Fires. Further calls do nothing.
 *
 * Threads: any; from on_lost too; not from a signal handler. Does not block.
 */
RELOCK_API void relock_cancel_fire(struct relock_cancel *cancel);

/**
 * Frees. No call may name it and nobody may fire it any more. Takes NULL.
 *
 * Threads: any; from on_lost too.
 *
 * Returns: NULL.
 */
RELOCK_API struct relock_cancel *relock_cancel_free(struct relock_cancel *cancel);

/**
 * Makes an owner: a number that no thread and no other owner of this process has.
 *
 * Threads: any; from on_lost too.
 *
 * Returns: the number, never 0; there is nothing to free.
 */
RELOCK_API uint64_t relock_owner_new(void);

#define RELOCK_FOREVER INT64_MAX

#define RELOCK_NON_REENTRANT 1u /* an owner that holds the lock gets RELOCK_E_DEADLOCK */

/** How a lock is taken. */
struct relock_how {
    /* [one try] how long to wait for other owners; below 0 is 0: `deadline - now` may go here */
    int64_t wait_ms;
    /* [renewed until released] else the end of the hold; never a computed rest that may be 0 */
    uint64_t lease_ms;
    uint64_t owner;               /* [the calling thread] else one of relock_owner_new() */
    struct relock_cancel *cancel; /* [none] ends the wait */
    relock_lost_fn *on_lost;      /* [the client's] told if the hold that begins here is lost */
    void *arg;                    /* for it */
    uint64_t flags;               /* [0] RELOCK_NON_REENTRANT */
    uint64_t reserved[5];
};

/** A hold, at the moment of the report. */
struct relock_grant {
    uint64_t owner;          /* for relock_release, _extend, _check; relock_lost names it */
    uint64_t fencing_token;  /* 0 unless a fenced lock; the same at every level of the hold */
    uint64_t valid_ms;       /* how much longer the hold is certain */
    unsigned hold_count;     /* levels */
    unsigned acked_replicas; /* that acknowledged the hold, where `min_replicas` asks for some */
    /* of a multi lock that was not acquired: name of the member in the way, or of the first member
     * if none in particular is; never NULL then. Else NULL. Lives as long as the handle */
    const char *failed_member;
    uint64_t reserved[3];
};

/**
 * Takes the lock, however long it takes; the watchdog renews it until it is released.
 *
 * The calling thread becomes the owner. An owner that holds the lock already has it at once, one
 * level deeper. A wait outlives reconnects, until Redis has been silent for `command_timeout_ms`:
 * that is noticed within half of it more, and ends the wait whoever holds the lock, an owner of
 * this process too. The wait for a red lock ends when too few servers have answered for as long
 * since it asked last, which it does every `recheck_ms`.
 *
 * Threads: any; asks Redis; waits.
 *
 * Returns: RELOCK_OK          held, one level more
 *          RELOCK_LOST        this owner has levels of a lost hold: release them all first
 *          RELOCK_E_REPLICAS  not held: fewer than `min_replicas` acknowledged
 *          RELOCK_E_DEADLOCK  also: the owner has the read side and asks for the write side, or
 *                             holds the lock and asks with RELOCK_NON_REENTRANT
 *          the failures of asking: not held. Should Redis have granted it and the answer be lost
 *          or late, it is released as soon as Redis answers, and nothing renews it
 */
RELOCK_API RELOCK_CHECKED int relock_lock(struct relock_lock *lock);

/**
 * Takes the lock if that needs no waiting. Returns without asking Redis if another owner of this
 * process holds it on this side, or others here wait for it that Redis has refused. Redis has
 * `command_timeout_ms` for its answer.
 *
 * Threads: any; asks Redis.
 *
 * Returns: as relock_lock, and
 *          RELOCK_BUSY        another owner holds it
 */
RELOCK_API RELOCK_CHECKED int relock_trylock(struct relock_lock *lock);

/**
 * Takes the lock within `wait_ms`; 0 or less is one try.
 *
 * The call returns within `wait_ms` whether Redis answers or hangs, of multi and red locks too.
 * Only a command that went out just before has 50 ms for its answer, so that a short wait for a
 * distant server is a real attempt.
 *
 * Threads: any; asks Redis; waits.
 *
 * Returns: as relock_lock, and
 *          RELOCK_TIMEOUT     another owner was known to hold it, and it was not to be had in time
 *          RELOCK_E_CONN      also: the time is over, and Redis has not said who holds it
 */
RELOCK_API RELOCK_CHECKED int relock_timedlock(struct relock_lock *lock, int64_t wait_ms);

/**
 * Takes the lock, with all the choices. NULL `how` is all defaults: one try. `grant` may be NULL.
 *
 * Leases nest: a level may lengthen the lease that is running and never shortens it; once one level
 * asked to be renewed, the hold is, until its last level is released. `on_lost` and `arg` count on
 * the first level only. `cancel` ends the wait, not a command under way: RELOCK_OK beats it.
 *
 * Threads: any; asks Redis; waits if `wait_ms` says so.
 *
 * Returns: as relock_lock, and
 *          RELOCK_BUSY        another owner holds it, and `wait_ms` was 0 or less
 *          RELOCK_TIMEOUT     as relock_timedlock
 *          RELOCK_CANCELLED   not held: `cancel` was fired, before the call or during it
 *          RELOCK_E_INVALID   also: `reserved` is not 0, a flag is unknown, or `lease_ms` is beyond
 *                             ten years
 *          *grant is written at every return, all 0 unless RELOCK_OK, but for
 *          `failed_member`
 */
RELOCK_API RELOCK_CHECKED int relock_acquire(struct relock_lock *lock, const struct relock_how *how,
                                             struct relock_grant *grant);

/* ---- keeping and giving up ---------------------------------------------------------------- */

/**
 * Gives up one level of the calling thread. The last one frees the lock and wakes who waits.
 * If Redis hangs, returns after `release_timeout_ms`; the release goes on in the background.
 *
 * The last release hands the lock off, without asking Redis, if another thread of this process
 * waits for it and Redis granted it to this process less than `handoff_ms` ago. Fair, fenced,
 * read/write and red locks are never handed off. If relock_force_unlock or another program broke
 * the hold in that time, this release does not notice and returns RELOCK_OK. But the library
 * then renews the hold (5 ms later, or after the renewal that is in flight), and if Redis no longer
 * has it, the new owner loses it, as in any loss.
 *
 * Threads: the owner; asks Redis, but not to hand off.
 *
 * Returns: RELOCK_OK         given up; the lock was this owner's without a break until now, or, if
 *                            it was handed off, the library had heard of none
 *          RELOCK_LOST       given up; the hold had been lost before
 *          RELOCK_NOT_OWNER  there was no level to give up
 *          the failures of asking: given up; Redis frees it when it can be told, or by the lease
 */
RELOCK_API int relock_unlock(struct relock_lock *lock);

/**
 * Gives up one level of `owner`, 0 being the calling thread.
 *
 * Threads: any; asks Redis. From on_lost, for the lost hold.
 *
 * Returns: as relock_unlock.
 */
RELOCK_API int relock_release(struct relock_lock *lock, uint64_t owner);

/**
 * Lets the hold of `owner`, 0 being the calling thread, last at least `lease_ms` from now. Never
 * shortens it, nor does the next renewal: a hold that is renewed goes on being renewed.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK         relock_check() says how long it is certain
 *          RELOCK_LOST       the hold had been lost before
 *          RELOCK_NOT_OWNER  `owner` holds nothing here
 *          RELOCK_E_INVALID  also: `lease_ms` is 0 or beyond ten years
 *          the failures of asking: the lease is what it was, or longer
 */
RELOCK_API RELOCK_CHECKED int relock_extend(struct relock_lock *lock, uint64_t owner,
                                            uint64_t lease_ms);

/**
 * Frees the lock, whoever holds it, and wakes all waiters. For operators: the holder finds out only
 * at its next renewal or call; not by a release that hands the lock off, see relock_unlock. A lock
 * that is free stays free.
 *
 * Of a read/write lock it frees the side of the handle. The read side: all readers; a writer keeps
 * the write side. The write side: the writer, with the read side that this writer may hold. If
 * nobody holds the side, nothing happens, whoever holds the other.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK             the lock, or that side of it, was or is now free
 *          RELOCK_E_UNSUPPORTED  a multi or red lock: free its members one by one
 *          the failures of asking
 */
RELOCK_API int relock_force_unlock(struct relock_lock *lock);

/**
 * Gives up one level of the calling thread when the enclosing block is left, however that happens.
 * Stands behind the call that took the lock, and takes nothing itself; passes over a NULL lock. The
 * result is dropped: where a loss must be answered, before a commit say, ask relock_check first.
 *
 *     r = relock_lock(lock);
 *     if (r != RELOCK_OK)
 *         return r;
 *     RELOCK_SCOPE(lock);
 *
 * The handle must live until the block is left. For GCC and Clang, C and C++.
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

/* ---- questions answered from memory, in nanoseconds ---------------------------------------- */

/**
 * What `owner`, 0 being the calling thread, holds of this lock. `grant` may be NULL.
 *
 * Threads: any; from on_lost too. Does not ask Redis.
 *
 * Returns: RELOCK_OK         held, and certain for grant->valid_ms more
 *          RELOCK_LOST       held and lost; grant->hold_count levels are still to be released
 *          RELOCK_NOT_OWNER  not held
 *          RELOCK_E_CLOSED, RELOCK_E_FORKED, RELOCK_E_INVALID
 *          *grant is written at every return, what is not said above being 0
 */
RELOCK_API int relock_check(struct relock_lock *lock, uint64_t owner, struct relock_grant *grant);

/**
 * How much longer the calling thread's hold is certain. Ask before each step that must not happen
 * without the lock, and leave room for the step. Of a renewed hold it falls below two thirds of the
 * lease only while renewals fail.
 *
 * Threads: any; from on_lost too. Does not ask Redis.
 *
 * Returns: milliseconds; 0 if lost or not held.
 */
RELOCK_API uint64_t relock_valid_ms(struct relock_lock *lock);

/**
 * For assertions: relock_check() for the calling thread is RELOCK_OK.
 *
 * Threads: any; from on_lost too. Does not ask Redis.
 */
RELOCK_API bool relock_is_mine(struct relock_lock *lock);

/* ---- questions to Redis, answered as of the moment it was asked ---------------------------- */

/*
 * The two sides of a read/write lock share one key, and each handle stands for one side.
 * relock_is_locked() and relock_hold_count() answer for that side, like Redisson's isLocked() and
 * getHoldCount(). relock_who_holds() and relock_ttl_ms() answer for the lock, so they also tell of
 * the other side when that is what keeps a caller out.
 *
 * A multi lock is asked of the servers of all members at the same time, and every member must
 * answer. A red lock is asked of all its servers at the same time, and a quorum must answer: a
 * minority that is down or hangs does not fail the call. It is free when a quorum of the servers
 * say so, for only then can it be acquired.
 */

/** Who holds a lock. */
struct relock_holder {
    char id[64];         /* `<client id>:<number>`, or a token; "" if free; of several, one */
    int64_t ttl_ms;      /* as relock_ttl_ms() */
    unsigned hold_count; /* levels of that holder */
    unsigned n_holders;  /* above 1 for readers only */
    const char *member;  /* of a multi lock: what `id` holds; lives as long as the handle */
    bool other_side;     /* of a read/write lock: nobody holds this side, `id` holds the other */
    uint64_t reserved[2];
};

/**
 * Who holds the lock, how deep, and for how long, all of one moment.
 *
 * Of one side of a read/write lock, a holder of that side. If it has none, a holder of the other
 * side, and `other_side` is true. Of a multi lock, the holder of the first member, in the order in
 * which members are acquired, that is held. Of a red lock, the holder that most servers name; each
 * vote of a lock of this library or of Redisson has an id of its own, so of others' it is one vote.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *holder is written
 *          the failures of asking
 */
RELOCK_API int relock_who_holds(struct relock_lock *lock, struct relock_holder *holder);

/**
 * Whether anybody holds the lock, the calling thread included.
 *
 * Of one side of a read/write lock: whether anybody holds that side. A side that nobody holds may
 * still be out of reach, because of the other: relock_who_holds() tells. Of a multi lock: whether
 * anybody holds one of its members. Of a red lock: whether fewer than a quorum of its servers are
 * free, be it for one owner or for several that have split the votes.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *locked is written
 *          the failures of asking
 */
RELOCK_API int relock_is_locked(struct relock_lock *lock, bool *locked);

/**
 * The levels of the calling thread as Redis has them; 0 if none.
 *
 * Of one side of a read/write lock: those of that side. Of a multi lock: its own levels, those of a
 * member that has fewer in Redis, and 0 if one member is missing. Of a red lock: its levels, which
 * are counted in this process alone, while a quorum of its servers has the votes of the calling
 * thread; of a server that does not answer, a vote counts while it is certain.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *count is written
 *          the failures of asking
 */
RELOCK_API int relock_hold_count(struct relock_lock *lock, unsigned *count);

/**
 * The remaining lease, whoever holds the lock: -2 free, -1 no lease. So long it is until the lock
 * is free if its holders neither renew nor release.
 *
 * Of one side of a read/write lock: the longest of both sides, like Redisson's remainTimeToLive().
 * Of a multi lock: the longest of its members. Of a red lock: the time until a quorum of its
 * servers is free.
 *
 * Threads: any; asks Redis.
 *
 * Returns: RELOCK_OK  *ttl_ms is written
 *          the failures of asking
 */
RELOCK_API int relock_ttl_ms(struct relock_lock *lock, int64_t *ttl_ms);

/* ---- further kinds, on the same calls ------------------------------------------------------ */

/**
 * First come, first served, across processes and languages. Redisson's names give the fair locks
 * `x` and `{x}` one queue in Redis, so a client makes handles for one of the two only.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: the client has a fair lock whose name differs in braces alone
 */
RELOCK_API RELOCK_CHECKED int relock_fairlock_new(struct relock_client *client, const char *name,
                                                  struct relock_lock **lock);

/**
 * The two sides of one read/write lock: readers together, a writer alone. Each side counts its own
 * levels; a writer may take the read side too and keep it when it gives the write side up. Both
 * sides of one name are one kind. As relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_rdlock_new(struct relock_client *client, const char *name,
                                                struct relock_lock **lock);
RELOCK_API RELOCK_CHECKED int relock_wrlock_new(struct relock_client *client, const char *name,
                                                struct relock_lock **lock);

/** Each hold has a `fencing_token` greater than that of every hold before. As relock_lock_new. */
RELOCK_API RELOCK_CHECKED int relock_fencedlock_new(struct relock_client *client, const char *name,
                                                    struct relock_lock **lock);

/** Waits by asking again, every 1 to 128 ms: where publishing costs much. As relock_lock_new. */
RELOCK_API RELOCK_CHECKED int relock_spinlock_new(struct relock_client *client, const char *name,
                                                  struct relock_lock **lock);

/**
 * `SET name token NX PX`, as redis-py, redsync and node-redlock take it. As relock_lock_new.
 *
 * They announce nothing, so waits poll as for a spin lock; with RELOCK_ANNOUNCE_PLAIN clients that
 * have it wake each other besides. Redis knows of no levels: relock_hold_count and relock_who_holds
 * give those of the caller's own hold, as long as Redis has it, and 1 for anybody else's.
 */
RELOCK_API RELOCK_CHECKED int relock_plainlock_new(struct relock_client *client, const char *name,
                                                   struct relock_lock **lock);

/**
 * Several locks as one, all or none, of any kind and on any client, taken in one order whatever the
 * caller's. The new lock keeps what it needs of its members: their handles may be freed at once. A
 * lost member makes the whole lost; the client of the first member tells of it. Each level is one
 * of each member.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: `n` is 0, or two members are one lock
 */
RELOCK_API RELOCK_CHECKED int relock_multilock_new(struct relock_lock *const *locks, size_t n,
                                                   struct relock_lock **lock);

/**
 * One lock on `n` independent servers, 3 to 9 and odd, held while more than half of them say so.
 * Each has a client of its own, made with RELOCK_LAZY: a server that is down is only a vote less.
 * Without a `lease_ms` the shortest of their leases counts, and `min_replicas` of none. Members as
 * in relock_multilock_new, none of them a multi or red lock.
 *
 * Threads: any. Does not ask Redis.
 *
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: `n` cannot be, or two members share a client
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
