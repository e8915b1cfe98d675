/*
 * The map is an array of atomic pointers, so a call finds the node of its key without a mutex.
 * Three threads change it: a caller or the I/O thread for the one slot of a redirection, and the
 * thread that asks for the whole map. The last change wins. If it was the wrong one, the next
 * redirection corrects it.
 *
 * A MOVED has named the node of its slot, so the whole map is not urgent then, and one question
 * serves many redirections. Nor is it after a command without an answer, as its node may only be
 * slow. It is urgent when a node cannot be reached or a slot has no node.
 */
#include "redis/deployment/topology.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "redis/deployment/private.h"
#include "redis/deployment/slot_map.h"
#include "redis/server/loop.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- sharded channels ---------------------------------------------------------------------- */

/* By the url of the cluster, or else by the answer of its first node. Logs the choice. */
static bool sharding_choose(const struct relock_server *cluster,
                            const struct relock_slot_query *answered)
{
    enum relock_url_pubsub wanted = cluster->url.pubsub;
    bool is_sharded = wanted == RELOCK_URL_PUBSUB_SHARDED;
    const char *why = "the url says so";

    if (wanted == RELOCK_URL_PUBSUB_AUTO) {
        is_sharded = *answered->not_sharded == '\0';
        why = is_sharded ? "the cluster has them" : answered->not_sharded;
    }
    relock_log_write(cluster->log, RELOCK_LOG_INFO,
                     "%s: waiters use %s channels (%s); programs that use the other form wake them "
                     "late, so set ?pubsub= in all urls if they differ",
                     cluster->label, is_sharded ? "sharded" : "plain", why);
    return is_sharded;
}

/* ---- state --------------------------------------------------------------------------------- */

/* Between two questions for the map while it is urgent all the time. */
#define MIN_PAUSE_MS 100
#define MAX_PAUSE_MS 500

/* Between two questions while the map is only wanted. */
#define WANTED_PAUSE_MS 1000

/* After so long without a question, the pauses begin anew. */
#define CALM_MS 2000

/* How much the whole map is needed. It rises until the thread asks for the map. */
enum need {
    NOT_NEEDED,
    WANTED, /* after a MOVED, or a command without an answer */
    URGENT, /* a node cannot be reached, or a slot has none */
};

struct cluster {
    struct relock_topology topology;
    const struct relock_server *server; /* of the url */
    struct relock_members members;

    atomic_int need; /* an enum need */
    atomic_bool stops;
    struct relock_gate changed; /* opened after a change of these */
    bool has_thread;
    pthread_t thread;

    /* of the thread; of relock_topology_connect before it has started */
    struct relock_slot_survey survey;
    bool is_known;     /* an answer has come */
    bool has_failed;   /* the last question, and the log says so */
    uint64_t asked_ms; /* when the last question ended */
    uint64_t pause_ms; /* until it may ask again */
};

static struct cluster *cluster_of(struct relock_topology *topology)
{
    return (struct cluster *)topology;
}

/* ---- taking a map -------------------------------------------------------------------------- */

static int fail(struct relock_slot_query *query, int result, const char *what)
{
    (void)snprintf(query->why, sizeof(query->why), "%s: %s", query->server.label, what);
    return result;
}

/* Slots that the map lacks keep their node, which tells more when it is asked. */
static int take_map(struct cluster *cluster, struct relock_slot_query *query,
                    const struct redisReply *map)
{
    struct relock_origin origin = {.host = query->server.url.host, .ip = query->ip};
    bool has_slots = false;

    for (size_t i = 0; relock_reply_at(map, i); i++) {
        struct relock_slot_range range;
        struct relock_node *node;
        int r;

        if (!relock_slot_map_read(map, i, &range))
            continue;
        r = relock_members_assign(&cluster->members, &range, &origin, &node);
        if (r == RELOCK_E_NOMEM)
            return fail(query, r, "out of memory for a node");
        if (r == RELOCK_OK)
            relock_members_drop(node);
        has_slots |= r == RELOCK_OK;
    }
    return has_slots
               ? RELOCK_OK
               : fail(query, RELOCK_E_CONN, "CLUSTER SLOTS names no master: no node has slots yet");
}

