/*
 * Request - the scripts as calls about one lock
 *
 * A call and the texts that it points to. Each of these fills it for one script; what else a call
 * can have, the caller adds.
 *
 * Threads: whoever owns the request; of the site it looks at what is constant only.
 */
#ifndef RELOCK_REQUEST_H
#define RELOCK_REQUEST_H

#include "base/decimal.h"
#include "lock/client.h"
#include "lock/keys.h"
#include "redis/call.h"

struct relock_request {
    struct relock_call call;
    char field[RELOCK_FIELD_MAX];
    char lease[RELOCK_DECIMAL_MAX];
    char count[RELOCK_DECIMAL_MAX];
    char beside[RELOCK_FIELD_MAX];
    char patience[RELOCK_DECIMAL_MAX];
    char channel[RELOCK_CHANNEL_MAX];
};

/* Takes the lock, or sets the count of the hold: `count` is what it has afterwards. */
void relock_request_lock(struct relock_request *request, const struct relock_site *site,
                         uint64_t number, unsigned count, uint64_t lease_ms);

/* Of a reader: `number` is that of the write hold of the same owner, 0 for none. */
void relock_request_beside(struct relock_request *request, const struct relock_site *home,
                           uint64_t number);

/* Of a fair lock: whether it is to be queued if it is refused. */
void relock_request_queue(struct relock_request *request, const struct relock_site *site,
                          bool waits);

/* Sets the count to what is left; at 0 frees the lock, and gives a place in the queue up. */
void relock_request_unlock(struct relock_request *request, const struct relock_site *site,
                           uint64_t number, unsigned count);

void relock_request_renew(struct relock_request *request, const struct relock_site *site,
                          uint64_t number, uint64_t lease_ms);
void relock_request_extend(struct relock_request *request, const struct relock_site *site,
                           uint64_t number, unsigned count, uint64_t lease_ms);

/* `number` is the caller's hold, 0 for none. */
void relock_request_inspect(struct relock_request *request, const struct relock_site *site,
                            uint64_t number);

/* Frees the lock while it is held by `field`. */
void relock_request_force_unlock(struct relock_request *request, const struct relock_site *site,
                                 const char *field, size_t len);

/* Runs it on the lanes, within `command_timeout_ms` or until the deadline. Under no mutex. */
int relock_request_run(struct relock_request *request, struct relock_client *client);
int relock_request_run_until(struct relock_request *request, struct relock_client *client,
                             uint64_t deadline_ms);

/* What the answer to relock_request_lock is: granted, then maybe with a token; else an integer. */
bool relock_request_is_granted(const struct relock_request *request, uint64_t *fencing_token);

/* Its integer, which is what most scripts return. Returns false when the server sent another. */
bool relock_request_answer(const struct relock_request *request, int64_t *answer);

#endif
