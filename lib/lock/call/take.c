/*
 * An owner with levels nests: one command, no waiting. An owner without levels joins the queue of
 * the resource.
 */
#include "lock/call/call.h"

#include "base/clock.h"
#include "base/probe.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/state/keys.h"
#include "lock/state/options.h"
#include "lock/state/owner.h"
#include "lock/state/resource.h"
#include "lock/wake/wake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the state of a call ------------------------------------------------------------------- */

static void init_waiter(struct relock_acquire *acquire)
{
    const struct relock_how *how = acquire->how;

    acquire->waiter = (struct relock_waiter){
        .owner = relock_owner_resolve(how->owner),
        .explicit_owner = how->owner != 0,
        .renewed = how->lease_ms == 0,
        .waits_for_server = !acquire->resource->kind->is_composite,
        .tries = how->wait_ms <= 0,
    };
    if (acquire->stop)
        acquire->waiter.of_composite = true;
    relock_gate_init(&acquire->waiter.gate);
}

static uint64_t deadline_of(const struct relock_how *how, uint64_t now_ms)
{
    if (how->wait_ms == RELOCK_FOREVER)
        return RELOCK_NEVER;
    return relock_clock_after(now_ms, how->wait_ms > 0 ? (uint64_t)how->wait_ms : 0);
}

void relock_take_init(struct relock_acquire *acquire, struct relock_lock *lock,
                      const struct relock_how *how, struct relock_cancel *stop, uint64_t give_up_ms)
{
    uint64_t now_us = relock_clock_now_us();
    uint64_t now_ms = now_us / 1000;

    *acquire = (struct relock_acquire){
        .lock = lock,
        .client = lock->client,
        .resource = lock->resource,
        .how = how,
        .stop = stop,
        .now_us = now_us,
        .lease_ms = how->lease_ms > 0 ? how->lease_ms : relock_resource_lease_ms(lock->resource),
        .deadline_ms = deadline_of(how, now_ms),
        .give_up_ms = relock_clock_sooner(
            give_up_ms, relock_clock_after(now_ms, lock->client->options.command_timeout_ms)),
    };
    init_waiter(acquire);
}

/* ---- the first level ----------------------------------------------------------------------- */

static uint64_t first_pause_ms(const struct relock_resource *resource)
{
    uint64_t min_ms, max_ms;

    relock_resource_pauses(resource, &min_ms, &max_ms);
    return relock_clock_later(min_ms, relock_clock_sooner(max_ms, RELOCK_POLL_FIRST_MS));
}

/* Who is to be told if the call's hold is lost. The hold takes it over. Returns false when out of
 * memory. */
static bool name_told(struct relock_acquire *acquire)
{
    const struct relock_how *how = acquire->how;
    struct relock_waiter *waiter = &acquire->waiter;
    struct relock_told *by_default = &acquire->client->default_told;

    if (!how->on_lost && !how->cancel_on_lost && !by_default->on_lost)
        return true;
    if (waiter->told || waiter->of_composite) /* the collecting call reports the loss */
        return true;
    if (!how->on_lost && !how->cancel_on_lost && !waiter->events) {
        waiter->told = by_default;
        return true;
    }
    waiter->told = malloc(sizeof(*waiter->told));
    if (!waiter->told)
        return false;
    *waiter->told = (struct relock_told){
        .on_lost = how->on_lost ? how->on_lost : by_default->on_lost,
        .arg = how->on_lost ? how->arg : by_default->arg,
        .cancel = how->cancel_on_lost,
        .events = waiter->events,
    };
    return true;
}

static void drop_told(struct relock_acquire *acquire)
{
    if (acquire->waiter.told != &acquire->client->default_told)
        free(acquire->waiter.told);
}

/* Whether the owner has permits, by itself or for a multi lock. */
static bool has_permits(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_hold *hold;

    LL_FOREACH(acquire->resource->holds, hold)
    {
        if (hold->has_owner && hold->owner == acquire->waiter.owner && relock_hold_is_held(hold))
            return true;
    }
    return false;
}

