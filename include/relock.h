#ifndef RELOCK_H
#define RELOCK_H

/*
 * relock - reentrant distributed locks on Redis and Valkey, compatible with Redisson
 *
 * A client connects to one Redis server, to the master that sentinels name, or to a cluster. A lock
 * is identified by its client and its name. While an owner holds a lock, no other owner can acquire
 * it, on any machine; only readers share a lock. The holder can acquire the lock again: this adds a
 * level, and each level has to be released.
 *
 *     r = relock_lock(lock);
 *     if (r != RELOCK_OK)
 *         return r;
 *     ...
 *     relock_unlock(lock);
 *
 * Results. RELOCK_OK is 0 and means success; every other result is negative. So `r < 0` and
 * `r != RELOCK_OK` are the same test. RELOCK_E_* are errors. The other negative results say why the
 * lock was not acquired, extended or released.
 *
 * Owners. An owner is a number. Each thread has one, and 0 stands for the calling thread.
 * relock_owner_new() makes more owners, for event loops, coroutines and work that moves between
 * threads. Any thread may act for any owner by passing its number. When a thread ends, the library
 * releases what the thread's own number still holds and logs a warning; other owners keep theirs.
 *
 * Holds and levels. A hold lasts from an owner's first acquire of a lock to its last release. Each
 * RELOCK_OK from a call that acquires adds one level; no other result does. Each level needs one
 * release, even if the hold was lost meanwhile. A release removes its level even if Redis is
 * unreachable. After the last release, nothing renews the hold.
 *
 * Leases. Redis frees a lock when its lease ends. The watchdog, a part of each client, renews the
 * leases of its holds in the background, except those acquired with a fixed `lease_ms`. A hold is
 * certain until shortly before its lease ends: until then, Redis cannot grant the lock to another
 * owner. relock_valid_ms() returns the remaining time.
 *
 * Lost holds. A hold is lost if it ends before its last release: its lease expired, or its key was
 * deleted or taken by another owner. The owner learns of the loss from its on_lost callback, from
 * relock_check(), and from its `cancel_on_lost`, which ends waits. Its calls on this lock return
 * RELOCK_LOST until it has released every level. Only then can it acquire the lock again. So the
 * loss reaches every function that has acquired a level.
 *
 * Clients. Two clients are independent, even in one process: a thread that holds a lock through one
 * deadlocks if it acquires the lock through the other. Make one client per process and server, and
 * share it.
 *
 * Asking Redis. A call that "asks Redis" blocks for a round trip. If Redis does not answer, the
 * call returns after `command_timeout_ms`. A call with a `wait_ms` returns after that time, and a
 * release after `release_timeout_ms`. But Redis gets at least 50 ms to answer a command; otherwise,
 * no short wait for a distant server could succeed. The library completes releases and cleans up
 * other unanswered commands in the background. Each call that asks Redis can return the common
 * errors:
 *
 *     RELOCK_E_CONN         Redis is unreachable or did not answer in time
 *     RELOCK_E_SERVER       Redis returned an error, or the server is a replica; see the log
 *     RELOCK_E_AUTH         authentication failed, or the user lacks an ACL right
 *     RELOCK_E_UNSUPPORTED  the server was replaced by one of another type or an old version
 *     RELOCK_E_NOMEM        out of memory
 *     RELOCK_E_CLOSED       the client was freed; for a call that acquires: freed or shut down
 *     RELOCK_E_FORKED       the client was made before fork(), and this is the child
 *     RELOCK_E_DEADLOCK     called from a callback of this library, where no call may block
 *     RELOCK_E_INVALID      a NULL handle; or a bad argument, which the client's log names
 *
 * No call sets errno or raises SIGPIPE, none is a cancellation point, and no signal interrupts one.
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
    XX(BUSY, -1, "not available: in use, reserved for a waiter, or not yet open")         \
    XX(TIMEOUT, -2, "timed out: still in use, reserved for a waiter, or not yet open")    \
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
    XX(E_UNSUPPORTED, -20, "not supported by this kind of lock, server or build")         \
    XX(E_NO_PERMITS, -21, "the number of permits of the semaphore was never set")

enum relock_status {
#define RELOCK_STATUS_ENUM_(name, value, text) RELOCK_##name = (value),
    RELOCK_STATUS_MAP(RELOCK_STATUS_ENUM_)
#undef RELOCK_STATUS_ENUM_
};

/**
 * Describes a result.
 *
 * Threads: any; also from on_lost.
 * Returns: a constant string, never NULL.
 */
RELOCK_API const char *relock_strerror(int result);

/* ---- callbacks ---------------------------------------------------------------------------- */

/* Why a hold was lost, for logs and counters. The holder must stop in every case. Later versions
 * may add reasons. */
#define RELOCK_LOST_EXPIRED 1 /* lease expired: Redis unreachable, process paused, fixed lease */
#define RELOCK_LOST_GONE 2    /* key gone: force-unlocked, deleted, or lost with server data */
#define RELOCK_LOST_TAKEN 3   /* another owner holds the lock, or its key has another type */
#define RELOCK_LOST_CAPPED 4  /* `max_hold_ms` stopped the renewals, and the lease expired */
/* fewer than `min_replicas` acknowledged renewals for a whole lease; the library frees the lock */
#define RELOCK_LOST_REPLICAS 5

/**
 * Describes a lost hold. The library owns it; it is valid until the callback returns. Later
 * versions append fields.
 */
struct relock_lost {
    const char *name;    /* of the lock; of a multi lock, the name of the member lost first */
    uint64_t owner;      /* the owner, as reported in relock_grant */
    int reason;          /* RELOCK_LOST_* */
    unsigned hold_count; /* levels that the owner still has to release */
};

/**
 * The type of on_lost. The library calls it once for each lost hold, under no mutex, on a thread of
 * the client that does nothing else. For a hold of relock_acquire_async(), relock_events_dispatch()
 * calls it instead. If the last release itself discovers the loss, the library does not call it:
 * that release returns RELOCK_LOST.
 *
 * The callback may block: renewals and waits go on, and only the client's next on_lost is delayed.
 * It may call the functions marked "also from on_lost". Any call that would block returns
 * RELOCK_E_DEADLOCK.
 *
 * The last release of a hold waits until the hold's running callback has returned. After the
 * release, the library does not call it any more, so `arg` may be freed. To avoid deadlocks:
 *
 * - Do not release while you hold a mutex that the callback locks.
 * - In the callback, do not wait for another thread to release the hold. A thread that ends
 *   releases its holds, so do not wait for the end of the owner either.
 *
 * A release inside the callback does not wait.
 *
 * All signals are blocked on this thread and on the thread of on_log. A process started by a
 * callback inherits that signal mask.
 */
typedef void relock_lost_fn(const struct relock_lost *what, void *arg);

/* Log levels, as in syslog(3). */
#define RELOCK_LOG_ERROR 3
#define RELOCK_LOG_WARNING 4
#define RELOCK_LOG_INFO 6
#define RELOCK_LOG_DEBUG 7

/**
 * The type of on_log: takes one log line without a newline. `text` is valid until the callback
 * returns. The client makes one call at a time, on a thread that does nothing else. The callback
 * must not call this library. No line contains a password; lock names are escaped.
 *
 * The callback may block: no call on a lock and no renewal waits for it, nor for a blocked stderr.
 * Only relock_client_free(), and a relock_client_new() that fails, wait for it, for at most 3 s. Up
 * to 256 lines are queued meanwhile. The library drops further lines, counts them in
 * `log_dropped`, and logs their number in one line.
 *
 * If lines of the same kind repeat, for the same lock or others, the library logs the first five.
 * Then it logs one line every ten seconds, with the number of lines left out. It leaves out no
 * RELOCK_LOG_DEBUG line.
 *
 * If the process ends without relock_client_free(), the last lines may be missing.
 */
typedef void relock_log_fn(int level, const char *text, void *arg);

/** A log line with what it is about. The library owns it; it is valid until the callback returns.
 * Later versions append fields. */
struct relock_record {
    int level;        /* RELOCK_LOG_* */
    const char *text; /* the line, as on_log gets it */
    const char *lock; /* the name of the lock that the line is about; NULL: none, or several */
    uint64_t owner;   /* the owner that the line is about; 0: none */
    int result;       /* what a call returns for the same reason; RELOCK_OK: no call does */
};

/**
 * The type of on_record: takes a log line with fields, for logs with a structure. It is called in
 * place of on_log, and all that is said there holds for it.
 */
typedef void relock_record_fn(const struct relock_record *record, void *arg);

/* ---- client ------------------------------------------------------------------------------- */

/**
 * Access to one Redis server or cluster: an identity (a UUID), several connections, and three
 * threads, for I/O, on_lost and the log; one more for a cluster or for sentinels. All clients of a
 * process share one further thread, which looks up host names; it is not there while all addresses
 * are digits and no client uses sentinels. A process usually needs one client. All threads may use
 * it concurrently.
 *
 * The caller owns it. Locks may outlive it: after relock_client_free() their calls return
 * RELOCK_E_CLOSED until each lock is freed too. If a process ends without freeing its client, its
 * holds stay in Redis until their leases expire.
 *
 * In a forked child, calls on it and on its locks return RELOCK_E_FORKED, or "not held" if they
 * return no result. Freeing it there does not affect the parent. Make a new client in the child.
 */
struct relock_client;

#define RELOCK_LAZY 1u           /* make the client even if Redis is unreachable; keep trying */
#define RELOCK_ANNOUNCE_PLAIN 2u /* plain locks: publish releases, and subscribe while waiting */
#define RELOCK_TLS_INSECURE 4u   /* TLS without checking the server's certificate: for tests only */
#define RELOCK_NO_SPIN 8u        /* sleep for every reply; do not first retry for up to 50 us */
#define RELOCK_NO_TRACKING 16u   /* no CLIENT TRACKING: only renewals notice losses */
#define RELOCK_DEFER_RELEASES 32u /* releases do not wait for the answer: see relock_unlock() */

