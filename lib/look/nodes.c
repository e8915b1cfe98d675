#include "look/nodes.h"

#include "base/status.h"
#include "redis/lane/lane.h"
#include "redis/lane/lanes.h"
#include "redis/server/reply.h"

#include <stdio.h>

struct relock_node *relock_nodes_next(struct relock_topology *topology, struct relock_node *node)
{
    do {
        struct relock_node *next = relock_topology_next(topology, node);

        relock_topology_drop(topology, node);
        node = next;
    } while (node && !relock_topology_uses(topology, node));
    return node;
}

/* An error of the server is a failure. */
static int take_reply(struct redisReply *given, const struct relock_server *server,
                      struct redisReply **reply, char why[RELOCK_WHY_MAX])
{
    const char *error = relock_reply_error(given);
    int r = RELOCK_OK;

    if (error) {
        (void)snprintf(why, RELOCK_WHY_MAX, "%s: %.180s", server->label, error);
        r = relock_refusal_result(relock_refusal_of(error));
        relock_reply_free(given);
    } else {
        *reply = given;
    }
    return r;
}

static int ask(struct relock_lane *lane, const struct relock_text *words, size_t n_words,
               unsigned forms, uint64_t deadline_ms, struct redisReply **reply,
               char why[RELOCK_WHY_MAX])
{
    struct relock_round_trip round_trip;
    int r;

    relock_round_trip_begin(&round_trip);
    relock_command_begin(&round_trip.commands, n_words);
    for (size_t i = 0; i < n_words; i++)
        relock_command_arg(&round_trip.commands, words[i].data, words[i].len);
    round_trip.exchange.n_replies = 1;
    round_trip.exchange.forms = forms;
    r = relock_round_trip_ask_harmless(&round_trip, lane, deadline_ms);
    if (r == RELOCK_OK)
        return take_reply(round_trip.exchange.reply, relock_lane_server(lane), reply, why);
    (void)snprintf(why, RELOCK_WHY_MAX, "%s", round_trip.exchange.why);
    return r;
}

int relock_nodes_ask(struct relock_topology *topology, struct relock_node *node,
                     const struct relock_text *words, size_t n_words, unsigned forms,
                     uint64_t deadline_ms, struct redisReply **reply, char why[RELOCK_WHY_MAX])
{
    struct relock_lane *lane;
    int r = relock_lanes_join(node->lanes, false, deadline_ms, &lane);

    if (r < 0) {
        (void)snprintf(why, RELOCK_WHY_MAX, RELOCK_LANES_BUSY);
        return r;
    }
    r = ask(lane, words, n_words, forms, deadline_ms, reply, why);
    if (r == RELOCK_E_CONN) /* an idle connection may have been closed: once more, over a new one */
        r = ask(lane, words, n_words, forms, deadline_ms, reply, why);
    relock_lanes_leave(node->lanes, lane);
    if (r == RELOCK_E_CONN || r == RELOCK_REPLICA)
        relock_topology_distrust(topology, node);
    else if (r == RELOCK_OK)
        relock_topology_trust(node);
    return r > 0 ? RELOCK_E_SERVER : r;
}