/* An acquire of further permits fails as a further level would. */
static int check_own_permits(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_hold *hold;

    if (!acquire->resource->kind->has_permits)
        return RELOCK_OK;
    hold = relock_resource_find_weakest(acquire->resource, acquire->waiter.owner, 0);
    if (hold)
        relock_holds_check_time(acquire->client, hold, relock_acquire_now_ms(acquire));
    if (hold && hold->state == RELOCK_HOLD_LOST)
        return RELOCK_LOST;
    if (acquire->how->flags & RELOCK_NON_REENTRANT && has_permits(acquire))
        return relock_acquire_refuse(acquire, RELOCK_WHY_NESTED);
    return RELOCK_OK;
}

int relock_take_join(struct relock_acquire *acquire)
{
    struct relock_resource *resource = acquire->resource;
    struct relock_resource *queue = resource;
    int r;

    relock_resource_wait_on(&acquire->waiter);
    acquire->waiter.has_asked = false;
    acquire->pause_ms = first_pause_ms(resource);
    if (!name_told(acquire))
        return RELOCK_E_NOMEM;
    r = check_own_permits(acquire);
    if (r == RELOCK_OK)
        r = relock_waiter_ended(acquire);
    if (r == RELOCK_BUSY && relock_resource_cached(resource))
        r = relock_cache_take(acquire);
    if (r != RELOCK_BUSY)
        return r;
    if (resource->holder || (resource->queue && !resource->kind->is_shared)) {
        acquire->contended = true;
        if (acquire->waiter.tries && resource->held_at == RELOCK_NEVER)
            return RELOCK_BUSY;
    }
    if (resource->kind->is_queued) {
        queue = relock_resources_new_fair_waiter(acquire->client, resource);
        if (!queue)
            return RELOCK_E_NOMEM;
    }

    RELOCK_PROBE(acquire, resource->name, acquire->waiter.owner, acquire->how->wait_ms);
    relock_waiter_begin(acquire, queue);
    return RELOCK_JOINED;
}

__attribute__((flatten)) static int take_first_level(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    int r = relock_take_join(acquire);

    if (r != RELOCK_JOINED)
        return r;
    r = relock_waiter_wait(acquire, relock_ask);
    relock_waiter_leave(acquire, r);
    return r;
}

/* Another thread acts for the same owner: commands of one owner run one at a time. */
static int wait_for_own(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t until_ms = relock_acquire_end_ms(acquire, relock_acquire_now_ms(acquire));
    const struct relock_hold *hold;

    do {
        if (!relock_cond_wait_until(&acquire->client->changed, &acquire->client->mutex, until_ms)) {
            relock_acquire_keep_why(acquire, RELOCK_WHY_BUSY);
            return RELOCK_E_CONN;
        }
        hold = relock_resource_find_levels(acquire->resource, acquire->waiter.owner);
    } while (hold && hold->busy);
    return RELOCK_AGAIN;
}

void relock_take_count(struct relock_acquire *acquire, int result)
{
    if (acquire->contended) {
        acquire->client->guarded.stats.contended++;
        relock_meter_contend(&acquire->client->guarded.meter,
                             relock_resource_given(acquire->resource));
    }
    if (result == RELOCK_OK)
        relock_owner_count(acquire->waiter.owner, 1);
}

bool relock_take_is_stopped(const struct relock_acquire *acquire)
{
    return relock_cancel_is_fired(acquire->how->cancel) || relock_cancel_is_fired(acquire->stop) ||
           !relock_drain_admits(acquire->client, acquire->waiter.owner, acquire->is_vouched);
}