/** Options of a client. The library copies the strings. */
struct relock_options {
    /* [redis://127.0.0.1:6379] one of these forms, with rediss in place of redis for TLS:
     * redis://[[user]:password@]host[:port][/db], or ?db=n in place of /db;
     * unix:///path[?db=n];
     * redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/db], which names the
     * sentinels [port 26379] and the master as they call it; user and password are the master's;
     * redis+cluster://[[user]:password@]host[:port][,host[:port]...][/db][?pubsub=...], which names
     * some nodes of a cluster, and how to publish releases: auto, sharded or plain [sharded from
     * Redis 7 on]; databases other than 0 need Valkey 9.
     * valkey and valkeys may stand for redis and rediss */
    const char *url;
    const char *user, *password; /* [from the url] used literally, without percent-encoding */
    /* [relock:<host>:<pid>] CLIENT LIST shows `client_name:<client id>`; no blanks */
    const char *client_name;

    uint64_t watchdog_timeout_ms; /* [30000] lease if no `lease_ms`, at least 30; renewed at 3/10 */
    uint64_t connect_timeout_ms;  /* [1000] how long connecting to the server may take */
    uint64_t command_timeout_ms;  /* [3000] how long Redis may be silent before calls fail */
    uint64_t recheck_ms;          /* [5000] longest time between two attempts of a waiter */
    uint64_t handoff_ms;          /* [10] how long after a grant a lock may be handed off */
    uint64_t replica_timeout_ms;  /* [1000] how long a call waits for `min_replicas` */
    uint64_t max_hold_ms;         /* [no limit] age at which the watchdog stops renewing a hold */

    unsigned connections;  /* [8] maximum of command connections to each server; up to 1024 */
    unsigned min_replicas; /* [0] replicas that must acknowledge acquires and renewals (WAIT) */
    unsigned flags;        /* [0] RELOCK_LAZY and others, as above */
    int log_level;         /* [RELOCK_LOG_INFO] least severe level to log */

    relock_lost_fn *on_lost; /* [none] for holds acquired without an on_lost of their own */
    relock_log_fn *on_log;   /* [warnings and errors go to stderr] */
    void *arg;               /* passed to on_lost and on_log */

    /* For rediss://; files in PEM format, read once by relock_client_new(). */
    const char *tls_ca_file;     /* [the system's CAs] whose certificates to trust */
    const char *tls_cert_file;   /* [none] certificate of this program, with its chain */
    const char *tls_key_file;    /* [tls_cert_file] its private key, without a passphrase */
    const char *tls_server_name; /* [the host of the url] the name in the server's certificate */

    /* [command_timeout_ms] how long a release may block before it continues in the background */
    uint64_t release_timeout_ms;

    const char *sentinel_user, *sentinel_password; /* [none] for the sentinels; used literally */

    /* [none] put before each name that this client is given, so that several programs or tenants
     * can share a server: at most 1024 bytes, as in "shop:". Keys, channels and log lines have it;
     * names that this library returns do not */
    const char *name_prefix;

    relock_record_fn *on_record; /* [on_log] takes log lines with fields; `arg` is passed to it */

    /* [0: off] how long after Redis granted a reentrant or spin lock it may stay with this process
     * while no thread uses it: see relock_unlock(). Meanwhile threads acquire it from memory. */
    uint64_t keep_ms;

    /* [100, and 1 in the 10 s after a deadlock with another client] age at which a wait takes part
     * in the search for deadlocks between processes. A value that is set here always counts, also
     * 100. RELOCK_FOREVER: the waits of this client never take part */
    uint64_t deadlock_ms;

    uint64_t reserved[8];
};

/**
 * Makes a client and connects it. NULL `options` selects all defaults. If the call fails, it logs
 * the reason before it returns (except RELOCK_E_NOMEM); for this it waits up to 3 s for on_log or
 * stderr. It logs a warning if the server's maxmemory-policy lets it evict the keys of locks.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK             free *client with relock_client_free
 *          RELOCK_E_INVALID      the url or another option is invalid, or a TLS file is unusable
 *          RELOCK_E_UNSUPPORTED  rediss:// and the library was built without OpenSSL; the server
 *                                is older than Redis 6.2; or the form of the url does not fit the
 *                                server: a Sentinel, a cluster node (even one with all slots), or
 *                                neither; or a sandbox denies the system call getrandom or eventfd2
 *          RELOCK_E_CONN         Redis was unreachable for `connect_timeout_ms` (not an error with
 *                                RELOCK_LAZY), or the process has no file descriptor left
 *          RELOCK_E_SERVER       Redis returned an error, the sentinels do not know the master, or
 *                                the server is a replica (not an error with RELOCK_LAZY, since it
 *                                may be promoted)
 *          RELOCK_E_AUTH         authentication failed, with a password or a certificate of either
 *                                side, or the user lacks an ACL right
 *          RELOCK_E_NOMEM, RELOCK_E_DEADLOCK
 *          *client is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_client_new(const struct relock_options *options,
                                                struct relock_client **client);

/**
 * Changes the user and the password of a running client, for credentials that are rotated. NULL
 * `user` stands for the default user. The call first logs in at each server with the new ones: if a
 * server refuses, nothing changes. Then the library replaces all connections, without disturbing
 * calls in flight: no lock is lost, and no wait ends. The credentials for sentinels stay.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         all servers accept the new ones, which are in use
 *          RELOCK_E_CONN     the new ones are in use; a server did not answer, and may refuse them
 *          RELOCK_E_AUTH     a server refuses the new ones: the old ones stay in use
 *          RELOCK_E_INVALID  also: no password, or an empty one
 *          the other common errors: the old ones stay in use
 */
RELOCK_API int relock_client_set_password(struct relock_client *client, const char *user,
                                          const char *password);

/**
 * For readiness probes: checks that each server answers, and that the connections for renewals and
 * messages are up. If `name` is not NULL, the call also acquires and releases the reentrant lock of
 * that name, which needs all rights. A lock that is not free is no failure. Use the name for
 * nothing else.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK, or a common error: RELOCK_E_CONN also if the connections for renewals are not
 *          up, RELOCK_E_CLOSED also after relock_client_shutdown
 */
RELOCK_API int relock_client_ready(struct relock_client *client, const char *name);

/**
 * Rejects new work, so that a server can drain. An owner that holds a lock of this client, and has
 * not lost it, goes on: its waits continue, and it may acquire further locks of the client, until
 * it holds none for the first time. From then on, its waits and acquires return RELOCK_E_CLOSED.
 * Those of an owner without a hold do so at once. For a multi or red lock, a hold on the client of
 * its first lock is enough, and a multi lock that is not complete is no hold. The client gives kept
 * locks back; they are no holds. Holds can still be extended and released, and are renewed. Cannot
 * be undone; further calls have no effect.
 *
 * A wait that continues may last for as long as another process holds the lock. To set a deadline,
 * call relock_client_free when it has passed: it ends all waits.
 *
 * Threads: any; also from on_lost; not from a signal handler. Does not block.
 */
RELOCK_API void relock_client_shutdown(struct relock_client *client);

/**
 * Shuts the client down and waits until every call in progress has returned. Then it releases what
 * is still held (without on_lost), gives up places among the waiters that a server has kept, waits
 * for a running on_lost, closes the connections, and writes the remaining log lines. Accepts NULL.
 *
 * If on_log or stderr has not taken the remaining lines within three seconds, the library drops
 * them. It does not call on_log again, but an on_log that is still blocked keeps using its `arg`.
 *
 * Threads: any, once; not from a callback. Blocks up to `command_timeout_ms` for the servers, then
 * until on_lost returns, then up to 3 s for the log.
 * Returns: NULL.
 */
RELOCK_API struct relock_client *relock_client_free(struct relock_client *client);

/**
 * The client's identity, a UUID. In Redis, its holds appear as `<client id>:<number>`, except those
 * of plain locks.
 *
 * Threads: any; also from on_lost.
 * Returns: a string that lives as long as the client.
 */
RELOCK_API const char *relock_client_id(const struct relock_client *client);

#define RELOCK_HISTOGRAM_BUCKETS 128
#define RELOCK_RESULTS 32
#define RELOCK_CONTENDED_NAMES 8

/* The shortest duration of bucket `i`, in microseconds: 0, 1, 2, 3, then four steps to each power
 * of 2, so a duration is known to within a quarter of its value. The last bucket, from about two
 * hours on, has no upper end. */
#define RELOCK_HISTOGRAM_FROM_US(i) \
    ((i) < 4 ? (uint64_t)(i) : (uint64_t)(4 + (i) % 4) << ((i) / 4 - 1))

/** Durations, in buckets that grow with them. */
struct relock_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t buckets[RELOCK_HISTOGRAM_BUCKETS]; /* how many durations were in each */
};

/** A lock that calls have waited for. */
struct relock_contended {
    uint64_t n;    /* contended acquires; may be too high if many names are contended */
    char name[56]; /* its name, cut if it is long; "" in unused places */
};

