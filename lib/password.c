/*
 * relock_client_set_password: changes the credentials of a running client.
 *
 * A connection of its own tries them at each server first, so a wrong password changes nothing.
 * Then the connections of threads are replaced one by one, each when nothing is in flight. The I/O
 * thread makes its connections again, as one that is subscribed cannot send AUTH.
 */
#include "base/clock.h"
#include "base/status.h"
#include "lock/state/client.h"
#include "lock/state/lock.h"
#include "look/nodes.h"
#include "redis/lane/lane.h"
#include "redis/lane/lanes.h"
#include "redis/server/reply.h"

#include <stdio.h>

/* Logs in at the node. Returns as relock_lane_ask, with the cause in `why`. */
static int try_at(const struct relock_node *node, struct relock_credentials *credentials,
                  uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct relock_counts counts = {0};
    struct relock_server server = *node->server;
    struct relock_round_trip round_trip;
    struct relock_lane lane;
    int r;

    /* Warnings that were logged before are not repeated. */
    atomic_init(&counts.warned, atomic_load(&server.counts->warned));
    atomic_init(&counts.switches, atomic_load(&server.counts->switches));
    atomic_init(&counts.credentials, credentials);
    server.counts = &counts;
    relock_lane_init(&lane, &server);
    relock_round_trip_begin(&round_trip);
    relock_command_words(&round_trip.commands, "PING");
    round_trip.exchange.n_replies = 1;
    round_trip.exchange.forms = RELOCK_REPLY_STATUS;
    r = relock_round_trip_ask_harmless(&round_trip, &lane, deadline_ms);
    if (r == RELOCK_OK)
        relock_reply_free(round_trip.exchange.reply);
    else
        (void)snprintf(why, RELOCK_WHY_MAX, "%s", round_trip.exchange.why);
    relock_lane_deinit(&lane);
    return r == RELOCK_REPLICA ? RELOCK_E_CONN : r;
}

/* At all nodes. One that does not answer is no reason to refuse the password. */
static int try(const struct relock_client *client, struct relock_credentials *credentials,
               char why[RELOCK_WHY_MAX])
{
    struct relock_node *node = relock_nodes_next(client->topology, NULL);
    int unreached = node ? RELOCK_OK : RELOCK_E_CONN;

    for (; node; node = relock_nodes_next(client->topology, node)) {
        int r = try_at(node, credentials, relock_clock_in(client->options.command_timeout_ms), why);

        if (r == RELOCK_E_CONN) {
            unreached = r;
        } else if (r != RELOCK_OK) {
            relock_topology_drop(client->topology, node);
            return r;
        }
    }
    return unreached;
}

/* Unlocks the mutex meanwhile. */
static void use(struct relock_client *client, struct relock_credentials *credentials)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_node *node = NULL, *next;

    relock_server_set_credentials(&client->server, credentials);
    atomic_store(&client->topology->has_new_login, true);
    relock_client_wake(client);
    relock_mutex_unlock(&client->mutex);
    while ((next = relock_topology_next(client->topology, node))) {
        relock_lanes_retire(next->lanes);
        relock_topology_drop(client->topology, node);
        node = next;
    }
    relock_topology_drop(client->topology, node);
    relock_mutex_lock(&client->mutex);
}

int relock_client_set_password(struct relock_client *client, const char *user, const char *password)
{
    struct relock_credentials *credentials;
    char why[RELOCK_WHY_MAX] = "";
    struct relock_guard guard;
    int r;

    if (!client || !password || !*password)
        return relock_client_refuse(client,
                                    "relock_client_set_password: the password is NULL or empty");
    if (!relock_client_enter(client, true, &guard))
        return guard.result;
    relock_mutex_unlock(&client->mutex);
    credentials = relock_credentials_new(user, password);
    r = credentials ? try(client, credentials, why) : RELOCK_E_NOMEM;
    if (r != RELOCK_OK)
        relock_log_write(&client->log, RELOCK_LOG_WARNING, "%s: %s",
                         r == RELOCK_E_CONN ? "the new password is used, but was not checked"
                                            : "the new password is not used",
                         *why ? why : relock_strerror(r));
    relock_mutex_lock(&client->mutex);
    if (r == RELOCK_OK || r == RELOCK_E_CONN)
        use(client, credentials);
    else
        relock_credentials_free(credentials);
    relock_client_exit(client, &guard);
    return r;
}
