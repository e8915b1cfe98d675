#include "upheaval.h"

#include "support/cluster_move.h"
#include "support/cluster_view.h"
#include "support/wait.h"

#include <stdlib.h>
#include <string.h>

#define N_SLOTS 60  /* that move at a time */
#define HALF_MS 20  /* how long one stays half moved, at most */
#define PAUSE_MS 10 /* from one to the next, at most */

#define OUTAGE_MS 1000 /* until a replica takes over */

static const struct {
    const char *text;
    bool loses;
} kinds[] = {
#define KIND(name, text, loses) {text, loses},
    UPHEAVAL_MAP(KIND)
#undef KIND
};

const char *upheaval_text(enum upheaval_kind kind)
{
    return kinds[kind].text;
}

bool upheaval_loses(enum upheaval_kind kind)
{
    return kinds[kind].loses;
}

static size_t dice(unsigned *seed, size_t n)
{
    return (size_t)rand_r(seed) % n;
}

/* A master that owns slots, but not this node. */
static size_t draw_master(struct cluster *cluster, size_t other, unsigned *seed)
{
    size_t owner;

    do
        owner = cluster_owner(cluster, (int)dice(seed, CLUSTER_SLOTS));
    while (owner == other);
    return owner;
}

/* ---- slots --------------------------------------------------------------------------------- */

/* The keys that exist go first; those that come meanwhile already belong to the new owner. */
static void move(struct cluster *cluster, int slot, size_t to, unsigned *seed)
{
    cluster_move_open(cluster, slot, to);
    let_pass(dice(seed, HALF_MS));
    cluster_move_keys(cluster, slot, to);
    let_pass(dice(seed, HALF_MS));
    cluster_move_keys(cluster, slot, to);
    cluster_move_close(cluster, slot, to);
    let_pass(dice(seed, PAUSE_MS));
}

/* Slots of one master to another, and some of them back. */
static void move_some(struct cluster *cluster, size_t from, size_t to, unsigned *seed)
{
    int slots[N_SLOTS];

    for (int i = 0; i < N_SLOTS; i++) {
        do
            slots[i] = (int)dice(seed, CLUSTER_SLOTS);
        while (cluster_owner(cluster, slots[i]) != from);
        move(cluster, slots[i], to, seed);
    }
    cluster_await(cluster);
    for (int i = 0; i < N_SLOTS; i++)
        move(cluster, slots[i], from, seed);
    cluster_await(cluster);
}

/* ---- failovers ----------------------------------------------------------------------------- */

static void stop_writing(struct cluster *cluster, size_t master)
{
    cluster_must(
        probe_int(cluster->node[master].probe, "CLIENT PAUSE %d WRITE", CLUSTER_FAILOVER_MS) == 0,
        "a master does not stop writing");
}

static void mend(struct cluster *cluster, size_t master)
{
    cluster_await(cluster);
    cluster_mend(cluster);
    cluster_must(probe_int(cluster->node[master].probe, "CLIENT UNPAUSE") == 0,
                 "a node does not write again");
}

static void fail(struct cluster *cluster, size_t master, bool is_gentle,
                 void (*harm)(struct server *))
{
    if (is_gentle)
        stop_writing(cluster, master);
    cluster_await_copy(cluster, master);
    harm(cluster->node[master].server);
    mend(cluster, master);
}

/* Its replica does not wait until the others notice, nor for their votes, which they give seldom.
 */
void upheaval_replace(struct cluster *cluster, enum upheaval_kind kind, size_t master)
{
    size_t heir = cluster_replica(cluster, master);

    stop_writing(cluster, master);
    cluster_await_copy(cluster, master);
    if (kind == UPHEAVAL_KILL)
        server_kill(cluster->node[master].server);
    if (kind == UPHEAVAL_PAUSE)
        server_pause(cluster->node[master].server);
    if (kind != UPHEAVAL_HAND_OVER)
        let_pass(OUTAGE_MS);
    cluster_must(probe_int(cluster->node[heir].probe, "CLUSTER FAILOVER TAKEOVER") == 0,
                 "a replica does not take over");
    mend(cluster, master);
}

/* ---- all ----------------------------------------------------------------------------------- */

static void grow(struct cluster *cluster, unsigned *seed)
{
    size_t new = cluster_add(cluster);
    size_t replica = cluster_add_replica(cluster, new);

    move_some(cluster, draw_master(cluster, new, seed), new, seed);
    cluster_remove(cluster, replica);
    cluster_remove(cluster, new);
}

static void play(struct cluster *cluster, enum upheaval_kind kind, bool is_gentle, unsigned *seed)
{
    size_t master = draw_master(cluster, cluster->n, seed);

    switch (kind) {
    case UPHEAVAL_MOVE:
        move_some(cluster, master, draw_master(cluster, master, seed), seed);
        break;
    case UPHEAVAL_HAND_OVER:
        cluster_fail_over(cluster, master);
        break;
    case UPHEAVAL_KILL:
        fail(cluster, master, is_gentle, server_kill);
        break;
    case UPHEAVAL_PAUSE:
        fail(cluster, master, is_gentle, server_pause);
        break;
    case UPHEAVAL_GROWTH:
        grow(cluster, seed);
        break;
    default:
        abort();
    }
}

void upheaval_play(struct cluster *cluster, enum upheaval_kind kind, unsigned *seed)
{
    play(cluster, kind, false, seed);
}

void upheaval_play_gently(struct cluster *cluster, enum upheaval_kind kind, unsigned *seed)
{
    play(cluster, kind, true, seed);
}
