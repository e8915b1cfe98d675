/*
 * The map is an array of atomic pointers, so a call finds the node of its key without a mutex.
 * Three threads change it: a caller or the I/O thread for the one slot of a redirection, and the
 * thread that asks for the whole map. The last change wins. If it was the wrong one, the next
 * redirection corrects it.
 */
#include "redis/cluster.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/status.h"
#include "redis/loop.h"
#include "redis/members.h"
#include "redis/reply.h"
#include "redis/slot_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two questions for the map while it is wanted all the time. */
#define MIN_PAUSE_MS 10
#define MAX_PAUSE_MS 500

/* After so long without a question, the next one follows at once. */
#define CALM_MS 2000

/* The least time for each of several nodes to answer. */
#define MIN_ANSWER_MS 50

struct cluster {
    struct relock_topology topology;
    const struct relock_server *server; /* of the url */
    struct relock_server seeds[RELOCK_URL_HOSTS_MAX];
    unsigned n_seeds;

    struct relock_members members;
    _Atomic(struct relock_node *) hint; /* the node that a redirection has named last */

    struct relock_gate wanted; /* opened when the map is out of date */
    struct relock_gate stop;
    atomic_bool stops;
    bool has_thread;
    pthread_t thread;

    /* of the thread; of relock_topology_connect before it has started */
    struct relock_slot_query query;
    bool is_known;     /* an answer has come */
    unsigned n_rounds; /* of questions */
    uint64_t asked_ms; /* when it last asked */
    uint64_t pause_ms; /* the last pause */
};

static struct cluster *cluster_of(struct relock_topology *topology)
{
    return (struct cluster *)topology;
}

/* ---- the map ------------------------------------------------------------------------------- */

/* A node that does not know its address is where it was asked. */
static struct relock_node *node_at(struct cluster *cluster, const struct relock_server *asked,
                                   const struct relock_address *address)
{
    struct relock_address full = *address;

    if (*full.host == '\0')
        (void)snprintf(full.host, sizeof(full.host), "%s", asked->url.host);
    return relock_members_at(&cluster->members, &full);
}

/* Slots that the map lacks keep their node, which tells more when it is asked. */
static int take_map(struct cluster *cluster, const struct redisReply *map)
{
    const struct relock_server *asked = &cluster->query.server;
    bool has_slots = false;

    for (size_t i = 0; relock_reply_at(map, i); i++) {
        struct relock_slot_range range;
        struct relock_node *node;

        if (!relock_slot_map_read(map, i, &range))
            continue;
        node = node_at(cluster, asked, &range.master);
        if (!node) {
            (void)snprintf(cluster->query.why, sizeof(cluster->query.why),
                           "%s: out of memory for a node", asked->label);
            return RELOCK_E_NOMEM;
        }
        (void)relock_members_assign(&cluster->members, range.first, range.last, node);
        has_slots = true;
    }
    if (has_slots)
        return RELOCK_OK;
    (void)snprintf(cluster->query.why, sizeof(cluster->query.why),
                   "%s: CLUSTER SLOTS names no master: no node has slots yet", asked->label);
    return RELOCK_E_CONN;
}

/* Only once, and before any node is known: all processes that use a lock must agree, and so must
 * the scripts and the subscriptions of this one. */
