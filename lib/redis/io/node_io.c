#include "redis/io/io.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/io/private.h"
#include "redis/lane/lanes.h"

#include <errno.h>

/* Between two looks for nodes to free. */
#define LOOK_MS 1000

static int make_pubsub(struct relock_topology *topology, struct relock_node *node)
{
    struct relock_pubsub *new;
    int r;

    if (node->pubsub)
        return RELOCK_OK;
    r = relock_pubsub_new(topology->io.loop, node->server, topology->io.ping_ms, &new);
    if (r < 0)
        return r;
    relock_pubsub_join(new, topology, node);
    relock_pubsub_share(new, topology->reading);
    atomic_store(&node->pubsub, new);
    return RELOCK_OK;
}

static void free_pubsub(struct relock_topology *topology, struct relock_node *node)
{
    struct relock_pubsub *pubsub;

    relock_reading_lock(topology->reading);
    pubsub = atomic_exchange(&node->pubsub, NULL);
    relock_reading_unlock(topology->reading);
    (void)relock_pubsub_free(pubsub);
}

static int make_pipeline(struct relock_topology *topology, struct relock_node *node,
                         struct relock_pipeline **pipeline)
{
    const struct relock_topology_io *io = &topology->io;
    int r;

    if (*pipeline)
        return RELOCK_OK;
    r = relock_pipeline_new(io->loop, node->server, io->answer_ms, io->up, io->arg, pipeline);
    if (r == RELOCK_OK)
        relock_pipeline_join(*pipeline, topology, node);
    if (r == RELOCK_OK)
        relock_lanes_serve(node->lanes, io->loop);
    return r;
}

static int open_node(struct relock_topology *topology, struct relock_node *node)
{
    int r = make_pubsub(topology, node);

    if (r == RELOCK_OK)
        r = make_pipeline(topology, node, &node->pipeline);
    if (r == RELOCK_OK && topology->io.confirms)
        r = make_pipeline(topology, node, &node->confirmer);
    if (r < 0)
        return r;
    relock_pipeline_open(node->pipeline);
    if (node->confirmer)
        relock_pipeline_open(node->confirmer);
    return RELOCK_OK;
}

int relock_node_io_start(struct relock_topology *topology, const struct relock_topology_io *io)
{
    struct relock_node *first = atomic_load(&topology->nodes);

    topology->io = *io;
    topology->io.open = open_node;
    topology->io.hear = make_pubsub;
    topology->reading = relock_reading_new(io->loop, io->scope);
    if (!topology->reading)
        return relock_status_result(errno);
    return first ? open_node(topology, first) : RELOCK_OK;
}

void relock_node_io_stop(struct relock_topology *topology)
{
    struct relock_node *at = topology ? atomic_load(&topology->nodes) : NULL;

    for (; at; at = at->next) {
        relock_tracking_free(at);
        free_pubsub(topology, at);
        at->pipeline = relock_pipeline_free(at->pipeline);
        at->confirmer = relock_pipeline_free(at->confirmer);
        relock_lanes_end_posted(at->lanes);
    }
    if (topology)
        topology->reading = relock_reading_free(topology->reading);
}

struct relock_node *relock_node_io_open(struct relock_topology *topology, struct relock_text key)
{
    struct relock_node *node = relock_topology_find(topology, key);

    return node && open_node(topology, node) == RELOCK_OK ? node : NULL;
}

struct relock_pipeline *relock_node_io_pipeline(struct relock_topology *topology,
                                                struct relock_text key)
{
    struct relock_node *node = relock_node_io_open(topology, key);

    return node ? node->pipeline : NULL;
}

struct relock_pubsub *relock_node_io_pubsub(struct relock_topology *topology,
                                            struct relock_text key)
{
    struct relock_node *node = relock_node_io_open(topology, key);

    return node ? node->pubsub : NULL;
}

/* A node that holds no keys any more costs no descriptors. */
static void close_unused(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next) {
        if (relock_topology_uses(topology, at))
            continue;
        relock_lanes_close_idle(at->lanes);
        if (at->pipeline && relock_pipeline_is_idle(at->pipeline))
            relock_tracking_end(at);
        if (at->pipeline)
            relock_pipeline_close_idle(at->pipeline);
        if (at->confirmer)
            relock_pipeline_close_idle(at->confirmer);
        if (at->pubsub)
            relock_pubsub_close_idle(at->pubsub);
    }
}

static void renew(const struct relock_node *node, const struct relock_peer *peer, const char *what)
{
    if (node->pipeline)
        relock_pipeline_renew(node->pipeline, peer, what);
    if (node->confirmer)
        relock_pipeline_renew(node->confirmer, peer, what);
    if (node->pubsub)
        relock_async_conn_renew(&node->pubsub->conn, peer, what);
}

static bool has_connection(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pipeline && relock_pipeline_is_open(at->pipeline) &&
            relock_topology_uses(topology, at))
            return true;
    return false;
}

