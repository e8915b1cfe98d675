#include "lock/hold/holds.h"
#include "lock/hold/private.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "base/probe.h"
#include "base/status.h"
#include "lock/state/events.h"
#include "lock/wake/listener.h"
#include "lock/wake/wake.h"

#include <assert.h>
#include <string.h>

/* ---- handing off --------------------------------------------------------------------------- */

/* Whether another owner of this process may get it from memory: it is certain for long enough, and
 * no more lasting than what that owner would acquire itself. */
static bool reuse_is_possible(const struct relock_client *client, const struct relock_hold *hold,
                              uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    uint64_t enough_ms = relock_hold_renewal_ms(client->options.watchdog_timeout_ms);

    if ((hold->state != RELOCK_HOLD_HELD && hold->state != RELOCK_HOLD_CACHED) ||
        hold->count_dirty || !relock_hold_is_renewed(hold, now_ms) ||
        relock_clock_left(now_ms, hold->valid_until_ms) < enough_ms)
        return false;
    /* Should the new owner die, the lock must be free when its own lease would have ended. */
    if (hold->lease_ms > client->options.watchdog_timeout_ms ||
        hold->renewal_ms != client->options.watchdog_timeout_ms)
        return false;
    return relock_client_is_open(client);
}

/* Until when the process may go on handing it off, though others may wait elsewhere. */
static uint64_t turn_end_ms(const struct relock_client *client, const struct relock_hold *hold)
{
    uint64_t end_ms = relock_clock_after(hold->resource->taken_ms, client->options.handoff_ms);

    /* If others did, they would have recalled it. */
    return hold->recalled || hold->cache_until_ms < end_ms ? end_ms : hold->cache_until_ms;
}

static struct relock_waiter *next_owner(const struct relock_client *client,
                                        const struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_waiter *head = hold->resource->queue;

    if (!hold->resource->kind->is_handed_off || relock_room_is_due(hold->resource, now_ms) ||
        relock_room_is_on(hold->resource, now_ms))
        return NULL;
    while (head && (head->end != RELOCK_WAITER_WAITS || head->is_asking))
        head = head->next;
    if (!head || !head->renewed || !reuse_is_possible(client, hold, now_ms))
        return NULL;
    if (now_ms >= turn_end_ms(client, hold))
        return NULL;
    return head;
}

bool relock_cache_hand_off(struct relock_client *client, struct relock_hold *hold, uint64_t now_us)
{
    uint64_t now_ms = now_us / 1000;
    struct relock_waiter *waiter = next_owner(client, hold, now_ms);

    if (!waiter)
        return false;
    RELOCK_PROBE(hand_off, hold->resource->name, hold->owner, waiter->owner);
    relock_holds_uncount(client, hold);
    relock_holds_assign(client, hold, waiter, now_us);
    client->guarded.stats.passed_on++;
    relock_holds_verify(client, hold, now_ms);
    waiter->hold = relock_holds_ref(hold);
    relock_resource_end_wait(waiter, RELOCK_WAITER_GRANTED, &client->mutex);
    return true;
}

/* ---- caching ------------------------------------------------------------------------------- */

/* Until when it may be kept and taken, unless something happens to it. */
static uint64_t reuse_until_ms(const struct relock_client *client, const struct relock_hold *hold)
{
    uint64_t enough_ms = relock_hold_renewal_ms(client->options.watchdog_timeout_ms);

    return relock_clock_sooner(hold->cache_until_ms,
                               relock_clock_left(enough_ms, hold->valid_until_ms));
}

/* Threads may take it without the mutex, if a renewal will verify it later. */
static void open_shortcut(const struct relock_client *client, const struct relock_hold *hold,
                          uint64_t now_ms)
{
    struct relock_shortcut_terms terms = {
        .until_ms = reuse_until_ms(client, hold),
        .valid_until_ms = hold->valid_until_ms,
        .acked_replicas = hold->acked_replicas,
    };

    if (hold->is_reused)
        relock_shortcut_prepare(hold->resource);
    /* Owners of lost holds are refused, which the word does not tell. */
    if (!hold->resource->deferrals && !relock_resource_is_owned(hold->resource) &&
        relock_holds_will_verify(hold, now_ms))
        relock_shortcut_open(hold->resource, &terms);
}

