#include "look/scan.h"

#include "base/decimal.h"
#include "look/nodes.h"
#include "redis/server/reply.h"

#include <string.h>

#define PAGE "1000" /* keys that Redis visits for one SCAN */
/* All keys of this type at the node. */
static int scan(struct relock_sight *sight, struct relock_node *node, struct relock_text pattern,
                const char *type, relock_scan_fn *fn, void *arg)
{
    struct relock_text words[] = {relock_text_of("SCAN"),  relock_text_of("0"),
                                  relock_text_of("MATCH"), pattern,
                                  relock_text_of("COUNT"), relock_text_of(PAGE),
                                  relock_text_of("TYPE"),  relock_text_of(type)};
    char cursor[RELOCK_DECIMAL_MAX] = "0";

    do {
        struct redisReply *reply;
        const char *next;
        size_t len;
        int r = relock_nodes_ask(node, words, 8, RELOCK_REPLY_ARRAY_OF(2),
                                 relock_sight_deadline(sight), &reply, sight->why);

        if (r != RELOCK_OK)
            return r;
        if (!relock_reply_text(relock_reply_at(reply, 0), &next, &len) || len >= sizeof(cursor))
            r = RELOCK_E_SERVER;
        else
            memcpy(cursor, next, len + 1);
        words[1] = relock_text_of(cursor);
        if (r == RELOCK_OK)
            r = fn(arg, node, relock_reply_at(reply, 1));
        relock_reply_free(reply);
        if (r != RELOCK_OK)
            return r;
    } while (strcmp(cursor, "0") != 0);
    return RELOCK_OK;
}

int relock_scan(struct relock_sight *sight, struct relock_text pattern, const char *const *types,
                relock_scan_fn *fn, void *arg)
{
    struct relock_topology *topology = sight->client->topology;
    struct relock_node *node = relock_nodes_first(topology);
    int r = RELOCK_OK;

    for (; node && r == RELOCK_OK; node = relock_nodes_next(topology, node)) {
        for (const char *const *type = types; *type && r == RELOCK_OK; type++)
            r = scan(sight, node, pattern, *type, fn, arg);
        if (r != RELOCK_OK)
            break;
    }
    relock_nodes_end(topology, node);
    return r == RELOCK_SCAN_END ? RELOCK_OK : r;
}