/* As at the start: a client without locks is connected, too. If there is no memory for that, the
 * next map or the next lock connects it. */
static void keep_connection(struct relock_topology *topology)
{
    struct relock_node *at = atomic_load(&topology->nodes);

    if (has_connection(topology))
        return;
    while (at && !relock_topology_uses(topology, at))
        at = at->next;
    if (at)
        (void)open_node(topology, at);
}

static void follow(struct relock_topology *topology)
{
    atomic_store(&topology->has_changed, false);
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pubsub)
            relock_pubsub_follow(at->pubsub);
    close_unused(topology);
    keep_connection(topology);
    topology->io.up(topology->io.arg);
}

/* ---- nodes that are gone ------------------------------------------------------------------- */

/* Nothing of this thread is on its way there. A stranded channel waits for the next map. */
static bool is_idle(const struct relock_node *node)
{
    return (!node->pipeline || relock_pipeline_is_idle(node->pipeline)) &&
           (!node->confirmer || relock_pipeline_is_idle(node->confirmer)) &&
           (!node->pubsub || relock_pubsub_is_idle(node->pubsub));
}

/* A slot that is on its way to the node has its commands sent there, one by one, and the node has
 * no slot. So it is kept as long as it is used between two looks. Returns whether it was freed. */
static bool free_unused(struct relock_topology *topology, struct relock_node *node)
{
    if (atomic_exchange(&node->was_used, false) || !is_idle(node))
        return false;
    relock_lanes_close_idle(node->lanes);
    relock_tracking_end(node);
    free_pubsub(topology, node);
    node->pipeline = relock_pipeline_free(node->pipeline);
    node->confirmer = relock_pipeline_free(node->confirmer);
    return relock_topology_remove(topology, node);
}

/* Nobody tells when the last reference to a node has gone. */
static uint64_t look(struct relock_topology *topology)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_node *at, *next;

    if (now_ms < topology->look_ms)
        return topology->has_unused ? topology->look_ms : RELOCK_NEVER;
    topology->has_unused = false;
    for (at = atomic_load(&topology->nodes); at; at = next) {
        next = at->next;
        if (!relock_topology_uses(topology, at))
            topology->has_unused |= !free_unused(topology, at);
    }
    topology->look_ms = now_ms + LOOK_MS;
    return topology->has_unused ? topology->look_ms : RELOCK_NEVER;
}

uint64_t relock_node_io_follow(struct relock_topology *topology)
{
    if (atomic_load(&topology->has_new_login)) {
        atomic_store(&topology->has_new_login, false);
        for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
            renew(at, NULL, "the password was changed");
    }
    if (atomic_load(&topology->has_changed))
        follow(topology);
    return topology->is_cluster ? look(topology) : RELOCK_NEVER;
}

void relock_node_io_read(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        relock_lanes_read(at->lanes);
}

uint64_t relock_node_io_track(struct relock_topology *topology)
{
    uint64_t next_ms = RELOCK_NEVER;

    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pubsub && at->pipeline)
            next_ms = relock_clock_sooner(next_ms, relock_tracking_step(topology, at));
    return next_ms;
}

void relock_node_io_share(struct relock_topology *topology)
{
    struct relock_loan loan;

    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pipeline && relock_lanes_want(at->lanes) &&
            (relock_pipeline_lend(at->pipeline, &loan) ||
             (at->confirmer && relock_pipeline_lend(at->confirmer, &loan))))
            relock_lanes_give(at->lanes, &loan);
}

void relock_node_io_begin_turn(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pipeline)
            relock_pipeline_begin_turn(at->pipeline);
}

bool relock_node_io_is_in_turn(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pipeline && relock_pipeline_is_in_turn(at->pipeline))
            return true;
    return false;
}

void relock_node_io_flush(struct relock_topology *topology)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next) {
        if (at->pipeline)
            relock_pipeline_flush(at->pipeline);
        if (at->confirmer)
            relock_pipeline_flush(at->confirmer);
    }
}

void relock_node_io_attend(struct relock_topology *topology, bool is_needed)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next)
        if (at->pubsub)
            relock_pubsub_attend(at->pubsub, is_needed);
}

void relock_node_io_wait(struct relock_topology *topology, struct relock_text key,
                         struct relock_gate *gate, uint64_t deadline_ms)
{
    struct relock_node *node = relock_topology_take(topology, key);

    relock_direct_wait(topology->reading, node ? &node->pubsub : NULL, gate, deadline_ms);
    relock_topology_drop(topology, node);
}

void relock_node_io_cut(struct relock_topology *topology, const struct relock_peer *peer)
{
    for (struct relock_node *at = atomic_load(&topology->nodes); at; at = at->next) {
        relock_lanes_cut(at->lanes, peer);
        renew(at, peer, "a sentinel says that another server is the master now");
    }
}
