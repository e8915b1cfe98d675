/*
 * The states of a hold. This file alone changes them, but for those of cached holds, which cache.c
 * changes, and `notice`, which losses.c changes, too.
 *
 *   state       becomes    when
 *   ASKED       HELD       Redis grants it: relock_holds_begin and its like
 *               SETTLING   Redis may have granted it, and no caller needs it: settle
 *               ENDED      Redis refused it, or was not asked: end
 *   HELD        SUSPECT    a renewal is not granted: suspect
 *   SUSPECT     HELD       a renewal is granted: renew
 *   both        LOST       Redis does not have it, or its time is over: lose, check_time
 *               RELEASING  the last level is released: release
 *   HELD        CACHED     the same, and it stays with the process: cache.c
 *   CACHED      HELD       the next owner gets it: assign, for cache.c
 *               RELEASING  nobody wants it here, or others do elsewhere: cache.c
 *   LOST        SETTLING   its last level is released, and Redis may have it: settle
 *               ENDED      ... and Redis does not have it: end
 *   RELEASING   ENDED      Redis knows, or the kind sees to it by itself: end
 *               SETTLING   Redis may not know: settle
 *   SETTLING    ENDED      Redis knows, or refuses for a whole lease: end (settle.c)
 *
 *   keeping     FIXED -> KEPT: assign
 *               each -> RENEWED: assign, keep
 *               KEPT -> FIXED, of a detached hold also RENEWED -> FIXED: keep
 *   command     NOTHING_SENT -> SENT: send
 *               SENT -> SENT_BEFORE: verify
 *               both -> NOTHING_SENT: end_command
 *   notice      NO_NOTICE -> TO_TAKE_UP: lose
 *               TO_TAKE_UP -> NO_NOTICE -> TO_TELL -> TELLING -> NO_NOTICE: losses.c
 *               TO_TAKE_UP, TO_TELL -> NO_NOTICE: forget_loss
 */
#include "lock/hold/holds.h"
#include "lock/hold/private.h"

#include "base/clock.h"
#include "base/probe.h"
#include "lock/state/events.h"
#include "lock/state/keys.h"
#include "lock/state/observer.h"
#include "lock/state/step.h"
#include "lock/wake/wake.h"
#include "redis/connect/conn_id.h"

#include <assert.h>
#include <stdlib.h>

/* One renewal verifies all hand-offs of this time: of a busy lock one for each turn of 10 ms. */
#define VERIFY_MS 5

/* Whether a hold acquired now may be cached later. Its number says so to other clients, which
 * recall it by a message in the inbox. */
static bool may_be_cached(const struct relock_client *client,
                          const struct relock_resource *resource) RELOCK_REQUIRES(client->mutex)
{
    return client->options.keep_ms > 0 && resource->kind->is_cached &&
           relock_inbox_hears_recalls(client) &&
           relock_clock_now_ms() >= relock_resource_contention(resource)->rests_until_ms;
}

/* In a client with `min_replicas` all have room for a `confirm`. */
static struct relock_hold *alloc(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    bool may_confirm = client->options.min_replicas > 0;
    struct relock_hold *hold;
    uint8_t nth;

    hold = relock_pool_take(&client->guarded.holds,
                            sizeof(*hold) + (may_confirm ? sizeof(hold->confirm[0]) : 0), &nth);
    if (hold)
        hold->nth = nth;
    return hold;
}

struct relock_hold *relock_holds_new(struct relock_client *client, struct relock_resource *resource,
                                     uint64_t owner, bool detached)
{
    bool may_cache = !detached && may_be_cached(client, resource);
    struct relock_hold *hold = alloc(client);

    if (!hold)
        return NULL;
    hold->resource = resource;
    resource->refs++;
    hold->number = relock_keys_number(owner, client->guarded.serial++, may_cache);
    hold->owner = owner;
    hold->refs = 1;
    hold->state = RELOCK_HOLD_ASKED;
    hold->detached = detached;
    /* Red locks ignore `min_replicas`: the other servers stand in for replicas. */
    hold->confirms = client->options.min_replicas > 0 && !detached;
    hold->renewal_ms = relock_resource_lease_ms(resource);
    hold->cache_until_ms = may_cache ? RELOCK_NEVER : 0;
    hold->tracked.due_ms = RELOCK_NEVER;
    return hold;
}

