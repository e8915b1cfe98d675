#include "lock/hold/cache.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/hold/let_go.h"
#include "lock/hold/reuse.h"
#include "lock/hold/settle.h"
#include "lock/state/resources.h"
#include "lock/wake/listener.h"

#include <string.h>

bool relock_cache_keep(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    if (now_ms >= hold->cache_until_ms || hold->recalled)
        return false;
    /* An observer that is left belongs to a composite of which this lock was released apart. */
    if (hold->observers || relock_listeners_await(hold->resource) ||
        !relock_reuse_is_possible(client, hold, now_ms))
        return false;
    relock_reuse_cache(client, hold, now_ms);
    return true;
}

/* ---- the next owner ------------------------------------------------------------------------ */

static void take(struct relock_acquire *acquire, struct relock_hold *hold, uint64_t now_us)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    acquire->joined_us = now_us;
    acquire->waiter.queues_on = NULL;
    relock_reuse_take_cached(acquire->client, hold, &acquire->waiter, now_us);
    acquire->valid_until_ms = hold->valid_until_ms;
    acquire->hold = relock_holds_ref(hold);
}

static int have_released(struct relock_acquire *acquire, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (!acquire->waiter.task) {
        relock_cache_release(acquire->client, hold, relock_acquire_limit_ms(acquire, now_ms));
        return RELOCK_AGAIN;
    }
    if (relock_hold_is_in_use(hold))
        return RELOCK_AGAIN; /* its release would go out after the call's attempt */
    relock_let_go(acquire->client, hold, now_ms);
    relock_settle_step(acquire->client, hold, now_ms);
    return RELOCK_BUSY;
}

int relock_cache_take(struct relock_acquire *acquire)
{
    struct relock_hold *hold = acquire->resource->cached;
    uint64_t now_us = relock_clock_now_us();
    uint64_t now_ms = now_us / 1000;

    if (!acquire->waiter.renewed || now_ms >= hold->cache_until_ms ||
        !relock_reuse_is_possible(acquire->client, hold, now_ms))
        return have_released(acquire, hold, now_ms);
    take(acquire, hold, now_us);
    return RELOCK_OK;
}

/* ---- releasing ----------------------------------------------------------------------------- */

void relock_cache_release(struct relock_client *client, struct relock_hold *hold,
                          uint64_t deadline_ms)
{
    struct relock_resource *resource = hold->resource;
    char why[RELOCK_WHY_MAX] = "";
    struct relock_answer answer = {.sent_ms = relock_clock_now_ms(), .why = why};

    resource->refs++; /* it may end with the hold */
    relock_reuse_leave_cache(client, hold);
    resource->kind->operations->release(client, hold, deadline_ms, &answer);
    if (answer.verdict == RELOCK_VERDICT_FAILED)
        resource->kind->operations->let_go(client, hold, relock_clock_now_ms());
    else
        relock_holds_end(client, hold);
    relock_resource_signal(resource, false); /* to those who met the hold meanwhile */
    relock_resources_unref(client, resource);
}

static bool is_number(const struct relock_hold *hold, const char *number, size_t len)
{
    char text[RELOCK_DECIMAL_MAX];

    return relock_decimal(text, hold->number) == len && memcmp(text, number, len) == 0;
}

/* The message may come before the answer that grants the hold. NULL: the hold is over. */
static struct relock_hold *find(const struct relock_client *client,
                                const struct relock_resource *resource, const char *number,
                                size_t len) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    if (resource->cached && is_number(resource->cached, number, len))
        return resource->cached;
    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->resource == resource && is_number(hold, number, len))
            return hold;
    }
    return NULL;
}

void relock_cache_recall(struct relock_client *client, struct relock_resource *resource,
                         const char *number, size_t len)
{
    struct relock_hold *hold = find(client, resource, number, len);
    uint64_t now_ms = relock_clock_now_ms();

    if (!hold || hold->recalled)
        return;
    hold->recalled = true;
    client->guarded.stats.recalled++;
    if (hold->state != RELOCK_HOLD_CACHED)
        return;
    relock_resource_rest(resource, now_ms);
    relock_let_go(client, hold, now_ms);
}

void relock_cache_clear(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        hold->recalled = true;
        if (hold->state == RELOCK_HOLD_CACHED)
            relock_let_go(client, hold, now_ms);
    }
}
