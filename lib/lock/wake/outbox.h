/*
 * Outbox - the commands about one lock, and their way through the I/O thread
 *
 * A request is a command, ready to run: over a lane, or by the I/O thread. The outbox passes
 * requests to the I/O thread.
 */
#ifndef RELOCK_OUTBOX_H
#define RELOCK_OUTBOX_H

#include "base/decimal.h"
#include "lock/state/client.h"
#include "lock/state/keys.h"
#include "lock/state/resource.h"
#include "redis/lane/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_conn_id;
struct relock_outbox_ops;

/* ---- request --------------------------------------------------------------------------------- */

/*
 * Request - a script of one lock with its arguments, ready to run; or a command like one
 *
 * A struct relock_call and the texts that it points to. Each function fills it for one script; the
 * caller adds fences and replicas.
 *
 * Threads: the owner of the request; only constant fields of resource and hold are read, and
 * `renewal_ms`, `line` and `patience_ms`.
 */

struct relock_request {
    struct relock_call call;
    char field[RELOCK_FIELD_MAX];
    char lease[RELOCK_DECIMAL_MAX];
    char count[RELOCK_DECIMAL_MAX];
    char beside[RELOCK_FIELD_MAX];
    char patience[RELOCK_DECIMAL_MAX];
    char entry[RELOCK_ENTRY_MAX];
    char channel[RELOCK_CHANNEL_MAX];
};

/* The consequence if the request is refused. */
enum relock_request_wait {
    RELOCK_REQUEST_TRIES,
    RELOCK_REQUEST_WAITS,   /* outside of the line: no reservation concerns it */
    RELOCK_REQUEST_JOINS,   /* the queue of a fair lock, or the line of other locks */
    RELOCK_REQUEST_LISTENS, /* the queue of a fair lock; it listens to its channel there */
};

/*
 * Acquires the lock, or sets the level count of the hold to `count`. Of a reader, `write_number` is
 * the number of the owner's write hold, 0 for none.
 */
void relock_request_lock(struct relock_request *request, const struct relock_hold *hold,
                         unsigned count, uint64_t lease_ms, uint64_t write_number,
                         enum relock_request_wait wait);

/* Sets the level count to `count`; 0 frees the lock and leaves the queue of a fair lock. `joins`:
 * with that, the client joins the line of the lock. */
void relock_request_unlock(struct relock_request *request, const struct relock_hold *hold,
                           unsigned count, bool joins);

void relock_request_renew(struct relock_request *request, const struct relock_hold *hold);

/* Asks whether the hold is there, and changes nothing in Redis. */
void relock_request_check(struct relock_request *request, const struct relock_hold *hold);

/* Asks that by the command `look` of the kind. The reply does not tell whether another owner has
 * the lock. */
void relock_request_look(struct relock_request *request, const struct relock_hold *hold);

/* The script that renews and checks holds of many locks of one kind, and of one node. */
#define RELOCK_REQUEST_MANY 64

struct relock_request_many {
    struct relock_call call;
    unsigned n;      /* holds that will be added; constant */
    unsigned n_keys; /* holds that were added */
    struct relock_text more[3 * RELOCK_REQUEST_MANY];
    char fields[RELOCK_REQUEST_MANY][RELOCK_FIELD_MAX];
    char leases[RELOCK_REQUEST_MANY][RELOCK_DECIMAL_MAX];
};

/* For `n` holds, all of which are then added. */
void relock_request_many(struct relock_request_many *many, const struct relock_kind *kind,
                         unsigned n);

/* `renews`, or only checks. */
void relock_request_many_add(struct relock_request_many *many, const struct relock_hold *hold,
                             bool renews);

void relock_request_extend(struct relock_request *request, const struct relock_hold *hold,
                           unsigned count, uint64_t lease_ms);

/* Whether a slot of the cluster is half moved, as a node has said not long ago, and the channel of
 * the lock may belong to it. */
bool relock_request_is_half_moved(const struct relock_resource *resource);

/* How often a waiter asks without a signal: `recheck_ms`, or more often for the place of a fair
 * waiter. */
uint64_t relock_request_recheck_ms(const struct relock_resource *resource);

/* `number` is the caller's hold, 0 for none. */
void relock_request_inspect(struct relock_request *request, const struct relock_resource *resource,
                            uint64_t number);

/* The same, but of a semaphore only the permits of that hold are the caller's. */
void relock_request_inspect_hold(struct relock_request *request,
                                 const struct relock_resource *resource, uint64_t number);

/* Reads a plain lock for a waiter: see vigil.c. */
void relock_request_watch(struct relock_request *request, const struct relock_resource *resource);

/* Frees the lock while it is held by `field`. */
void relock_request_force_unlock(struct relock_request *request,
                                 const struct relock_resource *resource, const char *field,
                                 size_t len);

/* The value of a number. */
void relock_request_get(struct relock_request *request, const struct relock_resource *resource);

/* A script of a number. One that publishes the change gets this message, "" for the new value;
 * NULL: it does not. `n` is its number; NULL: it needs none. */
void relock_request_number(struct relock_request *request, const struct relock_resource *resource,
                           const struct relock_script *script, const char *message,
                           const int64_t *n);

/* Runs the script of a semaphore that has this verb, and is about so many permits. */
void relock_request_permits(struct relock_request *request, const struct relock_resource *resource,
                            const struct relock_script *script, const char *verb, uint64_t n);

/* ---- outbox ---------------------------------------------------------------------------------- */

/*
 * Outbox - commands that the I/O thread of a client sends for other threads
 *
 * A thread posts an entry and goes on. The I/O thread sends the entries in the order in which they
 * were posted, all on its one connection, and hands each answer to its entry. So one thread can ask
 * several servers at the same time.
 *
 * Threads: with the mutex of the client held.
 */

/* Each command that is posted embeds it. */
struct relock_outbox_entry {
    const struct relock_outbox_ops *ops;
    struct relock_client *client;
    struct relock_outbox *outbox;
    uint64_t posted_ms;
    bool is_sent;
    struct relock_outbox_entry *next, *prev;
};

/* Each entry ends with one call of `answer` or `drop`, which frees it. Both may unlock the mutex
 * meanwhile. */
struct relock_outbox_ops {
    /* Writes the command. Returns false if it is no longer wanted: then it is not sent. */
    bool (*write)(const struct relock_outbox_entry *entry, struct relock_request *request);

    /* It was sent, on this connection. May be NULL. */
    void (*sent)(struct relock_outbox_entry *entry, struct relock_conn_id *conn_id);

    /*
     * RELOCK_OK and the reply, or the failures of relock_pipeline_call. An entry that is not
     * `is_sent` was never sent; RELOCK_E_CLOSED: because it was no longer wanted.
     */
    void (*answer)(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply);

    /* The client has ended: there will be no answer. */
    void (*drop)(struct relock_client *client, struct relock_outbox_entry *entry);
};

/* The entry has its `ops`. An answer is expected from now on. */
void relock_outbox_post(struct relock_client *client, struct relock_outbox *outbox,
                        struct relock_outbox_entry *entry) RELOCK_REQUIRES(client->mutex);

/* Whether the server has left an entry unanswered for more than `patience_ms` at `now_ms`. */
bool relock_outbox_hangs(const struct relock_outbox *outbox, uint64_t now_ms, uint64_t patience_ms);

bool relock_outbox_is_empty(const struct relock_outbox *outbox);

/* Drops all entries, when the I/O thread has ended. The mutex is unlocked meanwhile. */
void relock_outbox_drop_all(struct relock_client *client, struct relock_outbox *outbox)
    RELOCK_REQUIRES(client->mutex);

#endif