void relock_holds_end_confirming(struct relock_client *client, struct relock_hold *hold)
{
    if (!hold->confirms || hold->confirm->state == RELOCK_CONFIRM_NONE)
        return;
    hold->confirm->state = RELOCK_CONFIRM_NONE;
    DL_DELETE2(client->guarded.confirming, hold, confirm->prev, confirm->next);
}

static void tell_layers(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook;

    RELOCK_HOOKS_FOREACH(client, hook, holds_change)
    {
        hook->ops->holds_change(client);
    }
}

void relock_holds_unref(struct relock_client *client, struct relock_hold *hold)
{
    if (--hold->refs > 0)
        return;
    if (client->guarded.to_visit == hold)
        client->guarded.to_visit = relock_client_next_hold(client, hold);
    if (hold->is_recorded)
        tell_layers(client);
    relock_tracked_drop(hold);
    relock_holds_end_confirming(client, hold);
    relock_observer_drop_all(client, hold);
    if (!hold->resource->kind->is_composite)
        relock_conn_id_unref(hold->fence);
    if (hold->told)
        relock_holds_tell(client, hold, NULL);
    relock_resources_unref(client, hold->resource);
    relock_pool_give(&client->guarded.holds, hold, hold->nth);
}

struct relock_hold *relock_holds_find(struct relock_client *client, uint64_t owner)
{
    struct relock_hold *hold;

    relock_shortcut_close_all(client);
    RELOCK_HOLDS_FOREACH(client, hold)
    if (hold->count > 0 && (owner == 0 || hold->owner == owner))
        return hold;
    return NULL;
}

static void count(struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    client->guarded.stats.holds++;
    client->guarded.stats.permits += relock_hold_n_permits(hold);
    relock_ages_add(&client->guarded.ages, hold->since_us);
}

void relock_holds_uncount(struct relock_client *client, const struct relock_hold *hold)
{
    client->guarded.stats.holds--;
    client->guarded.stats.permits -= relock_hold_n_permits(hold);
    relock_ages_remove(&client->guarded.ages, hold->since_us);
}

/* Whether what is due then is a renewal that may be sent sooner. Not if that is soon: it verifies a
 * hand-off, or it could not be sent in a turn. */
static bool may_be_sooner(const struct relock_client *client, const struct relock_hold *hold,
                          uint64_t due_ms, uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    uint64_t ahead_ms = client->guarded.batches.ahead_ms;

    return ahead_ms > 0 && hold->state == RELOCK_HOLD_HELD && due_ms == hold->renew_at_ms &&
           due_ms > now_ms + ahead_ms && hold->resource->kind->renew &&
           hold->renewal_ms >= client->options.watchdog_timeout_ms;
}

void relock_holds_arm(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    uint64_t due_ms = relock_hold_due_ms(hold, now_ms);

    if (due_ms == RELOCK_NEVER)
        relock_client_unset_hold_timer(client, hold);
    else if (hold->timer.due_ms != due_ms || !relock_client_has_hold_timer(client, hold))
        relock_client_set_hold_timer(client, hold, due_ms,
                                     may_be_sooner(client, hold, due_ms, now_ms));
}

void relock_holds_tell(struct relock_client *client, struct relock_hold *hold,
                       struct relock_told *told)
{
    struct relock_told *before = hold->told;

    hold->told = told;
    if (told)
        (void)relock_events_ref(told->events);
    if (!before || before == &client->default_told)
        return;
    (void)relock_events_unref(before->events);
    free(before);
}

static enum relock_hold_keeping keeping_for(const struct relock_waiter *waiter)
{
    if (waiter->renewed)
        return RELOCK_HOLD_RENEWED;
    return waiter->of_composite ? RELOCK_HOLD_KEPT : RELOCK_HOLD_FIXED;
}

void relock_holds_unlist(struct relock_hold *hold)
{
    LL_DELETE(hold->resource->holds, hold);
    relock_tracked_drop(hold);
}

void relock_holds_assign(struct relock_client *client, struct relock_hold *hold,
                         struct relock_waiter *waiter, uint64_t since_us)
{
    uint64_t max_ms = client->options.max_hold_ms;

