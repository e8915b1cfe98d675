#include "redis/deployment/topology.h"
#include "redis/deployment/private.h"

#include "base/clock.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/lanes.h"
#include "redis/server/script.h"

#include <stdlib.h>

/* Without a pause. */
#define MAX_REDIRECTS 5

/* ---- a node -------------------------------------------------------------------------------- */

int relock_node_init(struct relock_node *node, const struct relock_server *server, unsigned n_lanes)
{
    *node = (struct relock_node){.server = server};
    return relock_lanes_new(server, n_lanes, &node->lanes);
}

void relock_node_deinit(struct relock_node *node)
{
    node->lanes = relock_lanes_free(node->lanes);
}

/* ---- topologies ---------------------------------------------------------------------------- */

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

int relock_topology_connect(struct relock_topology *topology, uint64_t deadline_ms,
                            char why[RELOCK_WHY_MAX])
{
    return topology->ops->connect ? topology->ops->connect(topology, deadline_ms, why) : RELOCK_OK;
}

void relock_topology_stop(struct relock_topology *topology)
{
    if (topology && topology->ops->stop)
        topology->ops->stop(topology);
}

struct relock_topology *relock_topology_free(struct relock_topology *topology)
{
    if (topology)
        topology->ops->free(topology);
    return NULL;
}

struct relock_node *relock_topology_next(struct relock_topology *topology,
                                         const struct relock_node *node)
{
    if (topology->ops->next)
        return topology->ops->next(topology, node);
    return node ? node->next : atomic_load(&topology->nodes);
}

bool relock_topology_remove(struct relock_topology *topology, struct relock_node *node)
{
    return topology->ops->remove && topology->ops->remove(topology, node);
}

struct relock_node *relock_topology_redirect(struct relock_topology *topology,
                                             const struct relock_node *from, const char *error,
                                             const struct relock_script *script,
                                             unsigned *n_redirects, bool *asks)
{
    struct relock_node *node =
        topology->ops->redirect ? topology->ops->redirect(topology, from, error, asks) : NULL;

    if (!node)
        return NULL;
    if (*asks)
        atomic_store(&topology->half_moved_ms, relock_clock_now_ms());
    if (++*n_redirects <= MAX_REDIRECTS && !(*asks && script && !relock_script_has_one_key(script)))
        return node;
    relock_topology_drop(topology, node);
    return NULL;
}

void relock_topology_distrust(struct relock_topology *topology, struct relock_node *node)
{
    atomic_store(&node->is_doubted, true);
    if (topology->ops->recheck)
        topology->ops->recheck(topology, true);
}

void relock_topology_recheck(struct relock_topology *topology)
{
    if (topology->ops->recheck)
        topology->ops->recheck(topology, false);
}

enum relock_fence_place relock_topology_fence_place(struct relock_topology *topology,
                                                    const struct relock_conn_id *fence,
                                                    const struct relock_node *node)
{
    const struct relock_node *fence_node = relock_conn_id_node(fence);

    if (!topology->is_cluster || fence_node == node)
        return RELOCK_FENCE_HERE;
    if (!fence_node || atomic_load(&fence_node->is_doubted) ||
        !relock_topology_uses(topology, fence_node))
        return RELOCK_FENCE_NOWHERE;
    return RELOCK_FENCE_ELSEWHERE;
}

bool relock_topology_uses(struct relock_topology *topology, const struct relock_node *node)
{
    return !topology->ops->uses || topology->ops->uses(topology, node);
}