/** Counters since the client was made, and some current values. Later versions append fields. */
struct relock_stats {
    uint64_t acquired;         /* first levels granted by Redis */
    uint64_t passed_on;        /* first levels handed off by another thread, without Redis */
    uint64_t contended;        /* acquires that did not get the lock at once */
    uint64_t waits;            /* sleeps of first waiters in a queue; for a fair lock, of all */
    uint64_t wakes;            /* such sleeps that a message ended */
    uint64_t rechecks;         /* such sleeps that `recheck_ms` ended */
    uint64_t renewed;          /* successful renewals, including those after a hand-off */
    uint64_t renewal_failures; /* renewal attempts without a usable answer */
    uint64_t lost;             /* lost holds */
    uint64_t reconnects;       /* connections re-established */
    uint64_t holds;            /* now: holds */
    uint64_t waiters;          /* now: waiting calls */
    uint64_t log_dropped;      /* log lines dropped because on_log or stderr was too slow */
    uint64_t connected;        /* now: 1 if all connections for renewals and messages are up */
    /* Calls by result: acquires[-RELOCK_TIMEOUT] are those that timed out. Calls that a client
     * refuses to begin are not counted, nor are those that a multi or red lock makes itself. */
    uint64_t acquires[RELOCK_RESULTS];
    uint64_t releases[RELOCK_RESULTS];
    /* From the call to the first level, also if nobody had to wait. That of a kept lock may count
     * as 0. */
    struct relock_histogram wait;
    struct relock_histogram hold; /* from there to the last release, unless the hold was lost */
    struct relock_histogram round_trip; /* commands that acquire or release, unless deferred */
    struct relock_histogram margin;     /* how long a hold was still certain when it was renewed */
    struct relock_contended contended_names[RELOCK_CONTENDED_NAMES]; /* the highest first */
    uint64_t reused;    /* first levels acquired from memory, of a lock that was kept (`keep_ms`) */
    uint64_t recalled;  /* kept or held locks that another client has asked for */
    uint64_t kept;      /* now: kept locks, which no owner holds */
    uint64_t deadlocks; /* waits refused because they closed a cycle, in or between processes */
    uint64_t deferred;  /* releases that did not wait for the answer (RELOCK_DEFER_RELEASES) */
    uint64_t deferred_lost;  /* such releases of a hold that had been lost before; also in `lost` */
    uint64_t oldest_hold_us; /* now: for how long the oldest hold has been held; 0: none is held.
                                Exact with few holds; else at most a quarter and 1 ms too long */
    uint64_t permits;        /* now: permits of semaphores that owners have */
    uint64_t permit_waiters; /* now: calls that wait for permits; also in `waiters` */
    uint64_t permits_lost;   /* permits of lost holds */
};

/**
 * Reads the counters. Pass `sizeof *stats` as `size`: the library zeroes fields that it does not
 * know and leaves out fields that the caller does not know.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 * Returns: RELOCK_OK         *stats is written
 *          RELOCK_E_INVALID, RELOCK_E_FORKED
 */
RELOCK_API int relock_client_stats(struct relock_client *client, struct relock_stats *stats,
                                   size_t size);

/**
 * Writes what relock_client_stats reports as text for Prometheus, about 20 kB, with a NUL. Like
 * snprintf, it cuts a text that does not fit into `size` bytes. It puts `labels` into each line;
 * pass them without braces, as `program="shop"`, or NULL for none. If a program exports several
 * clients, give each its own labels, and keep the lines that begin with # for the first client
 * only.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 * Returns: RELOCK_OK and *len, the length of the whole text; it was cut if this is not below `size`
 *          RELOCK_E_INVALID, RELOCK_E_CLOSED, RELOCK_E_FORKED
 */
RELOCK_API int relock_stats_print(struct relock_client *client, const char *labels, char *text,
                                  size_t size, size_t *len);

/* ---- lock --------------------------------------------------------------------------------- */

/**
 * A handle of a lock: one name on one client. Any number of handles may have the same name, and all
 * threads may use one concurrently. Holds belong to owners, not to handles: an owner can extend and
 * release its hold through any handle of that name and client.
 *
 * The caller owns it and may free it before or after its client. In a forked child it behaves like
 * its client.
 */
struct relock_lock;

/**
 * Makes a handle for the reentrant lock `name`: 1 to 4096 bytes, which the library copies. The name
 * is the key in Redis, after the client's `name_prefix`, which counts among these bytes. Use one
 * kind of lock per name, in every program.
 *
 * Threads: any. Does not ask Redis.
 * Returns: RELOCK_OK         free *lock with relock_lock_free
 *          RELOCK_E_INVALID  the name is invalid; in a cluster, its key and its channel would have
 *                            different slots; or this client has a handle of another kind with
 *                            this name (the log says so)
 *          RELOCK_E_NOMEM, RELOCK_E_FORKED
 *          *lock is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_lock_new(struct relock_client *client, const char *name,
                                              struct relock_lock **lock);

/**
 * Frees a handle. It releases nothing: the owner keeps its hold and releases it through another
 * handle of the name. If this was the last handle of a held lock, the library logs a warning. As
 * with pthread_mutex_destroy, no thread may be inside a call on the handle. Accepts NULL.
 *
 * Threads: any. Does not block.
 * Returns: NULL.
 */
RELOCK_API struct relock_lock *relock_lock_free(struct relock_lock *lock);

/**
 * The handle's name; of a multi or red lock, the name of its first member.
 *
 * Threads: any; also from on_lost.
 * Returns: a string that lives as long as the handle.
 */
RELOCK_API const char *relock_lock_name(const struct relock_lock *lock);

/* ---- acquiring ---------------------------------------------------------------------------- */

/**
 * Lets one thread cancel the waits of others. It can be fired once: this ends all waits that use
 * it, and later ones at once. So one cancel can serve all waits of a connection or a job.
 *
 * The caller owns it; it must outlive the calls that use it. Any number may exist, all threads may
 * use one concurrently, and it belongs to no client. A forked child has its own copy.
 */
struct relock_cancel;

/**
 * Makes a cancel that has not fired.
 *
 * Threads: any; also from on_lost.
 * Returns: RELOCK_OK         free *cancel with relock_cancel_free
 *          RELOCK_E_NOMEM, RELOCK_E_INVALID
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
 * Returns: NULL.
 */
RELOCK_API struct relock_cancel *relock_cancel_free(struct relock_cancel *cancel);

/**
 * Makes an owner: a number that no thread and no other owner in this process has. An owner that
 * waits in one call should do nothing else: in the search for deadlocks it counts as blocked.
 *
 * Threads: any; also from on_lost.
 * Returns: the number, never 0. Nothing needs to be freed.
 */
RELOCK_API uint64_t relock_owner_new(void);

/**
 * The number of the calling thread as an owner, which relock_grant reports too. No later thread
 * gets it. Other threads can pass it, to release or check what this thread holds.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 * Returns: the number, never 0.
 */
RELOCK_API uint64_t relock_owner_self(void);

#define RELOCK_FOREVER INT64_MAX

#define RELOCK_PERMITS_MAX 1000 /* permits that one call acquires */

#define RELOCK_NON_REENTRANT 1u /* RELOCK_E_DEADLOCK if the owner already holds the lock */

/** How to acquire a lock. The struct need not outlive the call. */
struct relock_how {
    /* [one attempt] how long to wait for other owners; negative is 0, so `deadline - now` works */
    int64_t wait_ms;
    /* [renewed until released] fixed lease, at least 30; never pass a computed remainder: 0 means
     * "renew" */
    uint64_t lease_ms;
    uint64_t owner;               /* [the calling thread] or a number from relock_owner_new() */
    struct relock_cancel *cancel; /* [none] ends the wait */
    relock_lost_fn *on_lost;      /* [the client's] called if this hold is lost */
    void *arg;                    /* passed to this on_lost */
    uint64_t flags;               /* [0] RELOCK_NON_REENTRANT */
    /* [none] fired if this hold is lost: ends the waits that use it. Must outlive the hold */
    struct relock_cancel *cancel_on_lost;
    uint64_t permits; /* a semaphore needs 1 to RELOCK_PERMITS_MAX here, all others 0 */
    /* [none] of a semaphore, 16 bytes for each permit: receives their ids in Redis, with RELOCK_OK.
     * For an asynchronous call it must live until the call has ended */
    unsigned char *permit_ids;
    uint64_t reserved[2];
};

/** Describes a hold at the moment when a call reports it. */
struct relock_grant {
    uint64_t owner;          /* the holder; pass it to relock_release, _extend, _check */
    uint64_t fencing_token;  /* of a fenced lock, the same at every level of a hold; else 0 */
    uint64_t valid_ms;       /* how much longer the hold is certain */
    unsigned hold_count;     /* levels of the hold */
    unsigned acked_replicas; /* replicas that acknowledged, if `min_replicas` is set */
    /* Multi lock that was not acquired: the member that blocked it, or the first member if no
     * single one did. Otherwise NULL. Lives as long as the handle */
    const char *failed_member;
    uint64_t permits; /* of a semaphore; else 0 */
    uint64_t reserved[2];
};

/**
 * Acquires the lock, waiting without limit. The watchdog renews it until it is released.
 *
 * The calling thread becomes the owner. If it already holds the lock, this only adds a level.
 *
 * A wait survives reconnects. If Redis becomes silent, it fails after one to one and a half
 * `command_timeout_ms`, even if the holder is another thread of this process. A red lock retries at
 * least every `recheck_ms` instead: its wait fails if too few servers answer within
 * `command_timeout_ms` of a retry.
 *
 * Threads: any; asks Redis; waits.
 * Returns: RELOCK_OK            held, with one more level
 *          RELOCK_LOST          this owner still has levels of a lost hold: release them all first
 *          RELOCK_E_REPLICAS    not held, or no further level: fewer than `min_replicas` have
 *                               acknowledged
 *          RELOCK_E_DEADLOCK    also: the owner holds the read side and acquires the write side, or
 *                               holds the lock and passed RELOCK_NON_REENTRANT. Or the wait would
 *                               close a cycle of owners that wait for each other: release the locks
 *                               of this owner, pause, and start again. The library finds a cycle at
 *                               once if all its owners are of this client and none waits for
 *                               permits, else after `deadlock_ms`
 *          RELOCK_E_NO_PERMITS  of a semaphore: its number was never set, or it was deleted
 *          the common errors: not held. If Redis granted the lock but the reply was lost or late,
 *          the library does not renew it and releases it as soon as Redis answers
 */
RELOCK_API RELOCK_CHECKED int relock_lock(struct relock_lock *lock);

/**
 * Acquires the lock if it is free. If another owner of this client holds it, or threads wait for it
 * after a refusal by Redis, the call returns without asking Redis. (Each side of a read/write lock
 * counts alone, and the read side always asks.) For up to 100 ms after a release, a free lock is
 * reserved for the process that waited longest.
 *
 * Threads: any; asks Redis.
 * Returns: as relock_lock, and
 *          RELOCK_BUSY        another owner holds it, or it is reserved
 */
RELOCK_API RELOCK_CHECKED int relock_trylock(struct relock_lock *lock);

