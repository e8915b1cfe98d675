#include "close.h"

#include "base/callback.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/logger.h"
#include "io.h"
#include "lock/deadlock/waits.h"
#include "lock/hold/cache.h"
#include "lock/hold/holds.h"
#include "lock/hold/losses.h"
#include "lock/hold/settle.h"
#include "lock/state/client.h"
#include "lock/state/events.h"
#include "lock/state/resource.h"
#include "lock/wake/drain.h"
#include "lock/wake/line.h"
#include "lock/wake/listener.h"
#include "lock/wake/outbox.h"
#include "lock/wake/subscription.h"
#include "redis/deployment/topology.h"
#include "thread_exit.h"

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
    relock_client_leave(client, &guard);
}

/* Whether Redis has released all that no owner holds any more. */
static bool is_drained(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook = atomic_load(&client->hook);

    return client->guarded.n_settling == 0 && relock_outbox_is_empty(&client->guarded.leaving) &&
           !client->guarded.leaving_later && relock_waits_are_drained(client) &&
           (!hook || hook->ops->is_drained(client));
}

static void release_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t deadline_ms = relock_clock_after(now_ms, client->options.command_timeout_ms);
    const struct relock_client_hook *hook = atomic_load(&client->hook);
    struct relock_hold *hold;
    bool in_time = true;

    if (hook)
        hook->ops->let_go(client);
    while ((hold = relock_holds_find(client, 0)))
        relock_let_go(client, hold, now_ms);
    while (!is_drained(client) && in_time)
        in_time = relock_cond_wait_until(&client->changed, &client->mutex, deadline_ms);
}

/* Drops the work that the I/O thread left unfinished. */
static void drop_pending(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_client_hook *hook = atomic_load(&client->hook);
    struct relock_resource *resource;
    struct relock_resource *next;
    struct relock_events *events;

    if (hook)
        hook->ops->close(client);
    relock_outbox_drop_all(client, &client->guarded.commands);
    relock_line_close(client);
    relock_waits_close(client);
    relock_listeners_deliver(client);
    while (client->guarded.losses)
        relock_holds_forget_loss(client, client->guarded.losses);
    while (client->guarded.to_tell)
        relock_holds_forget_loss(client, client->guarded.to_tell);
    DL_FOREACH(client->guarded.events, events)
    while (events->losses)
        relock_holds_forget_loss(client, events->losses);
    while (client->guarded.holds) {
        relock_client_unset_timer(client, &client->guarded.holds->timer);
        client->guarded.holds->refs = 1;
        relock_holds_unref(client, client->guarded.holds);
    }
    HASH_ITER(hh, client->guarded.resources, resource, next)
    relock_resources_drop(client, resource);
}

static void stop_threads(struct relock_client *client)
{
    relock_topology_stop(client->topology); /* its threads wake the I/O thread */
    relock_io_stop(client);
    relock_losses_stop(client);
}

void relock_client_dispose(struct relock_client *client)
{
    stop_threads(client);
    client->topology = relock_topology_free(client->topology);
    relock_server_deinit(&client->server);
}

static void abandon(struct relock_client *client)
{
    /* Threads of the parent may have been changing all other fields at the moment of the fork. */
    relock_io_abandon(client);
    relock_topology_abandon(client->topology);
    relock_server_abandon(&client->server);
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
    relock_client_dispose(client); /* last: fences of holds refer to nodes */
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
        abandon(client);
    else if (relock_callback_is_inside())
        relock_log_write(&client->log, RELOCK_LOG_ERROR,
                         "relock_client_free was called from a callback: the client is not freed; "
                         "call it elsewhere");
    else
        close_client(client);
    relock_thread_leave(&thread);
    return NULL;
}
