/*
 * How a client ends, and how a thread does that holds something.
 */
#include "base/callback.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/logger.h"
#include "lock/client.h"
#include "lock/errand.h"
#include "lock/holds.h"
#include "lock/inquiry.h"
#include "lock/io.h"
#include "lock/losses.h"
#include "lock/multilock.h"
#include "lock/redlock.h"
#include "lock/sites.h"
#include "lock/subscription.h"
#include "redis/lanes.h"

#include <errno.h>

/* ---- shutdown and free --------------------------------------------------------------------- */

static void shut_down(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *site;
    struct relock_kin *kin;
    struct relock_multi *multi;

    if (client->guarded.shut_down)
        return;
    client->guarded.shut_down = true;
    DL_FOREACH(client->guarded.multis, multi)
    relock_cancel_fire(multi->stop);
    for (site = client->guarded.groups; site; site = site->hh.next)
        relock_site_rouse(site);
    for (site = client->guarded.sites; site; site = site->hh.next) {
        relock_site_rouse(site);
        if (relock_site_readers(site))
            relock_site_rouse(relock_site_readers(site));
    }
    DL_FOREACH(client->guarded.lines, kin)
    relock_site_rouse((struct relock_site *)(kin + 1));
}

RELOCK_UNCHECKED void relock_client_shutdown(struct relock_client *client)
{
    struct relock_visit visit;

    if (!client || relock_client_enter(client, false, &visit) < 0)
        return;
    shut_down(client);
    relock_client_leave(client, &visit);
}

static struct relock_hold *find_any_held(struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    if (hold->count > 0)
        return hold;
    return NULL;
}

/* Whether Redis knows of all that nobody holds any more. */
static bool is_all_told(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.n_settling == 0 && !client->guarded.errands &&
           !client->guarded.unanswered;
}

static void release_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t deadline_ms = relock_clock_after(now_ms, client->options.command_timeout_ms);
    struct relock_hold *hold;
    bool in_time = true;

    while ((hold = find_any_held(client)))
        relock_holds_let_go(client, hold, now_ms);
    relock_redlock_drop_votes(client);
    while (!is_all_told(client) && in_time)
        in_time = relock_cond_wait_until(&client->changed, &client->mutex, deadline_ms);
}

/* Only handles refer to it any more, and the readers' site to its home; nothing to a line. */
static void drop_site(struct relock_client *client, struct relock_site *site)
    RELOCK_REQUIRES(client->mutex)
{
    relock_client_unset_timer(client, &site->linger);
    site->refs = site->n_handles + 1;
    if (relock_site_readers(site) && relock_site_readers(site) != site)
        site->refs++;
    relock_sites_unref(client, site);
}

/* After the I/O thread has ended: what it did not get to see through. */
static void drop_rest(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *site;
    struct relock_site *next;

    while (client->guarded.losses)
        relock_losses_forget(client, client->guarded.losses);
    while (client->guarded.to_tell)
        relock_losses_forget(client, client->guarded.to_tell);
    while (client->guarded.holds) {
        relock_client_unset_timer(client, &client->guarded.holds->timer);
        client->guarded.holds->refs = 1;
        relock_holds_unref(client, client->guarded.holds);
    }
    while (client->guarded.lines)
        drop_site(client, (struct relock_site *)(client->guarded.lines + 1));
    HASH_ITER(hh, client->guarded.groups, site, next)
    drop_site(client, site);
    HASH_ITER(hh, client->guarded.sites, site, next)
    {
        site->refs++; /* the readers' may be the last but this */
        if (relock_site_readers(site))
            drop_site(client, relock_site_readers(site));
        drop_site(client, site);
    }
}

static void abandon(struct relock_client *client)
{
    /* What the threads of the parent were changing at the fork stays as it is. */
    relock_io_abandon(client);
    relock_lanes_abandon(client->lanes);
}

struct relock_client *relock_client_free(struct relock_client *client)
{
    int saved_errno = errno;
    int cancel_state;

    if (!client)
        return NULL;
    if (client->generation != relock_fork_generation()) {
        abandon(client);
        return NULL;
    }
    if (relock_callback_is_inside()) {
        relock_log_write(&client->log, RELOCK_LOG_ERROR,
                         "relock_client_free was called from a callback: not freed");
        return NULL;
    }
    cancel_state = relock_thread_hold_cancel();
    relock_client_unlist(client);
    relock_mutex_lock(&client->mutex);
    shut_down(client);
    client->guarded.freed = true;
    while (client->guarded.n_calls > 0 || atomic_load(&client->n_pins) > 0)
        (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
    relock_multilock_let_all_go(client);
    release_all(client);
    relock_mutex_unlock(&client->mutex);

    relock_client_dispose(client);

    relock_mutex_lock(&client->mutex);
    relock_errand_drop_all(client);
    relock_inquiry_drop_all(client);
    drop_rest(client);
    relock_mutex_unlock(&client->mutex);
    (void)relock_logger_free(client->log.logger);
    relock_mutex_lock(&client->mutex);
    relock_client_unref(client);
    relock_group_bury();
    relock_thread_allow_cancel(cancel_state);
    errno = saved_errno;
    return NULL;
}

/* ---- threads that end ---------------------------------------------------------------------- */

static struct relock_hold *find_held(struct relock_client *client, uint64_t owner)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    if (hold->count > 0 && hold->owner == owner)
        return hold;
    return NULL;
}

static void end_owner(struct relock_client *client, uint64_t owner)
{
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    while ((hold = find_held(client, owner))) {
        char name[RELOCK_LOG_NAME_MAX];

        if (hold->busy) {
            (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
            continue;
        }
        (void)relock_log_name(hold->site->name, name);
        (void)relock_holds_ref(hold);
        relock_holds_let_go(client, hold, relock_clock_now_ms());
        relock_losses_wait(client, hold); /* what its callback uses may end with the thread */
        relock_holds_unref(client, hold);
        relock_mutex_unlock(&client->mutex);
        relock_log_write(&client->log, RELOCK_LOG_WARNING,
                         "%s: owner %llu is a thread that ended while it held the lock: released",
                         name, (unsigned long long)owner);
        relock_mutex_lock(&client->mutex);
    }
    relock_mutex_unlock(&client->mutex);
}

static void unpin(struct relock_client *client)
{
    relock_mutex_lock(&client->mutex);
    atomic_fetch_sub(&client->n_pins, 1);
    relock_cond_broadcast(&client->changed);
    relock_mutex_unlock(&client->mutex);
}

void relock_client_end_owner(uint64_t owner)
{
    struct relock_client *client;
    uint64_t nth = 0;

    while ((client = relock_client_pin_next(nth))) {
        nth = client->nth;
        end_owner(client, owner);
        unpin(client);
    }
}