/**
 * Acquires the lock within `wait_ms`; 0 or less makes one attempt. `wait_ms` also bounds the call
 * if Redis hangs, for every kind of lock.
 *
 * Threads: any; asks Redis; waits.
 * Returns: as relock_lock, and
 *          RELOCK_TIMEOUT     the time is up; another owner was known to hold the lock, it was
 *                             reserved as for relock_trylock, or another thread of the process was
 *                             next to ask Redis
 *          RELOCK_E_CONN      also: the time is up, and Redis has left an attempt unanswered
 */
RELOCK_API RELOCK_CHECKED int relock_timedlock(struct relock_lock *lock, int64_t wait_ms);

/**
 * Acquires the lock with options. NULL `how` makes one attempt with defaults. `grant` may be NULL.
 *
 * A further level may lengthen the running lease but never shortens it. Once one level of a hold
 * has no `lease_ms`, the watchdog renews the hold until its last release. Further levels ignore
 * `on_lost`, `arg` and `cancel_on_lost`. `cancel` ends the wait, not a command in flight: if that
 * command acquires the lock, the result is RELOCK_OK.
 *
 * `cancel_on_lost` fires when the library learns that the hold is lost, before on_lost is called.
 * Then every wait that uses it as `cancel` ends with RELOCK_CANCELLED, on any client. So work that
 * needs the lost lock does not go on waiting for other locks. It does not fire if the last release
 * itself discovers the loss.
 *
 * Threads: any; asks Redis; waits if `wait_ms` is above 0.
 * Returns: as relock_lock, and
 *          RELOCK_BUSY        `wait_ms` was 0 or less; another owner holds the lock, or it is
 *                             reserved
 *          RELOCK_TIMEOUT     as relock_timedlock
 *          RELOCK_CANCELLED   not held: `cancel` fired, before or during the call
 *          RELOCK_E_INVALID   also: `reserved` is not 0, a flag is unknown, or `lease_ms` is from 1
 *                             to 29 or above ten years; of a semaphore, `permits` is 0, above N or
 *                             above RELOCK_PERMITS_MAX
 *          *grant is written at every return; unless RELOCK_OK it is all 0, except `failed_member`
 */
RELOCK_API RELOCK_CHECKED int relock_acquire(struct relock_lock *lock, const struct relock_how *how,
                                             struct relock_grant *grant);

/* ---- extending and releasing -------------------------------------------------------------- */

/**
 * Releases one level of the calling thread. The last release frees the lock and wakes waiters.
 *
 * If another thread of this client waits, the release of a reentrant, spin or plain lock without a
 * fixed lease may hand the lock off to it without asking Redis, until `handoff_ms` after Redis
 * granted the lock to this client. If the hold was forced open or its key deleted since that grant,
 * such a release does not notice and returns RELOCK_OK. The library renews the hold 5 ms later, or
 * after the renewal in flight. If Redis no longer has it then, the new owner has lost it.
 *
 * With `keep_ms`, the last release of a reentrant or spin lock may keep the lock for the next owner
 * of this client. The lock stays until `keep_ms` after Redis granted it, or until a client of
 * relock elsewhere asks for it. The next owner acquires it from memory, and releases it again
 * without asking Redis. As long as the lock stays, threads may also hand it off. As with hand-offs,
 * such a release does not notice a loss, and the library renews the hold soon after the next owner
 * has acquired it.
 *
 * A kept lock belongs to no owner: relock_check() and the counters report it as free. For Redis it
 * is held, so relock_is_locked() says so, and a try elsewhere returns RELOCK_BUSY. A try in this
 * process may return it, too, at the moment when the client gives the lock back. The library keeps
 * no hold with a fixed lease, and none with a longer lease than `watchdog_timeout_ms`.
 *
 * With RELOCK_DEFER_RELEASES, the last release sends its command and does not wait for the answer.
 * RELOCK_OK then means that this owner held the lock as far as the library knew, and that Redis
 * frees the lock when it runs the command. The library reads the answer later. If that says that
 * the hold had been lost, the library writes a log line and counts `deferred_lost`; it does not
 * call on_lost. If there is no answer, the library completes the release in the background. Later
 * calls of this client for the lock wait until the release has ended. Calls for other locks that
 * share the connection may fail if it is silent for `command_timeout_ms`.
 *
 * The command is in the socket when the call returns, or in the queue of a thread that uses the
 * connection. So if the process ends by exit(), _exit() or a signal, a release that has returned
 * may be lost, and Redis keeps the lock until its lease ends. relock_client_free() waits for the
 * answers. A forked child does not send releases of its parent.
 *
 * All other releases wait as without the flag: those that leave levels, those of multi and red
 * locks, those for whose lock a thread of this client waits, and those that need a new connection.
 *
 * Threads: the owner; asks Redis, except to hand off or to keep. Does not wait for the answer with
 * RELOCK_DEFER_RELEASES.
 * Returns: RELOCK_OK         released; this owner held the lock without interruption until now (of
 *                            a lock that was handed off or kept, or of a deferred release: as far
 *                            as the library knew)
 *          RELOCK_LOST       released; the hold had been lost before
 *          RELOCK_NOT_OWNER  there was no level to release
 *          RELOCK_E_DEADLOCK called from a callback: the level is not released
 *          the other common errors: the level is released; the library completes the release in
 *          Redis as soon as it can, unless the lease expires first
 */
RELOCK_API int relock_unlock(struct relock_lock *lock);

/**
 * Releases one level of `owner`, like relock_unlock; 0 is the calling thread.
 *
 * Threads: any; asks Redis. Also from on_lost, for the lost hold.
 * Returns: as relock_unlock.
 */
RELOCK_API int relock_release(struct relock_lock *lock, uint64_t owner);

/**
 * Makes the hold of `owner` last at least `lease_ms` from now; 0 is the calling thread. Neither
 * this call nor the next renewal shortens the lease. The watchdog continues to renew a hold that it
 * renewed before.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         extended; relock_check() says how long the hold is certain
 *          RELOCK_LOST       the hold had been lost before
 *          RELOCK_NOT_OWNER  `owner` does not hold this lock
 *          RELOCK_E_REPLICAS the hold is certain for as long as before: fewer than `min_replicas`
 *                            acknowledged the extension
 *          RELOCK_E_INVALID  also: `lease_ms` is 0 or above ten years
 *          the common errors: the lease is as before, or longer
 */
RELOCK_API RELOCK_CHECKED int relock_extend(struct relock_lock *lock, uint64_t owner,
                                            uint64_t lease_ms);

/**
 * Frees the lock, no matter which owner holds it, and wakes all waiters; of a plain lock, also
 * those of other libraries that sleep until they are told. Has no effect on a free lock. A lock
 * that this client keeps is given back first, and counts as free.
 *
 * For operators: a holder that uses relock mostly learns of it within milliseconds, if it has had
 * the lock for 100 ms. Otherwise it learns of it at its next renewal or call, but not from a
 * release that hands the lock off (see relock_unlock).
 *
 * Read/write lock: forcing the read side ends all read holds and no write hold. Forcing the write
 * side ends all holds of the writer, its read hold included.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK             the lock, or that side of it, was freed or free
 *          RELOCK_E_UNSUPPORTED  also: a multi or red lock; free its members one by one
 *          RELOCK_E_CONN         also: the holder changed during each attempt; try again
 *          RELOCK_E_SERVER       also: the key has data of another program, which stays
 *          the common errors
 */
RELOCK_API int relock_force_unlock(struct relock_lock *lock);

/**
 * Frees the lock like relock_force_unlock, and reports whether it was held, like Redisson's
 * forceUnlock(). Of a read/write lock, this counts holds of the handle's side.
 *
 * Threads: any; asks Redis.
 * Returns: as relock_force_unlock, and with RELOCK_OK *held.
 */
RELOCK_API int relock_force_unlock_held(struct relock_lock *lock, bool *held);

/**
 * Takes the permits of one acquire of a semaphore back, and wakes waiters that can be served. `id`
 * is that of one of its permits, as relock_locks() reports it. Of another library's permits, it may
 * have another length than RELOCK_PERMIT_HEX; with RELOCK_PERMIT_HEX_MAX digits it stands for all
 * ids that begin so, and with none for the id without a byte alone. The owner learns of the loss as
 * after relock_force_unlock. `held` may be NULL; it says whether the permits were out.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK             they are not out now; *held is written with it only
 *          RELOCK_E_INVALID      also: `id` is not an even number of hex digits, or has more than
 *                                RELOCK_PERMIT_HEX_MAX
 *          RELOCK_E_UNSUPPORTED  not a semaphore
 *          RELOCK_E_SERVER       also: the key has data of another program
 *          the common errors: they may have been taken back
 */
RELOCK_API int relock_force_unlock_permit(struct relock_lock *lock, const char *id, bool *held);

/**
 * Releases one level of the calling thread when control leaves the enclosing block, by any path.
 * Place it after the call that acquires; it acquires nothing itself. If `lock` is NULL, it does
 * nothing. It drops the result of the release: where a loss matters, for example before a commit,
 * call relock_check() first.
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

/* ---- event-driven programs ------------------------------------------------------------------ */

/**
 * A queue of callbacks for one event loop: epoll, libev, libuv, io_uring or any other that can
 * watch a descriptor. The calls below do not block. Any number of them may be outstanding, and none
 * needs a thread of its own. When a call has ended, the queue's descriptor becomes readable, and
 * relock_events_dispatch() runs the callback on the calling thread. The same applies to the loss of
 * a hold that relock_acquire_async() acquired.
 *
 *     struct relock_how how = {.wait_ms = 5000, .on_lost = lost, .arg = job};
 *
 *     r = relock_acquire_async(lock, &how, events, acquired, job);
 *
 * The caller owns it. It belongs to one client, which may be freed before it, and a client may have
 * any number. These calls follow the rules of blocking calls and stand in the same queues. Both may
 * be used for one lock.
 *
 * Multi and red locks do not support these calls: acquiring them needs a thread that waits for
 * several clients. With `min_replicas`, relock_acquire_async() is not supported: its commands share
 * a connection with the renewals, which WAIT would hold up. Instead, let a worker thread call
 * relock_acquire() with an owner from relock_owner_new(), and notify the loop. A multi or red lock
 * is released by a worker, too.
 *
 * In a forked child, calls on it return RELOCK_E_FORKED. Freeing it there does not affect the
 * parent.
 */
