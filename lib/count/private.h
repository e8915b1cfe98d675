/*
 * Private - what the files of lib/count share, and nobody else
 *
 * Number - the commands about a number in Redis, and the waits until it suffices
 *
 * The number is a latch, or the permits of an unleased semaphore. Its handle is that of a lock
 * (lock/state/lock.h), of a kind that `is_number`: it has a name, a resource with a queue, and a
 * subscription, but no holds. The public structs are never defined, so the compiler refuses a latch
 * where a call wants a lock.
 *
 * A command that changes a number must not run twice. So it is sent at most once: if it may have
 * run, and no answer has come, the call ends with RELOCK_E_CONN, and nothing is cleaned up.
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_COUNT_PRIVATE_H
#define RELOCK_COUNT_PRIVATE_H

#include "lock/state/kind.h"
#include "lock/state/lock.h"
#include "redis/server/script.h"

#include <relock.h>
#include <stdbool.h>
#include <stdint.h>

struct redisReply;

/* The reply to a script of a number, or to GET: nil, a number, or { number, receivers of the
 * message }. */
struct relock_number_reply {
    int64_t value;     /* 0 for nil */
    bool is_published; /* the change, to waiters */
    bool is_refused;   /* that, by the server */
};

/* Returns whether it is such a reply. */
bool relock_number_read(const struct redisReply *reply, struct relock_number_reply *read);

struct relock_number_command {
    const struct relock_script *script; /* NULL: the command reads the number */
    const char *message;                /* to be published, "" for the new number; NULL: nothing */
    const int64_t *n;                   /* its argument; NULL: none */
    const char *failed;                 /* for the log: what was not done */
};

/* Runs it. Returns RELOCK_OK and `*value`, the number that Redis answers; 0 for a number that does
 * not exist. Or the failure, which it logs. */
int relock_number_run(struct relock_lock *lock, const struct relock_number_command *command,
                      int64_t *value);

/* Whom a value lets through. */
enum relock_number_verdict {
    RELOCK_NUMBER_NOBODY,
    RELOCK_NUMBER_CALLER, /* the call that has asked */
    RELOCK_NUMBER_ALL,    /* all calls of the client that waited when it asked */
};

/*
 * Runs the command until its value lets the call through, for up to `wait_ms`; 0 or less: once.
 * `cancel` may be NULL. Returns RELOCK_OK, RELOCK_BUSY (once), RELOCK_TIMEOUT, RELOCK_CANCELLED, or
 * the failure, which it logs.
 */
int relock_number_wait(struct relock_lock *lock, const struct relock_number_command *command,
                       enum relock_number_verdict (*judge)(int64_t value), int64_t wait_ms,
                       struct relock_cancel *cancel);

#endif
