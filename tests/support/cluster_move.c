#include "support/cluster_move.h"

#include "support/cluster_view.h"
#include "support/wait.h"

#include <stdio.h>
#include <string.h>

#define MIGRATE_MS 10000

void cluster_move_open(struct cluster *cluster, int slot, size_t to)
{
    size_t from = cluster_owner(cluster, slot);

    cluster_must(from != to, "the slot is there");
    cluster_must(probe_int(cluster->node[to].probe, "CLUSTER SETSLOT %d IMPORTING %s", slot,
                           cluster->node[from].id) == 0,
                 "cannot import");
    cluster_must(probe_int(cluster->node[from].probe, "CLUSTER SETSLOT %d MIGRATING %s", slot,
                           cluster->node[to].id) == 0,
                 "cannot migrate");
}

struct key_move {
    struct probe *probe; /* of the node that has the key */
    const char *key;
    int port; /* of the node that gets it */
};

/* A key that expires meanwhile is no error. A node on a busy machine may believe for a moment that
 * the cluster is down. */
static bool is_moved(void *arg)
{
    const struct key_move *move = arg;
    const char *reply =
        probe_text(move->probe, "MIGRATE 127.0.0.1 %d %s 0 %d", move->port, move->key, MIGRATE_MS);

    if (strstr(reply, "CLUSTERDOWN"))
        return false;
    cluster_must(strcmp(reply, "OK") == 0 || strcmp(reply, "NOKEY") == 0, "cannot move a key");
    return true;
}

static void move_key(struct cluster *cluster, size_t from, const char *key, size_t to)
{
    struct key_move move = {cluster->node[from].probe, key, cluster_port(cluster, to)};

    cluster_must(wait_until(is_moved, &move, CLUSTER_FAILOVER_MS), "a key is not moved");
}

void cluster_move_key(struct cluster *cluster, const char *key, size_t to)
{
    move_key(cluster, cluster_owner(cluster, cluster_slot(cluster, key)), key, to);
}

void cluster_move_keys(struct cluster *cluster, int slot, size_t to)
{
    size_t from = cluster_owner(cluster, slot);
    char key[256];

    for (;;) {
        snprintf(key, sizeof(key), "%s",
                 probe_list(cluster->node[from].probe, "CLUSTER GETKEYSINSLOT %d 1", slot));
        if (key[0] == '\0')
            return;
        move_key(cluster, from, key, to);
    }
}

struct new_owner {
    struct probe *probe;
    int slot;
    const char *owner;
};

/* A master that gives its last slot away turns into a replica, maybe before it is told. Valkey may
 * want a replica that is in sync: NOREPLICAS. */
static bool is_accepted(void *arg)
{
    const struct new_owner *change = arg;
    const char *reply;

    if (strncmp(probe_list(change->probe, "ROLE"), "master ", 7) != 0)
        return true;
    reply = probe_text(change->probe, "CLUSTER SETSLOT %d NODE %s", change->slot, change->owner);
    return strcmp(reply, "OK") == 0 || strstr(reply, "only with masters");
}

static void tell(struct cluster *cluster, size_t i, int slot, size_t owner)
{
    struct new_owner change = {cluster->node[i].probe, slot, cluster->node[owner].id};

    cluster_must(wait_until(is_accepted, &change, SOON_MS), "a new owner is not accepted");
}

/* The new owner first: meanwhile, the old one redirects to it. */
void cluster_move_close(struct cluster *cluster, int slot, size_t to)
{
    struct cluster_view view;

    cluster_view_any(cluster, &view);
    tell(cluster, to, slot, to);
    for (size_t i = 0; i < cluster->n; i++)
        if (i != to && cluster_is_up(cluster, i) && view.master[i] == (signed char)i)
            tell(cluster, i, slot, to);
}

void cluster_move(struct cluster *cluster, int slot, size_t to)
{
    cluster_move_open(cluster, slot, to);
    cluster_move_keys(cluster, slot, to);
    cluster_move_close(cluster, slot, to);
    cluster_await(cluster);
}

/* ---- at once ------------------------------------------------------------------------------- */

/* Valkey's old owner sends the slot, and Redis' new owner fetches it. */
#define SENDS "cluster|migrateslots"
#define FETCHES "cluster|migration"

static bool knows(struct probe *probe, const char *command)
{
    return probe_list(probe, "COMMAND INFO %s", command)[0] != '\0';
}

bool cluster_can_move_at_once(struct probe *probe)
{
    return knows(probe, SENDS) || knows(probe, FETCHES);
}

#define RETRY_MS 5000

struct transfer {
    struct cluster *cluster;
    int slot;
    size_t from, to;
    bool is_sent;
    uint64_t next_ms; /* when to begin again */
};

static void begin(const struct transfer *transfer)
{
    const struct cluster_node *from = &transfer->cluster->node[transfer->from];
    const struct cluster_node *to = &transfer->cluster->node[transfer->to];

    if (transfer->is_sent)
        probe_text(from->probe, "CLUSTER MIGRATESLOTS SLOTSRANGE %d %d NODE %s", transfer->slot,
                   transfer->slot, to->id);
    else
        probe_text(to->probe, "CLUSTER MIGRATION IMPORT %d %d", transfer->slot, transfer->slot);
}

/* A move may fail, or hang (Valkey 9.0.0, once in 500). While one is under way, the node refuses
 * another. */
static void begin_again(const struct transfer *transfer)
{
    if (transfer->is_sent)
        probe_text(transfer->cluster->node[transfer->from].probe, "CLUSTER CANCELSLOTMIGRATIONS");
    begin(transfer);
}

static bool is_transferred(void *arg)
{
    struct transfer *transfer = arg;
    struct cluster_view view;

    if (cluster_view_of(transfer->cluster, transfer->to, &view) &&
        view.owner[transfer->slot] == (signed char)transfer->to)
        return true;
    if (now_ms() >= transfer->next_ms) {
        transfer->next_ms = now_ms() + slow_ms(RETRY_MS);
        begin_again(transfer);
    }
    return false;
}

void cluster_move_at_once(struct cluster *cluster, int slot, size_t to)
{
    struct transfer transfer = {.cluster = cluster,
                                .slot = slot,
                                .from = cluster_owner(cluster, slot),
                                .to = to,
                                .is_sent = knows(cluster->node[to].probe, SENDS),
                                .next_ms = deadline_in(RETRY_MS)};

    begin(&transfer);
    cluster_must(wait_until(is_transferred, &transfer, CLUSTER_FAILOVER_MS), "a slot is not moved");
    cluster_await(cluster);
}