struct relock_events;

/**
 * Makes a queue.
 *
 * Threads: any; also from callbacks. Does not block.
 * Returns: RELOCK_OK             free *events with relock_events_free
 *          RELOCK_E_NOMEM        out of memory, or the process has no file descriptor left
 *          RELOCK_E_UNSUPPORTED  a sandbox denies the system call eventfd2
 *          RELOCK_E_INVALID, RELOCK_E_CLOSED, RELOCK_E_FORKED
 *          *events is written with RELOCK_OK only
 */
RELOCK_API RELOCK_CHECKED int relock_events_new(struct relock_client *client,
                                                struct relock_events **events);

/**
 * Frees a queue. No callback of it runs any more. Outstanding waits end. If a lock was acquired and
 * the callback has not run, the library releases it in the background. Outstanding releases are
 * completed. Holds whose callback has run stay as they are, but without their on_lost. Accepts
 * NULL.
 *
 * From a callback of this library, or while another thread is in relock_events_dispatch() of this
 * queue, the call does nothing but log an error.
 *
 * Threads: any. No other thread may use the queue any more. Does not block.
 * Returns: NULL; `events` if it was not freed.
 */
RELOCK_API struct relock_events *relock_events_free(struct relock_events *events);

/**
 * The descriptor to watch. It is readable while there is something to dispatch. The program must
 * neither read nor close it.
 *
 * Threads: any; also from callbacks. Does not block.
 * Returns: the descriptor, until the queue is freed
 *          RELOCK_E_INVALID, RELOCK_E_FORKED
 */
RELOCK_API int relock_events_fd(const struct relock_events *events);

/**
 * Runs the callbacks that are due, on the calling thread: those of calls in the order in which the
 * calls ended, then on_lost. It does not wait for more to become due. A callback may make and end
 * calls of this section. Any call that would block returns RELOCK_E_DEADLOCK there. Do not call
 * relock_client_free() there either.
 *
 * Threads: any; threads that call it at the same time share the callbacks. Not from a callback:
 * RELOCK_E_DEADLOCK.
 * Returns: the number of callbacks that it ran; 0 is none
 *          RELOCK_E_DEADLOCK, RELOCK_E_INVALID, RELOCK_E_FORKED
 */
RELOCK_API int relock_events_dispatch(struct relock_events *events);

/**
 * Takes the result of relock_acquire_async(). `grant` is as relock_acquire() writes it, but
 * `valid_ms` counts from now, and 0 means that the hold was lost meanwhile. `grant` and its strings
 * are valid until the callback returns.
 */
typedef void relock_acquired_fn(int result, const struct relock_grant *grant, void *arg);

/** Takes the result of relock_release_async(). */
typedef void relock_released_fn(int result, void *arg);

/**
 * Acquires the lock as relock_acquire() does, without blocking. `fn` gets the result. NULL `how`
 * makes one attempt with defaults.
 *
 * If `how->owner` is 0, the library makes an owner for this call, since no thread holds the lock.
 * Pass its number, grant->owner, to relock_release_async(). So two calls without an owner exclude
 * each other, also on one thread. To add a level, pass the number of the owner. Calls of one owner
 * that overlap are like several threads that act for it: release a hold only after `fn` has got it.
 *
 * If the hold is lost, relock_events_dispatch() of `events` calls its on_lost, or that of the
 * client, but not before `fn` has got the hold. `how` and the handle need not live until `fn` is
 * called; `how->cancel` must, unless the queue is freed.
 *
 * Threads: any; also from callbacks. Does not block.
 * Returns: RELOCK_OK             `fn` will be called once, unless the queue is freed before
 *          RELOCK_E_UNSUPPORTED  a multi or red lock, or the client has `min_replicas`
 *          RELOCK_E_INVALID      also: `events` belongs to another client, `fn` is NULL, or as
 *                                relock_acquire
 *          RELOCK_E_NOMEM, RELOCK_E_CLOSED, RELOCK_E_FORKED
 *          the result for `fn`: as relock_acquire; RELOCK_E_CLOSED also for a wait that was
 *          outstanding when the client was shut down or freed
 */
RELOCK_API RELOCK_CHECKED int relock_acquire_async(struct relock_lock *lock,
                                                   const struct relock_how *how,
                                                   struct relock_events *events,
                                                   relock_acquired_fn *fn, void *arg);

/**
 * Releases one level of `owner` as relock_release() does, without blocking. Pass the number in the
 * grant, also in one of relock_acquire(). 0 is not allowed, because the calling thread does not
 * hold what relock_acquire_async() has acquired. `fn` gets the result; pass NULL if you do not need
 * it. The handle may be freed before `fn` is called.
 *
 * If the on_lost of the hold is running, the last release ends after on_lost returns. Once `fn` has
 * been called, the library does not call on_lost for this hold.
 *
 * Threads: any; also from callbacks. Does not block.
 * Returns: RELOCK_OK             the level will be released, and `fn` will be called once, unless
 *                                the queue is freed before
 *          RELOCK_E_UNSUPPORTED  a multi or red lock
 *          RELOCK_E_INVALID      also: `owner` is 0, or `events` belongs to another client
 *          RELOCK_E_NOMEM        the level was not released; try again
 *          RELOCK_E_CLOSED, RELOCK_E_FORKED
 *          the result for `fn`: as relock_release
 */
RELOCK_API int relock_release_async(struct relock_lock *lock, uint64_t owner,
                                    struct relock_events *events, relock_released_fn *fn,
                                    void *arg);

/* ---- latches -------------------------------------------------------------------------------- */

/**
 * A count-down latch: a number that programs set once and count down to zero, and that any number
 * of calls wait for. It is Redisson's RCountDownLatch, so Java programs can share it. The latch
 * exists while its count is above zero; one that was never set, or was counted down, is open.
 *
 * A latch is no lock. It has no owner and no lease: nobody counts down for a process that crashed,
 * and a latch that nobody counts down any more stays closed until relock_latch_delete().
 *
 * At most once. Counting down twice would open the latch too early, so the library sends such a
 * command at most once. If Redis does not answer it, the call returns RELOCK_E_CONN, and the
 * outcome is unknown: the command may have run, or may still run when the call has returned. The
 * library neither repeats it nor cleans up. relock_latch_count() may tell. This applies to
 * relock_latch_try_set(), relock_latch_count_down() and relock_latch_delete(). The library still
 * repeats what a server has refused and so has not run, as after a failover. The options
 * `min_replicas` and `keep_ms` do not concern latches.
 *
 * A key of this name that is no number, or has another type, stays as it is: relock_latch_try_set()
 * returns RELOCK_OK and has not set it, the other calls that ask Redis return RELOCK_E_SERVER. A
 * negative number counts as zero.
 *
 * There are no asynchronous calls for latches, as these commands must not be repeated. The program
 * of an event loop makes them on a thread of its own, and in a callback of such a loop they return
 * RELOCK_E_DEADLOCK.
 *
 * The caller owns the handle; it is freed and shared like that of a lock, also in a forked child.
 */
struct relock_latch;

/**
 * Makes a handle for the latch `name`: see relock_lock_new().
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new; free *latch with relock_latch_free
 *          RELOCK_E_INVALID  also: in a cluster, a name with a }: Redisson's channel of such a
 *                            latch would be in another slot
 */
RELOCK_API RELOCK_CHECKED int relock_latch_new(struct relock_client *client, const char *name,
                                               struct relock_latch **latch);

/**
 * Frees a handle. No thread may be inside a call on it. The latch stays in Redis. Accepts NULL.
 *
 * Threads: any. Does not block.
 * Returns: NULL.
 */
RELOCK_API struct relock_latch *relock_latch_free(struct relock_latch *latch);

/**
 * Closes an open latch: sets its count, at least 1. If the latch is closed, its count stays, and
 * so does a number below 1 that another program has left. `set` may be NULL.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         *set: whether this call has set it
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          RELOCK_E_INVALID  also: `count` is 0 or above INT64_MAX
 *          the other common errors: not set
 */
RELOCK_API int relock_latch_try_set(struct relock_latch *latch, uint64_t count, bool *set);

/**
 * Counts down by one. The call that reaches zero opens the latch and wakes all waiters, also those
 * of Redisson. Has no effect on an open latch.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         counted down once
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          the other common errors: not counted down
 */
RELOCK_API int relock_latch_count_down(struct relock_latch *latch);

/**
 * Reports the count; 0 means open.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *count, or a common error.
 */
RELOCK_API int relock_latch_count(struct relock_latch *latch, uint64_t *count);

/**
 * Waits until the latch is open, for up to `wait_ms`; 0 or less looks once, and RELOCK_FOREVER
 * waits without limit. `cancel` may be NULL. The latch was open at one moment during the call;
 * another program may have set it again since.
 *
 * The waiting threads of a client share one subscription, and one of them asks Redis for all: when
 * it is told of a change, when the subscription is made again, and every `recheck_ms`. Otherwise a
 * wait is like that for a lock: it survives reconnects, ends when Redis is silent, and
 * relock_client_shutdown() ends those of owners without a hold. It takes no part in the search for
 * deadlocks between processes.
 *
 * Threads: any; asks Redis; waits if `wait_ms` is above 0.
 * Returns: RELOCK_OK         open
 *          RELOCK_BUSY       `wait_ms` was 0 or less, and it is closed
 *          RELOCK_TIMEOUT    it was still closed
 *          RELOCK_CANCELLED  `cancel` fired, before or during the call
 *          RELOCK_E_CLOSED   also: the client was shut down
 *          the common errors
 */
