#include "support/cluster.h"

#include "support/cluster_view.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_TIMEOUT_MS 1000
#define MEETING_MS 5000
#define SLOTS_AT_ONCE 1000

void cluster_must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "cluster: %s\n", what);
    exit(EXIT_FAILURE);
}

bool cluster_is_up(const struct cluster *cluster, size_t i)
{
    return cluster->node[i].server->pid > 0 && !cluster->node[i].server->paused;
}

int cluster_port(const struct cluster *cluster, size_t i)
{
    const struct server *server = cluster->node[i].server;

    return server->tls_port > 0 ? server->tls_port : server->port;
}

static void print_views(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++)
        if (cluster_is_up(cluster, i))
            fprintf(stderr, "node %zu:\n%s", i,
                    probe_text(cluster->node[i].probe, "CLUSTER NODES"));
}

/* What `i` does not call its own although node `k` does. */
static void give_back(struct cluster *cluster, size_t i, size_t k)
{
    struct cluster_view own, other;

    if (!cluster_view_of(cluster, i, &own) || !cluster_view_of(cluster, k, &other))
        return;
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        if (own.owner[slot] < 0 && other.owner[slot] == (signed char)i)
            (void)probe_text(cluster->node[i].probe, "CLUSTER ADDSLOTS %d", slot);
}

/* A message of the owner before, which was on its way while a slot moved, may take the slot from
 * its new owner. Then all others know the owner, for ever, but not the owner itself. */
static void give_all_back(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++)
        for (size_t k = 0; k < cluster->n; k++)
            if (i != k && cluster_is_up(cluster, i) && cluster_is_up(cluster, k))
                give_back(cluster, i, k);
}

