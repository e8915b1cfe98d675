/*
 * Request - a script of one lock with its arguments, ready to run; or a command like one
 *
 * A struct relock_call and the texts that it points to. Each function fills it for one script; the
 * caller adds fences and replicas.
 *
 * Threads: the owner of the request; only constant fields of resource and hold are read, and
 * `renewal_ms`, `line` and `patience_ms`.
 */
#ifndef RELOCK_REQUEST_H
#define RELOCK_REQUEST_H

#include "base/decimal.h"
#include "lock/state/client.h"
#include "lock/state/keys.h"
#include "lock/state/resource.h"
#include "redis/lane/call.h"

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

/* Publishes a message on a sharded channel. */
void relock_request_publish(struct relock_request *request, struct relock_text channel,
                            const char *message);

/* Takes the client out of the line of a lock. `side` of a read/write lock, or NULL. */
void relock_request_leave(struct relock_request *request, const struct relock_client *client,
                          const char *name, size_t len, const char *side);

void relock_request_renew(struct relock_request *request, const struct relock_hold *hold);

/* Asks whether the hold is there, and changes nothing in Redis. */
void relock_request_check(struct relock_request *request, const struct relock_hold *hold);

/* Asks that by the command `look` of the kind. The reply does not tell whether another owner has
 * the lock. */
void relock_request_look(struct relock_request *request, const struct relock_hold *hold);

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

/* Frees the lock while it is held by `field`. */
void relock_request_force_unlock(struct relock_request *request,
                                 const struct relock_resource *resource, const char *field,
                                 size_t len);

#endif
