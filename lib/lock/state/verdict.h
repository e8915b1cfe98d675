/*
 * Verdict - the meaning of a script's reply for a hold
 *
 * The replies of all scripts are named here and nowhere else.
 *
 * Threads: any; these are pure functions but for the clock.
 */
#ifndef RELOCK_VERDICT_H
#define RELOCK_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;

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

#endif
