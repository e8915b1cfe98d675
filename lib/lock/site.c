#include "lock/site.h"

#include "base/clock.h"
#include "lock/client.h"

/* Enough for another process to be woken and to ask. */
#define YIELD_MS 2

struct relock_hold *relock_site_find(const struct relock_site *site, uint64_t owner)
{
    struct relock_hold *hold;

    DL_FOREACH(site->holds, hold)
    if (hold->owner == owner)
        return hold;
    return NULL;
}

/* Its caller has the mutex, as all of this file says. */
RELOCK_UNCHECKED static void let_look(struct relock_site *site, struct relock_waiter *waiter)
{
    relock_gate_open_under(&waiter->gate, &site->client->mutex);
}

static void look_around(struct relock_site *site)
{
    if (site->queue)
        let_look(site, site->queue);
}

void relock_site_add_news(struct relock_site *site, bool is_message)
{
    site->news_is_message = is_message || (site->news && site->news_is_message);
    site->news = true;
    if (!site->holder)
        look_around(site);
}

void relock_site_join(struct relock_site *site, struct relock_waiter *waiter)
{
    bool is_first = site->queue == NULL;

    DL_APPEND(site->queue, waiter);
    if (waiter->named)
        site->n_named++;
    if (is_first && !site->holder)
        relock_site_add_news(site, false);
}

void relock_site_leave(struct relock_site *site, struct relock_waiter *waiter)
{
    bool was_head = site->queue == waiter;

    DL_DELETE(site->queue, waiter);
    if (waiter->named)
        site->n_named--;
    if (was_head && !site->holder)
        look_around(site);
}

bool relock_site_may_ask(const struct relock_site *site, const struct relock_waiter *waiter)
{
    return site->queue == waiter && !site->holder && site->news;
}

uint64_t relock_site_recheck_at(const struct relock_site *site, uint64_t recheck_ms)
{
    uint64_t at_ms = relock_clock_after(site->asked_ms, recheck_ms);

    return at_ms < site->lease_end_ms ? at_ms : site->lease_end_ms;
}

/* Only an owner that was named can be waited for by two threads, so mostly there is none. */
static void start_anew(struct relock_site *site, uint64_t owner, bool named)
{
    struct relock_waiter *at;

    if (!named && site->n_named == 0)
        return;
    DL_FOREACH(site->queue, at)
    {
        if (at->owner == owner) {
            at->end = RELOCK_WAITER_STARTS_ANEW;
            let_look(site, at);
        }
    }
}

void relock_site_enter(struct relock_site *site, struct relock_waiter *waiter,
                       struct relock_hold *hold)
{
    site->holder = hold;
    relock_site_leave(site, waiter);
    site->lease_end_ms = RELOCK_NEVER;
    start_anew(site, waiter->owner, waiter->named);
}

void relock_site_yield(struct relock_site *site, uint64_t turn_ms, uint64_t now_ms)
{
    if (site->queue && now_ms - site->taken_ms >= turn_ms)
        site->yields_until_ms = now_ms + YIELD_MS;
}

void relock_site_vacate(struct relock_site *site, bool is_announced, uint64_t now_ms)
{
    site->holder = NULL;
    site->asked_ms = now_ms;
    site->lease_end_ms = RELOCK_NEVER;
    if (!is_announced)
        relock_site_add_news(site, false);
    look_around(site);
}

void relock_site_end_unreached(struct relock_site *site, uint64_t since_ms)
{
    struct relock_waiter *at;

    DL_FOREACH(site->queue, at)
    {
        if (at->joined_ms <= since_ms && at->end == RELOCK_WAITER_WAITS) {
            at->end = RELOCK_WAITER_UNREACHED;
            let_look(site, at);
        }
    }
}

void relock_site_rouse(struct relock_site *site)
{
    struct relock_waiter *at;

    DL_FOREACH(site->queue, at)
    let_look(site, at);
}
