#include "redis/topology.h"

#include <stdlib.h>

struct single {
    struct relock_topology topology;
    struct relock_node node;
};

static struct relock_node *find_single(struct relock_topology *topology, struct relock_text key)
{
    (void)key;
    return &((struct single *)topology)->node;
}

static void free_single(struct relock_topology *topology)
{
    relock_node_deinit(&((struct single *)topology)->node);
    free(topology);
}

static const struct relock_topology_ops single_ops = {
    .find = find_single,
    .free = free_single,
};

int relock_topology_new(const struct relock_server *server, unsigned n_lanes,
                        struct relock_topology **topology)
{
    struct single *new = calloc(1, sizeof(*new));

    if (!new || relock_node_init(&new->node, server, n_lanes) < 0) {
        free(new);
        return RELOCK_E_NOMEM;
    }
    new->topology.ops = &single_ops;
    atomic_init(&new->topology.nodes, &new->node);
    *topology = &new->topology;
    return RELOCK_OK;
}

struct relock_topology *relock_topology_free(struct relock_topology *topology)
{
    if (topology)
        topology->ops->free(topology);
    return NULL;
}

void relock_topology_abandon(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        relock_node_abandon(at);
}
