#include "look/names.h"

#include "base/clock.h"
#include "base/ident.h"
#include "look/nodes.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void relock_names_init(struct relock_names *names, struct relock_topology *topology,
                       uint64_t timeout_ms)
{
    const struct relock_text words[] = {relock_text_of("CLIENT"), relock_text_of("LIST")};
    struct relock_node *node = relock_nodes_first(topology);
    char why[RELOCK_WHY_MAX];

    *names = (struct relock_names){0};
    for (; node; node = relock_nodes_next(topology, node)) {
        struct redisReply **lists =
            realloc(names->lists, (names->n_lists + 1) * sizeof(struct redisReply *));
        struct redisReply *list;

        if (!lists)
            break;
        names->lists = lists;
        if (relock_nodes_ask(node, words, 2, RELOCK_REPLY_TEXT, relock_clock_in(timeout_ms), &list,
                             why) == RELOCK_OK)
            names->lists[names->n_lists++] = list;
    }
    relock_nodes_end(topology, node);
}

void relock_names_deinit(struct relock_names *names)
{
    for (size_t i = 0; i < names->n_lists; i++)
        relock_reply_free(names->lists[i]);
    free(names->lists);
}

/* A line has `name=<client_name>:<client id> `, and the name of a client has no blanks. */
static bool find_in(const char *list, const char *tail, char name[RELOCK_PEER_NAME_MAX])
{
    const char *end = strstr(list, tail), *start = end;

    while (start && start > list && start[-1] != ' ' && start[-1] != '\n')
        start--;
    if (!end || strncmp(start, "name=", 5) != 0)
        return false;
    start += 5;
    (void)snprintf(name, RELOCK_PEER_NAME_MAX, "%.*s", (int)(end - start), start);
    return true;
}

void relock_names_find(const struct relock_names *names, const char *owner,
                       char name[RELOCK_PEER_NAME_MAX])
{
    char tail[RELOCK_UUID_LEN + 3];
    const char *list;
    size_t len;

    name[0] = '\0';
    if (strlen(owner) < RELOCK_UUID_LEN)
        return;
    (void)snprintf(tail, sizeof(tail), ":%.*s ", RELOCK_UUID_LEN, owner);
    for (size_t i = 0; i < names->n_lists; i++)
        if (relock_reply_text(names->lists[i], &list, &len) && find_in(list, tail, name))
            return;
}
