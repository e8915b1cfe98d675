/* relock_servers: versions, clocks and other facts about the servers of a client, and the clocks of
 * their replicas. */
#include "base/clock.h"
#include "lock/state/lock.h"
#include "look/nodes.h"
#include "look/private.h"
#include "redis/lane/sentinels.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Some proxies answer TIME with something else. */
static bool read_number(const struct redisReply *reply, size_t at, long long most, int64_t *number)
{
    const char *text;
    char *end;
    size_t len;

    if (!relock_reply_text(relock_reply_at(reply, at), &text, &len) || len == 0)
        return false;
    *number = strtoll(text, &end, 10);
    return end == text + len && *number >= 0 && *number <= most;
}

static int64_t clock_ahead_ms(const struct redisReply *reply, uint64_t wall_us)
{
    int64_t seconds, micros;

    if (!read_number(reply, 0, INT64_MAX / 1000000 - 1, &seconds) ||
        !read_number(reply, 1, 999999, &micros))
        return INT64_MIN;
    return (seconds * 1000000 + micros - (int64_t)wall_us) / 1000;
}

/* Asks for the time, which also measures a round trip on a connection that exists. Some servers
 * refuse to tell it. */
static int ask_time(struct relock_sight *sight, struct relock_node *node,
                    struct relock_server_info *info)
{
    const struct relock_text word = relock_text_of("TIME");
    uint64_t began_us = now_us(CLOCK_MONOTONIC), wall_us = now_us(CLOCK_REALTIME);
    struct redisReply *reply = NULL;
    int r = relock_nodes_ask(sight->client->topology, node, &word, 1, RELOCK_REPLY_ARRAY,
                             relock_sight_deadline(sight), &reply, sight->why);

    if (r != RELOCK_OK && r != RELOCK_E_SERVER && r != RELOCK_E_AUTH)
        return r;
    info->round_trip_us = now_us(CLOCK_MONOTONIC) - began_us;
    info->clock_ahead_ms = clock_ahead_ms(reply, wall_us + info->round_trip_us / 2);
    info->clock_result =
        r == RELOCK_OK && info->clock_ahead_ms == INT64_MIN ? RELOCK_E_UNSUPPORTED : r;
    relock_reply_free(reply);
    return RELOCK_OK;
}

/* ---- replicas ------------------------------------------------------------------------------ */

struct replica {
    struct relock_replica_info info; /* the first field */
    char address[RELOCK_MASTER_HOST_MAX + 8];
};

static int receive_time(struct relock_sync_conn *conn, uint64_t deadline_ms, int64_t *ahead_ms)
{
    uint64_t began_us, wall_us;
    struct redisReply *reply;
    int r;

    relock_command_words(&conn->wire.out, "TIME");
    began_us = now_us(CLOCK_MONOTONIC);
    wall_us = now_us(CLOCK_REALTIME);
    r = relock_sync_conn_send(conn, deadline_ms);
    if (r == RELOCK_OK)
        r = relock_sync_conn_receive(conn, deadline_ms, &reply);
    if (r != RELOCK_OK)
        return r;
    if (relock_reply_error(reply))
        r = relock_refusal_result(relock_refusal_of(relock_reply_error(reply)));
    else
        *ahead_ms = clock_ahead_ms(reply, wall_us + (now_us(CLOCK_MONOTONIC) - began_us) / 2);
    relock_reply_free(reply);
    return r == RELOCK_OK && *ahead_ms == INT64_MIN ? RELOCK_E_SERVER : r;
}

/* Over a connection of its own, as to a node of a cluster. */
static int ask_replica(const struct relock_server *master, const char *host, uint16_t port,
                       int64_t *ahead_ms)
{
    uint64_t deadline_ms = relock_clock_in(master->connect_timeout_ms);
    struct relock_server server, base = *master;
    struct relock_sync_conn conn;
    int r;

    base.url.path = NULL;
    base.url.master = NULL;
    base.sentinels = NULL;
    base.may_be_replica = true;
    base.node = NULL;
    base.node_refs = NULL;
    r = relock_server_init_node(&server, &base, host, port);
    if (r < 0)
        return r;
    relock_sync_conn_init(&conn, &server);
    r = relock_sync_conn_connect(&conn, deadline_ms);
    if (r == RELOCK_OK)
        r = receive_time(&conn, deadline_ms, ahead_ms);
    relock_sync_conn_deinit(&conn);
    relock_server_deinit_node(&server);
    return r > 0 ? RELOCK_E_CONN : r; /* it has not answered in time */
}

