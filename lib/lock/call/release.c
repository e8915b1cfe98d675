/*
 * A level is released when the call is made, whether Redis answers or not: the count here is the
 * truth. If Redis could not be reached, the I/O thread settles the last level, and the next command
 * of the hold corrects the count of any other.
 */
#include "lock/call/call.h"

#include "base/clock.h"
#include "base/probe.h"
#include "lock/hold/holds.h"
#include "lock/state/options.h"
#include "lock/state/owner.h"
#include "lock/wake/wake.h"

#include <assert.h>

/* Judges the reply to the last release. */
static int judge_last(const struct relock_answer *answer)
{
    if (!relock_verdict_loss(answer->verdict))
        return answer->result;
    /* Gone after an unanswered attempt: that attempt has released it. */
    return answer->unanswered ? RELOCK_OK : RELOCK_LOST;
}

static void log_late(const struct relock_lock *lock, uint64_t owner, int r, const char *why)
    RELOCK_REQUIRES(lock->client->mutex)
{
    relock_lock_log_under(lock->client, lock, owner,
                          "released, but not in Redis yet; retrying until the lease expires", r,
                          why);
}

static void log_last(struct relock_lock *lock, uint64_t owner, const struct relock_answer *answer,
                     bool is_deferred, int r) RELOCK_REQUIRES(lock->client->mutex)
{
    if (answer->is_reported)
        return;
    if (r == RELOCK_LOST && is_deferred)
        relock_lock_log_under(lock->client, lock, owner, "lost before its deferred release", r,
                              "found after that had returned RELOCK_OK");
    else if (r == RELOCK_LOST)
        relock_lock_log_under(lock->client, lock, owner, "released", r,
                              "Redis no longer had the hold");
    else if (r < 0)
        log_late(lock, owner, r, answer->why);
    else if (answer->n_receivers < 0 && lock->resource->kind->announcement)
        relock_lock_log_under(lock->client, lock, 0,
                              "released, but the server refused to tell the waiters of the other "
                              "library, which find that out in their own time; see "
                              "docs/wire.md#rights",
                              0, "");
    else if (answer->n_receivers < 0)
        relock_lock_log_under(lock->client, lock, 0,
                              "released, but the server refused PUBLISH, so waiters got no "
                              "message; see docs/wire.md#rights",
                              0, "");
}

/*
 * Whether the message of a release reaches the waiters of this process. Of a fair lock one waiter
 * gets it, here or elsewhere, on a channel of its own. Pollers need no signal: with one, this
 * process would acquire the lock each time.
 */
static bool reaches_waiters(const struct relock_resource *resource, bool is_subscribed,
                            const struct relock_answer *answer)
{
    if (!answer->is_announced)
        return false;
    if (relock_resource_contention(resource)->line.state != RELOCK_LINE_OUTSIDE)
        return answer->place > 1 || resource->kind->has_permits;
    if (resource->kind->is_polled)
        return true;
    return resource->kind->is_queued ? answer->n_receivers > 0 : is_subscribed;
}

/* Pollers elsewhere get no message: they find the lock free only if this process waits a moment. */
static void let_others_go_first(struct relock_lock *lock, bool is_subscribed,
                                const struct relock_answer *answer, uint64_t now_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    bool is_polled = lock->resource->kind->is_polled;

    if (lock->resource->kind->has_permits &&
        relock_resource_contention(lock->resource)->line.state != RELOCK_LINE_OUTSIDE)
        return; /* the line has its order */
    if (answer->place > 1)
        return; /* they do */
    if ((is_polled && answer->is_announced) || answer->n_receivers > is_subscribed)
        relock_resource_yield(lock->resource, is_polled ? 0 : lock->client->options.handoff_ms,
                              now_ms);
}

bool relock_release_begin_last(struct relock_lock *lock, struct relock_hold *hold, uint64_t now_us,
                               struct relock_release_view *view)
{
    struct relock_resource *resource = lock->resource;
    bool stays;

    view->owner = hold->owner;
    view->is_subscribed = relock_subscription_is_active(resource);
    view->line = relock_resource_view_line(resource);
    view->began_us = now_us;
    view->held_us = now_us - hold->since_us;
    view->counts = !hold->observer_tells; /* not for a hold of the layer above */
    view->is_deferred = false;
    RELOCK_PROBE(release, resource->name, view->owner, view->held_us);
    stays = relock_cache_hand_off(lock->client, hold, now_us) ||
            relock_cache_keep(lock->client, hold, now_us);
    if (stays && view->counts)
        relock_meter_add(&lock->client->guarded.stats.hold, view->held_us);
    if (stays)
        return false;

    relock_holds_release(lock->client, hold);
    if ((view->is_subscribed ||
         relock_resource_contention(resource)->line.state != RELOCK_LINE_OUTSIDE) &&
        !resource->kind->is_shared)
        resource->retry = RELOCK_RETRY_NONE; /* the message of this release will signal */
    return true;
}

