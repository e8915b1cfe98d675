#include "lock/site.h"

#include "base/clock.h"
#include "lock/client.h"

/* Enough for another process to be woken and to ask. */
#define YIELD_MS 2

/* ---- kin ----------------------------------------------------------------------------------- */

struct relock_kin *relock_site_kin(const struct relock_site *site)
{
    return site->has_kin ? (struct relock_kin *)site - 1 : NULL;
}

struct relock_site *relock_site_home(struct relock_site *site)
{
    struct relock_kin *kin = relock_site_kin(site);

    return kin && kin->home ? kin->home : site;
}

struct relock_site *relock_site_readers(struct relock_site *site)
{
    struct relock_kin *kin = relock_site_kin(relock_site_home(site));

    return kin ? kin->readers : NULL;
}

struct relock_site *relock_site_listener(struct relock_site *site)
{
    return site->kind->side ? relock_site_home(site) : site;
}

/* ---- news ---------------------------------------------------------------------------------- */

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

RELOCK_UNCHECKED void relock_site_add_news_to_all(struct relock_site *site, bool is_message)
{
    struct relock_site *home = relock_site_home(site);
    struct relock_site *readers = relock_site_readers(site);
    struct relock_kin *kin;

    relock_site_add_news(home, is_message);
    if (readers)
        relock_site_add_news(readers, is_message);
    if (!site->kind->is_queued)
        return;
    DL_FOREACH(site->client->guarded.lines, kin)
    if (kin->home == home)
        relock_site_add_news((struct relock_site *)(kin + 1), is_message);
}

/* ---- the queue ----------------------------------------------------------------------------- */

void relock_site_join(struct relock_site *site, struct relock_waiter *waiter)
{
    bool is_first = site->queue == NULL;

    waiter->line = site;
    DL_APPEND(site->queue, waiter);
    if (waiter->named)
        relock_site_home(site)->n_named++;
    if (is_first && !site->holder)
        relock_site_add_news(site, false);
}

void relock_site_leave(struct relock_site *site, struct relock_waiter *waiter)
{
    bool was_head = site->queue == waiter;

    DL_DELETE(site->queue, waiter);
    if (waiter->named)
        relock_site_home(site)->n_named--;
    if (was_head && !site->holder)
        look_around(site);
}

bool relock_site_may_ask(const struct relock_site *site, const struct relock_waiter *waiter)
{
    if (!waiter->has_asked && (site->kind->is_shared || waiter->tries))
        return !site->holder;
    return site->queue == waiter && !site->holder && site->news;
}

void relock_site_doubt(struct relock_site *site, uint64_t now_ms)
{
    if (site->held_ms == RELOCK_NEVER)
        site->held_ms = now_ms;
}

void relock_site_learn(struct relock_site *site)
{
    site->held_ms = RELOCK_NEVER;
}

uint64_t relock_site_recheck_at(const struct relock_site *site, uint64_t recheck_ms)
{
    uint64_t at_ms = relock_clock_after(site->asked_ms, recheck_ms);

    if (at_ms > site->lease_end_ms)
        at_ms = site->lease_end_ms;
    return at_ms > site->yields_until_ms ? at_ms : site->yields_until_ms;
}

static void start_line_anew(struct relock_site *line, uint64_t owner)
{
    struct relock_waiter *at;

    DL_FOREACH(line->queue, at)
    {
        if (at->owner == owner) {
            at->end = RELOCK_WAITER_STARTS_ANEW;
            let_look(line, at);
        }
    }
}

/*
 * Only an owner that was named can be waited for by two threads, so mostly there is none. On the
 * other side of the lock, too: there it may go now, or waits for itself.
 */
RELOCK_UNCHECKED static void start_anew(struct relock_site *site, uint64_t owner, bool named)
{
    struct relock_site *home = relock_site_home(site);
    struct relock_site *readers = relock_site_readers(site);
    struct relock_kin *kin;

    if (!named && home->n_named == 0)
        return;
    start_line_anew(home, owner);
    if (readers)
        start_line_anew(readers, owner);
    if (!site->kind->is_queued)
        return;
    DL_FOREACH(site->client->guarded.lines, kin)
    if (kin->home == home)
        start_line_anew((struct relock_site *)(kin + 1), owner);
}

void relock_site_enter(struct relock_site *site, struct relock_waiter *waiter,
                       struct relock_hold *hold)
{
    struct relock_site *line = waiter->line;

    if (!site->kind->is_shared) {
        site->holder = hold;
        relock_site_learn(site);
    }
    relock_site_leave(line, waiter);
    site->lease_end_ms = RELOCK_NEVER;
    start_anew(site, waiter->owner, waiter->named);
    /* What one of them got, the next one may get, too. */
    if (site->kind->is_shared && line->queue)
        relock_site_add_news(site, false);
}

void relock_site_yield(struct relock_site *site, uint64_t turn_ms, uint64_t now_ms)
{
    if (site->queue && now_ms - site->taken_ms >= turn_ms)
        site->yields_until_ms = now_ms + YIELD_MS;
}

void relock_site_vacate(struct relock_site *site, bool is_announced, uint64_t now_ms)
{
    /* Waiters of a fair lock ask while it is being given up: one may have it by now. */
    if (site->holder && !relock_hold_is_held(site->holder))
        site->holder = NULL;
    if (!site->holder)
        relock_site_doubt(site, now_ms);
    site->asked_ms = now_ms;
    site->lease_end_ms = RELOCK_NEVER;
    if (!is_announced)
        relock_site_add_news_to_all(site, false);
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
