#include "nodes.h"

#include "upheaval.h"

#include <stdlib.h>

static void break_network(struct proxy *proxy, enum fault_kind kind)
{
    if (kind == FAULT_STALL)
        proxy_stall(proxy, "");
    if (kind == FAULT_REFUSE)
        proxy_refuse(proxy, true);
    if (kind == FAULT_CUT || kind == FAULT_REFUSE)
        proxy_cut(proxy, "");
}

static void break_one(struct probe *probe, enum fault_kind kind)
{
    if (kind == FAULT_CLIENT_KILL)
        probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
    if (kind == FAULT_CLIENT_KILL || kind == FAULT_DEAFEN_ALL)
        probe_int(probe, "CLIENT KILL TYPE pubsub");
    if (kind == FAULT_SCRIPT_FLUSH)
        probe_int(probe, "SCRIPT FLUSH");
}

/* No nodes are added: that takes long, and all other faults wait. */
void nodes_break(struct cluster *cluster, enum fault_kind kind, size_t nth, unsigned *seed)
{
    static const enum upheaval_kind kinds[] = {UPHEAVAL_MOVE, UPHEAVAL_HAND_OVER, UPHEAVAL_KILL,
                                               UPHEAVAL_PAUSE};

    if (kind == FAULT_UPHEAVAL)
        upheaval_play_gently(cluster, kinds[nth % (sizeof(kinds) / sizeof(kinds[0]))], seed);
    if (kind == FAULT_CUT || kind == FAULT_STALL || kind == FAULT_REFUSE)
        break_network(cluster->node[(size_t)rand_r(seed) % cluster->n].proxy, kind);
    for (size_t i = 0; i < cluster->n; i++)
        break_one(cluster->node[i].probe, kind);
}

void nodes_mend(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++) {
        if (!cluster->node[i].proxy)
            continue;
        proxy_flow(cluster->node[i].proxy);
        proxy_reset(cluster->node[i].proxy);
    }
}