/* Returns NULL when out of memory. `line` is one of those that INFO has about replicas. */
static struct replica *make_replica(const struct relock_node *node, int64_t master_ahead_ms,
                                    const char *line)
{
    struct replica *new = calloc(1, sizeof(*new));
    char host[RELOCK_MASTER_HOST_MAX] = "";
    unsigned port = 0;

    if (!new)
        return NULL;
    if (sscanf(line, "slave%*u:ip=%255[^,\r\n],port=%u", host, &port) == 2 && port <= UINT16_MAX)
        new->info.result =
            ask_replica(node->server, host, (uint16_t)port, &new->info.clock_ahead_ms);
    else
        new->info.result = RELOCK_E_SERVER;
    if (new->info.result == RELOCK_OK && master_ahead_ms == INT64_MIN)
        new->info.result = RELOCK_E_SERVER; /* there is nothing to compare with */
    if (new->info.result == RELOCK_OK)
        new->info.clock_ahead_ms -= master_ahead_ms;
    (void)snprintf(new->address, sizeof(new->address), strchr(host, ':') ? "[%s]:%u" : "%s:%u",
                   host, port);
    new->info.address = new->address;
    return new;
}

/* Other lines have an underscore there, as slave_priority. */
static bool is_replica(const char *line)
{
    return strncmp(line, "slave", 5) == 0 && line[5] >= '0' && line[5] <= '9';
}

static const struct relock_replica_info *find_replicas(const struct relock_node *node,
                                                       const struct relock_server_info *info)
{
    const struct relock_replica_info *first = NULL;

    for (const char *line = info->info; line; line = strchr(line, '\n')) {
        struct replica *new;

        line += *line == '\n';
        if (!is_replica(line))
            continue;
        new = make_replica(node, info->clock_ahead_ms, line);
        if (!new)
            break;
        new->info.next = first;
        first = &new->info;
    }
    return first;
}

static void free_replicas(const struct relock_replica_info *at)
{
    while (at) {
        struct replica *replica = (struct replica *)at;

        at = at->next;
        free(replica);
    }
}

/* ---- servers ------------------------------------------------------------------------------- */

static int show(struct relock_sight *sight, struct relock_node *node, relock_servers_fn *fn,
                void *arg, bool *goes_on)
{
    const struct relock_text word = relock_text_of("INFO");
    struct relock_server_info info = {.address = node->server->label};
    struct redisReply *reply;
    size_t len;
    int r = relock_nodes_ask(sight->client->topology, node, &word, 1, RELOCK_REPLY_TEXT,
                             relock_sight_deadline(sight), &reply, sight->why);

    if (r != RELOCK_OK)
        return r;
    if (relock_reply_text(reply, &info.info, &len))
        r = ask_time(sight, node, &info);
    else
        r = RELOCK_E_SERVER;
    if (r == RELOCK_OK) {
        info.replicas = find_replicas(node, &info);
        *goes_on = fn(&info, arg);
        free_replicas(info.replicas);
    }
    relock_reply_free(reply);
    return r;
}

int relock_servers(struct relock_client *client, relock_servers_fn *fn, void *arg)
{
    struct relock_sight sight;
    struct relock_node *node;
    bool goes_on = true;
    int r;

    if (!fn)
        return relock_client_refuse(client, "relock_servers: `fn` is NULL");
    if (!relock_sight_begin(&sight, client))
        return sight.result;
    node = relock_nodes_next(client->topology, NULL);
    r = relock_sight_check(&sight, node);
    for (; node && r == RELOCK_OK && goes_on; node = relock_nodes_next(client->topology, node))
        r = show(&sight, node, fn, arg, &goes_on);
    relock_topology_drop(client->topology, node);
    return relock_sight_end(&sight, r);
}
