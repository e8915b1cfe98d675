/* A client, from relock_client_make to relock_client_free. */
#include "client.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/status.h"
#include "lock/call/call.h"
#include "lock/hold/holds.h"
#include "lock/state/lock.h"
#include "lock/state/options.h"
#include "lock/state/resource.h"
#include "lock/wake/listener.h"
#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "private.h"
#include "redis/deployment/run.h"
#include "redis/deployment/topology.h"
#include "redis/lane/sentinels.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- the end of a client -------------------------------------------------------------------- */

/* Ends the waits of all owners without a hold. */
static void shut_down(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    if (client->guarded.state != RELOCK_CLIENT_OPEN)
        return;
    client->guarded.state = RELOCK_CLIENT_SHUT_DOWN;
    relock_cache_clear(client);
    relock_drain_wake(client);
}

void relock_client_shutdown(struct relock_client *client)
{
    struct relock_guard guard;

    if (!client || !relock_client_enter(client, false, &guard))
        return;
    shut_down(client);
    relock_client_exit(client, &guard);
}

/* Whether Redis has released all that no owner holds any more. */
static bool is_drained(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook;

    RELOCK_HOOKS_FOREACH(client, hook, is_drained)
    {
        if (!hook->ops->is_drained(client))
            return false;
    }
    return client->guarded.n_settling == 0 && client->guarded.n_deferred == 0 &&
           relock_outbox_is_empty(&client->guarded.leaving) && !client->guarded.leaving_later;
}

static void release_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t deadline_ms = relock_clock_after(now_ms, client->options.command_timeout_ms);
    const struct relock_client_hook *hook;
    struct relock_hold *hold;
    bool in_time = true;

    RELOCK_HOOKS_FOREACH(client, hook, let_go)
    {
        hook->ops->let_go(client);
    }
    while ((hold = relock_holds_find(client, 0)))
        relock_let_go(client, hold, now_ms);
    relock_defer_hurry(client);
    while (!is_drained(client) && in_time)
        in_time = relock_cond_wait_until(&client->changed, &client->mutex, deadline_ms);
}

/* Drops the work that the I/O thread left unfinished. */
static void drop_pending(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook;
    struct relock_resource *resource;
    struct relock_resource *next;
    struct relock_hold *hold;

    client->guarded.iteration_at_ms = 0; /* there is no thread that a timer or a task could wake */
    RELOCK_HOOKS_FOREACH(client, hook, close)
    {
        hook->ops->close(client);
    }
    relock_outbox_drop_all(client, &client->guarded.commands);
    relock_line_close(client);
    relock_listeners_deliver(client);
    relock_batch_drop_all(client);
    while ((hold = relock_client_next_hold(client, NULL))) {
        relock_client_unset_hold_timer(client, hold);
        hold->refs = 2; /* one may be that of its loss */
        relock_holds_forget_loss(client, hold);
        hold->refs = 1;
        relock_holds_unref(client, hold);
    }
    while (client->guarded.tasks)
        relock_client_take_back(client, client->guarded.tasks);
    for (resource = relock_resources_next(client, NULL); resource; resource = next) {
        next = relock_resources_next(client, resource);
        relock_resources_drop(client, resource);
    }
}

static void stop_threads(struct relock_client *client)
{
    relock_topology_stop(client->topology); /* its threads wake the I/O thread */
    relock_io_stop(client);
    relock_losses_stop(client);
}

/* Ends the threads of a client and frees all parts that were made, but not the struct. */
static void client_dispose(struct relock_client *client)
{
    stop_threads(client);
    client->topology = relock_topology_free(client->topology);
    relock_server_deinit(&client->server);
}