/* Unchecked: it is called with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED void relock_cache_take_kept(struct relock_resource *resource, uint64_t owner,
                                             uint64_t since_us)
{
    struct relock_client *client = resource->client;
    struct relock_waiter waiter = {
        .owner = owner,
        .renewed = true,
        .told = client->default_told.on_lost ? &client->default_told : NULL,
    };

    relock_cache_give(client, relock_resource_kept(resource), &waiter, since_us);
}

/* Its last level is released, and it stays with the process: see holds.h. */
static void reuse_cache(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource = hold->resource;

    hold->state = RELOCK_HOLD_CACHED;
    hold->cap_ms = RELOCK_NEVER;
    if (hold->told)
        relock_holds_tell(client, hold, NULL);
    hold->has_owner = false;
    relock_holds_uncount(client, hold);
    client->guarded.stats.kept++;
    resource->holder = NULL;
    relock_resource_doubt(resource);
    /* The next owner leaves the timer as it is, so that this is done once in a while only. */
    if (!relock_client_has_hold_timer(client, hold) || hold->timer.due_ms > hold->cache_until_ms)
        relock_holds_arm(client, hold, now_ms);
    open_shortcut(client, hold, now_ms);
}

void relock_cache_give(struct relock_client *client, struct relock_hold *hold,
                       struct relock_waiter *waiter, uint64_t since_us)
{
    hold->is_reused = true;
    client->guarded.stats.kept--;
    client->guarded.stats.reused++;
    relock_holds_assign(client, hold, waiter, since_us);
    relock_holds_verify(client, hold, since_us / 1000);
}

void relock_cache_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms)
{
    if (relock_hold_is_held(hold)) {
        relock_holds_lose(client, hold, reason, now_ms);
    } else if (hold->state == RELOCK_HOLD_CACHED) {
        relock_cache_drop(client, hold);
        relock_holds_end(client, hold);
    }
}

void relock_cache_drop(struct relock_client *client, struct relock_hold *hold)
{
    assert(!relock_shortcut_is_open(hold->resource));
    hold->state = RELOCK_HOLD_RELEASING;
    relock_holds_unlist(hold);
    client->guarded.stats.kept--;
    relock_client_unset_hold_timer(client, hold);
}

bool relock_cache_keep(struct relock_client *client, struct relock_hold *hold, uint64_t now_us)
{
    uint64_t now_ms = now_us / 1000;

    if (now_ms >= hold->cache_until_ms || hold->recalled)
        return false;
    /* An observer that is left belongs to a composite of which this lock was released apart. */
    if (hold->observers || relock_listeners_await(hold->resource) ||
        !reuse_is_possible(client, hold, now_ms))
        return false;
    reuse_cache(client, hold, now_ms);
    return true;
}

/* ---- the next owner ------------------------------------------------------------------------ */

static void take(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    acquire->joined_us = acquire->now_us;
    acquire->waiter.queues_on = NULL;
    relock_cache_give(acquire->client, hold, &acquire->waiter, acquire->now_us);
    acquire->valid_until_ms = hold->valid_until_ms;
    acquire->hold = relock_holds_ref(hold);
}

static int have_released(struct relock_acquire *acquire, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (!acquire->waiter.step) {
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
    struct relock_hold *hold = relock_resource_cached(acquire->resource);
    uint64_t now_ms;

    relock_acquire_read_clock(acquire);
    now_ms = relock_acquire_now_ms(acquire);
    if (!acquire->waiter.renewed || now_ms >= hold->cache_until_ms ||
        !reuse_is_possible(acquire->client, hold, now_ms))
        return have_released(acquire, hold, now_ms);
    take(acquire, hold);
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
    relock_cache_drop(client, hold);
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
                                struct relock_resource *resource, const char *number, size_t len)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = relock_resource_cached(resource);

    if (hold && is_number(hold, number, len))
        return hold;
    RELOCK_HOLDS_FOREACH(client, hold)
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

    relock_shortcut_close_all(client);
    RELOCK_HOLDS_FOREACH(client, hold)
    {
        hold->recalled = true;
        if (hold->state == RELOCK_HOLD_CACHED)
            relock_let_go(client, hold, now_ms);
    }
}
