#include "lock/holds.h"

#include "base/clock.h"
#include "lock/keys.h"
#include "lock/losses.h"
#include "lock/redlock.h"
#include "lock/sites.h"
#include "lock/subscription.h"
#include "lock/vote.h"
#include "lock/watchdog.h"
#include "redis/origin.h"

#include <stdlib.h>

struct relock_hold *relock_holds_new(struct relock_client *client, struct relock_site *site,
                                     uint64_t owner)
{
    struct relock_hold *hold = calloc(1, sizeof(*hold));

    if (!hold)
        return NULL;
    hold->site = site;
    site->refs++;
    hold->number = relock_keys_number(owner, client->guarded.serial++);
    hold->owner = owner;
    hold->refs = 1;
    hold->state = RELOCK_HOLD_ASKED;
    hold->renewal_ms = client->options.watchdog_timeout_ms;
    relock_timer_init(&hold->timer, relock_watchdog_fire);
    DL_APPEND2(client->guarded.holds, hold, client_prev, client_next);
    return hold;
}

struct relock_hold *relock_holds_ref(struct relock_hold *hold)
{
    hold->refs++;
    return hold;
}

/* It was given up beside the multi locks that it is part of: they find that out by themselves. */
static void drop_parts(struct relock_hold *hold)
{
    struct relock_part *part;
    struct relock_part *next;

    DL_FOREACH_SAFE(hold->parts, part, next)
    {
        relock_group_unref(part->group);
        free(part);
    }
}

void relock_holds_unref(struct relock_client *client, struct relock_hold *hold)
{
    if (--hold->refs > 0)
        return;
    DL_DELETE2(client->guarded.holds, hold, client_prev, client_next);
    relock_sites_unref(client, hold->site);
    relock_origin_unref(hold->debt);
    drop_parts(hold);
    relock_vote_free(hold->vote);
    relock_ballot_unref(hold->ballot);
    free(hold);
}

static void watch(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    relock_client_set_timer(client, &hold->timer, relock_hold_due_ms(hold, now_ms));
}

/* What a hold has of the call that it was made for, or passed on to. */
static void become_waiters(struct relock_client *client, struct relock_hold *hold,
                           struct relock_waiter *waiter, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    uint64_t max_ms = client->options.max_hold_ms;

    hold->state = RELOCK_HOLD_HELD;
    hold->owner = waiter->owner;
    hold->count = 1;
    hold->renewed = waiter->renewed;
    hold->of_whole = waiter->of_whole;
    hold->cap_ms = max_ms > 0 ? relock_clock_after(now_ms, max_ms) : RELOCK_NEVER;
    hold->on_lost = waiter->on_lost;
    hold->arg = waiter->arg;
    DL_APPEND(hold->site->holds, hold);
    relock_site_enter(hold->site, waiter, hold);
    client->guarded.stats.holds++;
}

void relock_holds_begin(struct relock_client *client, struct relock_hold *hold,
                        struct relock_waiter *waiter, uint64_t sent_ms)
{
    uint64_t now_ms = relock_clock_now_ms();

    become_waiters(client, hold, waiter, now_ms);
    hold->site->taken_ms = now_ms;
    hold->renew_at_ms = relock_clock_after(sent_ms, relock_hold_renewal_ms(hold->renewal_ms));
    hold->valid_until_ms = relock_hold_valid_until(sent_ms, hold->lease_ms);
    client->guarded.stats.acquired++;
    watch(client, hold, now_ms);
}

void relock_holds_begin_whole(struct relock_client *client, struct relock_hold *hold,
                              relock_lost_fn *on_lost, void *arg)
{
    hold->state = RELOCK_HOLD_HELD;
    hold->count = 1;
    hold->valid_until_ms = RELOCK_NEVER; /* its members say how long */
    hold->on_lost = on_lost;
    hold->arg = arg;
    DL_APPEND(hold->site->holds, hold);
    client->guarded.stats.holds++;
}

void relock_holds_prolong(struct relock_client *client, struct relock_hold *hold, uint64_t sent_ms,
                          uint64_t lease_ms)
{
    uint64_t valid_until_ms = relock_hold_valid_until(sent_ms, lease_ms);

    if (valid_until_ms > hold->valid_until_ms)
        hold->valid_until_ms = valid_until_ms;
    watch(client, hold, relock_clock_now_ms());
}

void relock_holds_keep_no_more(struct relock_client *client, struct relock_hold *hold)
{
    if (!hold || !relock_hold_is_held(hold))
        return;
    hold->kept = false;
    watch(client, hold, relock_clock_now_ms());
}

