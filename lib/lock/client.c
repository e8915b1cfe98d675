#include "lock/client.h"

#include "base/callback.h"
#include "base/clock.h"
#include "base/fork.h"
#include "lock/holds.h"
#include "lock/io.h"
#include "lock/losses.h"
#include "lock/options.h"
#include "lock/subscription.h"
#include "redis/call.h"
#include "redis/lane.h"
#include "redis/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* All clients of this process, those of its parent included; guarded by the process mutex. */
static struct relock_client *clients;
static uint64_t n_clients; /* ever made */

/* ---- calls -------------------------------------------------------------------------------- */

RELOCK_UNCHECKED int relock_client_enter(struct relock_client *client, bool blocks,
                                         struct relock_visit *visit)
{
    if (client->generation != relock_fork_generation())
        return RELOCK_E_FORKED; /* nothing more may be looked at: the mutex may be held for ever */
    if (blocks && relock_callback_is_inside())
        return RELOCK_E_DEADLOCK;

    visit->saved_errno = errno;
    visit->cancel_state = relock_thread_hold_cancel();
    relock_mutex_lock(&client->mutex);
    if (!client->guarded.freed) {
        client->guarded.n_calls++;
        return RELOCK_OK;
    }
    relock_mutex_unlock(&client->mutex);
    relock_thread_allow_cancel(visit->cancel_state);
    return RELOCK_E_CLOSED;
}

void relock_client_leave(struct relock_client *client, const struct relock_visit *visit)
{
    if (--client->guarded.n_calls == 0 && client->guarded.freed)
        relock_cond_broadcast(&client->changed);
    relock_mutex_unlock(&client->mutex);
    relock_thread_allow_cancel(visit->cancel_state);
    errno = visit->saved_errno;
}