    hold->since_us = since_us;
    hold->state = RELOCK_HOLD_HELD;
    hold->owner = waiter->owner;
    hold->count = 1;
    hold->keeping = keeping_for(waiter);
    hold->observer_tells = waiter->of_composite;
    hold->is_own = !waiter->of_composite;
    hold->unannounced = waiter->events != NULL;
    hold->cap_ms = max_ms > 0 ? relock_clock_after(since_us / 1000, max_ms) : RELOCK_NEVER;
    if (hold->told || waiter->told) {
        relock_holds_tell(client, hold, waiter->told);
        waiter->told = NULL;
    }
    hold->has_owner = true;
    relock_resource_acquired(hold->resource, waiter, hold);
    count(client, hold);
    hold->is_recorded = false; /* that was of another owner */
    tell_layers(client);
}

/* When a hold is renewed whose last renewal was sent at `sent_ms`, if the next one comes forward by
 * `sooner_ms`. Holds that are renewed at about the same time meet in one script. */
static uint64_t renewal_ms(const struct relock_hold *hold, uint64_t sent_ms, uint64_t sooner_ms)
{
    const struct relock_client *client = hold->resource->client;
    uint64_t interval_ms = relock_hold_renewal_ms(hold->renewal_ms);

    return relock_hold_meeting_ms(relock_clock_after(sent_ms, interval_ms - sooner_ms), interval_ms,
                                  client->guarded.stats.holds, client->guarded.batches.phase);
}

/* By how much the renewal comes forward that follows the one sent now. After an outage, suspect
 * holds are renewed at the same time: the next renewals are spread. If this thread was held up,
 * many other holds are: each goes back to its own times. */
static uint64_t sooner_ms(const struct relock_hold *hold, uint64_t now_ms)
{
    uint64_t interval_ms = relock_hold_renewal_ms(hold->renewal_ms);
    uint64_t late_ms = relock_clock_left(hold->renew_at_ms, now_ms);

    if (hold->state == RELOCK_HOLD_SUSPECT)
        return relock_hold_spread_ms(relock_keys_serial(hold->number), interval_ms);
    return interval_ms > 0 ? late_ms % interval_ms : 0;
}

static void start_lease(struct relock_hold *hold, uint64_t sent_ms, uint64_t lease_ms)
{
    hold->renew_at_ms = renewal_ms(hold, sent_ms, 0);
    hold->valid_until_ms = relock_hold_valid_until(sent_ms, lease_ms);
}

void relock_holds_begin(struct relock_client *client, struct relock_hold *hold,
                        struct relock_waiter *waiter, uint64_t sent_ms, uint64_t now_us)
{
    uint64_t now_ms = now_us / 1000;

    LL_PREPEND(hold->resource->holds, hold);
    relock_holds_assign(client, hold, waiter, now_us);
    hold->resource->taken_ms = now_ms;
    if (hold->resource->kind->is_collection) { /* its locks have the leases, and are counted */
        hold->renew_at_ms = RELOCK_NEVER;
        hold->valid_until_ms = RELOCK_NEVER;
        return;
    }
    if (hold->keeping == RELOCK_HOLD_KEPT)
        hold->renewal_ms = hold->lease_ms;
    start_lease(hold, sent_ms, hold->lease_ms);
    if (hold->cache_until_ms > 0)
        hold->cache_until_ms = relock_clock_after(now_ms, client->options.keep_ms);
    relock_tracked_begin(client, hold, now_ms);
    client->guarded.stats.acquired++;
    relock_holds_arm(client, hold, now_ms);
}

void relock_holds_begin_detached(struct relock_client *client, struct relock_hold *hold,
                                 uint64_t sent_ms, uint64_t lease_ms)
{
    uint64_t now_ms = relock_clock_now_ms();

    hold->state = RELOCK_HOLD_HELD;
    LL_PREPEND(hold->resource->holds, hold);
    start_lease(hold, sent_ms, lease_ms);
    relock_tracked_begin(client, hold, now_ms);
    relock_holds_arm(client, hold, now_ms);
}