static void say_answered(struct cluster *cluster, const struct relock_slot_query *query)
{
    if (cluster->has_failed)
        relock_log_write(cluster->server->log, RELOCK_LOG_INFO,
                         "%s: the slot map was read again, from %s", cluster->server->label,
                         query->server.label);
    cluster->has_failed = false;
}

/* The survey holds the node of the query until this returns. */
static int take(void *arg, struct relock_slot_query *query, const struct redisReply *map)
{
    struct cluster *cluster = arg;
    int r;

    if (!cluster->is_known)
        atomic_store(&cluster->topology.is_sharded, sharding_choose(cluster->server, query));
    cluster->is_known = true;
    r = take_map(cluster, query, map);
    if (r == RELOCK_OK)
        say_answered(cluster, query);
    return r;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void want(struct cluster *cluster, enum need need)
{
    int now = atomic_load(&cluster->need);

    while (now < (int)need)
        if (atomic_compare_exchange_weak(&cluster->need, &now, (int)need)) {
            relock_gate_open(&cluster->changed);
            return;
        }
}

static void tell_io(struct cluster *cluster)
{
    atomic_store(&cluster->topology.has_changed, true);
    if (cluster->topology.io.loop)
        relock_loop_wake(cluster->topology.io.loop);
}

/* When to ask next. */
static uint64_t due_ms(struct cluster *cluster)
{
    switch ((enum need)atomic_load(&cluster->need)) {
    case URGENT:
        return cluster->asked_ms + cluster->pause_ms;
    case WANTED:
        return cluster->asked_ms + WANTED_PAUSE_MS;
    case NOT_NEEDED:
        break;
    }
    return RELOCK_NEVER;
}

static int ask(struct cluster *cluster, uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    int r;

    if (relock_clock_now_ms() - cluster->asked_ms > CALM_MS)
        cluster->pause_ms = 0;
    cluster->pause_ms = relock_backoff_ms(cluster->pause_ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
    atomic_store(&cluster->need, NOT_NEEDED);
    r = relock_slot_survey_run(&cluster->survey, deadline_ms, why);
    cluster->asked_ms = relock_clock_now_ms();
    return r;
}

/* One line when it fails, and one when it works again. */
static void say_failed(struct cluster *cluster, const char *why)
{
    relock_log_write(cluster->server->log,
                     cluster->has_failed ? RELOCK_LOG_DEBUG : RELOCK_LOG_WARNING,
                     "%s: the slot map could not be read from any node: %s; retrying, and using "
                     "the previous map until then; check that the nodes run and that those of "
                     "the url can be reached",
                     cluster->server->label, why);
    cluster->has_failed = true;
}

static void *run(void *arg)
{
    struct cluster *cluster = arg;
    char why[RELOCK_WHY_MAX];

    for (;;) {
        (void)relock_gate_wait(&cluster->changed, due_ms(cluster));
        if (atomic_load(&cluster->stops))
            return NULL;
        if (relock_clock_now_ms() < due_ms(cluster))
            continue;
        if (ask(cluster, RELOCK_NEVER, why) == RELOCK_OK) {
            tell_io(cluster);
        } else if (!atomic_load(&cluster->stops)) {
            say_failed(cluster, why);
            want(cluster, URGENT);
        }
    }
}

/* ---- operations ---------------------------------------------------------------------------- */

/* The node of a slot, or the first of all, unless there is none. */
static struct relock_node *needed(struct cluster *cluster, struct relock_node *node)
{
    if (!node)
        want(cluster, URGENT);
    return node;
}

static struct relock_node *find(struct relock_topology *topology, struct relock_text key)
{
    struct cluster *cluster = cluster_of(topology);

    return needed(cluster, relock_members_of_slot(&cluster->members, relock_slot_of(key)));
}

static struct relock_node *take_node(struct relock_topology *topology, struct relock_text key)
{
    struct cluster *cluster = cluster_of(topology);

    return needed(cluster, relock_members_take(&cluster->members, relock_slot_of(key)));
}

static struct relock_node *next(struct relock_topology *topology, const struct relock_node *node)
{
    struct cluster *cluster = cluster_of(topology);
    struct relock_node *next = relock_members_next(&cluster->members, node);

    return node ? next : needed(cluster, next);
}

static bool remove_node(struct relock_topology *topology, struct relock_node *node)
{
    return relock_members_remove(&cluster_of(topology)->members, node);
}

/* The slot is at that node from now on. */
static struct relock_node *move_slot(struct cluster *cluster, const struct relock_redirect *moved,
                                     const struct relock_origin *origin)
{
    struct relock_slot_range range = {moved->slot, moved->slot, moved->node};
    struct relock_node *node;

    if (relock_members_assign(&cluster->members, &range, origin, &node) < 0)
        return NULL;
    atomic_store(&cluster->survey.moved_slot, (int)moved->slot);
    return node;
}

static struct relock_node *redirect(struct relock_topology *topology,
                                    const struct relock_node *from, const char *error, bool *asks)
{
    struct cluster *cluster = cluster_of(topology);
    struct relock_origin origin = relock_members_origin(from);
    struct relock_redirect redirect;
    struct relock_node *node = NULL;

    *asks = false;
    if (!relock_slot_map_redirect(error, &redirect)) {
        want(cluster, URGENT);
        return NULL;
    }
    if (redirect.kind == RELOCK_REDIRECT_ASK) {
        *asks = relock_members_at(&cluster->members, &redirect.node, &origin, &node) == RELOCK_OK;
        return node;
    }
    node = move_slot(cluster, &redirect, &origin);
    want(cluster, node ? WANTED : URGENT);
    return node;
}

static void recheck(struct relock_topology *topology, bool is_urgent)
{
    want(cluster_of(topology), is_urgent ? URGENT : WANTED);
}

static bool uses(struct relock_topology *topology, const struct relock_node *node)
{
    (void)topology;
    return relock_members_has_slot(node);
}

static int connect_cluster(struct relock_topology *topology, uint64_t deadline_ms,
                           char why[RELOCK_WHY_MAX])
{
    struct cluster *cluster = cluster_of(topology);
    int r = ask(cluster, deadline_ms, why);

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
    relock_gate_open(&cluster->changed);
    (void)pthread_join(cluster->thread, NULL);
    cluster->has_thread = false;
}

static void free_cluster(struct relock_topology *topology)
{
    struct cluster *cluster = cluster_of(topology);

    relock_members_deinit(&cluster->members);
    relock_slot_survey_deinit(&cluster->survey);
    free(cluster);
}

static const struct relock_topology_ops cluster_ops = {
    .find = find,
    .free = free_cluster,
    .take = take_node,
    .next = next,
    .remove = remove_node,
    .connect = connect_cluster,
    .stop = stop,
    .redirect = redirect,
    .recheck = recheck,
    .uses = uses,
};

int relock_cluster_new(const struct relock_server *server, unsigned n_lanes,
                       struct relock_topology **topology)
{
    struct cluster *new = calloc(1, sizeof(*new));

    if (!new)
        return RELOCK_E_NOMEM;
    new->topology.ops = &cluster_ops;
    new->topology.is_cluster = true;
    new->server = server;
    relock_gate_init(&new->changed);
    relock_members_init(&new->members, server, n_lanes, &new->topology.nodes);
    new->survey.cluster = server;
    new->survey.members = &new->members;
    new->survey.take = take;
    new->survey.arg = new;
    new->survey.stops = &new->stops;
    if (relock_slot_survey_init(&new->survey) < 0) {
        free_cluster(&new->topology);
        return RELOCK_E_NOMEM;
    }
    *topology = &new->topology;
    return RELOCK_OK;
}