void relock_client_unref(struct relock_client *client)
{
    bool is_last = --client->guarded.refs == 0;

    relock_mutex_unlock(&client->mutex);
    if (!is_last)
        return;
    relock_cond_deinit(&client->changed);
    relock_mutex_deinit(&client->mutex);
    free(client);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

void relock_client_wake(struct relock_client *client)
{
    if (!client->guarded.in_turn)
        relock_loop_wake(client->loop);
}

void relock_client_set_timer(struct relock_client *client, struct relock_timer *timer,
                             uint64_t due_ms)
{
    relock_timer_set(&client->guarded.timers, timer, due_ms);
    if (due_ms < client->guarded.turn_at_ms) {
        client->guarded.turn_at_ms = due_ms;
        relock_client_wake(client);
    }
}

void relock_client_unset_timer(struct relock_client *client, struct relock_timer *timer)
{
    relock_timer_unset(&client->guarded.timers, timer);
}

/* ---- sites --------------------------------------------------------------------------------- */

struct relock_site *relock_client_site(struct relock_client *client, const char *name, size_t len)
{
    struct relock_site *site;

    HASH_FIND(hh, client->guarded.sites, name, len, site);
    if (site) {
        site->refs++;
        return site;
    }
    site = calloc(1, sizeof(*site) + len + 1);
    if (!site)
        return NULL;
    site->client = client;
    site->refs = 1;
    site->lease_end_ms = RELOCK_NEVER;
    site->name_len = len;
    memcpy(site->name, name, len);
    relock_timer_init(&site->linger, relock_subscription_fire);
    HASH_ADD_KEYPTR(hh, client->guarded.sites, site->name, site->name_len, site);
    if (!site->hh.tbl) {
        free(site);
        return NULL;
    }
    return site;
}

void relock_client_unref_site(struct relock_client *client, struct relock_site *site)
{
    if (--site->refs > 0)
        return;
    relock_client_unset_timer(client, &site->linger);
    HASH_DEL(client->guarded.sites, site);
    free(site);
}

/* ---- new ----------------------------------------------------------------------------------- */

/* Frees what a client has, as far as it was made. */
static void dispose(struct relock_client *client)
{
    relock_io_stop(client);
    client->lanes = relock_lanes_free(client->lanes);
    relock_server_deinit(&client->server);
}

static int connect_once(struct relock_client *client)
{
    uint64_t deadline_ms =
        relock_clock_after(relock_clock_now_ms(), client->options.connect_timeout_ms);
    struct relock_lane *lane;
    int r;

    r = relock_lanes_take(client->lanes, deadline_ms, &lane);
    if (r < 0)
        return r;
    r = relock_lane_connect(lane, deadline_ms);
    if (r == RELOCK_OK)
        r = relock_call_load_all(lane, deadline_ms);
    /* A lazy client minds nothing that time may mend; a wrong password is not that. */
    if (r == RELOCK_E_CONN && (client->options.flags & RELOCK_LAZY)) {
        relock_log_write(&client->log, RELOCK_LOG_INFO, "%s; going on without", lane->wire.why);
        r = RELOCK_OK;
    } else if (r < 0) {
        relock_log_write(&client->log, RELOCK_LOG_ERROR, "%s", lane->wire.why);
    }
    relock_lanes_give(client->lanes, lane);
    return r;
}

static int start(struct relock_client *client, const struct relock_options *options)
{
    int r;

    relock_ident_uuid(client->id);
    r = relock_server_init(&client->server, options, client->id, &client->log);
    if (r < 0)
        return r;
    r = relock_lanes_new(&client->server, options->connections, &client->lanes);
    if (r < 0)
        return r;
    r = connect_once(client);
    if (r < 0)
        return r;
    return relock_io_start(client);
}

static void keep_options(struct relock_client *client, const struct relock_options *options)
{
    client->options = *options;
    client->options.url = NULL;
    client->options.user = NULL;
    client->options.password = NULL;
    client->options.client_name = NULL;
}

static int make(const struct relock_options *options, const struct relock_log *log,
                struct relock_client **client)
{
    struct relock_client *new;
    int r;

    /* A child that takes itself for its parent would act for it. */
    if (relock_fork_generation() == 0)
        return RELOCK_E_NOMEM;
    new = calloc(1, sizeof(*new));
    if (!new)
        return RELOCK_E_NOMEM;
    relock_mutex_init(&new->mutex);
    relock_cond_init(&new->changed);
    atomic_init(&new->n_pins, 0);
    new->guarded.refs = 1;
    new->guarded.turn_at_ms = RELOCK_NEVER;
    new->generation = relock_fork_generation();
    new->log = *log;
    keep_options(new, options);
    r = start(new, options);
    if (r < 0) {
        dispose(new);
        relock_mutex_lock(&new->mutex);
        relock_client_unref(new);
        return r;
    }
    relock_mutex_lock(&relock_process_mutex);
    new->nth = ++n_clients;
    DL_APPEND(clients, new);
    relock_mutex_unlock(&relock_process_mutex);
    *client = new;
    return RELOCK_OK;
}

int relock_client_new(const struct relock_options *options, struct relock_client **client)
{
    struct relock_options read;
    struct relock_log log;
    int saved_errno = errno;
    int cancel_state;
    int r;

    if (!client)
        return RELOCK_E_INVALID;
    if (relock_callback_is_inside())
        return RELOCK_E_DEADLOCK;
    relock_options_log(options, &log);
    cancel_state = relock_thread_hold_cancel();
    r = relock_options_read(&read, options, &log);
    if (r == RELOCK_OK)
        r = make(&read, &log, client);
    relock_thread_allow_cancel(cancel_state);
    errno = saved_errno;
    return r;
}

/* ---- shutdown and free --------------------------------------------------------------------- */

static void shut_down(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *site;

    if (client->guarded.shut_down)
        return;
    client->guarded.shut_down = true;
    for (site = client->guarded.sites; site; site = site->hh.next)
        relock_site_rouse(site);
}

RELOCK_UNCHECKED void relock_client_shutdown(struct relock_client *client)
{
    struct relock_visit visit;

    if (!client || relock_client_enter(client, false, &visit) < 0)
        return;
    shut_down(client);
    relock_client_leave(client, &visit);
}

/* Gives all levels of a hold up for its owner. */
static void let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    hold->count = 0;
    if (hold->state == RELOCK_HOLD_LOST) {
        relock_holds_end_lost(client, hold, now_ms);
        return;
    }
    relock_holds_leave(client, hold);
    relock_site_vacate(hold->site, false, now_ms);
    relock_subscription_idle(client, hold->site);
    relock_holds_settle(client, hold, now_ms);
}