int relock_release_end_last(struct relock_lock *lock, struct relock_hold *hold,
                            const struct relock_release_view *view,
                            const struct relock_answer *answer)
{
    struct relock_resource *resource = lock->resource;
    struct relock_stats *stats = &lock->client->guarded.stats;
    int r = judge_last(answer);
    uint64_t end_us, now_ms;

    if (answer->verdict == RELOCK_VERDICT_DONE)
        relock_echo_release(lock->client, resource);
    relock_line_released(lock->client, resource, &view->line, answer->place);
    relock_line_give_up(lock->client, resource); /* nobody waits any more */
    end_us = relock_clock_now_us();
    now_ms = end_us / 1000;
    if (view->counts && r != RELOCK_LOST)
        relock_meter_add(&stats->hold, view->held_us);
    if (answer->verdict != RELOCK_VERDICT_FAILED && !resource->kind->is_composite &&
        !view->is_deferred) /* nobody has measured when its answer came */
        relock_meter_add(&stats->round_trip, end_us - view->began_us);
    let_others_go_first(lock, view->is_subscribed, answer, now_ms);
    if (hold->recalled || (hold->cache_until_ms > 0 && answer->n_receivers > view->is_subscribed))
        relock_resource_rest(resource, now_ms);
    relock_resource_released(resource, reaches_waiters(resource, view->is_subscribed, answer),
                             now_ms);
    relock_subscription_idle(lock->client, resource);
    if (r == RELOCK_LOST && !answer->is_reported) {
        stats->lost++;
        stats->permits_lost += relock_hold_n_permits(hold);
        stats->deferred_lost += view->is_deferred;
    }
    if (r == RELOCK_OK || r == RELOCK_LOST)
        relock_holds_end(lock->client, hold);
    else
        resource->kind->operations->let_go(lock->client, hold, now_ms);
    log_last(lock, view->owner, answer, view->is_deferred, r);
    return r;
}

__attribute__((flatten)) static int release_last(struct relock_lock *lock, struct relock_hold *hold,
                                                 uint64_t now_us, uint64_t deadline_ms,
                                                 bool may_defer)
    RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_release_view view;
    char why[RELOCK_WHY_MAX] = "";
    struct relock_answer answer = {.why = why};

    if (!relock_release_begin_last(lock, hold, now_us, &view) ||
        (may_defer && relock_defer(lock, hold, &view, deadline_ms)))
        return RELOCK_OK;
    lock->resource->kind->operations->release(lock->client, hold, deadline_ms, &answer);
    return relock_release_end_last(lock, hold, &view, &answer);
}

static void drop_level(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_operations *operations = hold->resource->kind->operations;

    if (operations->drop_level)
        operations->drop_level(client, hold, deadline_ms);
}

int relock_release_lost(struct relock_client *client, struct relock_hold *hold,
                        uint64_t deadline_ms)
{
    bool is_last = hold->count == 0;

    (void)relock_holds_ref(hold);
    if (is_last)
        relock_holds_release_lost(client, hold);
    drop_level(client, hold, deadline_ms);
    if (is_last) {
        hold->resource->kind->operations->let_go(client, hold, relock_clock_now_ms());
        relock_losses_wait(client, hold);
    }
    relock_holds_unref(client, hold);
    return RELOCK_LOST;
}

static int release_level(struct relock_lock *lock, uint64_t owner, uint64_t number, bool may_wait)
    RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_hold *hold = relock_resource_find_released(lock->resource, owner, number);

    return hold ? relock_release_level_of(lock, hold, may_wait) : RELOCK_NOT_OWNER;
}

int relock_release_level_of(struct relock_lock *lock, struct relock_hold *hold, bool may_wait)
{
    uint64_t now_ms = relock_clock_now_ms();

    relock_holds_check_time(lock->client, hold, now_ms);
    (void)relock_holds_ref(hold);
    if (hold->count > 1) {
        hold->count--;
        hold->count_dirty = true;
        drop_level(lock->client, hold, 0);
    } else {
        relock_owner_count(hold->owner, -1);
        relock_let_go(lock->client, hold, now_ms);
        if (may_wait && !relock_callback_is_inside())
            relock_losses_wait(lock->client, hold);
    }
    relock_holds_unref(lock->client, hold);
    return RELOCK_OK;
}

int relock_release_unasked(struct relock_lock *lock, uint64_t owner, uint64_t number)
{
    struct relock_guard guard;
    int r;

    if (!relock_client_enter(lock->client, false, &guard))
        return guard.result;
    r = release_level(lock, owner, number, true);
    relock_client_exit(lock->client, &guard);
    return r;
}

int relock_release_late(struct relock_lock *lock, uint64_t owner, uint64_t number, bool may_wait)
{
    int r = release_level(lock, owner, number, may_wait);

    if (r < 0)
        return r;
    log_late(lock, owner, RELOCK_E_CONN, RELOCK_WHY_BUSY);
    return RELOCK_E_CONN;
}

