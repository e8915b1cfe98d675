#include "redis/deployment/node.h"

#include "redis/lane/lanes.h"

int relock_node_init(struct relock_node *node, const struct relock_server *server, unsigned n_lanes)
{
    *node = (struct relock_node){.server = server};
    return relock_lanes_new(server, n_lanes, &node->lanes);
}

void relock_node_deinit(struct relock_node *node)
{
    node->lanes = relock_lanes_free(node->lanes);
}

void relock_node_abandon(struct relock_node *node)
{
    relock_lanes_abandon(node->lanes);
}