RELOCK_API RELOCK_CHECKED int relock_latch_wait(struct relock_latch *latch, int64_t wait_ms,
                                                struct relock_cancel *cancel);

/**
 * Deletes the latch, whatever its count: it is open, and all waiters are woken, also those of
 * Redisson. `deleted` may be NULL.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         *deleted: whether it was closed before
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          the other common errors: not deleted
 */
RELOCK_API int relock_latch_delete(struct relock_latch *latch, bool *deleted);

/* ---- unleased semaphores -------------------------------------------------------------------- */

/**
 * A semaphore whose permits have no lease: Redisson's RSemaphore, for programs that share one with
 * Java. For everything else, use relock_semaphore_new(). The permits of a program that crashes, or
 * loses the answer to an acquire, are gone until somebody adds others by relock_unleased_add():
 * Redis knows neither who has permits nor for how long. Nobody is an owner, so any thread may
 * release, also more than was ever acquired.
 *
 * In Redis it is the number of permits available. One that was never set has none, and a release
 * makes it. Commands are sent at most once, as for latches: after RELOCK_E_CONN the outcome is
 * unknown, except for relock_unleased_available(), which changes nothing. A key of this name that
 * is no number, or has another type, is treated as for latches. As for latches, there are no
 * asynchronous calls.
 *
 * The caller owns the handle; it is freed and shared like that of a lock, also in a forked child.
 */
struct relock_unleased;

/**
 * Makes a handle for the semaphore `name`: see relock_lock_new().
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new; free *semaphore with relock_unleased_free
 */
RELOCK_API RELOCK_CHECKED int relock_unleased_new(struct relock_client *client, const char *name,
                                                  struct relock_unleased **semaphore);

/**
 * Frees a handle. No thread may be inside a call on it. It releases nothing. Accepts NULL.
 *
 * Threads: any. Does not block.
 * Returns: NULL.
 */
RELOCK_API struct relock_unleased *relock_unleased_free(struct relock_unleased *semaphore);

/**
 * Makes the semaphore with `n` permits, if it does not exist. `set` may be NULL.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         *set: whether this call has made it
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          RELOCK_E_INVALID  also: `n` is above INT32_MAX
 *          the other common errors: not set
 */
RELOCK_API int relock_unleased_try_set(struct relock_unleased *semaphore, unsigned n, bool *set);

/**
 * Adds permits; takes some away if `n` is negative, so that their number may become negative, too.
 * For operators, who replace lost permits.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         added
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          the other common errors: not added
 */
RELOCK_API int relock_unleased_add(struct relock_unleased *semaphore, int n);

/**
 * Acquires `n` permits, all or none, waiting for up to `wait_ms`; 0 or less tries once, and
 * RELOCK_FOREVER waits without limit. `cancel` may be NULL; it ends the wait, not a command in
 * flight: if that command acquires the permits, the result is RELOCK_OK.
 *
 * The waiting threads of a client stand in a queue, and the first of them asks Redis for its own
 * permits, when it is told that permits were released. So a large request may hold up smaller ones
 * of this client, until its wait ends. A try asks at once, and other clients do not wait for this
 * queue. All else is as for relock_latch_wait().
 *
 * Threads: any; asks Redis; waits if `wait_ms` is above 0.
 * Returns: RELOCK_OK         acquired: release them by relock_unleased_release
 *          RELOCK_BUSY       `wait_ms` was 0 or less, and there were too few permits
 *          RELOCK_TIMEOUT    there were too few permits
 *          RELOCK_CANCELLED  `cancel` fired, before or during the call
 *          RELOCK_E_CONN     if a command was sent and not answered, the outcome is unknown: the
 *                            permits may be lost
 *          RELOCK_E_CLOSED   also: the client was shut down
 *          RELOCK_E_INVALID  also: `n` is 0 or above INT32_MAX
 *          the other common errors: not acquired
 */
RELOCK_API RELOCK_CHECKED int relock_unleased_acquire(struct relock_unleased *semaphore, unsigned n,
                                                      int64_t wait_ms,
                                                      struct relock_cancel *cancel);

/**
 * Gives `n` permits back and wakes waiters, also those of Redisson. Nothing checks that they were
 * acquired.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         released
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          RELOCK_E_INVALID  also: `n` is 0 or above INT32_MAX
 *          the other common errors: not released
 */
RELOCK_API int relock_unleased_release(struct relock_unleased *semaphore, unsigned n);

/**
 * Takes all permits that are available, and sets a negative number to 0.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK         *n: the number before, which may be negative
 *          RELOCK_E_CONN     if the command was sent, the outcome is unknown
 *          the other common errors: none taken
 */
RELOCK_API int relock_unleased_drain(struct relock_unleased *semaphore, int64_t *n);

/**
 * Reports the permits available. Their number may be negative.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *n, or a common error.
 */
RELOCK_API int relock_unleased_available(struct relock_unleased *semaphore, int64_t *n);

/* ---- queries answered from memory, in nanoseconds ------------------------------------------- */

/**
 * Reports the hold of `owner` on this lock; 0 is the calling thread. `grant` may be NULL.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 * Returns: RELOCK_OK         held, and certain for another grant->valid_ms
 *          RELOCK_LOST       lost; the owner still has to release grant->hold_count levels
 *          RELOCK_NOT_OWNER  not held
 *          RELOCK_E_CLOSED, RELOCK_E_FORKED, RELOCK_E_INVALID
 *          *grant is written at every return; fields without a value are 0
 */
RELOCK_API int relock_check(struct relock_lock *lock, uint64_t owner, struct relock_grant *grant);

/**
 * Reports how much longer the calling thread's hold is certain. Check this before each step that
 * needs the lock, and leave enough time for the step. For a renewed hold, a value below two thirds
 * of the lease means that renewals are failing.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 * Returns: milliseconds; 0 if lost or not held.
 */
RELOCK_API uint64_t relock_valid_ms(struct relock_lock *lock);

/**
 * For assertions: whether the calling thread holds the lock.
 *
 * Threads: any; also from on_lost. Does not ask Redis.
 * Returns: whether relock_check() would return RELOCK_OK.
 */
RELOCK_API bool relock_is_mine(struct relock_lock *lock);

/* ---- queries that ask Redis; the answer can be outdated when the call returns --------------- */

/*
 * The library asks all servers of a multi or red lock concurrently. Every member of a multi lock
 * must answer. Of a red lock, a quorum (more than half of the servers) must answer. A red lock is
 * free if a quorum reports it free, because only then can it be acquired.
 */

/** Describes the holder of a lock. */
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
 * lock: the holder that most servers report. The holder has a different id on each server; `id`
 * is one of them.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *holder, or a common error.
 */
RELOCK_API int relock_who_holds(struct relock_lock *lock, struct relock_holder *holder);

/**
 * Reports whether any owner, the calling thread included, holds the lock.
 *
 * Read/write lock: whether any owner holds the handle's side, like Redisson's isLocked(). A holder
 * of the other side may block this one; relock_who_holds() reports that. Multi lock: whether any
 * member is held. Red lock: whether fewer than a quorum of the servers report it free, even if no
 * owner has a quorum.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *locked, or a common error.
 */
RELOCK_API int relock_is_locked(struct relock_lock *lock, bool *locked);

/**
 * Reports the calling thread's levels as stored in Redis; 0 if it holds none.
 *
 * Read/write lock: the levels of the handle's side, like Redisson's getHoldCount(). Multi lock: its
 * own levels; fewer if Redis has fewer for one member, and 0 if a member is not held. Of a
 * semaphore among them, only the permit of the multi lock counts. Red lock: the levels counted in
 * this process if a quorum of the servers confirms the hold, else 0. A server that does not answer
 * counts as long as its last grant or renewal is certain.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *count, or a common error.
 */
RELOCK_API int relock_hold_count(struct relock_lock *lock, unsigned *count);

/**
 * Reports the levels of `owner`, like relock_hold_count; 0 is the calling thread. Owners of other
 * clients have no number here: relock_who_holds() reports their holds.
 *
 * Threads: any; asks Redis.
 * Returns: as relock_hold_count.
 */
RELOCK_API int relock_hold_count_of(struct relock_lock *lock, uint64_t owner, unsigned *count);

/**
 * Reports the remaining lease, no matter which owner holds the lock: the time until the lock is
 * free if its holders neither renew nor release. -2 means free, -1 held without a lease.
 *
 * Read/write lock: the longest lease of either side, like Redisson's remainTimeToLive(). Multi
 * lock: the longest lease of its members. Red lock: the time until a quorum of its servers is free.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *ttl_ms, or a common error.
 */
RELOCK_API int relock_ttl_ms(struct relock_lock *lock, int64_t *ttl_ms);

/* ---- all locks of a server, for operators and tools ------------------------------------------ */

/*
 * These calls find locks of any program and need no handle. A client with a `name_prefix` finds the
 * locks whose keys begin with it. Those of relock_plainlock_like() may begin with the text of
 * another library; clients without a prefix find them by their keys. docs/wire.md lists the ACL
 * rights that the user needs. The calls run `fn` on the calling thread, under no mutex of the
 * library, until it returns false. `fn` may call this library, except relock_client_free. The
 * library owns the structs and strings; they are valid until `fn` returns. Later versions append
 * fields.
 */

/* The kinds, as far as keys in Redis show them. Later versions may add kinds. */
#define RELOCK_KIND_NONE 0        /* free */
#define RELOCK_KIND_REENTRANT 1   /* also a spin lock, or a fair lock without waiters */
#define RELOCK_KIND_FENCED 2      /* a lock whose name has a counter of tokens */
#define RELOCK_KIND_FAIR 3        /* a lock whose name has a queue of waiters */
#define RELOCK_KIND_RW 4          /* either side */
#define RELOCK_KIND_PLAIN 5       /* its value, or value and name, are those of a known library */
#define RELOCK_KIND_MAYBE_PLAIN 6 /* a string: a plain lock, or no lock, such as a hash sum */
#define RELOCK_KIND_OTHER 7       /* the key of this name is no lock, so none can have the name */
#define RELOCK_KIND_FOREIGN 8     /* held by Symfony or redis-semaphore, in a way of their own */
#define RELOCK_KIND_SEMAPHORE 9   /* permits were acquired, or a client waits for some */
/* A number shows no kind: a latch, an unleased semaphore, or a semaphore whose permits are all
 * free and for which nobody waits. Other programs count with such keys, too. The name of the
 * number tells what it may be, or the channel to which clients listen. */