static void lengthen(struct relock_hold *hold, uint64_t valid_until_ms)
{
    hold->valid_until_ms = relock_clock_later(hold->valid_until_ms, valid_until_ms);
}

void relock_holds_prolong(struct relock_client *client, struct relock_hold *hold,
                          uint64_t valid_until_ms)
{
    lengthen(hold, valid_until_ms);
    relock_holds_arm(client, hold, relock_clock_now_ms());
}

void relock_holds_keep(struct relock_client *client, struct relock_hold *hold,
                       enum relock_hold_keeping keeping)
{
    if (hold->keeping == keeping)
        return;
    hold->keeping = keeping;
    hold->keeping_dirty = true;
    relock_holds_arm(client, hold, relock_clock_now_ms());
}

/* ---- the commands of the I/O thread -------------------------------------------------------- */

void relock_holds_send(struct relock_hold *hold, uint64_t now_ms)
{
    relock_holds_send_check(hold, now_ms);
    hold->renew_at_ms = renewal_ms(hold, now_ms, sooner_ms(hold, now_ms));
}

void relock_holds_send_check(struct relock_hold *hold, uint64_t now_ms)
{
    assert(hold->state != RELOCK_HOLD_CACHED || !relock_shortcut_is_open(hold->resource));
    hold->command = RELOCK_HOLD_SENT;
    hold->sent_ms = now_ms;
}

void relock_holds_end_command(struct relock_client *client, struct relock_hold *hold,
                              uint64_t now_ms)
{
    hold->command = RELOCK_HOLD_NOTHING_SENT;
    relock_holds_arm(client, hold, now_ms);
    relock_step_pass(hold);
}

static void verify_soon(struct relock_hold *hold, uint64_t now_ms)
{
    hold->renew_at_ms =
        relock_clock_sooner(hold->renew_at_ms, relock_clock_after(now_ms, VERIFY_MS));
}

bool relock_holds_will_verify(const struct relock_hold *hold, uint64_t until_ms)
{
    return hold->command == RELOCK_HOLD_SENT_BEFORE ||
           (hold->command == RELOCK_HOLD_NOTHING_SENT &&
            hold->renew_at_ms <= relock_clock_after(until_ms, VERIFY_MS));
}

void relock_holds_verify(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    uint64_t before_ms = hold->renew_at_ms;

    if (hold->command != RELOCK_HOLD_NOTHING_SENT) {
        hold->command = RELOCK_HOLD_SENT_BEFORE;
        return;
    }
    verify_soon(hold, now_ms);
    if (hold->renew_at_ms != before_ms)
        relock_holds_arm(client, hold, now_ms);
}

void relock_holds_grant(struct relock_hold *hold, uint64_t now_ms)
{
    if (hold->confirms)
        hold->confirm->granted_until_ms = relock_hold_valid_until(hold->sent_ms, hold->renewal_ms);
    if (hold->command == RELOCK_HOLD_SENT_BEFORE)
        verify_soon(hold, now_ms);
}

void relock_holds_confirm(struct relock_client *client, struct relock_hold *hold, uint64_t sent_ms,
                          uint64_t now_ms)
{
    if (hold->state == RELOCK_HOLD_SUSPECT)
        hold->state = RELOCK_HOLD_HELD;
    /* Meanwhile the next renewal may have failed. A suspect hold waits for a connection to repeat
     * it, and a held one does not. */
    hold->renew_at_ms = relock_clock_sooner(hold->renew_at_ms, renewal_ms(hold, sent_ms, 0));
    client->guarded.stats.renewed++;
    RELOCK_PROBE(renew, hold->resource->name, hold->owner,
                 relock_clock_left(now_ms, hold->valid_until_ms));
    relock_meter_add(&client->guarded.stats.margin,
                     relock_clock_left(now_ms, hold->valid_until_ms) * 1000);
    lengthen(hold, relock_hold_valid_until(sent_ms, hold->renewal_ms));
}

void relock_holds_renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    relock_holds_grant(hold, now_ms);
    relock_holds_confirm(client, hold, hold->sent_ms, now_ms);
}

void relock_holds_end_check(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    if (hold->command == RELOCK_HOLD_SENT_BEFORE)
        verify_soon(hold, now_ms);
    relock_holds_end_command(client, hold, now_ms);
}

