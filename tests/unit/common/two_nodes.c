#include "unit/common/two_nodes.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/deployment/slot_map.h"
#include "redis/io/io.h"
#include "redis/server/loop.h"

#include <string.h>

struct two_nodes cluster;

static const struct relock_log no_log = {.level = 0};

static struct relock_node *find(struct relock_topology *topology, struct relock_text key)
{
    (void)topology;
    (void)key;
    return atomic_load(&cluster.owner);
}

static struct relock_node *redirect(struct relock_topology *topology,
                                    const struct relock_node *from, const char *error, bool *asks)
{
    struct relock_redirect to;
    struct relock_node *node;

    (void)topology;
    (void)from;
    atomic_fetch_add(&cluster.n_redirects, 1);
    if (!relock_slot_map_redirect(error, &to))
        return NULL;
    node = &cluster.node[strcmp(to.node.host, "b") == 0];
    *asks = to.kind == RELOCK_REDIRECT_ASK;
    if (!*asks)
        atomic_store(&cluster.owner, node);
    return node;
}

static void recheck(struct relock_topology *topology, bool is_urgent)
{
    (void)topology;
    atomic_fetch_add(is_urgent ? &cluster.n_distrusts : &cluster.n_rechecks, 1);
}

static bool uses(struct relock_topology *topology, const struct relock_node *node)
{
    (void)topology;
    return !atomic_load(&cluster.is_empty[node - cluster.node]);
}

static const struct relock_topology_ops ops = {
    .find = find,
    .redirect = redirect,
    .recheck = recheck,
    .uses = uses,
};

static void make_node(unsigned i)
{
    struct relock_options options = {
        .connect_timeout_ms = slow_ms(SOON_MS),
        .command_timeout_ms = slow_ms(SOON_MS),
    };

    cluster.script[i] = script_server_start();
    options.url = script_server_url(cluster.script[i]);
    assert_int_equal(relock_server_init(&cluster.server[i], &options, "id", &no_log), RELOCK_OK);
    assert_int_equal(relock_node_init(&cluster.node[i], &cluster.server[i], 1), RELOCK_OK);
    cluster.server[i].node = &cluster.node[i];
    cluster.server[i].node_refs = &cluster.node[i].refs;
}

int two_nodes_begin(void **state)
{
    (void)state;
    memset(&cluster, 0, sizeof(cluster));
    cluster.topology.ops = &ops;
    cluster.topology.is_cluster = true;
    make_node(0);
    make_node(1);
    cluster.node[0].next = &cluster.node[1];
    atomic_init(&cluster.topology.nodes, &cluster.node[0]);
    atomic_init(&cluster.owner, &cluster.node[0]);
    return 0;
}

int two_nodes_end(void **state)
{
    bool played = true;

    (void)state;
    if (cluster.loop) {
        relock_loop_stop(cluster.loop);
        relock_node_io_stop(&cluster.topology);
        (void)relock_loop_free(cluster.loop);
    }
    for (unsigned i = 0; i < 2; i++) {
        played &= script_played(cluster.script[i]);
        relock_node_deinit(&cluster.node[i]);
        relock_server_deinit(&cluster.server[i]);
        (void)script_server_end(cluster.script[i]);
    }
    return played ? 0 : -1;
}

void connects(unsigned i)
{
    script_welcome(cluster.script[i], i + 1);
}

uint64_t soon(void)
{
    return relock_clock_in(slow_ms(SOON_MS));
}