/* Whether the call can go on. A call that waits goes on in the queue. */
static bool await_releases(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, relock_acquire_now_ms(acquire));
    bool has_ended;

    if (!acquire->resource->primary->deferrals)
        return true;
    acquire->awaits_us = acquire->now_us;
    has_ended = relock_defer_await(acquire->client, acquire->resource, acquire, limit_ms);
    relock_acquire_read_clock(acquire);
    if (has_ended || relock_take_is_stopped(acquire))
        return true;
    if (!acquire->waiter.tries && relock_acquire_now_ms(acquire) < acquire->deadline_ms)
        return true;
    relock_acquire_keep_why(acquire, RELOCK_WHY_DEFERRED);
    return false;
}

static int take(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r;

    if (!relock_owner_watch(acquire->waiter.owner))
        return RELOCK_E_NOMEM;
    for (;;) {
        struct relock_hold *hold =
            relock_resource_find_levels(acquire->resource, acquire->waiter.owner);

        if (!hold && !await_releases(acquire))
            r = RELOCK_E_CONN;
        else if (!hold && relock_resource_find_levels(acquire->resource, acquire->waiter.owner))
            r = RELOCK_AGAIN; /* another thread has acquired it for the same owner meanwhile */
        else if (!hold)
            r = take_first_level(acquire);
        else if (hold->busy)
            r = wait_for_own(acquire);
        else
            return relock_levels_add(acquire, hold);
        if (r != RELOCK_AGAIN)
            break;
        relock_acquire_read_clock(acquire);
    }
    relock_take_count(acquire, r);
    return r;
}

/* ---- the call ------------------------------------------------------------------------------ */

bool relock_take_is_answer(int result)
{
    return result > RELOCK_E_NOMEM || result == RELOCK_E_CLOSED;
}

static void write_permit_ids(const struct relock_acquire *acquire)
{
    const struct relock_hold *hold = acquire->hold;
    char id[RELOCK_FIELD_MAX];

    for (uint64_t i = 0; i < hold->n_permits; i++)
        memcpy(acquire->how->permit_ids + i * RELOCK_PERMIT_ID_LEN, id,
               relock_keys_permits(id, acquire->client->id, hold->number, i));
}

void relock_take_report(struct relock_acquire *acquire, int result, struct relock_grant *grant)
{
    struct relock_stats *stats = &acquire->client->guarded.stats;
    uint64_t now_ms = relock_acquire_now_ms(acquire);

    if (acquire->waiter.told)
        drop_told(acquire);
    if (!acquire->stop)
        relock_meter_end(stats->acquires, result);
    if (result == RELOCK_OK) {
        if (acquire->joined_us > 0)
            RELOCK_PROBE(grant, acquire->resource->name, acquire->waiter.owner,
                         acquire->now_us - acquire->joined_us);
        if (!acquire->stop && acquire->joined_us > 0)
            relock_meter_add(&stats->wait, acquire->now_us - acquire->joined_us);
        relock_hold_report(acquire->hold, now_ms, grant);
        if (acquire->how->permit_ids)
            write_permit_ids(acquire);
        if (acquire->resource->kind->is_collection)
            grant->valid_ms = relock_clock_left(now_ms, acquire->valid_until_ms);
        relock_holds_unref(acquire->client, acquire->hold);
        return;
    }
    if (acquire->failed_name)
        grant->failed_member = acquire->failed_name;
    if (relock_take_is_answer(result))
        return;
    relock_lock_log_under(acquire->client, acquire->lock, acquire->waiter.owner, "not acquired",
                          result, acquire->why);
}