static struct relock_waiter *heir(const struct relock_client *client,
                                  const struct relock_hold *hold, uint64_t now_ms)
{
    const struct relock_site *site = hold->site;
    uint64_t enough_ms = relock_hold_renewal_ms(client->options.watchdog_timeout_ms);
    struct relock_waiter *head = site->queue;

    if (!site->kind->is_passed_on)
        return NULL;
    while (head && (head->end != RELOCK_WAITER_WAITS || head->is_asking))
        head = head->next;
    if (!head || !head->renewed || client->guarded.shut_down)
        return NULL;
    if (hold->state != RELOCK_HOLD_HELD || hold->untold || !relock_hold_is_renewed(hold, now_ms) ||
        relock_clock_left(now_ms, hold->valid_until_ms) < enough_ms)
        return NULL;
    /* Should the heir die, the lock must be free when its own lease would have ended. */
    if (hold->lease_ms > client->options.watchdog_timeout_ms ||
        hold->renewal_ms != client->options.watchdog_timeout_ms)
        return NULL;
    if (now_ms - site->taken_ms >= client->options.handoff_ms)
        return NULL;
    return head;
}

bool relock_holds_pass_on(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    struct relock_waiter *waiter = heir(client, hold, now_ms);

    if (!waiter)
        return false;
    DL_DELETE(hold->site->holds, hold);
    client->guarded.stats.holds--;
    become_waiters(client, hold, waiter, now_ms);
    client->guarded.stats.passed_on++;
    if (!hold->unverified) {
        relock_hold_verify_soon(hold, now_ms);
        watch(client, hold, now_ms);
    }
    waiter->hold = relock_holds_ref(hold);
    waiter->end = RELOCK_WAITER_GRANTED;
    relock_gate_open_under(&waiter->gate, &client->mutex);
    return true;
}

void relock_holds_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms)
{
    hold->state = RELOCK_HOLD_LOST;
    hold->lost_reason = reason;
    relock_client_unset_timer(client, &hold->timer);
    if (!hold->vote) { /* which is no hold of the program's */
        client->guarded.stats.lost++;
        client->guarded.stats.holds--;
    }
    if (hold->site->holder == hold || (hold->site->kind->is_shared && !hold->vote)) {
        relock_site_vacate(hold->site, false, now_ms);
        relock_subscription_idle(client, hold->site);
    }
    hold->to_be_taken_up = true;
    (void)relock_holds_ref(hold);
    DL_APPEND2(client->guarded.losses, hold, loss_prev, loss_next);
    relock_client_wake(client);
}

void relock_holds_check_time(struct relock_client *client, struct relock_hold *hold,
                             uint64_t now_ms)
{
    if (relock_hold_is_held(hold) && now_ms >= hold->valid_until_ms)
        relock_holds_lose(client, hold, relock_hold_expiry_reason(hold), now_ms);
}

void relock_holds_work(struct relock_hold *hold, uint64_t lease_ms)
{
    hold->busy = true;
    hold->refs++;
    if (lease_ms > hold->lease_ms)
        hold->lease_ms = lease_ms;
}

void relock_holds_rest(struct relock_client *client, struct relock_hold *hold)
{
    hold->busy = false;
    relock_cond_broadcast(&client->changed);
    /* It was lost meanwhile, and its last level given up from the callback. */
    if (hold->state == RELOCK_HOLD_SETTLING)
        relock_client_set_timer(client, &hold->timer, 0);
}

void relock_holds_leave(struct relock_client *client, struct relock_hold *hold)
{
    hold->state = RELOCK_HOLD_LEAVING;
    relock_client_unset_timer(client, &hold->timer);
    client->guarded.stats.holds--;
    DL_DELETE(hold->site->holds, hold);
}

void relock_holds_end(struct relock_client *client, struct relock_hold *hold)
{
    hold->state = RELOCK_HOLD_ENDED;
    relock_client_unset_timer(client, &hold->timer);
    relock_holds_unref(client, hold);
}

void relock_holds_settle(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    hold->state = RELOCK_HOLD_SETTLING;
    hold->count = 0;
    client->guarded.n_settling++;
    /* A Redis that refuses has let go of the hold by then; a place in a queue ends by silence. */
    hold->valid_until_ms = relock_clock_after(now_ms, hold->lease_ms);
    relock_client_set_timer(client, &hold->timer, now_ms);
}

void relock_holds_end_lost(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    DL_DELETE(hold->site->holds, hold);
    relock_subscription_idle(client, hold->site);
    relock_losses_forget(client, hold); /* the owner's reference is still there */
    /* What we only gave up hope of, Redis may still have. */
    if (!hold->site->group &&
        (hold->lost_reason == RELOCK_LOST_EXPIRED || hold->lost_reason == RELOCK_LOST_CAPPED))
        relock_holds_settle(client, hold, now_ms);
    else
        relock_holds_end(client, hold);
}

static void leave_untold(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    relock_holds_leave(client, hold);
    relock_site_vacate(hold->site, false, now_ms);
    relock_subscription_idle(client, hold->site);
    if (hold->site->group)
        relock_holds_end(client, hold); /* no key in Redis: its members have */
    else
        relock_holds_settle(client, hold, now_ms);
}

void relock_holds_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    (void)relock_holds_ref(hold);
    hold->count = 0;
    if (hold->state == RELOCK_HOLD_LOST)
        relock_holds_end_lost(client, hold, now_ms);
    else
        leave_untold(client, hold, now_ms);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): which does not count our reference */
    relock_redlock_let_go(client, hold);
    relock_holds_unref(client, hold);
}