static void release_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t deadline_ms = relock_clock_after(now_ms, client->options.command_timeout_ms);
    struct relock_hold *hold;
    struct relock_hold *next;
    bool in_time = true;

    DL_FOREACH_SAFE2(client->guarded.holds, hold, next, client_next)
    if (hold->count > 0)
        let_go(client, hold, now_ms);
    while (client->guarded.n_settling > 0 && in_time)
        in_time = relock_cond_wait_until(&client->changed, &client->mutex, deadline_ms);
}

/* After the I/O thread has ended: what it did not get to see through. */
static void drop_rest(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *site;
    struct relock_site *next;

    while (client->guarded.losses) {
        struct relock_hold *hold = client->guarded.losses;

        DL_DELETE2(client->guarded.losses, hold, loss_prev, loss_next);
        relock_holds_unref(client, hold);
    }
    while (client->guarded.holds) {
        relock_client_unset_timer(client, &client->guarded.holds->timer);
        client->guarded.holds->refs = 1;
        relock_holds_unref(client, client->guarded.holds);
    }
    HASH_ITER(hh, client->guarded.sites, site, next)
    {
        relock_client_unset_timer(client, &site->linger);
        site->refs = site->n_handles + 1;
        relock_client_unref_site(client, site);
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
    relock_mutex_lock(&relock_process_mutex);
    DL_DELETE(clients, client);
    relock_mutex_unlock(&relock_process_mutex);

    relock_mutex_lock(&client->mutex);
    shut_down(client);
    client->guarded.freed = true;
    while (client->guarded.n_calls > 0 || atomic_load(&client->n_pins) > 0)
        (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
    release_all(client);
    relock_mutex_unlock(&client->mutex);

    dispose(client);

    relock_mutex_lock(&client->mutex);
    drop_rest(client);
    relock_client_unref(client);
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
        let_go(client, hold, relock_clock_now_ms());
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

/* The client after the `nth`, which cannot be freed until it is unpinned; NULL behind the last. */
static struct relock_client *pin_next(uint64_t nth)
{
    struct relock_client *at;

    relock_mutex_lock(&relock_process_mutex);
    DL_FOREACH(clients, at)
    {
        if (at->nth > nth && at->generation == relock_fork_generation()) {
            atomic_fetch_add(&at->n_pins, 1);
            break;
        }
    }
    relock_mutex_unlock(&relock_process_mutex);
    return at;
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

    while ((client = pin_next(nth))) {
        nth = client->nth;
        end_owner(client, owner);
        unpin(client);
    }
}

/* ---- questions ----------------------------------------------------------------------------- */

const char *relock_client_id(const struct relock_client *client)
{
    return client ? client->id : "";
}

RELOCK_UNCHECKED int relock_client_stats(struct relock_client *client, struct relock_stats *stats,
                                         size_t size)
{
    struct relock_visit visit;
    struct relock_stats now;
    int r;

    if (!client || !stats)
        return RELOCK_E_INVALID;
    r = relock_client_enter(client, false, &visit);
    if (r < 0)
        return r;
    now = client->guarded.stats;
    now.reconnects = relock_lanes_reconnects(client->lanes) + relock_io_reconnects(client);
    relock_client_leave(client, &visit);

    memset(stats, 0, size);
    memcpy(stats, &now, size < sizeof(now) ? size : sizeof(now));
    return RELOCK_OK;
}