int relock_take_check(const struct relock_lock *lock, const struct relock_how *how)
{
    if (!how)
        return RELOCK_OK;
    if (!relock_options_unused(how->reserved, sizeof(how->reserved) / sizeof(uint64_t)))
        return relock_lock_refuse(lock, "`reserved` of struct relock_how must be 0");
    if (how->flags & ~(uint64_t)RELOCK_NON_REENTRANT)
        return relock_lock_refuse(lock, "`flags` of struct relock_how has an unknown flag");
    if ((how->permits > 0 || how->permit_ids) && !lock->resource->kind->has_permits)
        return relock_lock_refuse(lock, "`permits` and `permit_ids` are for semaphores");
    if (how->permits == 0 && lock->resource->kind->has_permits)
        return relock_lock_refuse(lock, "`permits` of struct relock_how is 0: set how many permits "
                                        "of the semaphore the call acquires");
    if (how->permits > RELOCK_PERMITS_MAX)
        return relock_lock_refuse(lock, "`permits` is above 1000");
    if (how->lease_ms > 0 && how->lease_ms < RELOCK_LEASE_MIN_MS)
        return relock_lock_refuse(lock, "`lease_ms` is below 30: an acquire that takes longer than "
                                        "the lease would hold nothing");
    if (how->lease_ms > RELOCK_TEN_YEARS_MS)
        return relock_lock_refuse(lock, "`lease_ms` is above ten years");
    return RELOCK_OK;
}

/* Whether the call wants what a shortcut gives: a hold of the calling thread, as the client sets it
 * up. */
static bool is_usual(const struct relock_how *how)
{
    return how->owner == 0 && how->lease_ms == 0 && !how->on_lost && !how->cancel_on_lost &&
           !relock_cancel_is_fired(how->cancel);
}

int relock_acquire(struct relock_lock *lock, const struct relock_how *how,
                   struct relock_grant *grant)
{
    static const struct relock_how one_try;
    struct relock_grant none;
    int r;

    if (!grant)
        grant = &none;
    *grant = (struct relock_grant){0};
    if (lock && lock->resource->kind->is_collection)
        grant->failed_member = relock_lock_name(lock);
    r = lock ? relock_take_check(lock, how) : RELOCK_E_INVALID;
    if (r < 0)
        return r;
    if (!how)
        how = &one_try;
    if (is_usual(how) && relock_shortcut_take(lock->resource, grant))
        return RELOCK_OK;
    r = relock_take(lock, how, NULL, grant);
    assert(r <= 0);
    return r;
}

__attribute__((flatten)) int relock_take(struct relock_lock *lock, const struct relock_how *how,
                                         struct relock_collector *collector,
                                         struct relock_grant *grant)
{
    struct relock_guard guard;
    struct relock_acquire acquire;
    int r;

    relock_take_init(&acquire, lock, how, collector ? collector->stop : NULL,
                     collector ? collector->give_up_ms : RELOCK_NEVER);
    acquire.is_vouched = collector && collector->is_vouched;
    relock_waiter_watch_cancels(&acquire);
    if (relock_client_enter(acquire.client, true, &guard)) {
        r = take(&acquire);
        if (r == RELOCK_OK && collector)
            collector->number = acquire.hold->number;
        relock_take_report(&acquire, r, grant);
        relock_client_exit(acquire.client, &guard);
    } else {
        r = guard.result;
    }
    relock_waiter_unwatch_cancels(&acquire);
    return r;
}

/* One level, or one permit. */
static int take_one(struct relock_lock *lock, int64_t wait_ms)
{
    const struct relock_how how = {.wait_ms = wait_ms,
                                   .permits = lock && lock->resource->kind->has_permits};

    return relock_acquire(lock, &how, NULL);
}

int relock_lock(struct relock_lock *lock)
{
    if (lock && relock_shortcut_take(lock->resource, NULL))
        return RELOCK_OK;
    return take_one(lock, RELOCK_FOREVER);
}

int relock_trylock(struct relock_lock *lock)
{
    return relock_acquire(lock, NULL, NULL);
}

int relock_timedlock(struct relock_lock *lock, int64_t wait_ms)
{
    int r = take_one(lock, wait_ms);

    /* A call with a time limit reports its end by one result. */
    return r == RELOCK_BUSY ? RELOCK_TIMEOUT : r;
}
