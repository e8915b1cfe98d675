#include "lock/client.h"

#include "base/callback.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/logger.h"
#include "base/status.h"
#include "lock/io.h"
#include "lock/losses.h"
#include "lock/options.h"
#include "lock/silence.h"
#include "redis/call.h"
#include "redis/lanes.h"
#include "redis/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    relock_cond_deinit(&client->has_to_tell);
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

/* ---- new ----------------------------------------------------------------------------------- */

void relock_client_dispose(struct relock_client *client)
{
    relock_io_stop(client);
    relock_losses_stop(client);
    client->lanes = relock_lanes_free(client->lanes);
    relock_server_deinit(&client->server);
}

static int connect_once(struct relock_client *client)
{
    uint64_t deadline_ms =
        relock_clock_after(relock_clock_now_ms(), client->options.connect_timeout_ms);
    char why[RELOCK_WHY_MAX];
    int r = relock_call_load_all(client->lanes, deadline_ms, why);
    bool may_pass = r == RELOCK_E_CONN || r == RELOCK_REPLICA;

    if (r == RELOCK_OK)
        return RELOCK_OK;
    /* A lazy client minds nothing that time may mend; a wrong password is not that. */
    if (may_pass && (client->options.flags & RELOCK_LAZY)) {
        relock_log_write(&client->log, RELOCK_LOG_INFO, "%s; going on without", why);
        return RELOCK_OK;
    }
    relock_log_write(&client->log, RELOCK_LOG_ERROR, "%s", why);
    return r == RELOCK_REPLICA ? RELOCK_E_SERVER : r;
}

static int init_server(struct relock_client *client, const struct relock_options *options)
{
    struct relock_options named = *options;
    char name[RELOCK_CLIENT_NAME_MAX];
    char host[HOST_NAME_MAX + 1] = "";
    int r;

    if (!named.client_name) {
        (void)gethostname(host, sizeof(host) - 1);
        named.client_name = relock_options_name(host, getpid(), name);
    }
    r = relock_server_init(&client->server, &named, client->id, &client->log);
    client->server.name_is_ours = !options->client_name;
    return r;
}

static int start(struct relock_client *client, const struct relock_options *options)
{
    int r;

    relock_ident_uuid(client->id);
    relock_tokens_init(&client->tokens);
    r = init_server(client, options);
    if (r < 0)
        return r;
    r = relock_lanes_new(&client->server, options->connections, &client->lanes);
    if (r < 0)
        return r;
    r = connect_once(client);
    if (r < 0)
        return r;
    r = relock_losses_start(client);
    if (r == RELOCK_OK)
        r = relock_io_start(client);
    if (r < 0)
        relock_log_write(&client->log, RELOCK_LOG_ERROR,
                         "there is no memory, thread or file descriptor left for the client");
    return r;
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
    relock_cond_init(&new->has_to_tell);
    atomic_init(&new->n_pins, 0);
    new->guarded.refs = 1;
    new->guarded.turn_at_ms = RELOCK_NEVER;
    relock_silence_init(new);
    new->generation = relock_fork_generation();
    new->log = *log;
    keep_options(new, options);
    r = start(new, options);
    if (r < 0) {
        relock_client_dispose(new);
        relock_mutex_lock(&new->mutex);
        relock_client_unref(new);
        return r;
    }
    relock_mutex_lock(&relock_process_mutex);
    new->nth = ++n_clients;
    DL_APPEND(clients, new);
    relock_mutex_unlock(&relock_process_mutex);
    relock_log_write(&new->log, RELOCK_LOG_INFO,
                     "%s: client %s was made; CLIENT LIST names its connections %s, and its holds "
                     "in Redis begin with its id",
                     new->server.label, new->id, new->server.name);
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
    r = relock_logger_new(log.sink, log.arg, &log.logger);
    if (r == RELOCK_OK)
        r = relock_options_read(&read, options, &log);
    if (r == RELOCK_OK)
        r = make(&read, &log, client);
    if (r < 0)
        (void)relock_logger_free(log.logger);
    relock_thread_allow_cancel(cancel_state);
    errno = saved_errno;
    return r;
}

/* ---- all clients --------------------------------------------------------------------------- */

void relock_client_unlist(struct relock_client *client)
{
    relock_mutex_lock(&relock_process_mutex);
    DL_DELETE(clients, client);
    relock_mutex_unlock(&relock_process_mutex);
}

struct relock_client *relock_client_pin_next(uint64_t nth)
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
    now.log_dropped = relock_logger_dropped(client->log.logger);
    now.reconnects = relock_lanes_reconnects(client->lanes) + relock_io_reconnects(client);
    relock_client_leave(client, &visit);

    memset(stats, 0, size);
    memcpy(stats, &now, size < sizeof(now) ? size : sizeof(now));
    return RELOCK_OK;
}