static void choose_pubsub(struct cluster *cluster, bool is_sharded)
{
    enum relock_url_pubsub wanted = cluster->server->url.pubsub;

    if (cluster->is_known)
        return;
    cluster->is_known = true;
    atomic_store(&cluster->topology.is_sharded, wanted == RELOCK_URL_PUBSUB_AUTO
                                                    ? is_sharded
                                                    : wanted == RELOCK_URL_PUBSUB_SHARDED);
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Some nodes in a ring. */
struct ring {
    struct relock_node *next;
    unsigned n_left;
};

/* The order in which they are asked. */
struct turn {
    struct relock_node *hint;
    struct ring trusted;
    unsigned seed; /* the next of the seeds */
    struct ring doubted;
};

static struct relock_node *after(struct cluster *cluster, const struct relock_node *node)
{
    return node->next ? node->next : atomic_load(&cluster->topology.nodes);
}

/* All nodes, beginning with another one in each round: one that is cut off from the others answers
 * with a map that is out of date. */
static struct ring ring_of(struct cluster *cluster)
{
    struct ring ring = {.next = atomic_load(&cluster->topology.nodes)};

    for (const struct relock_node *at = ring.next; at; at = at->next)
        ring.n_left++;
    for (unsigned i = 0; ring.n_left > 0 && i < cluster->n_rounds % ring.n_left; i++)
        ring.next = after(cluster, ring.next);
    return ring;
}

static const struct relock_server *next_node(struct cluster *cluster, struct ring *ring,
                                             bool is_doubted)
{
    while (ring->n_left > 0) {
        const struct relock_node *node = ring->next;

        ring->n_left--;
        ring->next = after(cluster, node);
        if (atomic_load(&node->is_doubted) == is_doubted &&
            relock_members_has_slot(&cluster->members, node))
            return node->server;
    }
    return NULL;
}

static const struct relock_server *next_server(struct cluster *cluster, struct turn *turn)
{
    struct relock_node *hint = turn->hint;
    const struct relock_server *server;

    turn->hint = NULL;
    if (hint)
        return hint->server;
    server = next_node(cluster, &turn->trusted, false);
    if (!server && turn->seed < cluster->n_seeds)
        return &cluster->seeds[turn->seed++];
    return server ? server : next_node(cluster, &turn->doubted, true);
}

static int ask(struct cluster *cluster, const struct relock_server *server)
{
    struct redisReply *map = NULL;
    bool is_sharded = false;
    int r = relock_slot_query_ask(&cluster->query, server, &map, &is_sharded);

    if (r != RELOCK_OK)
        return r;
    choose_pubsub(cluster, is_sharded);
    r = take_map(cluster, map);
    relock_reply_free(map);
    return r;
}

/* An attempt that may succeed later must not hide that another node refuses for good. */
static bool is_worse(int result, int than)
{
    return than == RELOCK_E_CONN && result != RELOCK_E_CONN;
}

/* Asks one after the other until one has answered. The cause of a failure is in `why`. */
static int ask_all(struct cluster *cluster, uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct turn turn = {
        .hint = atomic_exchange(&cluster->hint, NULL),
        .trusted = ring_of(cluster),
        .doubted = ring_of(cluster),
    };
    const struct relock_server *server;
    int worst = RELOCK_E_CONN;

    cluster->n_rounds++;
    *why = '\0';
    while ((server = next_server(cluster, &turn)) && !atomic_load(&cluster->stops)) {
        uint64_t now_ms = relock_clock_now_ms();
        uint64_t n_left = cluster->n_seeds - turn.seed + 1;
        uint64_t limit_ms = relock_clock_left(now_ms, deadline_ms) / n_left;
        int r;

        if (limit_ms > cluster->server->connect_timeout_ms)
            limit_ms = cluster->server->connect_timeout_ms;
        limit_ms = limit_ms > MIN_ANSWER_MS ? limit_ms : MIN_ANSWER_MS;
        cluster->query.question.deadline_ms = relock_clock_after(now_ms, limit_ms);
        r = ask(cluster, server);
        if (r == RELOCK_OK)
            return r;
        if (*why == '\0' || is_worse(r, worst)) {
            (void)snprintf(why, RELOCK_WHY_MAX, "%s", cluster->query.why);
            worst = r;
        }
    }
    return worst;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void want_map(struct cluster *cluster)
{
    relock_gate_open(&cluster->wanted);
}

static void tell_io(struct cluster *cluster)
{
    atomic_store(&cluster->topology.has_changed, true);
    if (cluster->topology.io.loop)
        relock_loop_wake(cluster->topology.io.loop);
}

/* Returns whether to stop. */
static bool pause_before_question(struct cluster *cluster)
{
    uint64_t now_ms = relock_clock_now_ms();

    if (now_ms - cluster->asked_ms > CALM_MS)
        cluster->pause_ms = 0;
    else
        cluster->pause_ms = relock_backoff_ms(cluster->pause_ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
    return cluster->pause_ms > 0 &&
           relock_gate_wait(&cluster->stop, relock_clock_after(now_ms, cluster->pause_ms));
}

static void *run(void *arg)
{
    struct cluster *cluster = arg;
    char why[RELOCK_WHY_MAX];

    for (;;) {
        (void)relock_gate_wait(&cluster->wanted, RELOCK_NEVER);
        if (atomic_load(&cluster->stops) || pause_before_question(cluster))
            return NULL;
        cluster->asked_ms = relock_clock_now_ms();
        if (ask_all(cluster, RELOCK_NEVER, why) == RELOCK_OK) {
            tell_io(cluster);
        } else if (!atomic_load(&cluster->stops)) {
            relock_log_write(cluster->server->log, RELOCK_LOG_WARNING,
                             "%s: no node has told the map of the slots: %s; still trying",
                             cluster->server->label, why);
            want_map(cluster);
        }
    }
}

/* ---- operations ---------------------------------------------------------------------------- */

static struct relock_node *find(struct relock_topology *topology, struct relock_text key)
{
    struct cluster *cluster = cluster_of(topology);
    struct relock_node *node = relock_members_of_slot(&cluster->members, relock_slot_of(key));

    if (!node)
        want_map(cluster);
    return node;
}

static struct relock_node *redirect(struct relock_topology *topology,
                                    const struct relock_node *from, const char *error, bool *asks)
{
    struct cluster *cluster = cluster_of(topology);
    struct relock_redirect redirect;
    struct relock_node *node = NULL;

    if (relock_slot_map_redirect(error, &redirect))
        node = node_at(cluster, from->server, &redirect.node);
    *asks = node && redirect.kind == RELOCK_REDIRECT_ASK;
    if (node && !*asks) {
        (void)relock_members_assign(&cluster->members, redirect.slot, redirect.slot, node);
        atomic_store(&cluster->hint, node);
    }
    if (!*asks)
        want_map(cluster);
    return node;
}

static void distrust(struct relock_topology *topology, struct relock_node *node)
{
    (void)node;
    want_map(cluster_of(topology));
}

static bool uses(struct relock_topology *topology, const struct relock_node *node)
{
    return relock_members_has_slot(&cluster_of(topology)->members, node);
}

static int connect_cluster(struct relock_topology *topology, uint64_t deadline_ms,
                           char why[RELOCK_WHY_MAX])
{
    struct cluster *cluster = cluster_of(topology);
    int r = ask_all(cluster, deadline_ms, why);

    cluster->asked_ms = relock_clock_now_ms();
    if (relock_thread_start(&cluster->thread, "relock:cluster", run, cluster) < 0) {
        (void)snprintf(why, RELOCK_WHY_MAX, "%s: no thread could be started to follow the slots",
                       cluster->server->label);
        return RELOCK_E_NOMEM;
    }
    cluster->has_thread = true;
    return r;
}

static void stop(struct relock_topology *topology)
{
    struct cluster *cluster = cluster_of(topology);

    if (!cluster->has_thread)
        return;
    atomic_store(&cluster->stops, true);
    relock_gate_open(&cluster->stop);
    relock_gate_open(&cluster->wanted);
    (void)pthread_join(cluster->thread, NULL);
    cluster->has_thread = false;
}

static void abandon(struct relock_topology *topology)
{
    relock_slot_query_abandon(&cluster_of(topology)->query);
}

static void free_cluster(struct relock_topology *topology)
{
    struct cluster *cluster = cluster_of(topology);

    relock_members_deinit(&cluster->members);
    for (unsigned i = 0; i < cluster->n_seeds; i++)
        relock_server_deinit_node(&cluster->seeds[i]);
    free(cluster);
}

static const struct relock_topology_ops cluster_ops = {
    .find = find,
    .free = free_cluster,
    .connect = connect_cluster,
    .stop = stop,
    .abandon = abandon,
    .redirect = redirect,
    .distrust = distrust,
    .uses = uses,
};

int relock_cluster_new(const struct relock_server *server, unsigned n_lanes,
                       struct relock_topology **topology)
{
    struct cluster *new = calloc(1, sizeof(*new));
    int r = RELOCK_OK;

    if (!new)
        return RELOCK_E_NOMEM;
    new->topology.ops = &cluster_ops;
    new->topology.is_cluster = true;
    new->server = server;
    new->query.question.stops = &new->stops;
    relock_gate_init(&new->wanted);
    relock_gate_init(&new->stop);
    relock_members_init(&new->members, server, n_lanes, &new->topology.nodes);
    while (r == RELOCK_OK && new->n_seeds < server->url.n_hosts) {
        const struct relock_url_host *host = &server->url.hosts[new->n_seeds];

        r = relock_server_init_node(&new->seeds[new->n_seeds], server, host->name, host->port);
        new->n_seeds += r == RELOCK_OK;
    }
    if (r == RELOCK_OK)
        *topology = &new->topology;
    else
        free_cluster(&new->topology);
    return r;
}