void cluster_await(struct cluster *cluster)
{
    bool is_settled = wait_until(cluster_is_settled, cluster, CLUSTER_FAILOVER_MS);

    if (!is_settled) {
        print_views(cluster);
        give_all_back(cluster);
        is_settled = wait_until(cluster_is_settled, cluster, CLUSTER_FAILOVER_MS);
    }
    cluster_must(is_settled, "the nodes do not agree");
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* With TLS the nodes have another port for each other, which no client without TLS is told. */
static void add_proxy(struct cluster_node *node)
{
    const char **args = node->server->options.args;
    size_t n = 0;

    node->proxy = proxy_start(node->server, NULL);
    snprintf(node->announced[0], sizeof(node->announced[0]), "%s",
             strrchr(proxy_url(node->proxy), ':') + 1);
    snprintf(node->announced[1], sizeof(node->announced[1]), "%d", node->server->tls_port);
    while (args[n])
        n++;
    args[n] = "--cluster-announce-port";
    args[n + 1] = node->announced[0];
    args[n + 2] = "--cluster-announce-tls-port";
    args[n + 3] = node->announced[1];
}

/* False if there is no program for it. */
static bool launch_node(struct cluster *cluster)
{
    struct cluster_node *node = &cluster->node[cluster->n];
    struct server_options options = {
        .tcp = true,
        .cluster = true,
        .tls = cluster->options.tls,
        .keeps_data = cluster->options.keeps_data,
        .certs = cluster->n > 0 ? cluster->node[0].server->certs : NULL,
        .args = {"--cluster-node-timeout", cluster->node_timeout, "--repl-ping-replica-period", "1",
                 "--cluster-replica-validity-factor", "0"},
    };

    cluster_must(cluster->n < CLUSTER_MAX, "too many nodes");
    node->server = server_new(&options);
    if (!node->server)
        return false;
    if (cluster->options.proxies)
        add_proxy(node);
    server_launch(node->server);
    node->probe = probe_open(node->server->socket);
    cluster->n++;
    return true;
}

/* Different epochs from the start, as redis-cli does, spare the nodes a conflict. */
static void await_node(struct cluster *cluster, size_t i)
{
    struct cluster_node *node = &cluster->node[i];

    server_await(node->server);
    snprintf(node->id, sizeof(node->id), "%s", probe_text(node->probe, "CLUSTER MYID"));
    cluster_must(probe_int(node->probe, "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1) == 0,
                 "no epoch");
}

/* Each meets each, so none has to wait for rumours. */
static void meet_before(struct cluster *cluster, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (cluster_is_up(cluster, k))
            cluster_must(probe_int(cluster->node[i].probe, "CLUSTER MEET 127.0.0.1 %d",
                                   cluster_port(cluster, k)) == 0,
                         "cannot meet");
}

/* A node forgets another one that does not answer within the timeout of nodes. */
static void await_meeting(struct cluster *cluster)
{
    uint64_t until_ms = deadline_in(2 * CLUSTER_FAILOVER_MS);

    while (!wait_until(cluster_knows_itself, cluster, MEETING_MS)) {
        if (now_ms() >= until_ms)
            print_views(cluster);
        cluster_must(now_ms() < until_ms, "the nodes do not meet");
        for (size_t i = 0; i < cluster->n; i++)
            if (cluster_is_up(cluster, i))
                meet_before(cluster, i);
    }
}

static void replicate(struct cluster *cluster, size_t i, size_t master)
{
    cluster_must(
        probe_int(cluster->node[i].probe, "CLUSTER REPLICATE %s", cluster->node[master].id) == 0,
        "cannot become a replica");
}

/* Redis 6.2 has no ADDSLOTSRANGE. */
static void add_slots(struct probe *probe, int first, int end)
{
    while (first < end) {
        int last = first + SLOTS_AT_ONCE < end ? first + SLOTS_AT_ONCE : end;
        char command[32 + 6 * SLOTS_AT_ONCE] = "CLUSTER ADDSLOTS";
        size_t length = strlen(command);

        for (; first < last; first++)
            length += (size_t)snprintf(command + length, sizeof(command) - length, " %d", first);
        cluster_must(probe_int(probe, command) == 0, "cannot add slots");
    }
}

/* ---- start and stop ------------------------------------------------------------------------ */

static void join(struct cluster *cluster)
{
    size_t masters = cluster->options.masters;

    for (size_t i = 0; i < cluster->n; i++) {
        await_node(cluster, i);
        meet_before(cluster, i);
    }
    for (size_t i = 0; i < masters; i++)
        add_slots(cluster->node[i].probe, (int)(i * CLUSTER_SLOTS / masters),
                  (int)((i + 1) * CLUSTER_SLOTS / masters));
    await_meeting(cluster);
    for (size_t i = masters; i < cluster->n; i++)
        replicate(cluster, i, i % masters);
    cluster_await(cluster);
}

static void add_url(char *url, size_t size, const char *scheme, int port)
{
    size_t length = strlen(url);

    if (length == 0)
        snprintf(url, size, "%s127.0.0.1:%d", scheme, port);
    else
        snprintf(url + length, size - length, ",127.0.0.1:%d", port);
}

static void make_urls(struct cluster *cluster)
{
    for (size_t i = 0; i < 3 && i < cluster->n; i++) {
        const struct server *server = cluster->node[i].server;

        add_url(cluster->url, sizeof(cluster->url), "redis+cluster://",
                cluster->node[i].proxy ? atoi(cluster->node[i].announced[0]) : server->port);
        if (server->tls_port > 0)
            add_url(cluster->tls_url, sizeof(cluster->tls_url), "rediss+cluster://",
                    server->tls_port);
    }
    cluster->ca_file = cluster->node[0].server->ca_file;
}

static struct cluster *make(const struct cluster_options *options)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    cluster_must(cluster, "out of memory");
    cluster->options = options ? *options : (struct cluster_options){.masters = 3, .replicas = 1};
    if (cluster->options.node_timeout_ms == 0)
        cluster->options.node_timeout_ms = slow_ms(NODE_TIMEOUT_MS);
    snprintf(cluster->node_timeout, sizeof(cluster->node_timeout), "%llu",
             (unsigned long long)cluster->options.node_timeout_ms);
    return cluster;
}

struct cluster *cluster_start_on(struct server *server)
{
    struct cluster *cluster = make(&(struct cluster_options){.masters = 1});

    cluster->node[0] = (struct cluster_node){.server = server, .probe = probe_open(server->socket)};
    cluster->n = 1;
    make_urls(cluster);
    join(cluster);
    return cluster;
}

struct cluster *cluster_start(const struct cluster_options *options)
{
    struct cluster *cluster = make(options);
    size_t n = cluster->options.masters * (1 + cluster->options.replicas);

    for (size_t i = 0; i < n; i++)
        if (!launch_node(cluster))
            return cluster_stop(cluster);
    make_urls(cluster);
    join(cluster);
    return cluster;
}

/* The others first: they have the certificates of the first. */
struct cluster *cluster_stop(struct cluster *cluster)
{
    if (!cluster)
        return NULL;

    for (size_t i = cluster->n; i-- > 0;) {
        probe_close(cluster->node[i].probe);
        proxy_stop(cluster->node[i].proxy);
        server_stop(cluster->node[i].server);
    }
    free(cluster);
    return NULL;
}

static void abandon_moves(struct cluster *cluster)
{
    struct cluster_view view;

    for (size_t i = 0; i < cluster->n; i++) {
        cluster_must(cluster_view_of(cluster, i, &view), "a node does not answer");
        for (size_t k = 0; k < view.n_open; k++)
            cluster_must(
                probe_int(cluster->node[i].probe, "CLUSTER SETSLOT %d STABLE", view.open[k]) == 0,
                "cannot abandon a move");
    }
}

void cluster_mend(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++) {
        if (cluster->node[i].server->pid == 0)
            server_launch(cluster->node[i].server);
        else
            server_resume(cluster->node[i].server);
    }
    for (size_t i = 0; i < cluster->n; i++)
        server_await(cluster->node[i].server);
    cluster_await(cluster);
    abandon_moves(cluster);
}