#define RELOCK_KIND_MAYBE_SEMAPHORE 10 /* `semaphore` is in its name, or clients listen to it */
#define RELOCK_KIND_MAYBE_LATCH 11     /* the same of `latch` */
#define RELOCK_KIND_NUMBER 12          /* another number; also a plain lock that is one */

#define RELOCK_PERMIT_HEX 32      /* digits in the id of a permit, as of relock and Redisson */
#define RELOCK_PERMIT_HEX_MAX 256 /* of a longer id of another library, the first digits */

/** Describes the permits that one acquire has of a semaphore. */
struct relock_permits_info {
    const char *id;          /* of one of them, in hex, as Redisson shows it */
    const char *client_name; /* as in struct relock_lock_info */
    uint64_t n_permits;      /* Redisson's permits each count as an acquire */
    int64_t ttl_ms;  /* remaining lease; -1: it does not end, or the server hides its time */
    int64_t held_ms; /* as in struct relock_lock_info */
    const struct relock_permits_info *next; /* expires later; NULL: none */
};

/** Describes a lock. */
struct relock_lock_info {
    const char *name;
    int kind; /* RELOCK_KIND_* */
    /* As relock_who_holds() reports it; of a read/write lock, of the write side */
    struct relock_holder holder;
    const char *client_name; /* of the holder: that of its relock_options; "" if unknown */
    /* Of a fair lock, owners in its queue. Of a latch or an unleased semaphore, clients that listen
     * to its channel, also Redisson's: those that wait, and those of relock that did a second or
     * two ago. Else clients of relock in line. */
    unsigned n_waiting;
    /* For how long this holder has held it; -1: not known. relock clients record it of each hold
     * that lasts for `deadlock_ms`, or, if that is not set, for a third of the watchdog's time. */
    int64_t held_ms;
    int64_t number; /* of a semaphore, the permits that are free; of other numbers, the number */
    uint64_t n_out; /* permits of a semaphore that are out: all permits are the sum of the two */
    /* Of a semaphore: the permits of each acquire, as far as the first 300 that expire show them
     */
    const struct relock_permits_info *permits;
    /* Of RELOCK_KIND_PLAIN: the library whose keys and values look like this, by its name for
     * relock_plainlock_like(); "": relock's, or the same in several libraries */
    const char *library;
    /* Of a semaphore: its number is missing, while permits are out, so nobody gets one. Somebody
     * has deleted its key, say. relock_semaphore_init() and relock_semaphore_set() set it again. */
    bool is_unset;
};

/** Takes one lock that relock_locks() has found. Returns whether to go on. */
typedef bool relock_locks_fn(const struct relock_lock_info *info, void *arg);

/**
 * Finds the locks that are held and whose names match `pattern`, as in the Redis command KEYS; `*`
 * stands for all. It visits the whole key space, in small steps (SCAN), and asks for each hash,
 * string and sorted set that matches. Locks that are acquired or released meanwhile may be missing,
 * and `fn` may get a lock twice. Semaphores count as held while a permit is out or a client waits;
 * a number that may be a semaphore while it is 0 or less, or a client listens to its channel; and
 * one that may be a latch while it is above 0. Other numbers are not found.
 *
 * A pattern without a special character is a name; a backslash makes the next character ordinary.
 * Then the call asks for this lock alone, and calls `fn` once, even if the lock is free or the key
 * is no lock.
 *
 * If a server does not answer a command, or refuses all commands, as while a script runs, the call
 * waits for it for up to `command_timeout_ms`, and ends; `fn` has got what was found before. Keys
 * that the user may not read are left out, unless these are all.
 *
 * Threads: any; asks Redis, each command for up to `command_timeout_ms`.
 * Returns: RELOCK_OK, or a common error.
 */
RELOCK_API int relock_locks(struct relock_client *client, const char *pattern, relock_locks_fn *fn,
                            void *arg);

#define RELOCK_SIDE_OF_READERS 1
#define RELOCK_SIDE_OF_WRITERS 2

/** Describes a client of relock, or an owner, that waits for a lock. */
struct relock_waiter_info {
    const char *id;          /* of the client, or of the owner in the queue of a fair lock */
    const char *client_name; /* as in struct relock_lock_info */
    unsigned place;          /* 1 is the first */
    int side;                /* of a read/write lock: RELOCK_SIDE_*; else 0 */
    bool is_told;            /* the lock was released, and this client was told to acquire it */
    int64_t gone_in_ms;      /* fair lock: time until it loses its place if it is silent; or -1 */
};

/** Takes one waiter that relock_waiters() has found. Returns whether to go on. */
typedef bool relock_waiters_fn(const struct relock_waiter_info *info, void *arg);

/**
 * Reports the first 500 waiters for the lock `name`, in order: the queue of a fair lock, with
 * Redisson's waiters, or the clients of relock that wait in line; see docs/wire.md. Redis knows no
 * others: none for spin locks, or for plain locks without RELOCK_ANNOUNCE_PLAIN. Of latches and
 * unleased semaphores it knows only how many clients listen: `n_waiting` of relock_locks().
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK, or a common error.
 */
RELOCK_API int relock_waiters(struct relock_client *client, const char *name, relock_waiters_fn *fn,
                              void *arg);

/** Describes an owner that waits for a lock while it holds another one. */
struct relock_nested_wait {
    const char *name;        /* the lock that the owner waits for */
    const char *id;          /* of the owner's client */
    const char *client_name; /* as in struct relock_lock_info */
    const char *hold;        /* the other hold's number in Redis; of a plain lock, its token; of a
                                semaphore, what its permits begin with, in hex */
    uint64_t waited_ms;      /* how long it had waited when its client last published it */
};

/** Takes one wait that relock_nested_waits() has found. Returns whether to go on. */
typedef bool relock_nested_waits_fn(const struct relock_nested_wait *wait, void *arg);

/**
 * Reports the owners that have been waiting for longer than their client's `deadlock_ms` while they
 * hold other locks. It calls `fn` once for each of their holds. Clients of relock publish these
 * waits to find deadlocks, see docs/wire.md. It visits the whole key space, in small steps (SCAN).
 *
 * Threads: any; asks Redis, each command for up to `command_timeout_ms`.
 * Returns: RELOCK_OK, or a common error.
 */
RELOCK_API int relock_nested_waits(struct relock_client *client, relock_nested_waits_fn *fn,
                                   void *arg);

/** Describes a replica of a server. */
struct relock_replica_info {
    const char *address;    /* as its master reports it */
    int result;             /* RELOCK_OK, or why the library could not ask for its clock */
    int64_t clock_ahead_ms; /* its clock less its master's; exact to within two round trips */
    const struct relock_replica_info *next;
};

/** Describes a server of a client. */
struct relock_server_info {
    const char *address;    /* without the password */
    const char *info;       /* the reply to the Redis command INFO */
    uint64_t round_trip_us; /* of one command */
    /* its clock less this machine's, exact to within the round trip; INT64_MIN: unknown */
    int64_t clock_ahead_ms;
    const struct relock_replica_info *replicas; /* the first of those that it has; NULL: none */
    /* RELOCK_OK, or why its clock is unknown: RELOCK_E_AUTH or RELOCK_E_SERVER if it refuses TIME,
     * RELOCK_E_UNSUPPORTED if it answers something else than seconds and microseconds */
    int clock_result;
};

/** Takes the description of one server. Returns whether to go on. */
typedef bool relock_servers_fn(const struct relock_server_info *info, void *arg);

/**
 * Describes the server of this client, the master that the sentinels name, or each master of the
 * cluster. It also connects to each of their replicas, with the credentials of the client, to read
 * its clock. If that fails, the call succeeds, and the replica's `result` says why.
 *
 * Threads: any; asks Redis, each replica for up to `connect_timeout_ms`.
 * Returns: RELOCK_OK, or a common error.
 */
RELOCK_API int relock_servers(struct relock_client *client, relock_servers_fn *fn, void *arg);

/* ---- other kinds, used with the same calls -------------------------------------------------- */

/**
 * A fair lock: waiters acquire it in order of arrival, across processes and languages. Redisson's
 * naming gives the fair locks `x` and `{x}` the same queue in Redis, so one client cannot have
 * handles for both.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: the client has a fair lock whose name differs only in braces
 */
RELOCK_API RELOCK_CHECKED int relock_fairlock_new(struct relock_client *client, const char *name,
                                                  struct relock_lock **lock);

/**
 * Sets how long a waiter for this fair lock keeps its place in the queue without a sign of life
 * [3 x `recheck_ms`]. For about this long, a process that was killed or cut off may delay those
 * behind it. Waiters of this client then ask at least three times in `patience_ms`. It applies to
 * all handles of the lock on this client, from each waiter's next attempt on. Use the same value in
 * every program.
 *
 * Threads: any. Does not ask Redis.
 * Returns: RELOCK_OK
 *          RELOCK_E_INVALID      `patience_ms` is below a second or above a day
 *          RELOCK_E_UNSUPPORTED  not a fair lock
 *          RELOCK_E_CLOSED, RELOCK_E_FORKED
 */
RELOCK_API int relock_fairlock_set_patience(struct relock_lock *lock, uint64_t patience_ms);

