/* relock_client_ready: whether a program can work with its locks now, for readiness probes. */
#include "base/clock.h"
#include "lock/call/call.h"
#include "lock/state/client.h"
#include "lock/state/lock.h"
#include "look/nodes.h"
#include "redis/server/reply.h"

/* Asks each server. */
static int ping_all(const struct relock_client *client, char why[RELOCK_WHY_MAX])
{
    const struct relock_text word = relock_text_of("PING");
    struct relock_node *node = relock_nodes_next(client->topology, NULL);
    int r = node ? RELOCK_OK : RELOCK_E_CONN;

    for (; node && r == RELOCK_OK; node = relock_nodes_next(client->topology, node)) {
        uint64_t deadline_ms = relock_clock_in(client->options.command_timeout_ms);
        struct redisReply *reply = NULL;

        r = relock_nodes_ask(client->topology, node, &word, 1, RELOCK_REPLY_STATUS, deadline_ms,
                             &reply, why);
        relock_reply_free(reply);
    }
    relock_topology_drop(client->topology, node);
    return r;
}

static int ping(struct relock_client *client)
{
    char why[RELOCK_WHY_MAX] = "";
    struct relock_guard guard;
    int r = RELOCK_E_CLOSED;

    if (!relock_client_enter(client, true, &guard))
        return guard.result;
    if (relock_client_is_open(client)) {
        relock_mutex_unlock(&client->mutex);
        r = ping_all(client, why);
        relock_mutex_lock(&client->mutex);
    }
    relock_client_exit(client, &guard);
    return r;
}

/* Acquires and releases the lock, and does not defer the answer. If the lock is not free, locks
 * work, too. */
static int try_lock(struct relock_lock *lock)
{
    struct relock_how how = {.owner = relock_owner_new()};
    int r = relock_acquire(lock, &how, NULL);

    if (r == RELOCK_OK)
        r = relock_release_by(lock, how.owner, 0, 0, true, false);
    return r == RELOCK_BUSY ? RELOCK_OK : r;
}

int relock_client_ready(struct relock_client *client, const char *name)
{
    struct relock_lock *lock = NULL;
    struct relock_stats stats;
    int r = client ? RELOCK_OK : RELOCK_E_INVALID;

    if (r == RELOCK_OK && name)
        r = relock_lock_new(client, name,
                            &lock); /* a name that no lock can have is refused first */
    if (r == RELOCK_OK)
        r = ping(client);
    if (r == RELOCK_OK)
        r = relock_client_stats(client, &stats, sizeof(stats));
    if (r == RELOCK_OK && stats.connected == 0)
        r = RELOCK_E_CONN;
    if (r == RELOCK_OK && lock)
        r = try_lock(lock);
    relock_lock_free(lock);
    return r;
}
