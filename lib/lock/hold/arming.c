#include "lock/hold/arming.h"

#include "base/backoff.h"
#include "base/hash.h"
#include "lock/state/resource.h"
#include "lock/wake/pace.h"
#include "redis/io/tracking.h"

#define MIN_AGE_MS 100

/* Between two checks of which none has armed the hold. */
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS 1000

void relock_arming_begin(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    bool is_one_key = hold->resource->kind->renew != NULL;

    hold->arming.is_first = true;
    if (is_one_key && !(client->options.flags & RELOCK_NO_TRACKING))
        hold->arming.due_ms = now_ms + MIN_AGE_MS;
}

void relock_arming_drop(struct relock_hold *hold)
{
    struct relock_resource *primary = hold->resource->primary;

    if (!hold->arming.node)
        return;
    hold->arming.node = NULL;
    hold->resource->client->guarded.n_armed--;
    DL_DELETE2(primary->armed, hold, arming.prev, arming.next);
}

bool relock_arming_take(struct relock_hold *hold, struct relock_node *node, uint64_t now_ms)
{
    bool is_due = hold->arming.due_ms <= now_ms;

    hold->arming.tracker = NULL;
    if (!is_due && !hold->arming.node)
        return false;
    if (is_due)
        hold->arming.due_ms = RELOCK_NEVER;
    if (node && relock_tracking_is_on(node))
        return true;
    if (node)
        relock_tracking_want(node);
    return false;
}

void relock_arming_sent(struct relock_hold *hold, const struct relock_node *node)
{
    struct relock_resource *primary = hold->resource->primary;

    relock_arming_drop(hold);
    if (!node)
        return;
    hold->arming.is_first = false;
    hold->arming.node = node;
    hold->resource->client->guarded.n_armed++;
    DL_APPEND2(primary->armed, hold, arming.prev, arming.next);
}

static void retry_later(struct relock_arming *arming, uint64_t now_ms)
{
    arming->retry_ms = relock_backoff_ms(arming->retry_ms, MIN_RETRY_MS, MAX_RETRY_MS);
    arming->due_ms = now_ms + arming->retry_ms;
}

void relock_arming_answered(struct relock_hold *hold, uint64_t now_ms)
{
    struct relock_arming *arming = &hold->arming;

    if (!arming->node)
        return; /* it was not tracked, or a report has come meanwhile */
    if (arming->tracker) {
        arming->node = arming->tracker;
        arming->retry_ms = 0;
        return;
    }
    relock_arming_drop(hold);
    if (relock_hold_is_live(hold))
        retry_later(arming, now_ms);
}

void relock_arming_set(struct relock_hold *hold, uint64_t at_ms)
{
    hold->arming.due_ms = at_ms;
}

uint64_t relock_arming_pace(struct relock_hold *hold, uint64_t now_ms)
{
    /* The watchdog's command came before the renewal over the confirmer, which Redis now reports.
     * There is one such report for each renewal, so they are not many. */
    if (hold->confirm.sent_ms >= hold->sent_ms)
        return now_ms;
    return relock_pace_next(&hold->arming.pause_ms, hold->sent_ms, now_ms,
                            relock_hold_renewal_ms(hold->renewal_ms));
}

void relock_arming_retry(struct relock_hold *hold, uint64_t now_ms)
{
    hold->arming.due_ms = now_ms + MIN_AGE_MS;
}