/**
 * The two sides of a read/write lock: readers share it, a writer holds it alone. Each side counts
 * its own levels. A writer may also acquire the read side, and keeps it after releasing the write
 * side. Use one name for both sides.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_rdlock_new(struct relock_client *client, const char *name,
                                                struct relock_lock **lock);
RELOCK_API RELOCK_CHECKED int relock_wrlock_new(struct relock_client *client, const char *name,
                                                struct relock_lock **lock);

/**
 * A fenced lock: each hold gets a `fencing_token` greater than that of every earlier hold.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_fencedlock_new(struct relock_client *client, const char *name,
                                                    struct relock_lock **lock);

/**
 * A spin lock: waiters poll, by default every 1 to 128 ms, and releases publish nothing. For
 * servers where publishing is expensive.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_spinlock_new(struct relock_client *client, const char *name,
                                                  struct relock_lock **lock);

/**
 * Sets the pauses between two attempts of a waiter for this spin or plain lock. They are random,
 * from `min_ms` [1] to a bound that grows with each attempt up to `max_ms` [128]. Equal values make
 * all pauses equal. Shorter pauses find a free lock sooner and cost Redis more commands. They apply
 * to all handles of the lock on this client, from each waiter's next attempt on.
 *
 * Threads: any. Does not ask Redis.
 * Returns: RELOCK_OK
 *          RELOCK_E_INVALID      `min_ms` is 0 or above `max_ms`, or `max_ms` is above an hour
 *          RELOCK_E_UNSUPPORTED  neither a spin lock nor a plain lock
 *          RELOCK_E_CLOSED, RELOCK_E_FORKED
 */
RELOCK_API int relock_spinlock_set_pauses(struct relock_lock *lock, uint64_t min_ms,
                                          uint64_t max_ms);

/**
 * A plain lock: `SET name token NX PX`, as redis-py, redsync and node-redlock use it.
 *
 * Those libraries publish nothing, so waiters sleep until Redis reports a change of the key. If
 * Redis cannot report it, they poll as for a spin lock: the user may not use CLIENT TRACKING, or
 * RELOCK_NO_TRACKING is set. Clients with RELOCK_ANNOUNCE_PLAIN also wake each other. While another
 * library uses the lock as well, waiters leave it alone for 128 ms now and then, so that waiters
 * that poll find it free: docs/sharing.md. Redis stores no levels: relock_hold_count() and
 * relock_who_holds() report the levels of the caller's own hold while Redis has it, and 1 for any
 * other holder.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_plainlock_new(struct relock_client *client, const char *name,
                                                   struct relock_lock **lock);

/**
 * A plain lock that programs with another library use under this name. The call knows how that
 * library makes the key of the name, and each release wakes its waiters as its own releases do.
 * `library` is one of these, and docs/sharing.md says what to mind about each:
 *
 *   bsm-redislock node-redlock redis-py redlock-py redlock-universal redsync rslock
 *   sesamecare-redlock pottery python-redis-lock redis-lock redis-semaphore simple-redis-mutex
 *   django-redis[:PREFIX:VERSION]  those of the cache [:1]
 *   rueidislock[:PREFIX]           the KeyPrefix of the locker [rueidislock]
 *   shedlock[:ENVIRONMENT]         of the lock provider [default]
 *   spring-integration:REGISTRY    the key of the RedisLockRegistry
 *
 * `name` is what the other program calls the lock; with `name_prefix`, what it calls the lock
 * without that. relock_lock_name() returns the name; log lines and relock_locks() have the key.
 * Where the waiters of the library sleep until they are told, RELOCK_ANNOUNCE_PLAIN has no effect.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: no such library (the log lists them), its parameter is missing
 *                            or too much, or this client has the key under another name. In a
 *                            cluster, for python-redis-lock: the name has no hash tag
 */
RELOCK_API RELOCK_CHECKED int relock_plainlock_like(struct relock_client *client,
                                                    const char *library, const char *name,
                                                    struct relock_lock **lock);

/**
 * A semaphore: at most N permits are out at a time. Each permit has a lease, which the watchdog
 * renews, so the permits of a process that died come back. The keys are those of Redisson's
 * RPermitExpirableSemaphore, so programs in Java can share the permits: docs/guarantees.md says
 * what their clocks mean. N has to be set once: relock_semaphore_init().
 *
 * The calls for locks are for semaphores, too, with these differences. Each acquire takes `permits`
 * of struct relock_how, all or none, or without that struct one permit. It never adds a level, so
 * an owner may have the permits of several acquires. It waits for further ones like any other
 * owner. With RELOCK_NON_REENTRANT, the call returns RELOCK_E_DEADLOCK if the owner has permits of
 * the semaphore, by itself or through a multi lock; so does a multi lock that would take one. A
 * wait for permits also returns it if too few of them can come back, because the others are with
 * this owner or with owners that wait for each other. That is found after `deadlock_ms`, also
 * within one client.
 *
 * Clients of relock that wait get permits in the order in which they came. While one waits for
 * many, no other takes the few that are free, not even by a try. Redisson's clients know no order.
 *
 * A release gives back the permits of one acquire: the newest. But one that was lost goes first,
 * once the library has reported that loss (or has nobody to tell), so that work that goes on keeps
 * its permits. While the owner has a lost acquire, its acquires return RELOCK_LOST.
 *
 * relock_extend() extends the permits of all acquires of the owner. relock_check() reports the
 * acquire that is certain for the shortest time, with the number of all its acquires in
 * `hold_count`, and of all its permits in `permits`. relock_hold_count() reports the permits that
 * the owner has in Redis.
 *
 * relock_who_holds() reports the acquire whose permits expire first. `id` is one of its permits, in
 * hex, `hold_count` is how many it has, and `n_holders` how many permits are out in all.
 * relock_is_locked() says whether any is out. relock_force_unlock() takes back the permits of that
 * one acquire: call it again for the next one, or relock_force_unlock_permit() for another one.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new.
 */
RELOCK_API RELOCK_CHECKED int relock_semaphore_new(struct relock_client *client, const char *name,
                                                   struct relock_lock **lock);

#define RELOCK_SEMAPHORE_MAX 2147483647u /* the largest N */

/**
 * Sets the number of permits N of a semaphore unless it was set before, like Redisson's
 * trySetPermits(). If `was_unset` is not NULL, it says whether this call has set it.
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK             set, now or before; *was_unset is written with it only
 *          RELOCK_E_INVALID      also: `n` is above RELOCK_SEMAPHORE_MAX
 *          RELOCK_E_UNSUPPORTED  also: not a semaphore
 *          RELOCK_E_SERVER       also: the key has data of another program, which stays
 *          the common errors: it may have been set. A repeat then reports that it was set before
 */
RELOCK_API int relock_semaphore_init(struct relock_lock *lock, uint64_t n, bool *was_unset);

/**
 * Sets the number of permits N of a semaphore, whether it was set before or not, like Redisson's
 * setPermits(): those that are out count. If more are out than `n`, their owners keep them, and
 * `n_free` is negative until enough of them are released. An acquire of more than `n`, with 0 each
 * acquire, returns RELOCK_E_INVALID, also if it is waiting.
 *
 * Threads: any; asks Redis.
 * Returns: as relock_semaphore_init.
 */
RELOCK_API int relock_semaphore_set(struct relock_lock *lock, uint64_t n);

/**
 * Adds to the number of permits N of a semaphore, like Redisson's addPermits(); takes away if `n`
 * is negative. Others may change N at the same time. Unlike Redisson's, it needs a number that was
 * set.
 *
 * Threads: any; asks Redis, at least twice.
 * Returns: RELOCK_OK
 *          RELOCK_E_NO_PERMITS   N was never set, or the semaphore was deleted
 *          RELOCK_E_INVALID      also: N would be negative or above RELOCK_SEMAPHORE_MAX
 *          RELOCK_E_UNSUPPORTED  also: not a semaphore
 *          RELOCK_E_SERVER       also: the key has data of another program
 *          RELOCK_E_CONN         also: N changed during each attempt
 *          the common errors: it may have been added, once; relock_semaphore_read() says what N is
 */
RELOCK_API int relock_semaphore_add(struct relock_lock *lock, int64_t n);

/** The permits of a semaphore at one moment. N is their sum. */
struct relock_permits {
    int64_t n_free; /* negative if N was lowered while more were out */
    uint64_t n_out; /* that owners have, in all programs */
    uint64_t reserved[2];
};

/**
 * Reports the permits of a semaphore, after those that have expired came back; like Redisson's
 * availablePermits() and acquiredPermits().
 *
 * Threads: any; asks Redis.
 * Returns: RELOCK_OK and *permits
 *          RELOCK_E_NO_PERMITS   N was never set, or the semaphore was deleted
 *          RELOCK_E_UNSUPPORTED  also: not a semaphore
 *          RELOCK_E_SERVER       also: the key has data of another program
 *          the common errors
 */
RELOCK_API int relock_semaphore_read(struct relock_lock *lock, struct relock_permits *permits);

/**
 * A multi lock: several locks, of any kind and on any client, acquired as one, all or none. The
 * library acquires the members in one fixed order, so the order of `locks` does not matter. Each
 * level of the multi lock is one level of each member. But of a semaphore, the first level acquires
 * one permit, and the last one gives it back; calls of the owner about the semaphore, such as
 * relock_unlock(), are about other permits. If a member is lost, the multi lock is lost, and the
 * client of locks[0] calls on_lost. A multi lock in `locks` stands for its members. The handles in
 * `locks` may be freed when the call has returned.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: `n` is 0, or two members are the same lock
 */
RELOCK_API RELOCK_CHECKED int relock_multilock_new(struct relock_lock *const *locks, size_t n,
                                                   struct relock_lock **lock);

/**
 * A red lock: one lock on `n` independent servers, 3, 5, 7 or 9. An owner holds it while it holds a
 * quorum of the members, which is more than half. Each member needs a client of its own. Make these
 * clients with RELOCK_LAZY; otherwise no client can be made for a server that is down. The handles
 * in `locks` may be freed when the call has returned. Without a `lease_ms`, the lease is the
 * shortest `watchdog_timeout_ms` of the clients. The library ignores their `min_replicas`.
 *
 * Threads: any. Does not ask Redis.
 * Returns: as relock_lock_new, and
 *          RELOCK_E_INVALID  also: `n` is not allowed, a member is a multi or red lock or a
 *                            semaphore, or two members share a client
 *          RELOCK_E_UNSUPPORTED  a member is in a cluster
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
