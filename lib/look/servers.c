/* relock_servers: versions, clocks and other facts about the servers of a client. */
#include "base/clock.h"
#include "lock/lock.h"
#include "look/nodes.h"
#include "look/sight.h"
#include "redis/reply.h"

#include <stdlib.h>
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
    int r = relock_nodes_ask(node, &word, 1, RELOCK_REPLY_ARRAY, relock_sight_deadline(sight),
                             &reply, sight->why);

    if (r != RELOCK_OK && r != RELOCK_E_SERVER && r != RELOCK_E_AUTH)
        return r;
    info->round_trip_us = now_us(CLOCK_MONOTONIC) - began_us;
    info->clock_ahead_ms = clock_ahead_ms(reply, wall_us + info->round_trip_us / 2);
    relock_reply_free(reply);
    return RELOCK_OK;
}

static int show(struct relock_sight *sight, struct relock_node *node, relock_servers_fn *fn,
                void *arg, bool *goes_on)
{
    const struct relock_text word = relock_text_of("INFO");
    struct relock_server_info info = {.address = node->server->label};
    struct redisReply *reply;
    size_t len;
    int r = relock_nodes_ask(node, &word, 1, RELOCK_REPLY_TEXT, relock_sight_deadline(sight),
                             &reply, sight->why);

    if (r != RELOCK_OK)
        return r;
    if (relock_reply_text(reply, &info.info, &len))
        r = ask_time(sight, node, &info);
    else
        r = RELOCK_E_SERVER;
    if (r == RELOCK_OK)
        *goes_on = fn(&info, arg);
    relock_reply_free(reply);
    return r;
}

int relock_servers(struct relock_client *client, relock_servers_fn *fn, void *arg)
{
    struct relock_sight sight;
    struct relock_node *node;
    bool goes_on = true;
    int r = RELOCK_OK;

    if (!fn)
        return relock_client_refuse(client, "relock_servers: `fn` is NULL");
    if (!relock_sight_begin(&sight, client))
        return sight.result;
    node = relock_nodes_first(client->topology);
    for (; node && r == RELOCK_OK && goes_on; node = relock_nodes_next(client->topology, node))
        r = show(&sight, node, fn, arg, &goes_on);
    relock_nodes_end(client->topology, node);
    return relock_sight_end(&sight, r);
}
