#include "lock/state/kind.h"

#include "base/clock.h"
#include "redis/server/reply.h"

#include <relock.h>

#include <string.h>

/* Of all scripts but `lock`: 1 and the number of receivers, or one of these; else taken. */
#define REPLY_DONE 1
#define REPLY_GONE 0
#define REPLY_MAY_NOT_PUBLISH (-2)

/*
 * Of `lock`: nil, or REPLY_AWAITED of a hold that may be cached; { token }; the lease in the way in
 * milliseconds, or one of these. For a waiter of a fair lock, { that lease, intervals until it asks
 * }. For a client in the line of the lock, { that lease, the place, 1 if the holder does not know
 * the line }. For a client that could not join it, REPLY_MOVING in place of the place.
 */
#define REPLY_NO_LEASE (-1)
#define REPLY_NO_LOCK (-2) /* for a first level: the lock is reserved for another client */
#define REPLY_IN_LINE_LEN 3
#define REPLY_MOVING 0
#define REPLY_AWAITED "awaited"

/* The scripts reserve a free lock for no longer. */
#define RESERVED_MS 100

/* Of a fair lock, to a waiter: so many milliseconds follow. */
#define MESSAGE_HELD "held "
#define MESSAGE_DIGITS_MAX 15

/* A lease ends in less than Redis can say: no reason to ask in a loop. */
#define SHORTEST_WAIT_MS 1

int relock_verdict_loss(enum relock_verdict verdict)
{
    if (verdict == RELOCK_VERDICT_GONE)
        return RELOCK_LOST_GONE;
    return verdict == RELOCK_VERDICT_TAKEN ? RELOCK_LOST_TAKEN : 0;
}

static uint64_t free_at(int64_t ttl_ms)
{
    if (ttl_ms == REPLY_NO_LEASE)
        return RELOCK_NEVER;
    return relock_clock_in((ttl_ms > 0 ? (uint64_t)ttl_ms : 0) + SHORTEST_WAIT_MS);
}

static void refuse(int64_t ttl_ms, struct relock_busy *busy)
{
    busy->is_reserved = ttl_ms == REPLY_NO_LOCK;
    busy->free_at_ms = free_at(busy->is_reserved ? RESERVED_MS : ttl_ms);
}

/* For a waiter of a fair lock, or for a client in the line. That is told when it is its turn, so a
 * reservation is no reason to ask again. */
static bool read_place(const struct redisReply *reply, struct relock_busy *busy)
{
    int64_t ttl_ms, number, is_foreign;

    if (!relock_reply_integer(relock_reply_at(reply, 0), &ttl_ms) ||
        !relock_reply_integer(relock_reply_at(reply, 1), &number))
        return false;
    refuse(ttl_ms, busy);
    if (!relock_reply_integer(relock_reply_at(reply, REPLY_IN_LINE_LEN - 1), &is_foreign)) {
        busy->n_intervals = (uint64_t)number;
        return true;
    }
    if (busy->is_reserved)
        busy->free_at_ms = RELOCK_NEVER;
    busy->place = (uint64_t)number;
    busy->is_moving = number == REPLY_MOVING;
    busy->is_foreign = is_foreign != 0;
    return true;
}

enum relock_verdict relock_verdict_lock(const struct redisReply *reply, uint64_t *fencing_token,
                                        struct relock_busy *busy)
{
    int64_t number;

    *busy = (struct relock_busy){0};
    busy->is_awaited = relock_reply_is(reply, REPLY_AWAITED);
    if (relock_reply_is_nil(reply) || busy->is_awaited)
        return RELOCK_VERDICT_DONE;
    if (read_place(reply, busy))
        return RELOCK_VERDICT_BUSY;
    if (relock_reply_integer(relock_reply_at(reply, 0), &number)) {
        *fencing_token = (uint64_t)number;
        return RELOCK_VERDICT_DONE;
    }
    if (!relock_reply_integer(reply, &number))
        return RELOCK_VERDICT_FAILED;
    refuse(number, busy);
    return RELOCK_VERDICT_BUSY;
}

int relock_verdict_failure(const struct relock_named_failure *table, const struct redisReply *reply,
                           const char **why)
{
    for (; table && table->reply; table++) {
        if (relock_reply_is(reply, table->reply)) {
            *why = table->why;
            return table->result;
        }
    }
    return RELOCK_OK;
}

bool relock_verdict_message(const char *text, size_t len, uint64_t *free_at_ms)
{
    size_t at = strlen(MESSAGE_HELD);
    int64_t ttl_ms = 0;

    if (len <= at || len > at + MESSAGE_DIGITS_MAX || memcmp(text, MESSAGE_HELD, at) != 0)
        return false;
    for (; at < len; at++) {
        if (text[at] < '0' || text[at] > '9')
            return false; /* the lock has no lease, or another program has published it */
        ttl_ms = ttl_ms * 10 + (text[at] - '0');
    }
    *free_at_ms = free_at(ttl_ms);
    return true;
}

enum relock_verdict relock_verdict_nest(const struct redisReply *reply)
{
    int64_t number;

    /* The counter of a fenced lock has grown: the hold keeps its older token. */
    if (relock_reply_is_nil(reply) || relock_reply_integer(relock_reply_at(reply, 0), &number))
        return RELOCK_VERDICT_DONE;
    if (!relock_reply_integer(reply, &number))
        return RELOCK_VERDICT_FAILED;
    return number == REPLY_NO_LOCK ? RELOCK_VERDICT_GONE : RELOCK_VERDICT_TAKEN;
}

enum relock_verdict relock_verdict_renewal(const struct redisReply *reply)
{
    int64_t number;

    if (!relock_reply_integer(reply, &number))
        return RELOCK_VERDICT_FAILED;
    if (number >= REPLY_DONE)
        return RELOCK_VERDICT_DONE;
    return number == REPLY_GONE ? RELOCK_VERDICT_GONE : RELOCK_VERDICT_TAKEN;
}

enum relock_verdict relock_verdict_release(const struct redisReply *reply, int64_t *n_receivers,
                                           uint64_t *place)
{
    enum relock_verdict verdict;
    bool is_refused;
    int64_t number;

    if (relock_reply_integer(relock_reply_at(reply, 1), &number)) {
        *place = (uint64_t)number;
        reply = relock_reply_at(reply, 0);
    }
    is_refused = relock_reply_integer(reply, &number) && number == REPLY_MAY_NOT_PUBLISH;
    verdict = is_refused ? RELOCK_VERDICT_DONE : relock_verdict_renewal(reply);
    if (verdict == RELOCK_VERDICT_DONE)
        *n_receivers = is_refused ? -1 : number - REPLY_DONE;
    return verdict;
}
