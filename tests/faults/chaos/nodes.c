#include "nodes.h"

#include "names.h"
#include "support/cluster_move.h"
#include "support/cluster_view.h"
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

/* ---- hot locks ------------------------------------------------------------------------------ */

void nodes_fail(struct cluster *cluster, enum fault_kind kind, const char *name)
{
    size_t master = cluster_owner(cluster, cluster_slot(cluster, name));
    enum upheaval_kind upheaval = kind == FAULT_MASTER_KILL   ? UPHEAVAL_KILL
                                  : kind == FAULT_MASTER_STOP ? UPHEAVAL_PAUSE
                                                              : UPHEAVAL_HAND_OVER;

    upheaval_replace(cluster, upheaval, master);
}

static size_t draw_other(const struct cluster *cluster, size_t owner, unsigned *seed)
{
    struct cluster_view view;
    size_t i = (size_t)rand_r(seed) % cluster->n;

    cluster_view_any(cluster, &view);
    while (i == owner || view.master[i] != (signed char)i)
        i = (i + 1) % cluster->n;
    return i;
}

void nodes_begin_move(struct cluster *cluster, struct nodes_move *move, unsigned *seed)
{
    cluster_await(cluster); /* the replicas may not know the last one */
    move->slot = cluster_slot(cluster, names_text(move->lock));
    move->to = draw_other(cluster, cluster_owner(cluster, move->slot), seed);
    move->is_open = !cluster_can_move_at_once(cluster->node[0].probe) || rand_r(seed) % 2 == 0;
    if (move->is_open)
        cluster_move_open(cluster, move->slot, move->to);
    else
        cluster_move_at_once(cluster, move->slot, move->to);
    if (move->is_open && rand_r(seed) % 2 == 0)
        cluster_move_keys(cluster, move->slot, move->to);
}

void nodes_end_move(struct cluster *cluster, struct nodes_move *move)
{
    move->is_open = false;
    cluster_move_keys(cluster, move->slot, move->to);
    cluster_move_close(cluster, move->slot, move->to);
}