/* Waits until no other thread uses the client, and no new one can. */
static void close_calls(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    shut_down(client);
    client->guarded.state = RELOCK_CLIENT_FREED;
    relock_drain_wake(client);
    while (client->guarded.n_calls > 0 || relock_thread_exit_is_pinned(client))
        (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
}

static void close_client(struct relock_client *client)
{
    relock_thread_exit_unwatch(client);
    relock_mutex_lock(&client->mutex);
    close_calls(client);
    release_all(client);
    relock_mutex_unlock(&client->mutex);

    stop_threads(client);
    relock_mutex_lock(&client->mutex);
    drop_pending(client);
    relock_mutex_unlock(&client->mutex);
    client_dispose(client); /* last: fences of holds refer to nodes */
    (void)relock_logger_free(client->log.logger);
    relock_client_reap(client);
    relock_client_unref(client);
}

struct relock_client *relock_client_free(struct relock_client *client)
{
    struct relock_thread_state thread;

    if (!client)
        return NULL;
    relock_thread_enter(&thread);
    if (client->generation != relock_fork_generation())
        relock_descriptor_close_all(client); /* a thread of the parent may have been changing it */
    else if (relock_callback_is_inside())
        relock_log_write(&client->log, RELOCK_LOG_ERROR,
                         "relock_client_free was called from a callback: the client is not freed; "
                         "call it elsewhere");
    else
        close_client(client);
    relock_thread_restore(&thread);
    return NULL;
}

/* ---- a new client --------------------------------------------------------------------------- */

/* Of several nodes, one that answers is enough. */
static int connect_until(struct relock_client *client, uint64_t deadline_ms,
                         char why[RELOCK_WHY_MAX])
{
    int r = relock_topology_connect(client->topology, deadline_ms, why);
    struct relock_node *at;

    if (r < 0)
        return r;
    for (at = atomic_load(&client->topology->nodes); at; at = at->next) {
        uint64_t now_ms = relock_clock_now_ms();
        uint64_t left_ms = relock_clock_left(now_ms, deadline_ms);

        /* One that hangs leaves time for the others. */
        r = relock_call_load_all(at, now_ms + (at->next ? left_ms / 2 : left_ms), why);
        if (r != RELOCK_E_CONN && r != RELOCK_REPLICA)
            break;
    }
    return r;
}

static int connect_once(struct relock_client *client, bool is_default)
{
    char why[RELOCK_WHY_MAX];
    int r = connect_until(client, relock_clock_in(client->options.connect_timeout_ms), why);
    bool may_pass = r == RELOCK_E_CONN || r == RELOCK_REPLICA;

    if (r == RELOCK_OK)
        return RELOCK_OK;
    /* A lazy client goes on without a server that may come back, but not with a wrong password. */
    if (may_pass && (client->options.flags & RELOCK_LAZY)) {
        relock_log_write(&client->log, RELOCK_LOG_INFO,
                         "%s; the client is made anyway (RELOCK_LAZY) and keeps trying", why);
        return RELOCK_OK;
    }
    relock_log_write(&client->log, RELOCK_LOG_ERROR, "no client was made: %s%s", why,
                     is_default ? "; this is the default server: set the option url" : "");
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
    client->server.scope = client;
    return r == RELOCK_OK ? relock_sentinels_attach(&client->server, &named, client->id) : r;
}

static int make_topology(struct relock_client *client, unsigned n_lanes)
{
    if (!client->server.url.cluster)
        return relock_topology_new(&client->server, n_lanes, &client->topology);
    return relock_cluster_new(&client->server, n_lanes, &client->topology);
}

static void hear_recalls(struct relock_client *client)
{
    relock_mutex_lock(&client->mutex);
    relock_inbox_want_recalls(client);
    relock_mutex_unlock(&client->mutex);
}

static int start(struct relock_client *client, const struct relock_options *options)
{
    int r;

    if (!relock_ident_uuid(client->id) || !relock_tokens_init(&client->tokens)) {
        relock_log_write(&client->log, RELOCK_LOG_ERROR,
                         "no client was made: the system call getrandom fails (%s): a sandbox "
                         "(seccomp) that denies it must permit it",
                         strerror(errno));
        return RELOCK_E_UNSUPPORTED;
    }
    r = init_server(client, options);
    if (r < 0)
        return r;
    r = make_topology(client, options->connections);
    if (r < 0)
        return r;
    r = connect_once(client, options->url == relock_options_url);
    if (r < 0)
        return r;
    r = relock_losses_start(client);
    if (r == RELOCK_OK)
        r = relock_io_start(client);
    if (r == RELOCK_OK && options->keep_ms > 0)
        hear_recalls(client);
    if (r < 0)
        relock_log_write(&client->log, RELOCK_LOG_ERROR, "no client was made: %s",
                         r == RELOCK_E_UNSUPPORTED ? RELOCK_DESCRIPTOR_DENIED
                                                   : "out of memory, threads or file descriptors");
    return r;
}

static int keep_options(struct relock_client *client, const struct relock_options *options)
{
    const char *prefix = options->name_prefix;

    client->options = *options;
    client->default_told = (struct relock_told){.on_lost = options->on_lost, .arg = options->arg};
    client->options.url = NULL;
    client->options.user = NULL;
    client->options.password = NULL;
    client->options.sentinel_user = NULL;
    client->options.sentinel_password = NULL;
    client->options.client_name = NULL;
    client->options.tls_ca_file = NULL;
    client->options.tls_cert_file = NULL;
    client->options.tls_key_file = NULL;
    client->options.tls_server_name = NULL;
    client->options.name_prefix = prefix && *prefix ? strdup(prefix) : NULL;
    if (client->options.name_prefix)
        client->prefix_len = strlen(prefix);
    return client->prefix_len > 0 || !prefix || !*prefix ? RELOCK_OK : RELOCK_E_NOMEM;
}

static int make(const struct relock_options *options, const struct relock_log *log,
                relock_attach_fn *attach, struct relock_client **client)
{
    struct relock_client *new;
    int r;

    /* Without a generation, a forked child could not tell itself from its parent. */
    if (relock_fork_generation() == 0)
        return RELOCK_E_NOMEM;
    new = relock_client_alloc();
    if (!new)
        return RELOCK_E_NOMEM;
    relock_silence_init(new);
    new->log = *log;
    r = keep_options(new, options);
    if (r == RELOCK_OK && attach)
        r = attach(new);
    if (r == RELOCK_OK)
        r = start(new, options);
    if (r < 0) {
        client_dispose(new);
        relock_client_unref(new);
        return r;
    }
    relock_thread_exit_watch(new);
    relock_log_write(&new->log, RELOCK_LOG_INFO,
                     "%s: client %s was made; CLIENT LIST shows its connections as %s; its holds "
                     "in Redis begin with the id",
                     new->server.label, new->id, new->server.name);
    *client = new;
    return RELOCK_OK;
}

int relock_client_make(const struct relock_options *options, relock_attach_fn *attach,
                       struct relock_client **client)
{
    struct relock_options read;
    struct relock_log log;
    struct relock_thread_state thread;
    int r;

    if (relock_callback_is_inside())
        return RELOCK_E_DEADLOCK;
    relock_options_log(options, &log);
    relock_thread_enter(&thread);
    r = relock_logger_new(&(struct relock_sink){log.sink, log.on_record, log.arg}, &log.logger);
    if (r == RELOCK_OK && client)
        r = relock_options_read(&read, options, &log);
    else if (r == RELOCK_OK)
        r = relock_options_refuse(&log, "`client` is NULL");
    if (r == RELOCK_OK && client)
        r = make(&read, &log, attach, client);
    if (r < 0)
        (void)relock_logger_free(log.logger);
    relock_thread_restore(&thread);
    return r;
}

/* ---- queries ------------------------------------------------------------------------------- */

const char *relock_client_id(const struct relock_client *client)
{
    return client ? client->id : "";
}

static bool are_connected(struct relock_counts *counts)
{
    unsigned n_up = atomic_load(&counts->n_up);

    return n_up > 0 && n_up == atomic_load(&counts->n_open);
}

static uint64_t oldest_hold_us(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t since_us = relock_ages_since_us(&client->guarded.ages);

    return since_us == RELOCK_NEVER ? 0 : relock_clock_now_us() - since_us;
}

int relock_client_stats(struct relock_client *client, struct relock_stats *stats, size_t size)
{
    struct relock_guard guard;
    struct relock_stats now;

    if (!client || !stats)
        return relock_client_refuse(client, "relock_client_stats: `stats` is NULL");
    if (!relock_client_enter(client, false, &guard))
        return guard.result;
    relock_shortcut_close_all(client);
    now = client->guarded.stats;
    relock_meter_top(&client->guarded.meter, now.contended_names);
    now.log_dropped = relock_logger_dropped(client->log.logger);
    now.reconnects = atomic_load(&client->server.counts->reconnects);
    now.connected = are_connected(client->server.counts);
    now.oldest_hold_us = oldest_hold_us(client);
    relock_client_exit(client, &guard);

    memset(stats, 0, size);
    memcpy(stats, &now, size < sizeof(now) ? size : sizeof(now));
    return RELOCK_OK;
}
