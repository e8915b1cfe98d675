/*
 * Taking a lock.
 *
 * An owner with levels nests: one command, no waiting. One without joins the queue of the site,
 * and as its head, and on news, asks Redis. The mutex is given up for each command and each sleep;
 * whatever is decided is decided with it held, on what is there then.
 */
#include "lock/acquire.h"

#include "base/clock.h"
#include "base/status.h"
#include "lock/group.h"
#include "lock/holds.h"
#include "lock/options.h"
#include "lock/owner.h"
#include "lock/redlock.h"
#include "lock/silence.h"
#include "lock/sites.h"
#include "lock/spinlock.h"
#include "lock/subscription.h"

#include <assert.h>
#include <stdio.h>

void relock_acquire_keep_why(struct relock_acquire *acquire, const char *why)
{
    (void)snprintf(acquire->why, sizeof(acquire->why), "%s", why);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/*
 * The owner's other side is looked at whoever is before it: that one may wait for this very owner.
 * A reader under its own write hold takes a level more of what it has, also while shutting down.
 */
static int end_of_wait(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r = RELOCK_OK;

    switch (acquire->waiter.end) {
    case RELOCK_WAITER_GRANTED: /* beats a deadline or a cancel that comes at the same moment */
        acquire->hold = acquire->waiter.hold;
        return RELOCK_OK;
    case RELOCK_WAITER_STARTS_ANEW:
        return RELOCK_AGAIN;
    case RELOCK_WAITER_UNREACHED:
        relock_acquire_keep_why(acquire, "it was away for as long as a wait may miss it");
        return RELOCK_E_CONN;
    case RELOCK_WAITER_WAITS:
        break;
    }
    if (acquire->site->kind->check_other_side)
        r = acquire->site->kind->check_other_side(acquire);
    if (r < 0)
        return r;
    if (acquire->client->guarded.shut_down && acquire->write_number == 0)
        return RELOCK_E_CLOSED;
    if (relock_cancel_is_fired(acquire->stop))
        return RELOCK_E_CLOSED;
    if (relock_cancel_is_fired(acquire->how->cancel))
        return RELOCK_CANCELLED;
    return RELOCK_BUSY;
}

/* Whether another process is to go first. Who has no time to wait asks all the same. */
static bool yields(const struct relock_acquire *acquire, uint64_t now_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    return now_ms < acquire->waiter.line->yields_until_ms && now_ms < acquire->deadline_ms;
}

/* How soon after one try the head makes the next: where not all is announced it has to poll. */
static uint64_t recheck_after(const struct relock_acquire *acquire)
{
    return acquire->site->kind->is_polled ? acquire->pause_ms : acquire->client->options.recheck_ms;
}

/* Sleeps until there is something to look at, or the time has come for the head to ask again. */
static void sleep_in_queue(struct relock_acquire *acquire, uint64_t now_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_site *site = acquire->waiter.line;
    struct relock_stats *stats = &acquire->client->guarded.stats;
    bool is_head = site->queue == &acquire->waiter && !site->holder;
    uint64_t until_ms = relock_acquire_until_ms(acquire);
    uint64_t recheck_ms = RELOCK_NEVER;

    if (is_head)
        recheck_ms = relock_site_recheck_at(site, recheck_after(acquire));
    if (recheck_ms <= now_ms) {
        if (acquire->has_slept && recheck_ms != site->lease_end_ms && !site->kind->is_polled)
            stats->rechecks++;
        relock_site_add_news(site, false);
        return;
    }
    if (recheck_ms < until_ms)
        until_ms = recheck_ms;
    if (yields(acquire, now_ms) && site->yields_until_ms < until_ms &&
        relock_site_may_ask(site, &acquire->waiter))
        until_ms = site->yields_until_ms;
    if (is_head)
        stats->waits++;
    acquire->has_slept = is_head;

    relock_mutex_unlock(&acquire->client->mutex);
    (void)relock_gate_wait(&acquire->waiter.gate, until_ms);
    relock_mutex_lock(&acquire->client->mutex);

    if (is_head && site->news && site->news_is_message)
        stats->wakes++;
}

/*
 * Ask once, however short the time. A fair waiter asks again at its deadline: others may have taken
 * the lock since it last did, for a shorter time than it was told.
 */
static bool has_tried_enough(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (acquire->site->kind->is_queued)
        return acquire->waiter.line->asked_ms >= acquire->deadline_ms;
    return acquire->waiter.has_asked;
}

static int wait_turn(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    for (;;) {
        uint64_t now_ms = relock_clock_now_ms();
        int r = end_of_wait(acquire);
        bool is_late = now_ms >= relock_acquire_until_ms(acquire);
        bool may_ask;

        if (r != RELOCK_BUSY)
            return r;
        if (is_late && has_tried_enough(acquire))
            return relock_acquire_be_late(acquire);
        if (is_late && acquire->site->kind->is_queued)
            relock_site_add_news(acquire->waiter.line, false);
        may_ask =
            relock_site_may_ask(acquire->waiter.line, &acquire->waiter) && !yields(acquire, now_ms);
        if (is_late && !may_ask)
            return relock_acquire_be_late(acquire);
        if (!may_ask) {
            sleep_in_queue(acquire, now_ms);
            continue;
        }
        r = relock_acquire_ask(acquire);
        if (r == RELOCK_E_CONN && !relock_acquire_tries(acquire) &&
            relock_clock_now_ms() >= acquire->deadline_ms)
            return relock_acquire_be_late(acquire);
        if (r != RELOCK_BUSY || relock_acquire_tries(acquire))
            return r;
        if (!acquire->site->group) /* which knows better when to ask its servers again */
            acquire->pause_ms = relock_spinlock_pause_ms(acquire->pause_ms);
        relock_subscription_want(acquire->client, acquire->waiter.line);
    }
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Leaves the queue without the lock. */
static void leave_queue(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_site *line = acquire->waiter.line;

    /* It was refused, and nobody listens: whoever came meanwhile begins at the beginning. */
    if (relock_acquire_tries(acquire) && acquire->waiter.has_asked &&
        !relock_site_listener(line)->subscribed)
        relock_site_add_news(line, false);
    relock_site_leave(line, &acquire->waiter);
    if (acquire->queued) {
        relock_holds_settle(acquire->client, acquire->queued, relock_clock_now_ms());
        acquire->queued = NULL;
    }
}

static int take_first_level(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_site *site = acquire->site;
    struct relock_site *line = site;
    int r;

    acquire->waiter.end = RELOCK_WAITER_WAITS;
    acquire->waiter.has_asked = false;
    r = end_of_wait(acquire);
    if (r != RELOCK_BUSY)
        return r;
    if (site->holder || (site->queue && !site->kind->is_shared)) {
        acquire->contended = true;
        if (relock_acquire_tries(acquire) && site->held_ms == RELOCK_NEVER)
            return RELOCK_BUSY;
    }
    if (site->kind->is_queued) {
        r = relock_sites_line(acquire->client, site, &line);
        if (r < 0)
            return r;
    }

    acquire->waiter.joined_ms = relock_clock_now_ms();
    relock_site_join(line, &acquire->waiter);
    if (!relock_acquire_tries(acquire))
        relock_silence_enter(acquire->client, &acquire->waiter);
    r = wait_turn(acquire);
    if (!relock_acquire_tries(acquire))
        relock_silence_leave(acquire->client, &acquire->waiter);
    if (r != RELOCK_OK)
        leave_queue(acquire);
    if (acquire->listens)
        relock_redlock_stop_listening(acquire);
    if (r != RELOCK_OK || line != site)
        relock_subscription_idle(acquire->client, line);
    if (line != site)
        relock_sites_unref(acquire->client, line);
    return r;
}

/* Another thread acts for the same owner: one thing at a time. */
static int wait_for_own(struct relock_acquire *acquire, uint64_t until_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (relock_cond_wait_until(&acquire->client->changed, &acquire->client->mutex, until_ms))
        return RELOCK_AGAIN;
    relock_acquire_keep_why(acquire, "no answer in time to another command of this owner");
    return RELOCK_E_CONN;
}

static int take(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t until_ms = RELOCK_NEVER; /* a try is bounded by the command of the other */
    int r;

    if (!relock_owner_watch(acquire->waiter.owner))
        return RELOCK_E_NOMEM;
    if (!relock_acquire_tries(acquire))
        until_ms = relock_acquire_least_ms(acquire, relock_clock_now_ms());
    do {
        struct relock_hold *hold = relock_site_find(acquire->site, acquire->waiter.owner);

        if (!hold) {
            r = take_first_level(acquire);
        } else if (!hold->busy) {
            return relock_acquire_nest(acquire, hold);
        } else {
            r = wait_for_own(acquire, until_ms);
        }
    } while (r == RELOCK_AGAIN);
    if (acquire->contended)
        acquire->client->guarded.stats.contended++;
    if (r == RELOCK_OK)
        relock_owner_count(acquire->waiter.owner, 1);
    return r;
}

static void begin(struct relock_acquire *acquire, struct relock_lock *lock,
                  const struct relock_how *how, struct relock_cancel *stop)
{
    const struct relock_options *options = &lock->client->options;
    uint64_t now_ms = relock_clock_now_ms();

    acquire->lock = lock;
    acquire->client = lock->client;
    acquire->site = lock->site;
    acquire->how = how;
    acquire->stop = stop;
    acquire->lease_ms = how->lease_ms > 0   ? how->lease_ms
                        : lock->site->group ? lock->site->group->lease_ms
                                            : options->watchdog_timeout_ms;
    acquire->deadline_ms = now_ms;
    if (how->wait_ms == RELOCK_FOREVER)
        acquire->deadline_ms = RELOCK_NEVER;
    else if (how->wait_ms > 0)
        acquire->deadline_ms = relock_clock_after(now_ms, (uint64_t)how->wait_ms);
    acquire->write_number = 0;
    acquire->queued = NULL;
    acquire->has_slept = false;
    acquire->contended = false;
    acquire->listens = false;
    acquire->pause_ms = RELOCK_SPINLOCK_FIRST_MS;
    acquire->hold = NULL;
    acquire->why[0] = '\0';

    acquire->waiter = (struct relock_waiter){
        .renewed = how->lease_ms == 0,
        .tries = how->wait_ms <= 0,
        .on_lost = how->on_lost ? how->on_lost : options->on_lost,
        .arg = how->on_lost ? how->arg : options->arg,
    };
    acquire->waiter.owner = relock_owner_resolve(how->owner, &acquire->waiter.named);
    relock_gate_init(&acquire->waiter.gate);
    relock_cancel_watch(&acquire->waiter.cancel_wait, how->cancel, &acquire->waiter.gate);
    relock_cancel_watch(&acquire->stop_wait, stop, &acquire->waiter.gate);
    if (stop) { /* the whole has its own */
        acquire->waiter.of_whole = true;
        acquire->waiter.on_lost = NULL;
        acquire->waiter.arg = NULL;
    }
}

static void end(struct relock_acquire *acquire)
{
    relock_cancel_unwatch(&acquire->stop_wait);
    relock_cancel_unwatch(&acquire->waiter.cancel_wait);
}

static bool is_answer(int result)
{
    return result > RELOCK_E_NOMEM || result == RELOCK_E_CLOSED;
}

/* Says how it ended: to the caller what it holds, to the log what stood in the way. */
static void report(struct relock_acquire *acquire, int result, struct relock_grant *grant)
    RELOCK_REQUIRES(acquire->client->mutex)
{

    if (result == RELOCK_OK) {
        relock_hold_report(acquire->hold, relock_clock_now_ms(), grant);
        relock_holds_unref(acquire->client, acquire->hold);
    } else if (!is_answer(result)) {
        relock_mutex_unlock(&acquire->client->mutex);
        relock_lock_log(acquire->lock, acquire->waiter.owner, "not acquired", result, acquire->why);
        relock_mutex_lock(&acquire->client->mutex);
    }
}

static int check_how(const struct relock_how *how)
{
    if (!relock_options_unused(how->reserved, sizeof(how->reserved) / sizeof(uint64_t)) ||
        (how->flags & ~(uint64_t)RELOCK_NON_REENTRANT) || how->lease_ms > RELOCK_TEN_YEARS_MS)
        return RELOCK_E_INVALID;
    return RELOCK_OK;
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
    if (lock && lock->site->kind->calls)
        grant->failed_member = relock_lock_name(lock);
    if (!how)
        how = &one_try;
    r = lock ? check_how(how) : RELOCK_E_INVALID;
    if (r < 0)
        return r;
    if (lock->site->kind->calls)
        r = lock->site->kind->calls->acquire(lock, how, grant);
    else
        r = relock_acquire_as(lock, how, NULL, grant);
    assert(r <= 0);
    return r;
}

RELOCK_UNCHECKED int relock_acquire_as(struct relock_lock *lock, const struct relock_how *how,
                                       struct relock_cancel *stop, struct relock_grant *grant)
{
    struct relock_visit visit;
    struct relock_acquire acquire;
    int r;

    begin(&acquire, lock, how, stop);
    r = relock_client_enter(lock->client, true, &visit);
    if (r == RELOCK_OK) {
        r = take(&acquire);
        report(&acquire, r, grant);
        relock_client_leave(lock->client, &visit);
    }
    end(&acquire);
    return r;
}

int relock_lock(struct relock_lock *lock)
{
    return relock_acquire(lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER}, NULL);
}

int relock_trylock(struct relock_lock *lock)
{
    return relock_acquire(lock, NULL, NULL);
}

int relock_timedlock(struct relock_lock *lock, int64_t wait_ms)
{
    int r = relock_acquire(lock, &(struct relock_how){.wait_ms = wait_ms}, NULL);

    /* One name for one thing: who asked for a time limit is told that it is over. */
    return r == RELOCK_BUSY ? RELOCK_TIMEOUT : r;
}