static int release(struct relock_lock *lock, uint64_t owner, uint64_t number, uint64_t deadline_ms,
                   bool may_defer) RELOCK_REQUIRES(lock->client->mutex)
{
    uint64_t now_us = relock_clock_now_us();
    struct relock_hold *hold;
    bool in_time = true;

    if (deadline_ms == 0)
        deadline_ms = relock_clock_after(now_us / 1000, lock->client->options.release_timeout_ms);
    for (;;) {
        hold = relock_resource_find_released(lock->resource, owner, number);
        if (hold && !hold->busy)
            relock_holds_check_time(lock->client, hold, now_us / 1000);
        if (hold && hold->state == RELOCK_HOLD_LOST && !relock_losses_block(hold))
            break;
        if (relock_callback_is_inside())
            return RELOCK_E_DEADLOCK;
        if (!hold)
            return RELOCK_NOT_OWNER;
        if (!hold->busy)
            break;
        if (!in_time)
            return relock_release_late(lock, owner, number, true);
        in_time = relock_cond_wait_until(&lock->client->changed, &lock->client->mutex, deadline_ms);
        now_us = relock_clock_now_us();
    }

    if (--hold->count == 0)
        relock_owner_count(owner, -1);
    if (hold->state == RELOCK_HOLD_LOST)
        return relock_release_lost(lock->client, hold, deadline_ms);
    return hold->count > 0 ? relock_levels_remove(lock, hold, deadline_ms)
                           : release_last(lock, hold, now_us, deadline_ms, may_defer);
}

int relock_release_by(struct relock_lock *lock, uint64_t owner, uint64_t number,
                      uint64_t deadline_ms, bool counts, bool may_defer)
{
    struct relock_guard guard;
    int r;

    if (!relock_client_enter(lock->client, false, &guard))
        return guard.result;
    r = release(lock, relock_owner_resolve(owner), number, deadline_ms, may_defer);
    if (counts)
        relock_meter_end(lock->client->guarded.stats.releases, r);
    relock_client_exit(lock->client, &guard);
    assert(r <= 0);
    return r;
}

int relock_release(struct relock_lock *lock, uint64_t owner)
{
    if (!lock)
        return RELOCK_E_INVALID;
    if (owner == 0 && relock_shortcut_give(lock->resource))
        return RELOCK_OK;
    return relock_release_by(lock, owner, 0, 0, true, true);
}

int relock_unlock(struct relock_lock *lock)
{
    return relock_release(lock, 0);
}

/* ---- keeping ------------------------------------------------------------------------------- */

/* Extends the owner's first hold after `*order`, and sets that. */
static int extend_one(struct relock_lock *lock, uint64_t owner, uint64_t number, uint64_t lease_ms,
                      uint64_t deadline_ms, uint64_t *order) RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_hold *hold;

    while ((hold = relock_resource_find_younger(lock->resource, owner, number, *order)) &&
           hold->busy)
        if (!relock_cond_wait_until(&lock->client->changed, &lock->client->mutex, deadline_ms))
            return RELOCK_E_CONN;
    if (!hold)
        return RELOCK_NOT_OWNER;
    *order = relock_hold_order(hold);
    relock_holds_check_time(lock->client, hold, relock_clock_now_ms());
    if (hold->state == RELOCK_HOLD_LOST)
        return RELOCK_LOST;

    return relock_levels_extend(lock, hold, lease_ms, deadline_ms);
}

/* An owner has several holds of a semaphore: all are extended, those that it acquires meanwhile are
 * not. */
static int extend(struct relock_lock *lock, uint64_t owner, uint64_t number, uint64_t lease_ms,
                  uint64_t deadline_ms) RELOCK_REQUIRES(lock->client->mutex)
{
    uint64_t began_us = relock_clock_now_us();
    struct relock_hold *hold;
    uint64_t order = 0;
    int r = extend_one(lock, owner, number, lease_ms, deadline_ms, &order);
    int next = r;

    while (r == RELOCK_OK && next == RELOCK_OK && number == 0 &&
           lock->resource->kind->has_permits &&
           (hold = relock_resource_find_younger(lock->resource, owner, 0, order)) &&
           hold->since_us <= began_us)
        next = extend_one(lock, owner, 0, lease_ms, deadline_ms, &order);
    return next == RELOCK_NOT_OWNER ? r : next;
}

int relock_extend_by(struct relock_lock *lock, uint64_t owner, uint64_t number, uint64_t lease_ms,
                     uint64_t deadline_ms)
{
    struct relock_guard guard;
    int r;

    if (!relock_client_enter(lock->client, true, &guard))
        return guard.result;
    r = extend(lock, relock_owner_resolve(owner), number, lease_ms, deadline_ms);
    relock_client_exit(lock->client, &guard);
    assert(r <= 0);
    return r;
}

int relock_extend(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms)
{
    if (!lock || lease_ms == 0 || lease_ms > RELOCK_TEN_YEARS_MS)
        return relock_lock_refuse(lock, "relock_extend: `lease_ms` is 0 or above ten years");
    return relock_extend_by(lock, owner, 0, lease_ms,
                            relock_clock_in(lock->client->options.command_timeout_ms));
}
