#include "lock/hold/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/state/resource.h"
#include "lock/wake/wake.h"
#include "redis/io/io.h"

#define MIN_AGE_MS 100

/* Between two checks after which no node tracks the hold. */
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS 1000

void relock_tracked_begin(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    bool is_one_key = hold->resource->kind->renew != NULL;

    hold->is_unlooked = true;
    if (is_one_key && !(client->options.flags & RELOCK_NO_TRACKING))
        hold->tracked.due_ms = now_ms + MIN_AGE_MS;
}

void relock_tracked_drop(struct relock_hold *hold)
{
    if (!hold->is_tracked)
        return;
    hold->is_tracked = false;
    hold->resource->client->guarded.n_tracked--;
}

bool relock_tracked_take(struct relock_hold *hold, struct relock_node *node, uint64_t now_ms)
{
    bool is_due = relock_hold_is_live(hold) && hold->tracked.due_ms <= now_ms;

    if (!is_due && !hold->is_tracked)
        return false;
    if (is_due)
        hold->tracked.due_ms = RELOCK_NEVER;
    if (node && relock_tracking_is_on(node))
        return true;
    if (node)
        relock_tracking_want(node);
    return false;
}

void relock_tracked_sent(struct relock_hold *hold, const struct relock_node *node)
{
    relock_tracked_drop(hold);
    if (!node || !relock_hold_is_live(hold))
        return;
    hold->is_unlooked = false;
    hold->is_tracked = true;
    hold->tracked.node = node;
    hold->resource->client->guarded.n_tracked++;
}

static void retry_later(struct relock_hold *hold, uint64_t now_ms)
{
    hold->check_retry_ms =
        (uint16_t)relock_backoff_ms(hold->check_retry_ms, MIN_RETRY_MS, MAX_RETRY_MS);
    hold->tracked.due_ms = now_ms + hold->check_retry_ms;
}

void relock_tracked_answered(struct relock_hold *hold, const struct relock_node *tracker,
                             uint64_t now_ms)
{
    if (!hold->is_tracked)
        return; /* it was not tracked, or a report has come meanwhile */
    if (tracker) {
        hold->tracked.node = tracker;
        hold->check_retry_ms = 0;
        return;
    }
    relock_tracked_drop(hold);
    if (relock_hold_is_live(hold))
        retry_later(hold, now_ms);
}

void relock_tracked_set(struct relock_hold *hold, uint64_t at_ms)
{
    if (relock_hold_is_live(hold))
        hold->tracked.due_ms = at_ms;
}

uint64_t relock_tracked_pace(struct relock_hold *hold, uint64_t now_ms)
{
    /* The watchdog's command came before the renewal over the confirmer, which Redis now reports.
     * There is one such report for each renewal, so they are not many. */
    if (hold->confirms && hold->confirm->sent_ms >= hold->sent_ms)
        return now_ms;
    return relock_pace_next(&hold->check_pause_ms, hold->sent_ms, now_ms,
                            relock_hold_renewal_ms(hold->renewal_ms));
}

void relock_tracked_retry(struct relock_hold *hold, uint64_t now_ms)
{
    relock_tracked_set(hold, now_ms + MIN_AGE_MS);
}