/* ---- roles --------------------------------------------------------------------------------- */

struct takeover {
    struct cluster *cluster;
    size_t new;
};

static bool is_master(void *arg)
{
    const struct takeover *takeover = arg;
    struct cluster_view view;

    return cluster_view_of(takeover->cluster, takeover->new, &view) &&
           view.master[takeover->new] == (signed char)takeover->new;
}

size_t cluster_fail_over(struct cluster *cluster, size_t master)
{
    struct takeover takeover = {cluster, cluster_replica(cluster, master)};

    cluster_must(probe_int(cluster->node[takeover.new].probe, "CLUSTER FAILOVER") == 0,
                 "cannot fail over");
    cluster_must(wait_until(is_master, &takeover, CLUSTER_FAILOVER_MS), "no replica takes over");
    cluster_await(cluster);
    return takeover.new;
}

/* ---- more and fewer nodes ------------------------------------------------------------------ */

size_t cluster_add(struct cluster *cluster)
{
    size_t i = cluster->n;

    cluster_must(launch_node(cluster), "cannot add a node");
    await_node(cluster, i);
    meet_before(cluster, i);
    await_meeting(cluster);
    cluster_await(cluster);
    return i;
}

size_t cluster_add_replica(struct cluster *cluster, size_t master)
{
    size_t i = cluster_add(cluster);

    replicate(cluster, i, master);
    cluster_await(cluster);
    return i;
}

void cluster_remove(struct cluster *cluster, size_t i)
{
    struct cluster_node node = cluster->node[i];

    cluster_must(i > 0 && !node.proxy, "the first node and those behind proxies stay");
    server_kill(node.server);
    for (size_t k = 0; k < cluster->n; k++)
        if (cluster_is_up(cluster, k))
            cluster_must(probe_int(cluster->node[k].probe, "CLUSTER FORGET %s", node.id) == 0,
                         "cannot forget a node");
    cluster->n--;
    for (; i < cluster->n; i++)
        cluster->node[i] = cluster->node[i + 1];
    probe_close(node.probe);
    server_stop(node.server);
    cluster_await(cluster);
}