void relock_holds_suspect(struct relock_client *client, struct relock_hold *hold, uint64_t again_ms)
{
    hold->state = RELOCK_HOLD_SUSPECT;
    hold->renew_at_ms = again_ms;
    client->guarded.stats.renewal_failures++;
}

/* ---- ending -------------------------------------------------------------------------------- */

static void release_now(struct relock_hold *hold, uint64_t now_ms)
{
    /* A Redis that refuses has let go of the hold by then. */
    hold->valid_until_ms = relock_clock_after(now_ms, hold->lease_ms);
    hold->renew_at_ms = now_ms;
}

void relock_holds_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms)
{
    hold->state = RELOCK_HOLD_LOST;
    hold->lost_reason = (unsigned)reason;
    RELOCK_PROBE(lost, hold->resource->name, hold->owner, reason);
    /* The server still has it, for most of a lease. A collection has nothing there. */
    hold->is_left = reason == RELOCK_LOST_REPLICAS && !hold->resource->kind->is_collection;
    if (hold->is_left)
        release_now(hold, now_ms);
    relock_holds_arm(client, hold, now_ms);
    if (!hold->detached) {
        client->guarded.stats.lost++;
        client->guarded.stats.permits_lost += relock_hold_n_permits(hold);
        relock_holds_uncount(client, hold);
    }
    if (hold->resource->holder == hold || (hold->resource->kind->is_shared && !hold->detached)) {
        relock_resource_released(hold->resource, false, now_ms);
        relock_subscription_idle(client, hold->resource);
    }
    if (!hold->detached)
        relock_drain_left(client, hold->owner);
    if (hold->told)
        relock_cancel_fire(hold->told->cancel);
    if (hold->detached)
        relock_holds_unlist(hold);
    relock_tracked_drop(hold);
    hold->notice = RELOCK_HOLD_TO_TAKE_UP;
    (void)relock_holds_ref(hold);
    hold->loss = (struct relock_task){.run = relock_losses_take_up};
    relock_client_post(client, &hold->loss);
}

void relock_holds_forget_loss(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_events *events = relock_hold_events(hold);

    if (hold->notice == RELOCK_HOLD_TO_TAKE_UP)
        relock_client_take_back(client, &hold->loss);
    else if (hold->notice == RELOCK_HOLD_TO_TELL)
        relock_task_remove(events ? &events->losses : &client->guarded.to_tell, &hold->loss);
    else
        return;
    hold->notice = RELOCK_HOLD_NO_NOTICE;
    relock_holds_unref(client, hold);
}

void relock_holds_check_time(struct relock_client *client, struct relock_hold *hold,
                             uint64_t now_ms)
{
    if (relock_hold_is_held(hold) && now_ms >= hold->valid_until_ms)
        relock_holds_lose(client, hold, relock_hold_expiry_reason(hold), now_ms);
}

void relock_holds_release(struct relock_client *client, struct relock_hold *hold)
{
    hold->state = RELOCK_HOLD_RELEASING;
    relock_client_unset_hold_timer(client, hold);
    relock_holds_unlist(hold);
    if (hold->detached)
        return;
    hold->has_owner = false;
    relock_holds_uncount(client, hold);
    relock_drain_left(client, hold->owner);
}

void relock_holds_end(struct relock_client *client, struct relock_hold *hold)
{
    hold->state = RELOCK_HOLD_ENDED;
    relock_client_unset_hold_timer(client, hold);
    if (hold->is_deferred) {
        hold->is_deferred = false;
        relock_step_pass(hold);
    }
    relock_holds_unref(client, hold);
}

void relock_holds_settle(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    hold->state = RELOCK_HOLD_SETTLING;
    hold->count = 0;
    client->guarded.n_settling++;
    release_now(hold, now_ms);
    relock_holds_arm(client, hold, now_ms);
}

void relock_holds_release_lost(struct relock_client *client, struct relock_hold *hold)
{
    if (!hold->detached) {
        hold->has_owner = false;
        relock_holds_unlist(hold);
        relock_subscription_idle(client, hold->resource);
    }
    relock_holds_forget_loss(client, hold); /* the owner's reference is still there */
}
